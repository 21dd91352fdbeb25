package database_test

import (
	"os"
	"testing"
	"testing/fstest"

	"github.com/tallyfeed/tallyfeed/database"
)

// A database of the schema before the archive, empty or filled, becomes one with
// it, and keeps what it holds.
func TestMigrateToArchive(t *testing.T) {
	t.Parallel()
	first, err := os.ReadFile("migrations/0001_feed.sql")
	if err != nil {
		t.Fatal(err)
	}
	before := fstest.MapFS{"migrations/0001_feed.sql": &fstest.MapFile{Data: first}}
	for name, statements := range map[string][]string{
		"Empty": nil,
		"Filled": {
			"INSERT INTO users (sub, name, ordinal) VALUES ('ada', 'Ada', NULL), ('bob', '', 0), ('eve', '', 1)",
			"UPDATE counters SET value = 2 WHERE name = 'ordinal'",
			"INSERT INTO posts VALUES ('p1', 'ada', 'Title', 'Body', 1, 'PUBLIC')",
			"INSERT INTO deleted_posts VALUES ('p0', 1)",
			"INSERT INTO purges VALUES ('post:p0', 1)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEngines(t, func(t *testing.T, address string) {
				db := open(t, address)
				if err := database.MigrateFrom(t.Context(), db, before); err != nil {
					t.Fatal(err)
				}
				for _, statement := range statements {
					if _, err := db.ExecContext(t.Context(), statement); err != nil {
						t.Fatal(err)
					}
				}
				const held = "SELECT (SELECT count(*) FROM users) * 1000 + (SELECT value FROM counters) * 100 + (SELECT count(*) FROM posts) * 10 + (SELECT count(*) FROM purges)"
				want := number(t, db, held)
				for range 2 { // the second start finds it done
					if err := database.Migrate(t.Context(), db); err != nil {
						t.Fatal(err)
					}
				}
				if got := number(t, db, held); got != want {
					t.Errorf("what was there: %d, is now %d", want, got)
				}
				if _, err := db.ExecContext(t.Context(), "INSERT INTO reactions VALUES ('post:p1', 0, 1, TRUE, 5)"); err != nil {
					t.Error(err)
				}
				if got := number(t, db, "SELECT count(*) FROM reactions r JOIN users u ON u.ordinal = r.ordinal WHERE r.active"); got != int64(min(1, len(statements))) {
					t.Errorf("%d rows with their user", got)
				}
			})
		})
	}
}
