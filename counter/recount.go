package counter

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tallyfeed/tallyfeed/lua"
)

var (
	// ErrBusy says that somebody else recounts the subject, or did so a moment
	// ago, or that it changes too fast to be counted in slices.
	ErrBusy = errors.New("recounted by somebody else, or too often, or changing too fast")
	// errSlices says that a subject changed while it was counted in slices.
	errSlices = errors.New("changed while it was counted")
)

// Recounter counts subjects anew from the containers of their facts. Reading a
// snapshot or folding one needs no recount: it is for a population that is
// malformed or wrong, which no event would ever mend.
type Recounter struct {
	redis *Redis
	log   *slog.Logger
	queue chan Subject
	slice int
}

const (
	recountLease   = 10 * time.Second
	recountSlice   = 500 // chunks: some 3 ms of Redis's time
	recountTries   = 5
	recountQueue   = 1000
	recountsEach   = 3 // a subject
	recountsIn     = 10 * time.Second
	minRecountWait = 500 * time.Millisecond
	maxRecountWait = 30 * time.Second
	failuresLife   = 2 * time.Minute
)

// NewRecounter returns a Recounter on redis.
func NewRecounter(r *Redis, log *slog.Logger) *Recounter {
	return &Recounter{redis: r, log: log, queue: make(chan Subject, recountQueue), slice: recountSlice}
}

// Offer asks for a recount soon. It never blocks; what finds no room is asked
// for again by the next page that meets it.
func (r *Recounter) Offer(s Subject) {
	select {
	case r.queue <- s:
	default:
	}
}

// Run recounts what is offered until ctx ends.
func (r *Recounter) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case s := <-r.queue:
			result, err := r.Recount(ctx, s)
			switch {
			case errors.Is(err, ErrBusy), ctx.Err() != nil:
			case err != nil:
				r.log.WarnContext(ctx, "not recounted", "subject", s.String(), "err", err)
			default:
				r.log.InfoContext(ctx, "recounted", "subject", s.String(), "mended", result.Mended())
			}
		}
	}
}

// RecountResult is what a recount found.
type RecountResult struct {
	Before, After Counts
	// Populations says for which metrics `n` was wrong.
	Populations [metrics]bool
	// Known is false where there was no snapshot before.
	Known bool
}

// Mended says whether anything was wrong.
func (r RecountResult) Mended() bool {
	return r.Populations[Like] || r.Populations[Fav] || r.Known && (r.Before.Like != r.After.Like || r.Before.Fav != r.After.Fav)
}

func (k keys) recountLease() string    { return "recount:" + k.subject + k.end }
func (k keys) recountLimit() string    { return "recount:" + k.subject + ":limit" + k.end }
func (k keys) recountPause() string    { return "recount:" + k.subject + ":pause" + k.end }
func (k keys) recountFailures() string { return "recount:" + k.subject + ":failures" + k.end }

// Recount counts s in its containers, mends `n`, and folds. Whoever reads
// meanwhile gets the last snapshot. One at a time works on a subject, three
// times in 10 s at most, and later and later after failures: else ErrBusy. It
// is safe to repeat.
func (r *Recounter) Recount(ctx context.Context, s Subject) (RecountResult, error) {
	k := keysOf(s)
	token := rand.Text()
	if err := r.admit(ctx, k, token); err != nil {
		return RecountResult{}, fmt.Errorf("recount %s: %w", s, err)
	}
	result, err := r.recount(ctx, s, token)
	if err != nil && ctx.Err() == nil {
		r.failed(ctx, k)
	}
	released := r.redis.run(context.WithoutCancel(ctx), lua.Release, call{keys: []string{k.recountLease()}, args: []any{token}})[0].Err()
	if err = errors.Join(err, released); err != nil {
		return RecountResult{}, fmt.Errorf("recount %s: %w", s, err)
	}
	return result, nil
}

// admit takes the lease and looks at limiter and back-off. All these keys
// expire by themselves.
func (r *Recounter) admit(ctx context.Context, k keys, token string) error {
	paused, err := r.redis.reads.Exists(ctx, k.recountPause()).Result()
	if err != nil {
		return err
	}
	if paused == 1 {
		return ErrBusy
	}
	if err := r.hold(ctx, k, token); err != nil {
		return err
	}
	pipe := r.redis.writes.TxPipeline()
	pipe.SetNX(ctx, k.recountLimit(), 0, recountsIn)
	recounts := pipe.Incr(ctx, k.recountLimit())
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	if recounts.Val() > recountsEach {
		return errors.Join(ErrBusy, r.redis.run(ctx, lua.Release, call{keys: []string{k.recountLease()}, args: []any{token}})[0].Err())
	}
	return nil
}

