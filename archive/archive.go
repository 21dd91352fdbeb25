// Package archive keeps the second copy of the facts, in SQL: who liked what and
// when, newest first, and counts that can be had when Redis is away.
//
//	Store     the tables: applies events, answers, deletes (apply.go, read.go,
//	          delete.go), and is what a restore and a compensation read and mend
//	          (restore.go, mend.go)
//	Archiver  takes events from Kafka into the Store (archiver.go)
//
// What is kept are states with versions and no increments: a row is written
// where the version is higher. So a duplicate, a replay, another order and two
// archivers at once give the same rows.
package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math"
	"strings"

	"github.com/maypok86/otter/v2"
	"github.com/uptrace/bun"

	"github.com/tallyfeed/tallyfeed/counter"
)

// Store is the tables of the archive. It is safe for concurrent use, by any
// number of processes.
type Store struct {
	db       *bun.DB
	ordinals *counter.SQLOrdinals
	// known are ordinals seen in users: an ordinal is given once and for good.
	known *otter.Cache[counter.Viewer, counter.Ordinal]
}

const maxKnown = 1_000_000

// NewStore expects the tables to be there.
func NewStore(db *bun.DB) *Store {
	return &Store{
		db: db, ordinals: counter.NewSQLOrdinals(db),
		known: otter.Must(&otter.Options[counter.Viewer, counter.Ordinal]{MaximumSize: maxKnown}),
	}
}

// UserHash is how deleted_users names who has left: the SHA-256 of the sub in
// hex, so that the name itself is not kept.
func UserHash(viewer counter.Viewer) string {
	sum := sha256.Sum256([]byte(viewer))
	return hex.EncodeToString(sum[:])
}

// reactionRow is what one viewer's like or fav of one subject has come to.
type reactionRow struct {
	bun.BaseModel `bun:"table:reactions,alias:r"`

	Subject string `bun:"subject"`
	Metric  int    `bun:"metric"`
	Ordinal int64  `bun:"ordinal"`
	Active  bool   `bun:"active"`
	Version int64  `bun:"version"`
}

type countsRow struct {
	bun.BaseModel `bun:"table:subject_counts,alias:c"`

	Subject string `bun:"subject"`
	Tag     int    `bun:"tag"`
	Likes   int64  `bun:"likes"`
	Favs    int64  `bun:"favs"`
	Version int64  `bun:"version"`
}

type tagRow struct {
	bun.BaseModel `bun:"table:tag_versions,alias:t"`

	Tag     int   `bun:"tag"`
	Version int64 `bun:"version"`
}

var (
	errForeign    = errors.New("no user has this sub with this ordinal")
	errNotAUser   = errors.New("the sub holds a zero byte")
	errFarFuture  = errors.New("the version does not fit in 63 bits")
	errNoCounting = errors.New("a count is below zero")
)

// valid refuses what no statement should carry.
func valid(e counter.Event, version counter.Version) error {
	switch {
	case version > math.MaxInt64:
		return errFarFuture
	case strings.ContainsRune(e.UserID, 0):
		return errNotAUser
	case e.Like < 0 || e.Fav < 0:
		return errNoCounting
	}
	return nil
}
