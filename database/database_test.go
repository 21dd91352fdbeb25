package database_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallyfeed/tallyfeed/database"
	"github.com/tallyfeed/tallyfeed/enginetest"
)

// onEngines runs test once on each engine with the address of an empty store.
func onEngines(t *testing.T, test func(t *testing.T, address string)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, "sqlite:"+filepath.Join(t.TempDir(), "a ?#%file.db"))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, enginetest.Postgres(t))
	})
}

func open(t *testing.T, address string) *bun.DB {
	t.Helper()
	db, err := database.Open(t.Context(), address)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	const password = "s3cret/x"
	cases := map[string]struct {
		reason  string
		address string
		invalid bool // whether the error is ErrURL
	}{
		"Empty":         {"A forgotten setting must not become a file.", "", true},
		"OtherEngine":   {"What we have no dialect for is refused by name.", "mysql://u:s3cret@h/x", true},
		"NoFile":        {"SQLite would open a private temporary file.", "sqlite:", true},
		"UnescapedPass": {"The URL parser would quote half the password.", "postgres://u:" + password + "@127.0.0.1:1/x", true},
		"BadEscape":     {"The URL parser would quote the bad escape.", "postgres://u:s3cret%zz@127.0.0.1:1/x", true},
		"BadOption":     {"pgx names the option, and may quote the URL.", "postgres://u:s3cret%2Fx@127.0.0.1:1/x?sslmode=perhaps", true},
		"NobodyListens": {"pgx quotes how it tried to connect.", "postgres://u:s3cret%2Fx@127.0.0.1:1/x", false},
		"PasswordParam": {"A password may stand in a parameter too.", "postgres://u@127.0.0.1:1/x?password=s3cret%2Fx", false},
		"NoFolder":      {"SQLite makes no folders.", "sqlite:" + filepath.Join(t.TempDir(), "none", "x.db"), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, err := database.Open(t.Context(), tc.address)
			if err == nil {
				_ = db.Close()
				t.Fatalf("%s\nopened", tc.reason)
			}
			if errors.Is(err, database.ErrURL) != tc.invalid {
				t.Errorf("%s\n%v; want ErrURL: %t", tc.reason, err, tc.invalid)
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s\nthe error shows the password: %v", tc.reason, err)
			}
		})
	}
}

func TestOpenMemory(t *testing.T) {
	t.Parallel()
	db := open(t, "sqlite::memory:")
	if err := database.Migrate(t.Context(), db); err != nil {
		t.Fatalf("migrate: %v", err)
	}
	if got := number(t, db, "SELECT value FROM counters WHERE name = 'ordinal'"); got != 0 {
		t.Errorf("first ordinal is %d, want 0", got)
	}
}

// TestWritersTakeTurns would fail with SQLITE_BUSY if a transaction could begin
// as a reader, or if a writer did not wait.
func TestWritersTakeTurns(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, address string) {
		const servers, workers, turns = 2, 8, 20
		first := open(t, address)
		if _, err := first.ExecContext(t.Context(), "CREATE TABLE tally (id BIGINT PRIMARY KEY, n BIGINT NOT NULL)"); err != nil {
			t.Fatal(err)
		}
		if _, err := first.ExecContext(t.Context(), "INSERT INTO tally VALUES (1, 0)"); err != nil {
			t.Fatal(err)
		}
		increment := func(ctx context.Context, tx bun.Tx) error {
			var n int64
			if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM tally").Scan(&n); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, "UPDATE tally SET n = n + ? WHERE id = 1", n)
			return err
		}

		var group sync.WaitGroup
		for range servers {
			db := open(t, address)
			for range workers {
				group.Go(func() {
					for range turns {
						if err := db.RunInTx(t.Context(), nil, increment); err != nil {
							t.Errorf("write: %v", err)
							return
						}
						if err := db.QueryRowContext(t.Context(), "SELECT n FROM tally").Scan(new(int64)); err != nil {
							t.Errorf("read: %v", err)
							return
						}
					}
				})
			}
		}
		group.Wait()
		if got := number(t, first, "SELECT n FROM tally"); got != servers*workers*turns {
			t.Errorf("tally is %d, want %d", got, servers*workers*turns)
		}
	})
}

// TestReadersPassWriter holds a write transaction open and reads beside it.
func TestReadersPassWriter(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, address string) {
		db := open(t, address)
		if _, err := db.ExecContext(t.Context(), "CREATE TABLE tally (n BIGINT)"); err != nil {
			t.Fatal(err)
		}
		tx, err := db.BeginTx(t.Context(), &sql.TxOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.ExecContext(t.Context(), "INSERT INTO tally VALUES (1)"); err != nil {
			t.Fatal(err)
		}

		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		var n int64
		if err := db.QueryRowContext(ctx, "SELECT count(*) FROM tally").Scan(&n); err != nil || n != 0 {
			t.Errorf("read beside a writer: %d, %v; want 0", n, err)
		}
	})
}

func number(t *testing.T, db *bun.DB, query string) int64 {
	t.Helper()
	var n int64
	if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}
