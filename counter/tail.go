package counter

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tallyfeed/tallyfeed/lua"
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

// putBack makes the rows of tags above their floors facts again, as new changes.
// Likes of these tags are refused meanwhile, for a second or so, so that no row
// can change under it: a like and an unlike in between would be forgotten else.
func (t *Tail) putBack(ctx context.Context, some []Tag, floors map[Tag]Version) (n int, err error) {
	// Once before the fence, so that it stands for a moment only, and not at all
	// while Kafka or SQL is away.
	if err := t.bringUp(ctx, some); err != nil {
		return 0, err
	}
	leases, err := t.redis.leaseTags(ctx, some, len(some))
	defer leases.release(ctx)
	if err != nil {
		return 0, err
	}
	ctx, lost := context.WithCancel(ctx)
	defer lost()
	var renewing sync.WaitGroup
	keeping, stop := context.WithCancel(ctx)
	renewing.Go(func() { leases.renew(keeping, lost) })
	defer renewing.Wait()
	defer stop()

	held := leases.tags()
	for _, tag := range held {
		fenced, err := t.redis.run(ctx, lua.Fence, call{keys: []string{epochKey(tag), restoreKey(tag)}, args: []any{leases.token}})[0].Int()
		if err == nil && fenced == 0 {
			err = errLost
		}
		if err != nil {
			return 0, errors.Join(err, t.open(ctx, leases))
		}
	}
	err = t.bringUp(ctx, held)
	for _, tag := range held {
		if err != nil {
			break
		}
		var changed int
		changed, err = t.tag(ctx, tag, leases.token, floors[tag])
		n += changed
	}
	return n, errors.Join(err, t.open(ctx, leases))
}

// bringUp takes what the outboxes hold to the archive.
func (t *Tail) bringUp(ctx context.Context, some []Tag) error {
	for _, tag := range some {
		if err := t.publisher.drain(ctx, tag); err != nil {
			return err
		}
	}
	_, err := t.catchUp.Run(ctx)
	return err
}

// open ends the fences, also after a failure: what the facts are then is true,
// only not yet all of it. A tag that it can't open is restored.
func (t *Tail) open(ctx context.Context, leases *tagLeases) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	var all error
	for _, tag := range leases.tags() {
		leases.drop(tag) // the script gives it back
		all = errors.Join(all, t.redis.run(ctx, lua.Epoch, call{keys: []string{epochKey(tag), restoreKey(tag)}, args: []any{leases.token, rand.Text()}})[0].Err())
	}
	return all
}

// tag puts back the rows of one tag above floor and folds what was touched.
func (t *Tail) tag(ctx context.Context, tag Tag, token string, floor Version) (n int, err error) {
	versions, err := t.archive.TagVersions(ctx)
	if err != nil {
		return 0, err
	}
	if err := t.redis.raise(ctx, tag, token, versions[tag]); err != nil {
		return 0, err
	}
	// The aggregator can't fold while the fence stands: what it was about to is
	// folded here.
	recent := Version(time.Now().Add(-t.config.Recheck).UnixMilli()) << sequenceBits
	touched := map[Subject]Version{}
	var rows []Reaction
	err = t.archive.Since(ctx, tag, min(floor, recent), func(row Reaction) error {
		touched[row.Subject] = max(touched[row.Subject], row.Version)
		if row.Version > floor {
			rows = append(rows, row)
		}
		if len(rows) < factsBatch {
			return nil
		}
		changed, err := t.rows(ctx, permit{restoreKey(tag), token}, rows, touched)
		n, rows = n+changed, rows[:0]
		return err
	})
	if err != nil {
		return n, err
	}
	changed, err := t.rows(ctx, permit{restoreKey(tag), token}, rows, touched)
	if n += changed; err != nil {
		return n, err
	}
	if err := t.fold(ctx, tag, touched); err != nil {
		return n, err
	}
	return n, t.publisher.drain(ctx, tag)
}

// rows puts back those whose facts differ.
func (t *Tail) rows(ctx context.Context, p permit, rows []Reaction, touched map[Subject]Version) (n int, err error) {
	facts, err := t.redis.factsOf(ctx, rows)
	if err != nil {
		return 0, err
	}
	for i, row := range rows {
		if facts[i] == row.Active {
			continue
		}
		outcome, _, err := t.facts.toggle(ctx, p, row.Viewer, row.Subject, row.Metric, row.Ordinal, row.Active)
		if errors.Is(err, ErrOverloaded) { // it waits for Kafka: send it
			if err = t.publisher.drain(ctx, row.Subject.Tag()); err == nil {
				outcome, _, err = t.facts.toggle(ctx, p, row.Viewer, row.Subject, row.Metric, row.Ordinal, row.Active)
			}
		}
		if errors.Is(err, ErrGone) {
			continue
		}
		if err != nil {
			return n, fmt.Errorf("put back a %s of %s: %w", row.Metric, row.Subject, err)
		}
		if outcome.Changed {
			touched[row.Subject] = max(touched[row.Subject], outcome.Counts.Version)
			n++
		}
	}
	return n, nil
}

func (t *Tail) fold(ctx context.Context, tag Tag, touched map[Subject]Version) error {
	calls := make([]call, 0, len(touched))
	for s, version := range touched {
		run := foldCall(s, version)
		run.keys[0] = restoreKey(tag)
		calls = append(calls, run)
	}
	for some := range slices.Chunk(calls, restoreCalls) {
		for _, reply := range t.redis.run(ctx, lua.Fold, some...) {
			if _, err := folded(reply); err != nil && !isRefusal(err) {
				return fmt.Errorf("fold: %w", err)
			}
		}
	}
	return nil
}
