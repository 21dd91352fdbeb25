package edge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/maypok86/otter/v2"
	"golang.org/x/time/rate"
)

// Buckets are token buckets, one for each caller. All servers draw on the same
// ones: a process takes tokens out of Redis a handful at a time and spends them
// by itself, so most requests cost no round trip. Up to a handful a process may
// be lost to its caller.
type Buckets struct {
	shared  *Shared
	limiter *redis_rate.Limiter
	name    string
	limit   redis_rate.Limit
	handful int
	callers *otter.Cache[string, *bucket]
}

const (
	maxCallers = 100_000
	// keep is for how long tokens out of Redis are good, and a caller who is not
	// heard of is remembered.
	keep = 30 * time.Second
	// handfuls is how often a caller who spends a whole bucket asks Redis.
	handfuls = 20
)

// NewBuckets returns buckets that hold perMinute tokens and fill up within a
// minute. The name keeps them apart from others in Redis.
func NewBuckets(shared *Shared, name string, perMinute int) *Buckets {
	return &Buckets{
		shared: shared, limiter: redis_rate.NewLimiter(shared.redis), name: name,
		limit: redis_rate.PerMinute(perMinute), handful: max(perMinute/handfuls, 1),
		callers: otter.Must(&otter.Options[string, *bucket]{
			MaximumSize:      maxCallers,
			ExpiryCalculator: otter.ExpiryAccessing[string, *bucket](keep),
		}),
	}
}

// PerMinute is how many tokens a caller has a minute.
func (b *Buckets) PerMinute() int { return b.limit.Rate }

// bucket is what one process knows of a caller.
type bucket struct {
	mu     sync.Mutex
	tokens int
	taken  time.Time     // when they came out of Redis
	full   time.Time     // there are none before
	alone  *rate.Limiter // while Redis is away
}

// Take takes n tokens of caller's, or none. It returns how long to wait before
// there will be enough, 0 when they were taken. More than a bucket holds is
// never there.
func (b *Buckets) Take(ctx context.Context, caller string, n int) time.Duration {
	own, _ := b.callers.ComputeIfAbsent(caller, func() (*bucket, bool) { return &bucket{}, false })
	own.mu.Lock()
	defer own.mu.Unlock()
	now := time.Now()
	if now.Sub(own.taken) > keep {
		own.tokens = 0
	}
	if own.tokens >= n {
		own.tokens -= n
		return 0
	}
	if wait := own.full.Sub(now); wait > 0 {
		return wait
	}
	if !b.draw(ctx, own, caller, max(n-own.tokens, b.handful), now) {
		return b.takeAlone(own, n, now)
	}
	own.alone = nil
	if own.tokens >= n {
		own.tokens -= n
		return 0
	}
	wait := time.Duration(float64(n-own.tokens) / float64(b.limit.Rate) * float64(b.limit.Period))
	own.full = now.Add(wait)
	return wait
}

// draw adds up to n tokens out of Redis, and says false when Redis did not tell.
func (b *Buckets) draw(ctx context.Context, own *bucket, caller string, n int, now time.Time) bool {
	return b.shared.ask(ctx, "rate limits are", func(ctx context.Context) error {
		result, err := b.limiter.AllowAtMost(ctx, b.name+":"+hashed(caller), b.limit, n)
		if err == nil {
			own.tokens += result.Allowed
			own.taken = now
		}
		return err
	})
}

func (b *Buckets) takeAlone(own *bucket, n int, now time.Time) time.Duration {
	if own.alone == nil {
		own.alone = rate.NewLimiter(rate.Limit(float64(b.limit.Rate)/b.limit.Period.Seconds()), b.limit.Burst)
	}
	reservation := own.alone.ReserveN(now, n)
	if !reservation.OK() {
		return b.limit.Period
	}
	wait := reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now)
		own.full = now.Add(wait)
	}
	return wait
}

// hashed keeps what a caller may choose out of the key.
func hashed(caller string) string {
	sum := sha256.Sum256([]byte(caller))
	return hex.EncodeToString(sum[:16])
}
