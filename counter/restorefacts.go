package counter

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/tallyfeed/tallyfeed/lua"
)

const (
	// subjectsAtOnce are read from the archive by one query.
	subjectsAtOnce = 200
	// A pipeline of a restore holds at most this many scripts and bytes.
	restoreCalls = 200
	restoreBytes = 256 << 10
)

// factWriter writes the facts of one tag's subjects under its lease. What it
// holds is bounded, whatever the size of a subject: the facts of one chunk, and
// one pipeline.
type factWriter struct {
	redis *Redis
	tag   Tag
	token string
	limit int

	// The metric at hand.
	subject  Subject
	metric   Metric
	ordinals []Ordinal // gathered and not written
	outgrown bool      // more than limit have come: it is in chunks
	total    int64

	// The pipeline at hand.
	calls []call
	about []restoreStep
	bytes int
}

// restoreStep says what a call of the pipeline is for.
type restoreStep struct {
	subject Subject
	metric  Metric
	// whole is set where the call writes all facts of the metric at once.
	whole bool
}

func newFactWriter(r *Redis, t Tag, token string, limit int) *factWriter {
	return &factWriter{redis: r, tag: t, token: token, limit: limit}
}

// write writes all facts of subjects and their snapshots, and returns how many
// facts that were. Every metric is written, also one without facts: what is
// there of before goes.
func (w *factWriter) write(ctx context.Context, archive Archive, subjects []Subject) (facts int64, err error) {
	next, metric := 0, Metric(0)
	// upTo finishes every metric before the given one.
	upTo := func(subject int, m Metric) error {
		for next < subject || next == subject && metric < m {
			w.subject, w.metric = subjects[next], metric
			if err := w.finish(ctx); err != nil {
				return err
			}
			if metric++; metric == metrics {
				next, metric = next+1, 0
			}
		}
		return nil
	}
	place := make(map[Subject]int, len(subjects))
	for i, s := range subjects {
		place[s] = i
	}
	err = archive.Active(ctx, subjects, func(fact Reaction) error {
		at, ok := place[fact.Subject]
		if !ok {
			return nil
		}
		if err := upTo(at, fact.Metric); err != nil {
			return err
		}
		w.subject, w.metric = fact.Subject, fact.Metric
		facts++
		return w.add(ctx, fact.Ordinal)
	})
	if err == nil {
		err = upTo(len(subjects), 0)
	}
	if err == nil {
		err = w.flush(ctx)
	}
	if err == nil {
		err = w.fold(ctx, subjects)
	}
	return facts, err
}

// add takes the next ordinal of the metric at hand.
func (w *factWriter) add(ctx context.Context, o Ordinal) error {
	w.total++
	if w.outgrown && o.chunk() != w.ordinals[0].chunk() {
		if err := w.chunk(ctx, w.ordinals); err != nil {
			return err
		}
		w.ordinals = w.ordinals[:0]
	}
	w.ordinals = append(w.ordinals, o)
	if w.outgrown || len(w.ordinals) <= w.limit {
		return nil
	}
	// One more than a set may hold: what was there goes, and what has come so far
	// is parted into chunks. The last of them may not be whole yet.
	w.outgrown = true
	if err := w.flush(ctx); err != nil {
		return err
	}
	if err := w.clear(ctx, w.subject, w.metric); err != nil {
		return err
	}
	first := 0
	for i, o := range w.ordinals {
		if o.chunk() != w.ordinals[first].chunk() {
			if err := w.chunk(ctx, w.ordinals[first:i]); err != nil {
				return err
			}
			first = i
		}
	}
	w.ordinals = append(w.ordinals[:0], w.ordinals[first:]...)
	return nil
}

// finish ends the metric at hand.
func (w *factWriter) finish(ctx context.Context) error {
	defer func() { w.ordinals, w.outgrown, w.total = w.ordinals[:0], false, 0 }()
	k := keysOf(w.subject)
	if w.outgrown {
		if err := w.chunk(ctx, w.ordinals); err != nil {
			return err
		}
		return w.queue(ctx, w.call(k, w.metric, "n", w.total), 0)
	}
	run := w.call(k, w.metric, "few")
	for _, o := range w.ordinals {
		run.args = append(run.args, uint32(o))
	}
	w.about = append(w.about, restoreStep{w.subject, w.metric, true})
	return w.push(ctx, run, 8*len(w.ordinals))
}

