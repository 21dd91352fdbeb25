package counter

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// TailConfig has a usable zero value.
type TailConfig struct {
	// Every is how often Redis is compared with the archive. 0 means 2 s.
	Every time.Duration
	// Recheck is how far back the archive's rows are compared with the facts, one
	// by one, when another server answers for Redis. 0 means a minute.
	Recheck time.Duration
}

// Tail finds out that Redis has lost its last changes (a crash between two
// fsyncs, a replica that lagged behind and took over) and puts them back from the
// archive. Any number may run.
type Tail struct {
	redis     *Redis
	archive   Archive
	catchUp   *CatchUp
	publisher *Publisher
	facts     *Facts
	config    TailConfig
	log       *slog.Logger

	connects uint64
	runs     string // which servers answered when the rows were last compared
}

// NewTail puts back what archive knows. facts makes the changes; they travel by
// publisher.
func NewTail(r *Redis, archive Archive, catchUp *CatchUp, publisher *Publisher, facts *Facts, log *slog.Logger, config TailConfig) *Tail {
	if config.Every == 0 {
		config.Every = 2 * time.Second
	}
	if config.Recheck == 0 {
		config.Recheck = time.Minute
	}
	return &Tail{redis: r, archive: archive, catchUp: catchUp, publisher: publisher, facts: facts, config: config, log: log}
}

// Run looks every few seconds until ctx ends.
func (t *Tail) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		n, err := t.Look(ctx)
		if n > 0 {
			t.log.WarnContext(ctx, "redis had lost its last changes, they were put back from the archive", "changes", n)
		}
		if err != nil && ctx.Err() == nil {
			t.log.WarnContext(ctx, "what redis may have lost was not looked for, trying again", "err", err)
		}
		wait(ctx, t.config.Every)
	}
	return nil
}

// Look compares once, and returns how many changes it put back. A tag whose
// outbox is behind the archive has lost its tail. Where likes were taken before
// anybody looked it no longer shows; so when another server answers, the rows of
// the last minute are compared with the facts as well.
func (t *Tail) Look(ctx context.Context) (putBack int, err error) {
	connects := t.redis.connects.Load()
	runs := t.runs
	if connects != t.connects {
		if runs, err = t.redis.runs(ctx); err != nil {
			return 0, err
		}
	}
	other := t.connects == 0 || runs != t.runs
	if other { // what was lost may be in Kafka only, so far
		if _, err := t.catchUp.Run(ctx); err != nil {
			return 0, err
		}
	}
	versions, err := t.archive.TagVersions(ctx) // first: what is archived later is newer in both
	if err != nil {
		return 0, err
	}
	floors, err := t.behind(ctx, versions)
	if err == nil && other {
		err = t.recheck(ctx, floors)
	}
	if err != nil {
		return 0, err
	}
	for some := range slices.Chunk(slices.Sorted(maps.Keys(floors)), restoreTags) {
		n, err := t.putBack(ctx, some, floors)
		putBack += n
		if err != nil {
			return putBack, fmt.Errorf("put back what redis has lost: %w", err)
		}
	}
	t.connects, t.runs = connects, runs
	return putBack, nil
}

// behind returns, for each tag that has lost its tail, the last version that
// Redis knows of it.
func (t *Tail) behind(ctx context.Context, versions map[Tag]Version) (map[Tag]Version, error) {
	newest, err := t.redis.newest(ctx, allTags())
	if err != nil {
		return nil, err
	}
	missing, err := t.redis.missingEpochs(ctx) // they are a Restorer's
	if err != nil {
		return nil, err
	}
	floors := map[Tag]Version{}
	for tag, version := range versions {
		if newest[tag] < version && !slices.Contains(missing, tag) {
			floors[tag] = newest[tag]
		}
	}
	return floors, nil
}

// runs names the servers that answer for Redis: another one after a restart or a
// failover. Where they do not tell it is "".
func (r *Redis) runs(ctx context.Context) (string, error) {
	var mu sync.Mutex
	var all []string
	err := r.eachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		info, err := node.Info(ctx, "server").Result()
		if isNetwork(err) {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, infoField(info, "run_id"))
		return nil
	})
	slices.Sort(all)
	return strings.Join(all, " "), err
}

// recheck finds tags whose rows of the last minute differ from their facts, and
// adds them to floors. A row that a change on its way will alter differs as well,
// so those that do are looked at again when the archive has caught up.
func (t *Tail) recheck(ctx context.Context, floors map[Tag]Version) error {
	now, err := t.redis.reads.Time(ctx).Result()
	if err != nil {
		return fmt.Errorf("ask redis for the time: %w", err)
	}
	floor := Version(now.Add(-t.config.Recheck).UnixMilli()) << sequenceBits
	missing, err := t.redis.missingEpochs(ctx)
	if err != nil {
		return err
	}
	suspects := map[Tag]map[Reaction]bool{}
	for _, tag := range allTags() {
		if slices.Contains(missing, tag) {
			continue
		}
		differ, err := t.differ(ctx, tag, floor)
		if err != nil {
			return err
		}
		if len(differ) > 0 {
			suspects[tag] = differ
		}
	}
	if len(suspects) == 0 {
		return nil
	}
	for tag := range suspects {
		if err := t.publisher.drain(ctx, tag); err != nil {
			return err
		}
	}
	if _, err := t.catchUp.Run(ctx); err != nil {
		return err
	}
	for tag, before := range suspects {
		after, err := t.differ(ctx, tag, floor)
		if err != nil {
			return err
		}
		for row := range after {
			if before[row] {
				if known, behind := floors[tag]; !behind || floor < known {
					floors[tag] = floor
				}
				break
			}
		}
	}
	return nil
}

// differ returns the rows of a tag above a version that are not as their facts.
func (t *Tail) differ(ctx context.Context, tag Tag, above Version) (map[Reaction]bool, error) {
	found := map[Reaction]bool{}
	var some []Reaction
	compare := func() error {
		facts, err := t.redis.factsOf(ctx, some)
		if err != nil {
			return err
		}
		for i, row := range some {
			if facts[i] != row.Active {
				found[row] = true
			}
		}
		some = some[:0]
		return nil
	}
	err := t.archive.Since(ctx, tag, above, func(row Reaction) error {
		if some = append(some, row); len(some) < factsBatch {
			return nil
		}
		return compare()
	})
	if err == nil {
		err = compare()
	}
	return found, err
}
