package counter

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tallyfeed/tallyfeed/lua"
)

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
