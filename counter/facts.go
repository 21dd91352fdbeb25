package counter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tallyfeed/tallyfeed/lua"
)

// FactsConfig has a usable zero value.
type FactsConfig struct {
	// ContainerLimit is how many members a set may hold before it is promoted.
	// 0 means 512, Redis's own limit for the compact form of such a set.
	ContainerLimit int
	// OutboxLimit is how many changes of a tag may wait for Kafka. 0 means 10,000.
	OutboxLimit int
	// Remember is how long a viewer's own change is remembered for the viewer's
	// pages. 0 means a minute: longer than a dead aggregator's partitions idle.
	Remember time.Duration
	// Full, when set, is asked before each change; true refuses it.
	Full func() bool
	// OnChange, when set, is told of each change once. It must not block.
	OnChange func(Change)
	// OnMalformed, when set, is told of a subject that needs a deep recount. It
	// must not block.
	OnMalformed func(Subject)
}

// Change is an entry of the outbox on its way to Kafka.
type Change struct {
	subject Subject
	entry   entry
}

// Facts changes who likes what.
type Facts struct {
	redis    *Redis
	ordinals *Ordinals
	config   FactsConfig
	log      *slog.Logger
}

// NewFacts returns Facts on redis.
func NewFacts(r *Redis, ordinals *Ordinals, log *slog.Logger, config FactsConfig) *Facts {
	if config.ContainerLimit == 0 {
		config.ContainerLimit = 512
	}
	if config.OutboxLimit == 0 {
		config.OutboxLimit = 10_000
	}
	if config.Remember == 0 {
		config.Remember = time.Minute
	}
	if config.Full == nil {
		config.Full = func() bool { return false }
	}
	if config.OnChange == nil {
		config.OnChange = func(Change) {}
	}
	if config.OnMalformed == nil {
		config.OnMalformed = func(Subject) {}
	}
	return &Facts{redis: r, ordinals: ordinals, config: config, log: log}
}

// Outcome is what became of a Set.
type Outcome struct {
	// Changed says whether this call changed the fact.
	Changed bool
	// Counts are those of the facts, right after the call.
	Counts Counts
	// Liked and Faved are the viewer's own facts, right after the call.
	Liked, Faved bool
}

// writeTimeout bounds what a change may wait for Redis, promotions included.
const writeTimeout = 2 * time.Second

