// Package database opens the SQL store and brings its schema up to date.
// PostgreSQL and SQLite have one schema; what differs between them is written
// in this package and nowhere else.
package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"modernc.org/sqlite" // registers the driver "sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// ErrURL is returned by Open for a URL that it does not understand.
var ErrURL = errors.New("database URL is not valid")

const (
	// postgresConnections is the size of the pool when the URL does not give
	// one as pool_max_conns. Pages come from a cache, so few are busy at once.
	postgresConnections = 16

	// sqliteConnections lets readers go on beside the one writer that SQLite
	// allows. It is small because waiting writers poll for their turn, and with
	// many of them one could be unlucky for longer than sqliteBusy.
	sqliteConnections = 4

	// sqliteBusy is how long a writer waits for its turn. A turn is one
	// transaction, the longest being a batch of an import: well under a second.
	sqliteBusy = 15 * time.Second
)

// Open connects to the store at address and checks that it answers:
//
//	postgres://USER:PASSWORD@HOST/NAME?sslmode=…&pool_max_conns=…
//	sqlite:FILE
//	sqlite::memory:
//
// Everything that pgx understands may stand in a PostgreSQL URL. SQLite makes
// FILE where there is none, but no folder. The caller closes the result. No
// error of Open contains the password. An address of another shape is ErrURL.
func Open(ctx context.Context, address string) (*bun.DB, error) {
	scheme, rest, _ := strings.Cut(address, ":")
	switch scheme {
	case "postgres", "postgresql":
		return openPostgres(ctx, address)
	case "sqlite":
		return openSQLite(ctx, rest)
	}
	return nil, fmt.Errorf("%w: it must be postgres://… or sqlite:FILE", ErrURL)
}

func openPostgres(ctx context.Context, address string) (*bun.DB, error) {
	parsed, err := url.Parse(address)
	if err != nil {
		// The parser quotes what it stumbled over, which in a URL with an
		// unescaped character is often a piece of the password.
		return nil, fmt.Errorf("%w: it can't be parsed; are special characters of the password percent-encoded?", ErrURL)
	}
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", ErrURL, redact(err.Error(), parsed))
	}
	connection := config.ConnConfig
	parameters := parsed.Query()
	if !parameters.Has("default_query_exec_mode") {
		// bun writes arguments into the text of a query, so a prepared statement
		// would never be used twice; and a pooler between us keeps none anyway.
		connection.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	}
	// bun's quoting of strings relies on it, so no server default may differ.
	connection.RuntimeParams["standard_conforming_strings"] = "on"

	limit := postgresConnections
	if parameters.Has("pool_max_conns") {
		limit = int(config.MaxConns)
	}
	pool := stdlib.OpenDB(*connection)
	pool.SetMaxOpenConns(limit)
	pool.SetMaxIdleConns(limit)
	pool.SetConnMaxIdleTime(5 * time.Minute)
	if err := pool.PingContext(ctx); err != nil {
		_ = pool.Close()
		return nil, fmt.Errorf("reach PostgreSQL at %s: %s", parsed.Host, redact(err.Error(), parsed))
	}
	return bun.NewDB(pool, pgdialect.New()), nil
}

// redact removes the password of from, in both its spellings, from text.
func redact(text string, from *url.URL) string {
	secrets := []string{from.Query().Get("password")}
	if password, ok := from.User.Password(); ok {
		secrets = append(secrets, password, strings.TrimPrefix(from.User.String(), url.User(from.User.Username()).String()+":"))
	}
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "xxxxx")
		}
	}
	return text
}

func openSQLite(ctx context.Context, file string) (*bun.DB, error) {
	file = strings.TrimPrefix(file, "//")
	if file == "" || strings.ContainsRune(file, 0) {
		return nil, fmt.Errorf("%w: sqlite: needs a file", ErrURL)
	}
	memory := file == ":memory:"
	pragmas := url.Values{
		"_busy_timeout": {fmt.Sprint(sqliteBusy.Milliseconds())},
		// A transaction that begins by reading could not wait for its turn to
		// write: SQLite would refuse it at once when somebody else wrote meanwhile.
		"_txlock": {"immediate"},
		"_pragma": {"foreign_keys(1)", "journal_mode(WAL)", "synchronous(NORMAL)"},
	}
	name := "file:" + (&url.URL{Path: file}).EscapedPath() + "?" + pragmas.Encode()
	if memory {
		name = "file::memory:?" + pragmas.Encode()
	}

	pool, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, fmt.Errorf("open SQLite file %s: %w", file, err)
	}
	pool.SetMaxOpenConns(sqliteConnections)
	pool.SetMaxIdleConns(sqliteConnections)
	if memory {
		// Every connection would have a memory of its own, and take it along.
		pool.SetMaxOpenConns(1)
		pool.SetMaxIdleConns(1)
	}
	if err := pingSQLite(ctx, pool); err != nil {
		_ = pool.Close()
		return nil, fmt.Errorf("open SQLite file %s: %w", file, err)
	}
	return bun.NewDB(pool, sqlitedialect.New()), nil
}

// pingSQLite waits its turn where several processes open a new file at once:
// the change to WAL needs the file alone, and does not heed the busy time-out
// (sqlite.org/wal.html, section 8).
func pingSQLite(ctx context.Context, pool *sql.DB) error {
	ctx, cancel := context.WithTimeout(ctx, sqliteBusy)
	defer cancel()
	for {
		err := pool.PingContext(ctx)
		var failure *sqlite.Error
		if !errors.As(err, &failure) || failure.Code()&0xff != sqlite3.SQLITE_BUSY {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
}
