package counter

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tallyfeed/tallyfeed/lua"
)

// RestorerConfig has a usable zero value.
type RestorerConfig struct {
	// ContainerLimit is that of FactsConfig. 0 means 512.
	ContainerLimit int
	// Every is how often missing epochs are looked for. 0 means a second.
	Every time.Duration
}

// Restorer writes the facts of an emptied Redis from the archive. Any number may
// run: a lease for each tag shares the work out, and each script checks it.
type Restorer struct {
	redis     *Redis
	archive   Archive
	ordinals  OrdinalStore
	catchUp   *CatchUp
	publisher *Publisher
	config    RestorerConfig
	log       *slog.Logger

	state atomic.Pointer[string] // what it is at, for Progress
}

const (
	// restoreTags share a catching up with Kafka; other processes take others.
	restoreTags = 32
	// restoreWorkers write at the same time: SQL and Redis keep each other waiting.
	restoreWorkers = 3
	progressEvery  = 3 * time.Second
	maxRestoreWait = 15 * time.Second
)

// NewRestorer restores to r what archive has, after catching up with catchUp.
// publisher sends what is left in the outbox.
func NewRestorer(r *Redis, archive Archive, ordinals OrdinalStore, catchUp *CatchUp, publisher *Publisher, log *slog.Logger, config RestorerConfig) *Restorer {
	if config.ContainerLimit == 0 {
		config.ContainerLimit = 512
	}
	if config.Every == 0 {
		config.Every = time.Second
	}
	return &Restorer{
		redis: r, archive: archive, ordinals: ordinals, catchUp: catchUp, publisher: publisher, log: log, config: config,
	}
}

// Restored is what a restore has done.
type Restored struct {
	Tags, Subjects, Facts int64
	Took                  time.Duration
}

func (r Restored) rate() int64 { return int64(float64(r.Facts) / max(r.Took.Seconds(), 0.001)) }

// Progress says what this process is at, "" when nothing is to be restored.
func (r *Restorer) Progress() string {
	if state := r.state.Load(); state != nil {
		return *state
	}
	return ""
}

func (r *Restorer) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.state.Store(&text)
}

// Run restores whenever epochs are missing, until ctx ends. After a failure it
// tries again, later and later up to 15 s; what was written is written over.
func (r *Restorer) Run(ctx context.Context) error {
	pause := r.config.Every
	for ctx.Err() == nil {
		done, err := r.Restore(ctx)
		if done.Tags > 0 {
			r.log.InfoContext(ctx, "facts restored", "parts", done.Tags, "subjects", done.Subjects, "facts", done.Facts,
				"took", done.Took.Round(time.Millisecond), "facts/s", done.rate())
		}
		if err != nil && ctx.Err() == nil {
			pause = min(2*pause, maxRestoreWait)
			r.say("facts not restored, trying again: %v", cause(err))
			r.log.WarnContext(ctx, "facts not restored, trying again", "in", pause, "err", err)
		} else {
			pause = r.config.Every
			r.state.Store(nil)
		}
		wait(ctx, pause)
	}
	return nil
}

// cause is the innermost error: what /readyz shows names no address.
func cause(err error) error {
	for errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	return err
}

// Restore restores what lacks its epoch and is nobody else's at work, and
// returns when there is no more of that. A new system, which has never given an
// ordinal, is founded. It may be killed at any time and repeated: a tag is
// readable only when all of it is written.
func (r *Restorer) Restore(ctx context.Context) (Restored, error) {
	var done restoring
	began := time.Now()
	for {
		missing, err := r.redis.missingEpochs(ctx)
		if err != nil || len(missing) == 0 {
			return done.result(began), err
		}
		used, err := r.ordinals.Any(ctx)
		if err != nil {
			return done.result(began), fmt.Errorf("restore: look for ordinals: %w", err)
		}
		if !used {
			return done.result(began), r.redis.DeclareEpoch(ctx)
		}
		r.say("restoring facts: %d of %d parts are to do", len(missing), Tags)
		leases, err := r.redis.leaseTags(ctx, missing, restoreTags)
		if err == nil {
			err = r.stillMissing(ctx, leases)
		}
		if err == nil && len(leases.tags()) == 0 {
			return done.result(began), nil // others are at it, or were a moment ago
		}
		if err == nil {
			err = r.batch(ctx, leases, &done, len(missing), began)
		}
		leases.release(ctx)
		if err != nil {
			return done.result(began), fmt.Errorf("restore: %w", err)
		}
	}
}

