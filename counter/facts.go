package counter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

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

	outcome, values, err := f.toggle(ctx, permit{key: epochKey(s.Tag())}, viewer, s, m, ordinal, want)
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

// permit is what lets a script change facts: an epoch, or the token of a lease.
type permit struct{ key, token string }

func (f *Facts) toggle(ctx context.Context, p permit, viewer Viewer, s Subject, m Metric, ordinal Ordinal, want bool) (Outcome, [7]string, error) {
	k := keysOf(s)
	state := "0"
	if want {
		state = "1"
	}
	run := call{
		keys: []string{
			p.key, k.gone(), outboxKey(s.Tag()),
			k.few(Like), k.n(Like), k.chunkFew(Like, ordinal.chunk()), k.bitmap(Like, ordinal.chunk()),
			k.few(Fav), k.n(Fav), k.chunkFew(Fav, ordinal.chunk()), k.bitmap(Fav, ordinal.chunk()),
			k.chunks(m),
		},
		args: []any{
			state, int(m), uint32(ordinal), ordinal.chunk(), ordinal.offset(),
			f.config.ContainerLimit, f.config.OutboxLimit, k.subject, m.String(), string(viewer),
		},
	}
	if p.token != "" {
		run.args = append(run.args, p.token)
	}
	for range promotions {
		reply, err := status(f.redis.run(ctx, lua.Toggle, run)[0])
		var full *fullError
		if errors.As(err, &full) {
			if err := f.promote(ctx, p, s, m, ordinal.chunk(), full.container); err != nil {
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
	version, err := ParseVersion(id)
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
