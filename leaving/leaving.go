// Package leaving lets users go for good, as data-protection law asks: from one
// moment on a user is nobody, and what was theirs follows in steps that go on
// where a killed process left them.
//
//	leaving.go  who has left
//	purge.go    what they leave behind
//	export.go   what is theirs, for themselves
package leaving

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallyfeed/tallyfeed/archive"
	"github.com/tallyfeed/tallyfeed/counter"
)

// Leavers knows who has left. All of them are held in memory, some hundred bytes
// each, and read anew every few seconds: to ask for each request would bring SQL
// onto every page.
type Leavers struct {
	db  *bun.DB
	log *slog.Logger

	mu     sync.RWMutex
	hashes map[string]struct{}
	newest int64 // of those that were read, in microseconds
}

const (
	// lookEvery is how often a server asks who has left through another one.
	lookEvery = 2 * time.Second
	// overlap is how far servers' clocks, and transactions under way, may be apart.
	overlap = time.Minute
)

// New expects the tables to be there. Load it before it is asked.
func New(db *bun.DB, log *slog.Logger) *Leavers {
	return &Leavers{db: db, log: log, hashes: map[string]struct{}{}}
}

// Left says whether sub has left: on this server at once, on others two seconds
// later.
func (l *Leavers) Left(sub string) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if len(l.hashes) == 0 {
		return false
	}
	_, left := l.hashes[archive.UserHash(counter.Viewer(sub))]
	return left
}

// Leave makes sub unknown from now on. What is theirs goes later, see Purger. A
// second call changes nothing. A sub that was never heard of may leave too.
func (l *Leavers) Leave(ctx context.Context, sub string) error {
	hash, now := archive.UserHash(counter.Viewer(sub)), time.Now().UnixMicro()
	err := l.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		result, err := tx.ExecContext(ctx, "INSERT INTO deleted_users (hash, deleted_at) VALUES (?, ?) ON CONFLICT (hash) DO NOTHING", hash, now)
		if err != nil {
			return fmt.Errorf("set the tombstone: %w", err)
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO user_purges (hash, sub, requested_at) VALUES (?, ?, ?)", hash, sub, now)
		if err != nil {
			return fmt.Errorf("ask for the purge: %w", err)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("delete a user: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hashes[hash] = struct{}{}
	return nil
}

// Load reads who has left since the last call.
func (l *Leavers) Load(ctx context.Context) error {
	l.mu.RLock()
	since := l.newest - overlap.Microseconds()
	l.mu.RUnlock()
	var rows []struct {
		Hash      string
		DeletedAt int64
	}
	if err := l.db.NewRaw("SELECT hash, deleted_at FROM deleted_users WHERE deleted_at >= ?", since).Scan(ctx, &rows); err != nil {
		return fmt.Errorf("read who has left: %w", err)
	}
	if len(rows) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, row := range rows {
		l.hashes[row.Hash] = struct{}{}
		l.newest = max(l.newest, row.DeletedAt)
	}
	return nil
}

// Run keeps Left up to date until ctx ends.
func (l *Leavers) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := l.Load(ctx); err != nil && ctx.Err() == nil {
			l.log.WarnContext(ctx, "who has left elsewhere is not known now", "err", err)
		}
	}
}