// stillMissing gives those leases back whose tags have an epoch by now.
func (r *Restorer) stillMissing(ctx context.Context, leases *tagLeases) error {
	missing, err := r.redis.missingEpochs(ctx)
	if err != nil {
		return err
	}
	for _, t := range leases.tags() {
		if !slices.Contains(missing, t) {
			leases.drop(t)
			r.redis.run(ctx, lua.Release, call{keys: []string{restoreKey(t)}, args: []any{leases.token}})
		}
	}
	return nil
}

// restoring counts what several workers have done.
type restoring struct{ tags, subjects, facts atomic.Int64 }

func (d *restoring) result(began time.Time) Restored {
	return Restored{Tags: d.tags.Load(), Subjects: d.subjects.Load(), Facts: d.facts.Load(), Took: time.Since(began)}
}

// batch restores the tags of some leases: what their outboxes still hold goes to
// Kafka, the archive catches up with Kafka, and then it has all there is.
func (r *Restorer) batch(ctx context.Context, leases *tagLeases, done *restoring, missing int, began time.Time) (err error) {
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	keeping, stop := context.WithCancel(ctx)
	var renewing errgroup.Group
	renewing.Go(func() error { leases.renew(keeping, func() { lost(errLost) }); return nil })
	defer func() { stop(); _ = renewing.Wait() }()
	defer func() {
		if err != nil && errors.Is(context.Cause(ctx), errLost) {
			err = errors.Join(errLost, err)
		}
	}()

	tags := leases.tags()
	for _, t := range tags {
		if err := r.publisher.drain(ctx, t); err != nil {
			return err
		}
	}
	events, err := r.catchUp.Run(ctx)
	if err != nil {
		return err
	}
	if events > 0 {
		r.log.InfoContext(ctx, "the archive caught up with Kafka", "events", events)
	}
	versions, err := r.archive.TagVersions(ctx)
	if err != nil {
		return fmt.Errorf("read the archive: %w", err)
	}
	renewing.Go(func() error { r.report(keeping, done, missing, began); return nil })
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(restoreWorkers)
	for _, t := range tags {
		group.Go(func() error {
			if err := r.tag(ctx, t, leases, versions[t], done); err != nil {
				return fmt.Errorf("part %s: %w", t, err)
			}
			done.tags.Add(1)
			return nil
		})
	}
	return group.Wait()
}

// report says every few seconds how far the work is.
func (r *Restorer) report(ctx context.Context, done *restoring, missing int, began time.Time) {
	before := done.tags.Load()
	for logged := time.Now(); ctx.Err() == nil; wait(ctx, 200*time.Millisecond) {
		so := done.result(began)
		r.say("restoring facts: %d of %d parts are to do, %d facts written", int64(missing)-(so.Tags-before), Tags, so.Facts)
		if time.Since(logged) >= progressEvery {
			logged = time.Now()
			r.log.InfoContext(ctx, "restoring facts", "parts to do", int64(missing)-(so.Tags-before), "facts", so.Facts, "facts/s", so.rate())
		}
	}
}

// tag restores one tag.
func (r *Restorer) tag(ctx context.Context, t Tag, leases *tagLeases, version Version, done *restoring) error {
	if err := r.redis.raise(ctx, t, leases.token, version); err != nil {
		return err
	}
	w := newFactWriter(r.redis, t, leases.token, r.config.ContainerLimit)
	after := ""
	for {
		page, err := r.archive.Subjects(ctx, t, after, subjectsAtOnce)
		if err != nil {
			return fmt.Errorf("read the archive: %w", err)
		}
		if len(page) == 0 {
			break
		}
		after = page[len(page)-1].Subject.String()
		subjects := make([]Subject, len(page))
		for i, totals := range page {
			subjects[i] = totals.Subject
		}
		n, err := w.write(ctx, r.archive, subjects)
		if err != nil {
			return err
		}
		done.subjects.Add(int64(len(subjects)))
		done.facts.Add(n)
	}
	leases.drop(t) // the script gives it back
	written, err := r.redis.run(ctx, lua.Epoch, call{keys: []string{epochKey(t), restoreKey(t)}, args: []any{leases.token, rand.Text()}})[0].Int()
	if err == nil && written == 0 {
		err = errLost
	}
	return err
}

// raise makes the tag's next version higher than the given one.
func (r *Redis) raise(ctx context.Context, t Tag, token string, above Version) error {
	if above == 0 {
		return nil
	}
	_, err := leased(r.run(ctx, lua.Raise, call{keys: []string{epochKey(t), restoreKey(t), outboxKey(t)}, args: []any{token, above.String()}})[0])
	if err != nil {
		return fmt.Errorf("raise the outbox's last id: %w", err)
	}
	return nil
}
