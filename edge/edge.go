// Package edge keeps what the GraphQL edges of all servers share: rate limits
// and persisted documents. Both are in Redis, so that any server knows them, and
// both do without: while Redis is away or slow, each process goes by its own.
//
//	buckets.go    token buckets
//	documents.go  automatic persisted queries
//	manifest.go   trusted documents
package edge

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Shared is Redis as this package asks it: briefly, and not while it is away.
type Shared struct {
	redis redis.UniversalClient
	log   *slog.Logger
	away  atomic.Int64 // until when it is not asked, in Unix nanoseconds
}

// NewShared returns a Shared on redis, whose client must heed the deadlines of
// contexts.
func NewShared(client redis.UniversalClient, log *slog.Logger) *Shared {
	return &Shared{redis: client, log: log}
}

const (
	// patience is what a request may wait here: a page has its counts to wait for
	// as well.
	patience = 40 * time.Millisecond
	// pause is for how long nobody waits again after somebody did in vain.
	pause = time.Second
)

// ask runs f within patience, and says whether it succeeded. It does not while
// Redis is away.
func (s *Shared) ask(ctx context.Context, what string, f func(context.Context) error) bool {
	if time.Now().UnixNano() < s.away.Load() {
		return false
	}
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := f(asking)
	if err == nil {
		return true
	}
	if ctx.Err() != nil {
		return false // the request's end says nothing about Redis
	}
	now := time.Now()
	if before := s.away.Swap(now.Add(pause).UnixNano()); before < now.Add(-pause).UnixNano() {
		// Once, and not for every second that it stays away.
		s.log.WarnContext(ctx, what+" not shared with other servers for now", "err", err)
	}
	return false
}
