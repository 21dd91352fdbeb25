package database

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect"
)

// migrations are run in the order of their names, each once. A file that has
// been released is never edited: a change of the schema is a new file. They are
// written in the SQL that both engines share; the word in bytewise marks a
// column that is compared byte by byte, as SQLite does anyway.
//
//go:embed migrations/*.sql
var migrations embed.FS

const (
	bytewise = "/* bytewise */"

	// migrateLock is the key of the advisory lock under which PostgreSQL
	// migrates. Any number does that nobody else uses in this database.
	migrateLock = 7_255_913_001
)

// Migrate brings the schema of db up to date. It is safe to call at every
// start, from several processes at once: the second one waits for the first and
// then does nothing. Each migration is one transaction together with its mark
// in the table migrations, so after a kill it is either done or not begun.
//
// bun's own migrator is not used here because it can put neither its lock nor
// its mark into that transaction: a kill would leave a lock nobody releases.
func Migrate(ctx context.Context, db *bun.DB) error {
	return migrateFrom(ctx, db, migrations)
}

func migrateFrom(ctx context.Context, db *bun.DB, files fs.FS) error {
	names, err := fs.Glob(files, "migrations/*.sql") // sorted
	if err != nil {
		return fmt.Errorf("list migrations: %w", err)
	}
	for _, name := range names {
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return fmt.Errorf("read migration: %w", err)
		}
		mark := strings.TrimSuffix(path.Base(name), ".sql")
		if err := migrate(ctx, db, mark, string(content)); err != nil {
			return fmt.Errorf("migrate to %s: %w", mark, err)
		}
	}
	return nil
}

func migrate(ctx context.Context, db *bun.DB, mark, content string) error {
	return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		// SQLite's transactions begin with the write lock of the file already.
		if db.Dialect().Name() == dialect.PG {
			if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock(?)", migrateLock); err != nil {
				return fmt.Errorf("take the lock: %w", err)
			}
			content = strings.ReplaceAll(content, bytewise, `COLLATE "C"`)
		}
		const table = "CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY, applied_at BIGINT NOT NULL)"
		if _, err := tx.ExecContext(ctx, table); err != nil {
			return fmt.Errorf("make the table of marks: %w", err)
		}
		result, err := tx.ExecContext(ctx,
			"INSERT INTO migrations (name, applied_at) VALUES (?, ?) ON CONFLICT (name) DO NOTHING",
			mark, time.Now().UnixMicro())
		if err != nil {
			return fmt.Errorf("set the mark: %w", err)
		}
		if marked, err := changed(result); err != nil || !marked {
			return err
		}
		// bun would take a question mark for an argument, so the file goes to
		// the driver as it is.
		_, err = tx.Tx.ExecContext(ctx, content)
		return err
	})
}

func changed(result sql.Result) (bool, error) {
	n, err := result.RowsAffected()
	return n > 0, err
}
