package counter

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/redis/go-redis/v9"

	"github.com/tallyfeed/tallyfeed/lua"
)

// ReaderConfig has a usable zero value.
type ReaderConfig struct {
	// Timeout is how long a page waits for Redis. 0 means 250 ms: a Redis that
	// hangs takes its fields away, not the page.
	Timeout time.Duration
	// OnMalformed, when set, is told of a subject that needs a deep recount. It
	// must not block.
	OnMalformed func(Subject)
}

// Reader reads what a page shows: counts from the snapshots, and what its
// viewer did from the facts. It is safe for concurrent use.
type Reader struct {
	redis    *Redis
	ordinals *Ordinals
	config   ReaderConfig
	bitmaps  *otter.Cache[chunkOf, sighting]
}

// NewReader returns a Reader on redis.
func NewReader(r *Redis, ordinals *Ordinals, config ReaderConfig) *Reader {
	if config.Timeout == 0 {
		config.Timeout = 250 * time.Millisecond
	}
	if config.OnMalformed == nil {
		config.OnMalformed = func(Subject) {}
	}
	return &Reader{redis: r, ordinals: ordinals, config: config, bitmaps: newSightings()}
}

// Reading is what is known of a subject's counts. Not Known means that Redis
// did not tell: it is never a zero.
type Reading struct {
	Counts Counts
	Known  bool
	// Exact are the counts of the facts themselves, where they were asked for.
	// Their version is 0.
	Exact      Counts
	ExactKnown bool
}

// Counts reads the snapshots of subjects: one pipeline, and one more if some
// are missing or malformed, which are made anew from the facts. The result has
// the order of subjects. What can't be read is not Known, and the first error
// says why; the rest is good all the same. A deleted subject is not Known and
// no error.
func (r *Reader) Counts(ctx context.Context, subjects []Subject) ([]Reading, error) {
	return r.counts(ctx, subjects, false)
}

// ExactCounts is Counts, and the population of the facts with them: four more
// commands a subject in the same pipeline.
func (r *Reader) ExactCounts(ctx context.Context, subjects []Subject) ([]Reading, error) {
	return r.counts(ctx, subjects, true)
}

func (r *Reader) counts(ctx context.Context, subjects []Subject, exact bool) ([]Reading, error) {
	ctx, cancel := context.WithTimeout(ctx, r.config.Timeout)
	defer cancel()

	pipe := r.redis.reads.Pipeline()
	cmds := make([]*redis.SliceCmd, len(subjects))
	populations := make([][metrics]population, len(subjects))
	for i, s := range subjects {
		k := keysOf(s)
		for m := range Metric(metrics) {
			if exact {
				populations[i][m].ask(ctx, pipe, k, m)
			}
		}
		cmds[i] = pipe.MGet(ctx, k.snapshot(), epochKey(s.Tag()))
	}
	_, _ = pipe.Exec(ctx) // each command has its own error

	readings := make([]Reading, len(subjects))
	var missing []int
	var first error
	for i, cmd := range cmds {
		values, err := cmd.Result()
		if err == nil && len(values) != 2 {
			err = errShape
		}
		if err == nil && values[1] == nil {
			err = ErrNoEpoch
		}
		if err != nil {
			first = firstOf(first, err)
			continue
		}
		if exact {
			readings[i].Exact, err = exactly(populations[i])
			readings[i].ExactKnown = err == nil
			first = firstOf(first, err)
			tellMalformed(err, subjects[i], r.config.OnMalformed)
		}
		text, _ := values[0].(string)
		counts, err := decodeSnapshot(text)
		if err != nil {
			missing = append(missing, i)
			continue
		}
		readings[i].Counts, readings[i].Known = counts, true
	}
	if len(missing) == 0 {
		return readings, first
	}

	calls := make([]call, len(missing))
	for at, i := range missing {
		calls[at] = foldCall(subjects[i], 0)
	}
	for at, reply := range r.redis.run(ctx, lua.Fold, calls...) {
		counts, err := folded(reply)
		switch {
		case err == nil:
			readings[missing[at]].Counts, readings[missing[at]].Known = counts, true
		case !errors.Is(err, ErrGone):
			first = firstOf(first, err)
			tellMalformed(err, subjects[missing[at]], r.config.OnMalformed)
		}
	}
	return readings, first
}

// population reads how many facts of a metric there are.
type population struct {
	few *redis.IntCmd
	n   *redis.StringCmd
}

// ask queues the commands. The order matters: a subject outgrows `few` and never
// comes back, so the other order could miss it in both.
func (p *population) ask(ctx context.Context, pipe redis.Pipeliner, k keys, m Metric) {
	p.few, p.n = pipe.SCard(ctx, k.few(m)), pipe.Get(ctx, k.n(m))
}

func exactly(populations [metrics]population) (Counts, error) {
	var sizes [metrics]int64
	for m, p := range populations {
		size, err := p.few.Result()
		if err != nil {
			return Counts{}, err
		}
		text, err := p.n.Result()
		if err == nil {
			size, err = strconv.ParseInt(text, 10, 64)
			if err != nil || size < 0 {
				return Counts{}, &MalformedError{Key: p.n.Args()[1].(string)}
			}
		} else if !errors.Is(err, redis.Nil) {
			return Counts{}, err
		}
		sizes[m] = size
	}
	return Counts{Like: saturate(sizes[Like]), Fav: saturate(sizes[Fav])}, nil
}

// tellMalformed passes a subject on whose population is no number: no event and
// no fold would ever mend that.
func tellMalformed(err error, s Subject, tell func(Subject)) {
	var malformed *MalformedError
	if errors.As(err, &malformed) {
		tell(s)
	}
}

func firstOf(first, err error) error {
	if first != nil {
		return first
	}
	return err
}