// hold takes the lease or renews it: whoever was paused for longer than it lasts
// learns that somebody else has it.
func (r *Recounter) hold(ctx context.Context, k keys, token string) error {
	held, err := r.redis.run(ctx, lua.Lease, call{keys: []string{k.recountLease()}, args: []any{token, recountLease.Milliseconds()}})[0].Int()
	if err == nil && held == 0 {
		err = ErrBusy
	}
	return err
}

// failed makes the next recount wait: 0.5 s, 1 s, … up to 30 s.
func (r *Recounter) failed(ctx context.Context, k keys) {
	pipe := r.redis.writes.TxPipeline()
	failures := pipe.Incr(ctx, k.recountFailures())
	pipe.PExpire(ctx, k.recountFailures(), failuresLife)
	if _, err := pipe.Exec(ctx); err != nil {
		return // Redis is away: that is pause enough
	}
	pause := minRecountWait << min(failures.Val()-1, 10)
	r.redis.writes.Set(ctx, k.recountPause(), 1, min(pause, maxRecountWait))
}

func (r *Recounter) recount(ctx context.Context, s Subject, token string) (RecountResult, error) {
	var result RecountResult
	for m := range Metric(metrics) {
		var err error
		for range recountTries {
			hold := func() error { return r.hold(ctx, keysOf(s), token) }
			if result.Populations[m], err = r.population(ctx, s, m, "", hold); !errors.Is(err, errSlices) {
				break
			}
		}
		if errors.Is(err, errSlices) {
			return result, ErrBusy
		}
		if err != nil {
			return result, err
		}
	}
	mend := foldCall(s, 0)
	mend.args[2] = "draw" // a version from the future is mended too
	reply, err := status(r.redis.run(ctx, lua.Fold, mend)[0])
	if err != nil {
		return result, err
	}
	result.Before, result.After, result.Known, err = bothSnapshots(reply)
	return result, err
}

// population counts one metric, says whether `n` is wrong, and mends it unless
// mode is "look". hold is asked before each slice.
func (r *Recounter) population(ctx context.Context, s Subject, m Metric, mode string, hold func() error) (wrong bool, err error) {
	k := keysOf(s)
	members, err := r.redis.writes.SMembers(ctx, k.chunks(m)).Result()
	if err != nil {
		return false, err
	}
	count, first := int64(0), ""
	for at := 0; ; at += r.slice {
		if err := hold(); err != nil {
			return false, err
		}
		end := min(at+r.slice, len(members))
		run := call{
			keys: []string{epochKey(s.Tag()), k.gone(), outboxKey(s.Tag()), k.n(m), k.chunks(m)},
			args: []any{count, first, "", mode},
		}
		if end == len(members) {
			run.args[2] = len(members)
		}
		for _, member := range members[at:end] {
			chunk, err := strconv.ParseUint(member, 10, 32)
			if err != nil {
				return false, &MalformedError{Key: k.chunks(m)}
			}
			run.keys = append(run.keys, k.bitmap(m, uint32(chunk)), k.chunkFew(m, uint32(chunk)))
		}
		var n string
		if count, first, n, err = counted(r.redis.run(ctx, lua.Recount, run)[0]); err != nil {
			return false, err
		}
		if end == len(members) {
			return n != "" && n != strconv.FormatInt(count, 10), nil
		}
	}
}

// counted reads recount.lua's {"ok", count, last id, n}.
func counted(cmd *redis.Cmd) (count int64, last, n string, err error) {
	reply, err := cmd.Slice()
	if err != nil {
		return 0, "", "", err
	}
	if word, _ := reply[0].(string); word == "changed" || word == "declined" {
		return 0, "", "", errSlices
	}
	values, err := status(cmd)
	if err != nil {
		return 0, "", "", err
	}
	if len(values) != 3 {
		return 0, "", "", errShape
	}
	count, _ = values[0].(int64)
	last, _ = values[1].(string)
	n, _ = values[2].(string)
	return count, last, n, nil
}
