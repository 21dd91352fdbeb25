package enginetest_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tallyfeed/tallyfeed/enginetest"
)

func TestPostgres(t *testing.T) {
	t.Parallel()
	var url string
	t.Run("Fresh", func(t *testing.T) {
		for range 2 {
			url = enginetest.Postgres(t)
			connection, err := pgx.Connect(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			// The database is dropped although this connection is never closed.
			if _, err := connection.Exec(t.Context(), "CREATE TABLE once (id int)"); err != nil {
				t.Errorf("the second database is not empty: %v", err)
			}
		}
	})
	if url == "" {
		t.Skip("no PostgreSQL")
	}
	if _, err := pgx.Connect(t.Context(), url); err == nil {
		t.Error("the database is there after its test")
	}
}
