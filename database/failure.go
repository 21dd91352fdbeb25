package database

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// IsRowError holds for a failure that lies in a row and not in the store: a
// value that does not fit, a constraint that is broken. The same statement
// without that row may well succeed; trying it again as it is never will.
func IsRowError(err error) bool {
	var postgres *pgconn.PgError
	if errors.As(err, &postgres) && len(postgres.Code) == 5 {
		class := postgres.Code[:2]
		return class == "22" || class == "23" // data exception, integrity constraint violation
	}
	var lite *sqlite.Error
	if errors.As(err, &lite) {
		switch lite.Code() & 0xff {
		case sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG:
			return true
		}
	}
	return false
}