// Set puts one fact in the wanted state. Repeating it is safe: it reports
// Changed false and the same counts. Errors: ErrGone, ErrNoEpoch,
// ErrOverloaded, *MalformedError; after any other (a lost reply) the fact may
// be in either state, and the next Set tells.
func (f *Facts) Set(ctx context.Context, viewer Viewer, s Subject, m Metric, want bool) (Outcome, error) {
	if f.config.Full() {
		return Outcome{}, ErrOverloaded
	}
	ordinal, err := f.ordinals.Assign(ctx, viewer)
	if err != nil {
		return Outcome{}, fmt.Errorf("ordinal of a viewer: %w", err)
	}
	// A process that was stopped for a while must not carry out what its client
	// has given up, and perhaps undone through another server, since then. Once
	// the script is on its way there is no way back: then who hangs up must not
	// leave a change behind that nobody publishes until the sweeper comes.
	if err := ctx.Err(); err != nil {
		return Outcome{}, fmt.Errorf("set %s of %s: %w", m, s, err)
	}
	deadline := time.Now().Add(writeTimeout)
	if given, ok := ctx.Deadline(); ok && given.Before(deadline) {
		deadline = given
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()

	outcome, values, err := f.toggle(ctx, viewer, s, m, ordinal, want)
	if err != nil {
		tellMalformed(err, s, f.config.OnMalformed)
		return Outcome{}, fmt.Errorf("set %s of %s: %w", m, s, err)
	}
	if outcome.Changed {
		f.config.OnChange(Change{subject: s, entry: entry{id: outcome.Counts.Version.String(), values: values}})
	}
	if err := f.remember(ctx, viewer, s, ordinal, outcome.Counts); err != nil {
		f.log.WarnContext(ctx, "own change not remembered: the viewer's next pages may show the count before it", "err", err)
	}
	return outcome, nil
}

// promotions bounds how often one change may find its container full: twice is
// what it takes, more only when others promote at the same time.
const promotions = 8

func (f *Facts) toggle(ctx context.Context, viewer Viewer, s Subject, m Metric, ordinal Ordinal, want bool) (Outcome, [7]string, error) {
	k := keysOf(s)
	state := "0"
	if want {
		state = "1"
	}
	run := call{
		keys: []string{
			epochKey(s.tag()), k.gone(), outboxKey(s.tag()),
			k.few(Like), k.n(Like), k.chunkFew(Like, ordinal.chunk()), k.bitmap(Like, ordinal.chunk()),
			k.few(Fav), k.n(Fav), k.chunkFew(Fav, ordinal.chunk()), k.bitmap(Fav, ordinal.chunk()),
			k.chunks(m),
		},
		args: []any{
			state, int(m), uint32(ordinal), ordinal.chunk(), ordinal.offset(),
			f.config.ContainerLimit, f.config.OutboxLimit, k.subject, m.String(), string(viewer),
		},
	}
	for range promotions {
		reply, err := status(f.redis.run(ctx, lua.Toggle, run)[0])
		var full *fullError
		if errors.As(err, &full) {
			if err := f.promote(ctx, s, m, ordinal.chunk(), full.container); err != nil {
				return Outcome{}, [7]string{}, err
			}
			continue
		}
		if err != nil {
			return Outcome{}, [7]string{}, err
		}
		return toggled(reply, viewer, k.subject, m, ordinal, want)
	}
	return Outcome{}, [7]string{}, errors.New("container stays full")
}

// toggled reads toggle.lua's {changed, like, fav, version, liked, faved}, and says
// what the script wrote to the outbox.
func toggled(reply []any, viewer Viewer, subject string, m Metric, ordinal Ordinal, want bool) (Outcome, [7]string, error) {
	if len(reply) != 6 {
		return Outcome{}, [7]string{}, errShape
	}
	id, _ := reply[3].(string)
	version, err := parseVersion(id)
	if err != nil {
		return Outcome{}, [7]string{}, errShape
	}
	var numbers [6]int64
	for i := range numbers {
		number, ok := reply[i].(int64)
		if !ok && i != 3 {
			return Outcome{}, [7]string{}, errShape
		}
		numbers[i] = number
	}
	like, fav := numbers[1], numbers[2]
	outcome := Outcome{
		Changed: numbers[0] == 1,
		Counts:  Counts{Like: saturate(like), Fav: saturate(fav), Version: version},
		Liked:   numbers[4] == 1,
		Faved:   numbers[5] == 1,
	}
	delta := "1"
	if !want {
		delta = "-1"
	}
	return outcome, [7]string{
		subject, m.String(), string(viewer), strconv.FormatUint(uint64(ordinal), 10), delta,
		strconv.FormatInt(like, 10), strconv.FormatInt(fav, 10),
	}, nil
}

// promote moves a full container. Somebody else may do so at the same time.
func (f *Facts) promote(ctx context.Context, s Subject, m Metric, chunk uint32, container string) error {
	k := keysOf(s)
	run := call{
		keys: []string{epochKey(s.tag()), k.gone(), k.chunkFew(m, chunk), k.bitmap(m, chunk)},
		args: []any{"chunk"},
	}
	if container == "few" {
		members, err := f.redis.writes.SMembers(ctx, k.few(m)).Result()
		if err != nil {
			return fmt.Errorf("promote: %w", err)
		}
		run = call{
			keys: []string{epochKey(s.tag()), k.gone(), k.few(m), k.n(m), k.chunks(m)},
			args: []any{"few"},
		}
		named := map[uint32]bool{}
		for _, member := range members {
			ordinal, err := strconv.ParseUint(member, 10, 32)
			if err != nil {
				return &MalformedError{Key: k.few(m)}
			}
			if c := Ordinal(ordinal).chunk(); !named[c] {
				named[c] = true
				run.keys = append(run.keys, k.chunkFew(m, c))
				run.args = append(run.args, c)
			}
		}
	}
	word, err := f.redis.run(ctx, lua.Promote, run)[0].Text()
	switch {
	case err != nil:
		return fmt.Errorf("promote: %w", overloadedIfFull(err))
	case word == "gone":
		return ErrGone
	case word == "no epoch":
		return ErrNoEpoch
	case word == "ok", word == "declined": // toggle.lua asks again if need be
		return nil
	}
	return fmt.Errorf("%w: %q", errShape, word)
}

// Tombstones outlive Kafka's retention of 7 days, so no late event finds a
// deleted subject without one.
const tombstoneLife = 8 * 24 * time.Hour

// deleteStep is how many chunks one script run deletes.
const deleteStep = 64

// Delete removes all facts and the snapshot of s and keeps it deleted. It works
// in bounded steps, and goes on where a killed one ended; a second call finds
// nothing left. It needs no epoch.
func (f *Facts) Delete(ctx context.Context, s Subject) error {
	k := keysOf(s)
	var chunks [metrics][]string
	for {
		run := call{
			keys: []string{
				k.gone(), outboxKey(s.tag()), k.snapshot(),
				k.few(Like), k.n(Like), k.chunks(Like),
				k.few(Fav), k.n(Fav), k.chunks(Fav),
			},
			args: []any{int(tombstoneLife.Seconds()), k.subject},
		}
		for m, numbers := range chunks {
			for _, number := range numbers {
				chunk, err := strconv.ParseUint(number, 10, 32)
				if err != nil {
					return fmt.Errorf("delete %s: %w", s, &MalformedError{Key: k.chunks(Metric(m))})
				}
				run.keys = append(run.keys, k.bitmap(Metric(m), uint32(chunk)), k.chunkFew(Metric(m), uint32(chunk)))
				run.args = append(run.args, m, number)
			}
		}
		left, err := f.redis.run(ctx, lua.Delete, run)[0].Int()
		if err != nil {
			return fmt.Errorf("delete %s: %w", s, err)
		}
		if left == 0 {
			return nil
		}
		if chunks, err = f.someChunks(ctx, k); err != nil {
			return fmt.Errorf("delete %s: %w", s, err)
		}
	}
}

func (f *Facts) someChunks(ctx context.Context, k keys) (chunks [metrics][]string, err error) {
	pipe := f.redis.writes.Pipeline()
	var some [metrics]*redis.StringSliceCmd
	for m := range Metric(metrics) {
		some[m] = pipe.SRandMemberN(ctx, k.chunks(m), deleteStep)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return chunks, err
	}
	for m := range some {
		chunks[m] = some[m].Val()
	}
	return chunks, nil
}
