package counter

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tallyfeed/tallyfeed/lua"
)

// SubjectSource lists everything that can be liked, in pages.
type SubjectSource interface {
	// After returns up to n subjects behind the given one in a fixed order, from
	// the start for "". None means that the end is reached.
	After(ctx context.Context, subject string, n int) ([]Subject, error)
}

// AuditConfig has a usable zero value.
type AuditConfig struct {
	// Rate is how many subjects a second are looked at. 0 means 100.
	Rate int
	// Grace is how long a snapshot may lag behind the facts before that is a
	// difference: its event is on its way, and when the process that folds dies,
	// its partitions idle for a while. 0 means 20 s.
	Grace time.Duration
}

// Drift is what an audit found.
type Drift struct{ Looked, Differed, Mended int }

// Auditor goes over all subjects without end, compares snapshot, population and
// containers, and mends what differs. Any number may run; one works at a time.
type Auditor struct {
	redis     *Redis
	source    SubjectSource
	recounter *Recounter
	config    AuditConfig
	log       *slog.Logger
	token     string
	// suspects differed at a first look, and get a second one after the grace.
	suspects map[Subject]suspect
}

const (
	auditLease = "lease:audit"
	auditHeld  = 15 * time.Second
	auditBatch = 100
)

// NewAuditor returns an Auditor of source.
func NewAuditor(r *Redis, source SubjectSource, recounter *Recounter, log *slog.Logger, config AuditConfig) *Auditor {
	if config.Rate == 0 {
		config.Rate = 100
	}
	if config.Grace == 0 {
		config.Grace = 20 * time.Second
	}
	return &Auditor{redis: r, source: source, recounter: recounter, config: config, log: log, token: rand.Text(), suspects: map[Subject]suspect{}}
}

// Run audits round after round until ctx ends; each round's drift is in the
// log.
func (a *Auditor) Run(ctx context.Context) error {
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		a.redis.run(last, lua.Release, call{keys: []string{auditLease}, args: []any{a.token}})
	}()
	for ctx.Err() == nil {
		held, err := a.hold(ctx)
		if err != nil || !held {
			wait(ctx, auditHeld/3)
			continue
		}
		began := time.Now()
		drift, err := a.Round(ctx, a.hold)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			a.log.WarnContext(ctx, "audit broken off", "err", err)
		case drift.Differed > 0:
			a.log.WarnContext(ctx, "audit found drift", "looked", drift.Looked, "differed", drift.Differed, "mended", drift.Mended, "took", time.Since(began).Round(time.Second))
		default:
			a.log.DebugContext(ctx, "audit found no drift", "looked", drift.Looked)
		}
		wait(ctx, time.Second)
	}
	return nil
}

func (a *Auditor) hold(ctx context.Context) (bool, error) {
	held, err := a.redis.run(ctx, lua.Lease, call{keys: []string{auditLease}, args: []any{a.token, auditHeld.Milliseconds()}})[0].Int()
	return held == 1, err
}

// Round looks at every subject once. hold, when not nil, is asked between
// batches and ends the round early when it says false.
func (a *Auditor) Round(ctx context.Context, hold func(context.Context) (bool, error)) (Drift, error) {
	var drift Drift
	after := ""
	batch := min(auditBatch, a.config.Rate)
	tick := time.NewTicker(time.Duration(batch) * time.Second / time.Duration(a.config.Rate))
	defer tick.Stop()
	for {
		subjects, err := a.source.After(ctx, after, batch)
		if err != nil {
			return drift, err
		}
		if len(subjects) == 0 && len(a.suspects) == 0 {
			return drift, nil
		}
		if len(subjects) > 0 {
			after = subjects[len(subjects)-1].String()
		}
		if err := a.look(ctx, subjects, &drift); err != nil {
			return drift, err
		}
		if hold != nil {
			if held, err := hold(ctx); err != nil || !held {
				return drift, err
			}
		}
		select {
		case <-ctx.Done():
			return drift, ctx.Err()
		case <-tick.C:
		}
	}
}

// suspect is what differed at a first look.
type suspect struct {
	raw string // the snapshot, or what was malformed
	at  time.Time
}

