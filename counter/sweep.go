package counter

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tallyfeed/tallyfeed/lua"
)

// SweeperConfig has a usable zero value.
type SweeperConfig struct {
	// Every is how often the outbox is looked at. 0 means a second.
	Every time.Duration
	// Patience is how long an entry may lie there before somebody else than the
	// server that wrote it sends it. 0 means 5 s.
	Patience time.Duration
}

// Sweeper sends what lies in the outbox for too long: the server that wrote it
// died, or Kafka was away. Any number of sweepers may run; a lease for each tag
// keeps them from sending the same twice too often.
type Sweeper struct {
	redis     *Redis
	publisher *Publisher
	config    SweeperConfig
	log       *slog.Logger
	token     string
	// marks are, for each tag, newest ids and when this process first saw them.
	// Age is measured here and not read off the ids, since a clock that stepped
	// back would make leftovers look as if they were from the future.
	marks [tags][]mark
	pause time.Duration
}

type mark struct {
	id string
	at time.Time
}

const (
	sweepLease    = 10 * time.Second
	sweepBatch    = 500
	maxSweepPause = 10 * time.Second
)

// NewSweeper returns a Sweeper that sends through publisher.
func NewSweeper(r *Redis, publisher *Publisher, log *slog.Logger, config SweeperConfig) *Sweeper {
	if config.Every == 0 {
		config.Every = time.Second
	}
	if config.Patience == 0 {
		config.Patience = 5 * time.Second
	}
	return &Sweeper{redis: r, publisher: publisher, config: config, log: log, token: rand.Text()}
}

// Run sweeps until ctx ends. While Kafka or Redis is away it tries again after
// a pause that doubles up to 10 s.
func (s *Sweeper) Run(ctx context.Context) error {
	for {
		wait := s.config.Every
		sent, err := s.Sweep(ctx, time.Now())
		switch {
		case err != nil && ctx.Err() == nil:
			s.pause = min(max(2*s.pause, s.config.Every), maxSweepPause)
			wait = s.pause
			s.log.WarnContext(ctx, "outbox not swept, trying again", "in", wait, "err", err)
		case sent > 0:
			s.pause = 0
			s.log.InfoContext(ctx, "sent what was left in the outbox", "changes", sent)
		default:
			s.pause = 0
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// Sweep looks at all tags once and sends what has been there for the patience.
func (s *Sweeper) Sweep(ctx context.Context, now time.Time) (sent int, err error) {
	pipe := s.redis.reads.Pipeline()
	newest := make([]*redis.XMessageSliceCmd, tags)
	for t := range newest {
		newest[t] = pipe.XRevRangeN(ctx, outboxKey(Tag(t)), "+", "-", 1)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return 0, fmt.Errorf("look at the outbox: %w", err)
	}
	for t, cmd := range newest {
		bound := s.overdue(Tag(t), cmd.Val(), now)
		if bound == "" {
			continue
		}
		n, err := s.sweepTag(ctx, Tag(t), bound)
		sent += n
		if err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// overdue notes the newest entry of a tag and returns the newest id that has
// been seen for the patience, or "".
func (s *Sweeper) overdue(t Tag, newest []redis.XMessage, now time.Time) string {
	if len(newest) == 0 {
		s.marks[t] = nil
		return ""
	}
	marks := s.marks[t]
	if len(marks) == 0 || marks[len(marks)-1].id != newest[0].ID {
		marks = append(marks, mark{id: newest[0].ID, at: now})
	}
	bound := ""
	for len(marks) > 0 && now.Sub(marks[0].at) >= s.config.Patience {
		bound = marks[0].id
		if len(marks) == 1 {
			break // still the newest: keep it, or its age would start again
		}
		marks = marks[1:]
	}
	s.marks[t] = marks
	return bound
}

// sweepTag sends the entries up to bound, if this process gets the lease.
func (s *Sweeper) sweepTag(ctx context.Context, t Tag, bound string) (sent int, err error) {
	lease := call{keys: []string{sweepKey(t)}, args: []any{s.token, sweepLease.Milliseconds()}}
	from := "-"
	for {
		held, err := s.redis.run(ctx, lua.Lease, lease)[0].Int()
		if err != nil {
			return sent, fmt.Errorf("take lease: %w", err)
		}
		if held == 0 {
			return sent, nil
		}
		found, err := s.redis.reads.XRangeN(ctx, outboxKey(t), from, bound, sweepBatch).Result()
		if err != nil {
			return sent, fmt.Errorf("read outbox: %w", err)
		}
		if len(found) == 0 {
			return sent, s.redis.run(ctx, lua.Release, call{keys: lease.keys, args: []any{s.token}})[0].Err()
		}
		n, err := s.publisher.sendEntries(ctx, t, found)
		sent += n
		if err != nil {
			return sent, err
		}
		from = "(" + found[len(found)-1].ID
	}
}

func changeOf(message redis.XMessage) (Change, error) {
	e := entry{id: message.ID}
	for i, name := range entryFields {
		value, ok := message.Values[name].(string)
		if !ok {
			return Change{}, fmt.Errorf("field %s is missing", name)
		}
		e.values[i] = value
	}
	_, subject, err := e.event()
	return Change{subject: subject, entry: e}, err
}