// chunk writes the facts of one chunk, as a set or as a bitmap.
func (w *factWriter) chunk(ctx context.Context, ordinals []Ordinal) error {
	k, number := keysOf(w.subject), ordinals[0].chunk()
	run := w.call(k, w.metric, "set", number)
	run.keys = append(run.keys, k.bitmap(w.metric, number), k.chunkFew(w.metric, number))
	if len(ordinals) <= w.limit {
		for _, o := range ordinals {
			run.args = append(run.args, o.offset())
		}
		return w.queue(ctx, run, 8*len(ordinals))
	}
	// As SETBIT does: the highest bit of a byte comes first.
	bits := make([]byte, ordinals[len(ordinals)-1].offset()/8+1)
	for _, o := range ordinals {
		bits[o.offset()/8] |= 0x80 >> (o.offset() % 8)
	}
	run.args[1] = "bitmap"
	run.args = append(run.args, bits)
	return w.queue(ctx, run, len(bits))
}

func (w *factWriter) call(k keys, m Metric, step string, more ...any) call {
	return call{
		keys: []string{epochKey(w.tag), restoreKey(w.tag), k.gone(), k.few(m), k.n(m), k.chunks(m)},
		args: append([]any{w.token, step}, more...),
	}
}

func (w *factWriter) queue(ctx context.Context, run call, bytes int) error {
	w.about = append(w.about, restoreStep{w.subject, w.metric, false})
	return w.push(ctx, run, bytes)
}

func (w *factWriter) push(ctx context.Context, run call, bytes int) error {
	w.calls = append(w.calls, run)
	if w.bytes += bytes; len(w.calls) < restoreCalls && w.bytes < restoreBytes {
		return nil
	}
	return w.flush(ctx)
}

// flush runs the pipeline. A metric in one set that has chunks of before is
// cleared and written again.
func (w *factWriter) flush(ctx context.Context) error {
	calls, about := w.calls, w.about
	w.calls, w.about, w.bytes = nil, nil, 0
	if len(calls) == 0 {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, 4*writeTimeout)
	defer cancel()
	for i, reply := range w.redis.run(limited, lua.Restore, calls...) {
		listed, err := leased(reply)
		if errors.Is(err, ErrGone) {
			continue
		}
		if err != nil {
			return fmt.Errorf("write facts of %s: %w", about[i].subject, err)
		}
		if !about[i].whole || listed == 0 {
			continue
		}
		if err := w.clear(ctx, about[i].subject, about[i].metric); err != nil {
			return err
		}
		if _, err := leased(w.redis.run(limited, lua.Restore, calls[i])[0]); err != nil && !errors.Is(err, ErrGone) {
			return fmt.Errorf("write facts of %s: %w", about[i].subject, err)
		}
	}
	return nil
}

// clear removes what is there of a metric, in bounded steps.
func (w *factWriter) clear(ctx context.Context, s Subject, m Metric) error {
	k := keysOf(s)
	for {
		numbers, err := w.redis.writes.SRandMemberN(ctx, k.chunks(m), deleteStep).Result()
		if err != nil {
			return fmt.Errorf("clear facts of %s: %w", s, err)
		}
		run := w.call(k, m, "clear")
		for _, number := range numbers {
			chunk, err := strconv.ParseUint(number, 10, 32)
			if err != nil {
				return fmt.Errorf("clear facts of %s: %w", s, &MalformedError{Key: k.chunks(m)})
			}
			run.keys = append(run.keys, k.bitmap(m, uint32(chunk)), k.chunkFew(m, uint32(chunk)))
			run.args = append(run.args, number)
		}
		left, err := leased(w.redis.run(ctx, lua.Restore, run)[0])
		if errors.Is(err, ErrGone) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("clear facts of %s: %w", s, err)
		}
		if left == 0 {
			return nil
		}
	}
}

// fold makes the snapshots. The lease stands where the epoch does else: there is
// none yet.
func (w *factWriter) fold(ctx context.Context, subjects []Subject) error {
	for len(subjects) > 0 {
		some := subjects[:min(restoreCalls, len(subjects))]
		subjects = subjects[len(some):]
		calls := make([]call, len(some))
		for i, s := range some {
			calls[i] = foldCall(s, 0)
			calls[i].keys[0] = restoreKey(w.tag)
			calls[i].args[2] = "draw"
		}
		for i, reply := range w.redis.run(ctx, lua.Fold, calls...) {
			if _, err := folded(reply); err != nil && !errors.Is(err, ErrGone) {
				return fmt.Errorf("fold %s: %w", some[i], err)
			}
		}
	}
	return nil
}

// leased reads a reply of a script that checks a lease: {"ok", number or text},
// {"lost"} or {"gone"}.
func leased(cmd *redis.Cmd) (int64, error) {
	if reply, err := cmd.Slice(); err == nil && len(reply) == 1 {
		if word, _ := reply[0].(string); word == "lost" {
			return 0, errLost
		}
	}
	reply, err := status(cmd)
	if err != nil {
		return 0, err
	}
	if len(reply) != 1 {
		return 0, errShape
	}
	number, _ := reply[0].(int64)
	return number, nil
}