// look compares subjects for the first time, and those again that differed
// longer ago than the grace. What is still the same, and still wrong, has no
// event on its way: it is mended.
func (a *Auditor) look(ctx context.Context, subjects []Subject, drift *Drift) error {
	now := time.Now()
	differ, err := a.compare(ctx, subjects)
	if err != nil {
		return err
	}
	drift.Looked += len(subjects)
	for s, raw := range differ {
		if _, known := a.suspects[s]; !known {
			a.suspects[s] = suspect{raw: raw, at: now}
		}
	}
	var due []Subject
	for s, first := range a.suspects {
		if now.Sub(first.at) >= a.config.Grace {
			due = append(due, s)
		}
	}
	if differ, err = a.compare(ctx, due); err != nil {
		return err
	}
	for _, s := range due {
		first := a.suspects[s]
		delete(a.suspects, s)
		if raw, still := differ[s]; !still || raw != first.raw {
			continue // folded meanwhile
		}
		drift.Differed++
		result, err := a.recounter.Recount(ctx, s)
		if errors.Is(err, ErrBusy) || errors.Is(err, ErrGone) {
			continue
		}
		if err != nil {
			return err
		}
		drift.Mended++
		a.log.WarnContext(ctx, "drift mended", "subject", s.String(),
			"like was", result.Before.Like, "like is", result.After.Like, "fav was", result.Before.Fav, "fav is", result.After.Fav,
			"populations wrong", result.Populations)
	}
	return nil
}

// compare finds the subjects whose snapshot is not what a fold would write now,
// or whose population is not what the containers hold, with the snapshot found.
func (a *Auditor) compare(ctx context.Context, subjects []Subject) (map[Subject]string, error) {
	if len(subjects) == 0 {
		return nil, nil
	}
	calls := make([]call, len(subjects))
	for i, s := range subjects {
		calls[i] = foldCall(s, 0)
		calls[i].args[2] = "look"
	}
	looks := a.redis.run(ctx, lua.Fold, calls...)
	newest, err := a.redis.newest(ctx, tagsOf(subjects)) // after the looks: no honest version is above it
	if err != nil {
		return nil, err
	}
	outgrown, err := a.outgrown(ctx, subjects)
	if err != nil {
		return nil, err
	}
	differ := map[Subject]string{}
	for i, cmd := range looks {
		s := subjects[i]
		reply, err := status(cmd)
		var malformed *MalformedError
		switch {
		case errors.Is(err, ErrGone):
			continue
		case errors.As(err, &malformed):
			differ[s] = malformed.Key
			continue
		case err != nil:
			return nil, fmt.Errorf("audit %s: %w", s, err)
		}
		old, _ := reply[0].(string)
		before, after, known, err := bothSnapshots(reply)
		if err != nil {
			return nil, fmt.Errorf("audit %s: %w", s, err)
		}
		wrong := known && (before.Like != after.Like || before.Fav != after.Fav || before.Version > newest[s.Tag()])
		for m := range Metric(metrics) {
			if wrong || !outgrown[i][m] {
				continue
			}
			wrong, err = a.recounter.population(ctx, s, m, "look", func() error { return ctx.Err() })
			if errors.Is(err, errSlices) {
				wrong, err = false, nil // it changes; the next round looks again
			}
			if err != nil {
				return nil, fmt.Errorf("audit %s: %w", s, err)
			}
		}
		if wrong {
			differ[s] = old
		}
	}
	return differ, nil
}

// outgrown says which subjects have left their small sets: only those have a
// population that could differ from their containers.
func (a *Auditor) outgrown(ctx context.Context, subjects []Subject) ([][metrics]bool, error) {
	pipe := a.redis.reads.Pipeline()
	cmds := make([][metrics]*redis.IntCmd, len(subjects))
	for i, s := range subjects {
		for m := range Metric(metrics) {
			cmds[i][m] = pipe.Exists(ctx, keysOf(s).n(m))
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	all := make([][metrics]bool, len(subjects))
	for i := range cmds {
		for m := range cmds[i] {
			all[i][m] = cmds[i][m].Val() == 1
		}
	}
	return all, nil
}
