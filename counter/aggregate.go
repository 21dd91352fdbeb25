package counter

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/segmentio/kafka-go"
)

// AggregatorConfig has a usable zero value.
type AggregatorConfig struct {
	// Group is the consumer group. "" means AggregatorGroup.
	Group string
	// Window is for how long changes of a subject are gathered before it is
	// folded. 0 means 200 ms.
	Window time.Duration
	// MaxChanges ends a window early. 0 means 10,000.
	MaxChanges int
	// Settle is how long after its first fold a subject is folded once more
	// before the offsets of its events are committed. A Redis with appendfsync
	// everysec may lose the last two seconds in a crash: the folds, but not the
	// facts or the acknowledgements before them. Then nothing else would bring
	// the snapshot up to date. Negative means 0, for a Redis that keeps nothing;
	// 0 means 3 s.
	Settle time.Duration
	// OnMalformed, when set, is told of a subject that needs a deep recount. It
	// must not block.
	OnMalformed func(Subject)
}

// Aggregator gathers the subjects that changed and folds them. Any number may
// run; Kafka gives each its partitions.
type Aggregator struct {
	*Consumer

	redis  *Redis
	config AggregatorConfig

	changed     batch     // since the last flush
	settling    []batch   // folded, offsets not committed yet
	settleAfter time.Time // a commit has failed: not before then
}

// batch is what was gathered: for each subject the highest version, and for
// each partition the last record taken.
type batch struct {
	subjects map[Subject]Version
	last     map[int]kafka.Message
	dead     []kafka.Message // records that were no events
	records  int
	folded   time.Time
}

func newBatch() batch {
	return batch{subjects: map[Subject]Version{}, last: map[int]kafka.Message{}}
}

func (b batch) add(other batch) {
	for s, version := range other.subjects {
		b.subjects[s] = max(b.subjects[s], version)
	}
	for partition, m := range other.last {
		b.last[partition] = m
	}
}

// NewAggregator joins the group once Run is called. Close it when Run has
// returned.
func NewAggregator(r *Redis, kafkaConfig KafkaConfig, log *slog.Logger, config AggregatorConfig) *Aggregator {
	if config.Group == "" {
		config.Group = AggregatorGroup
	}
	if config.Window == 0 {
		config.Window = 200 * time.Millisecond
	}
	if config.MaxChanges == 0 {
		config.MaxChanges = 10_000
	}
	if config.Settle == 0 {
		config.Settle = 3 * time.Second
	}
	if config.OnMalformed == nil {
		config.OnMalformed = func(Subject) {}
	}
	return &Aggregator{
		Consumer: NewConsumer(kafkaConfig, config.Group, log),
		redis:    r, config: config, changed: newBatch(),
	}
}

// Run folds until ctx ends; then it folds and commits what it has taken. It
// holds what it can't fold, since Redis is away, and reads no further.
func (a *Aggregator) Run(ctx context.Context) error {
	a.Consume(ctx, a.config.Window, a)
	return a.drain(ctx)
}

// Rejoin is part of Taker.
func (a *Aggregator) Rejoin() {
	a.settling = nil
	clear(a.changed.last)
}

// Take is part of Taker. A record that is no event holds nobody up.
func (a *Aggregator) Take(ctx context.Context, m kafka.Message) bool {
	a.changed.records++
	a.changed.last[m.Partition] = m
	event, subject, err := DecodeEvent(m.Value)
	if err != nil {
		a.changed.dead = append(a.changed.dead, a.Letter(ctx, m, err))
	} else {
		version, _ := ParseVersion(event.Version) // DecodeEvent has checked it
		a.changed.subjects[subject] = max(a.changed.subjects[subject], version)
	}
	return a.changed.records >= a.config.MaxChanges
}

// Step is part of Taker. It flushes the window, and does not give up before ctx
// ends: what can't be folded is held. Then it settles what is old enough; if
// that fails, a later step tries again.
func (a *Aggregator) Step(ctx context.Context) {
	pause := a.config.Window
	for {
		err := a.Flush(ctx)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return
		}
		a.log.WarnContext(ctx, "not folded, trying again", "subjects", len(a.changed.subjects), "in", pause, "err", err)
		wait(ctx, pause)
		pause = min(2*pause, 2*time.Second)
	}
	now := time.Now()
	if now.Before(a.settleAfter) {
		return
	}
	if err := a.settle(ctx, now.Add(-a.config.Settle)); err != nil && ctx.Err() == nil {
		a.settleAfter = time.Now().Add(settlePause)
		a.log.WarnContext(ctx, "not committed, trying again", "in", settlePause, "err", err)
	}
}

// settlePause keeps a commit that fails from being tried at every tick.
const settlePause = time.Second

// drain folds and commits what was taken. It does so on a context of its own,
// since the one of Run has ended.
func (a *Aggregator) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.config.Settle+drainTimeout)
	defer cancel()
	if err := a.Flush(ctx); err != nil {
		return fmt.Errorf("last flush: %w", err)
	}
	if len(a.settling) > 0 {
		wait(ctx, time.Until(a.settling[len(a.settling)-1].folded.Add(a.config.Settle)))
	}
	if err := a.settle(ctx, time.Now()); err != nil {
		return fmt.Errorf("last commit: %w", err)
	}
	return nil
}

// Flush folds all subjects of the window, and hands over its dead letters. What
// was not folded stays in it.
func (a *Aggregator) Flush(ctx context.Context) error {
	if len(a.changed.last) == 0 {
		return nil
	}
	if err := a.fold(ctx, a.changed.subjects); err != nil {
		return err
	}
	if err := a.Bury(ctx, a.changed.dead); err != nil {
		return err
	}
	a.changed.dead = nil
	now := time.Now()
	done := a.changed
	a.changed = newBatch()
	// Batches of one second settle together: a hot subject is folded again once.
	if n := len(a.settling); n > 0 && now.Sub(a.settling[n-1].folded) < time.Second && a.config.Settle > 0 {
		a.settling[n-1].add(done)
		return nil
	}
	done.folded = now
	a.settling = append(a.settling, done)
	return nil
}

// settle folds again what was first folded before the given time, and commits
// its offsets. Batches that joined another within its second are up to a second
// younger, which Settle leaves room for.
func (a *Aggregator) settle(ctx context.Context, before time.Time) error {
	due := newBatch()
	n := 0
	for n < len(a.settling) && !a.settling[n].folded.After(before) {
		due.add(a.settling[n])
		n++
	}
	if n == 0 {
		return nil
	}
	if a.config.Settle > 0 {
		if err := a.fold(ctx, due.subjects); err != nil {
			return err
		}
	}
	if err := a.Commit(ctx, due.last); err != nil {
		return err
	}
	a.settling = a.settling[n:]
	return nil
}
