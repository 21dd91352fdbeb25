package counter

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Warnings reads how Redis is set up and says what is at risk, a sentence each.
// What it may not read, or what Redis does not tell, is not warned about.
func (r *Redis) Warnings(ctx context.Context) []string {
	var warnings []string
	var mu sync.Mutex
	warn := func(text string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		warnings = append(warnings, fmt.Sprintf(text, args...))
	}
	_ = r.eachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		setting := func(name string) string { return node.ConfigGet(ctx, name).Val()[name] }
		at := node.Options().Addr
		if policy := setting("maxmemory-policy"); policy != "" && policy != "noeviction" {
			warn("redis %s evicts (%s): likes can vanish; set maxmemory-policy noeviction", at, policy)
		}
		if aof := setting("appendonly"); aof == "no" {
			warn("redis %s keeps no append-only file: a restart loses all facts, and likes are refused until they are restored; set appendonly yes", at)
		}
		if limit, err := strconv.Atoi(setting("set-max-intset-entries")); err == nil && limit < 512 {
			warn("redis %s has set-max-intset-entries %d: small sets above it take about ten times the memory; 512 is what Tallyfeed is made for", at, limit)
		}
		if version := infoField(node.Info(ctx, "server").Val(), "redis_version"); version != "" {
			if major, err := strconv.Atoi(strings.SplitN(version, ".", 2)[0]); err == nil && major < 7 {
				warn("redis %s is version %s: Tallyfeed is tested with 7", at, version)
			}
		}
		return nil
	})
	return warnings
}

// eachMaster calls do for every server that takes writes.
func (r *Redis) eachMaster(ctx context.Context, do func(context.Context, *redis.Client) error) error {
	switch client := r.reads.(type) {
	case *redis.ClusterClient:
		return client.ForEachMaster(ctx, do)
	case *redis.Client:
		return do(ctx, client)
	}
	return nil
}

// infoField returns a field of INFO, "" where it is not there.
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, found := strings.CutPrefix(line, name+":"); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Watch looks at Redis every few seconds: it says in the log when facts are
// missing, and knows when memory runs out.
type Watch struct {
	redis *Redis
	limit float64
	log   *slog.Logger

	full       atomic.Bool
	incomplete int // looks in a row
}

const watchEvery = 2 * time.Second

// NewWatch warns of, and lets Full refuse changes from, limit of maxmemory: 0.9
// is 90 %. 0 means that.
func NewWatch(r *Redis, limit float64, log *slog.Logger) *Watch {
	if limit == 0 {
		limit = 0.9
	}
	return &Watch{redis: r, limit: limit, log: log}
}

// Full says whether a server holding facts is so full that likes are refused.
func (w *Watch) Full() bool { return w.full.Load() }

// Run watches until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		w.look(ctx)
		wait(ctx, watchEvery)
	}
	return nil
}

func (w *Watch) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, watchEvery)
	defer cancel()

	var used atomic.Uint64 // highest share of any server, in thousandths
	err := w.redis.eachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		info := node.Info(ctx, "memory").Val()
		memory, _ := strconv.ParseFloat(infoField(info, "used_memory"), 64)
		most, _ := strconv.ParseFloat(infoField(info, "maxmemory"), 64)
		if most == 0 {
			return nil // no limit, or not told
		}
		share := uint64(1000 * memory / most)
		for old := used.Load(); share > old && !used.CompareAndSwap(old, share); old = used.Load() {
		}
		return nil
	})
	if err == nil {
		full := float64(used.Load())/1000 >= w.limit
		if w.full.Swap(full) != full {
			w.log.WarnContext(ctx, "redis memory", "full", full, "likes refused", full)
		}
	}

	status, err := w.redis.Epoch(ctx)
	if err != nil {
		return // whoever needs Redis now says so
	}
	if status.Complete() {
		if w.incomplete > 1 {
			w.log.InfoContext(ctx, "redis holds all facts again")
		}
		w.incomplete = 0
		return
	}
	if w.incomplete++; w.incomplete == 2 { // a restore may be done before that
		w.log.ErrorContext(ctx, "redis does not hold all facts: likes are refused and counts are null until "+
			"a server with the role archive has restored them", "parts lacking", status.Tags-status.Present, "of", status.Tags)
	}
}
