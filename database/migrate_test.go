package database_test

import (
	"context"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect"

	"github.com/tallyfeed/tallyfeed/database"
)

func TestMigrateTogether(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, address string) {
		// Each has a pool of its own, as servers that start at once have. Opening
		// is part of it: on a new file of SQLite it switches the journal's mode.
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				db, err := database.Open(t.Context(), address)
				if err != nil {
					t.Errorf("open: %v", err)
					return
				}
				defer func() { _ = db.Close() }()
				if err := database.Migrate(t.Context(), db); err != nil {
					t.Errorf("migrate: %v", err)
				}
			})
		}
		group.Wait()

		db := open(t, address)
		marks := number(t, db, "SELECT count(*) FROM migrations")
		if marks == 0 {
			t.Fatal("no migration is marked")
		}
		if _, err := db.ExecContext(t.Context(), "UPDATE counters SET value = 7 WHERE name = 'ordinal'"); err != nil {
			t.Fatal(err)
		}
		if err := database.Migrate(t.Context(), db); err != nil {
			t.Fatalf("second run: %v", err)
		}
		if got := number(t, db, "SELECT value FROM counters WHERE name = 'ordinal'"); got != 7 {
			t.Errorf("the second run set the next ordinal to %d", got)
		}
		if got := number(t, db, "SELECT count(*) FROM migrations"); got != marks {
			t.Errorf("the second run left %d marks of %d", got, marks)
		}
	})
}

// TestMigrateStopsHalfway stands for a kill: what a failed migration has done
// so far must be gone, and the next start must do it again from its beginning.
func TestMigrateStopsHalfway(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, address string) {
		db := open(t, address)
		files := fstest.MapFS{
			"migrations/0001_one.sql": {Data: []byte("CREATE TABLE one (n BIGINT); INSERT INTO one VALUES (1);")},
			"migrations/0002_two.sql": {Data: []byte("CREATE TABLE two (n BIGINT); INSERT INTO nowhere VALUES (1);")},
		}
		if err := database.MigrateFrom(t.Context(), db, files); err == nil {
			t.Fatal("a broken migration went through")
		}
		if got := number(t, db, "SELECT count(*) FROM migrations"); got != 1 {
			t.Errorf("%d marks, want that of the first migration only", got)
		}

		files["migrations/0002_two.sql"] = &fstest.MapFile{Data: []byte("CREATE TABLE two (n BIGINT); INSERT INTO two VALUES (2);")}
		if err := database.MigrateFrom(t.Context(), db, files); err != nil {
			t.Fatalf("mended migration: %v", err)
		}
		if got := number(t, db, "SELECT (SELECT count(*) FROM one) * 10 + (SELECT count(*) FROM two)"); got != 11 {
			t.Errorf("rows are %d, want one in each table", got)
		}
	})
}

// TestMigrateCancelled is a start that is told to stop: it must leave nothing
// behind that the next one trips over.
func TestMigrateCancelled(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, address string) {
		db := open(t, address)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := database.Migrate(ctx, db); err == nil {
			t.Error("migrated on a context that had ended")
		}
		if err := database.Migrate(t.Context(), db); err != nil {
			t.Errorf("after a start that was told to stop: %v", err)
		}
	})
}

// TestIDsCompareBytewise keeps the order of a page the same on both engines: a
// locale of PostgreSQL would put "a" before "B".
func TestIDsCompareBytewise(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, address string) {
		db := open(t, address)
		if err := database.Migrate(t.Context(), db); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"a", "B", "_", "-", "1"} {
			if _, err := db.ExecContext(t.Context(), "INSERT INTO deleted_posts (id, deleted_at) VALUES (?, 0)", id); err != nil {
				t.Fatal(err)
			}
		}
		if got := column(t, db, "SELECT id FROM deleted_posts ORDER BY id"); got != "-1B_a" {
			t.Errorf("order is %q", got)
		}
		// The server of a test may sort bytewise anyway.
		if db.Dialect().Name() == dialect.PG {
			const query = "SELECT collation_name FROM information_schema.columns WHERE table_name = 'posts' AND column_name = 'id'"
			if got := column(t, db, query); got != "C" {
				t.Errorf("the collation of post ids is %q", got)
			}
		}
	})
}

func column(t *testing.T, db *bun.DB, query string) string {
	t.Helper()
	var values []string
	if err := db.NewRaw(query).Scan(t.Context(), &values); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	var joined string
	for _, v := range values {
		joined += v
	}
	return joined
}
