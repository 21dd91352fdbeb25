package counter

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/tallyfeed/tallyfeed/lua"
)

// errLost says that somebody else holds the lease now, or has finished the work.
var errLost = errors.New("the lease was lost")

func restoreKey(t Tag) string { return "restore" + t.braced() }

// tagLeases are the leases of some tags, held by one token.
type tagLeases struct {
	redis *Redis
	token string
	lasts time.Duration

	mu   sync.Mutex
	held map[Tag]bool
}

// restoreLease is how long a lease outlives its holder.
const restoreLease = 10 * time.Second

// leaseTags takes the leases of those tags that nobody holds, at most n.
func (r *Redis) leaseTags(ctx context.Context, wanted []Tag, n int) (*tagLeases, error) {
	l := &tagLeases{redis: r, token: rand.Text(), lasts: restoreLease, held: map[Tag]bool{}}
	for len(wanted) > 0 && len(l.held) < n {
		some := wanted[:min(n-len(l.held), len(wanted))]
		wanted = wanted[len(some):]
		for i, reply := range r.run(ctx, lua.Lease, l.calls(some)...) {
			taken, err := reply.Int()
			if err != nil {
				return l, err
			}
			if taken == 1 {
				l.held[some[i]] = true
			}
		}
	}
	return l, nil
}

func (l *tagLeases) calls(some []Tag) []call {
	calls := make([]call, len(some))
	for i, t := range some {
		calls[i] = call{keys: []string{restoreKey(t)}, args: []any{l.token, l.lasts.Milliseconds()}}
	}
	return calls
}

// tags returns those that are held.
func (l *tagLeases) tags() []Tag {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Tag, 0, len(l.held))
	for t := range Tags {
		if l.held[Tag(t)] {
			all = append(all, Tag(t))
		}
	}
	return all
}

// drop forgets a lease that was given back.
func (l *tagLeases) drop(t Tag) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, t)
}

// renew keeps the leases until ctx ends. When one is lost, or Redis does not
// answer for as long as one lasts, it calls lost once and returns. The scripts
// check the token all the same.
func (l *tagLeases) renew(ctx context.Context, lost func()) {
	renewed := time.Now()
	for ctx.Err() == nil {
		wait(ctx, l.lasts/4)
		held := l.tags()
		if len(held) == 0 || ctx.Err() != nil {
			return
		}
		failed := false
		for i, reply := range l.redis.run(ctx, lua.Renew, l.calls(held)...) {
			taken, err := reply.Int()
			failed = failed || err != nil
			l.mu.Lock()
			stillWanted := l.held[held[i]]
			l.mu.Unlock()
			if err == nil && taken == 0 && stillWanted {
				lost()
				return
			}
		}
		if !failed {
			renewed = time.Now()
		} else if time.Since(renewed) > l.lasts {
			lost()
			return
		}
	}
}

// release gives back what is still held. It works on a context that has ended.
func (l *tagLeases) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	held := l.tags()
	calls := make([]call, len(held))
	for i, t := range held {
		calls[i] = call{keys: []string{restoreKey(t)}, args: []any{l.token}}
		l.drop(t)
	}
	if len(calls) > 0 {
		l.redis.run(ctx, lua.Release, calls...)
	}
}
