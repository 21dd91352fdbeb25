package counter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
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
	redis  *Redis
	kafka  KafkaConfig
	reader *kafka.Reader
	dead   *kafka.Writer
	config AggregatorConfig
	log    *slog.Logger

	changed     batch     // since the last flush
	settling    []batch   // folded, offsets not committed yet
	settleAfter time.Time // a commit has failed: not before then
	bad         atomic.Int64
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
	a := &Aggregator{
		redis: r, kafka: kafkaConfig, dead: kafkaConfig.deadLetters().writer(),
		config: config, log: log, changed: newBatch(),
	}
	a.join()
	return a
}

// join makes a reader, which joins the group at its first fetch.
func (a *Aggregator) join() {
	a.reader = a.kafka.reader(a.config.Group, func(format string, args ...any) {
		a.log.Debug("kafka reader", "says", fmt.Sprintf(format, args...))
	})
}

// Close leaves the group.
func (a *Aggregator) Close() error { return errors.Join(a.reader.Close(), a.dead.Close()) }

// BadRecords is how many records of the topic were no events.
func (a *Aggregator) BadRecords() int64 { return a.bad.Load() }

// Run folds until ctx ends; then it folds and commits what it has taken. It
// holds what it can't fold, since Redis is away, and reads no further.
func (a *Aggregator) Run(ctx context.Context) error {
	tick := time.NewTicker(a.config.Window)
	defer tick.Stop()
	for {
		err := a.consume(ctx, tick.C)
		if ctx.Err() != nil {
			return a.drain(ctx)
		}
		a.log.WarnContext(ctx, "joining the group again", "err", err)
		a.rejoin(ctx, err)
	}
}

// errStalled says that records wait that nobody takes.
var errStalled = errors.New("records wait, and nobody takes them")

// consume folds what the reader brings, until that fails or ctx ends.
func (a *Aggregator) consume(ctx context.Context, tick <-chan time.Time) error {
	fetching, end := context.WithCancel(ctx)
	records, failed := make(chan kafka.Message), make(chan error, 1)
	reader := a.reader
	var fetch sync.WaitGroup
	fetch.Go(func() { failed <- fetchAll(fetching, reader, records) })
	defer fetch.Wait()
	defer end()

	watch := stallWatch{kafka: a.kafka, group: a.config.Group}
	for {
		select {
		case m := <-records:
			watch.moved()
			a.take(ctx, m)
			if a.changed.records >= a.config.MaxChanges {
				a.step(ctx)
			}
		case <-tick:
			a.step(ctx)
			if watch.stalled(ctx) {
				return errStalled
			}
		case err := <-failed:
			return err
		}
	}
}

// fetchAll passes records on until ctx ends or the reader fails.
func fetchAll(ctx context.Context, reader *kafka.Reader, records chan<- kafka.Message) error {
	for {
		m, err := reader.FetchMessage(ctx)
		if err != nil {
			return err
		}
		select {
		case records <- m:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// rejoin takes another reader. What was folded and not committed is given up: it
// will be delivered again, which folding does not mind, and after a topic was
// made anew its offsets mean other records.
func (a *Aggregator) rejoin(ctx context.Context, cause error) {
	a.step(ctx)
	a.settling = nil
	clear(a.changed.last)
	if err := a.reader.Close(); err != nil {
		a.log.WarnContext(ctx, "closing a reader", "err", err)
	}
	wait(ctx, time.Second)
	if errors.Is(cause, kafka.OffsetOutOfRange) {
		if err := a.kafka.rewind(ctx, a.config.Group); err != nil {
			a.log.WarnContext(ctx, "group not set back to where the topic begins, trying again", "err", err)
		}
	}
	a.join()
}

// take adds a record to the window. One that is no event holds nobody up.
func (a *Aggregator) take(ctx context.Context, m kafka.Message) {
	a.changed.records++
	a.changed.last[m.Partition] = m
	event, subject, err := DecodeEvent(m.Value)
	if err != nil {
		a.bad.Add(1)
		a.changed.dead = append(a.changed.dead, deadLetter(m, err))
		a.log.WarnContext(ctx, "record goes to the dead letters", "partition", m.Partition, "offset", m.Offset, "err", err)
		return
	}
	version, _ := parseVersion(event.Version) // DecodeEvent has checked it
	a.changed.subjects[subject] = max(a.changed.subjects[subject], version)
}

// step flushes the window, and does not give up before ctx ends: what can't be
// folded is held, and nothing more is read. Then it settles what is old enough;
// if that fails, a later step tries again, since a commit that a dead reader
// can't make must not keep the group from being joined again.
func (a *Aggregator) step(ctx context.Context) {
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
	// Before the offsets pass them: a kill in between repeats a dead letter, and
	// loses none.
	if len(a.changed.dead) > 0 {
		if err := a.dead.WriteMessages(ctx, a.changed.dead...); err != nil {
			return fmt.Errorf("dead letters: %w", err)
		}
		a.changed.dead = nil
	}
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
	last := make([]kafka.Message, 0, len(due.last))
	for _, m := range due.last {
		last = append(last, m)
	}
	commit, cancel := context.WithTimeout(ctx, kafkaTimeout)
	defer cancel()
	if err := a.reader.CommitMessages(commit, last...); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	a.settling = a.settling[n:]
	return nil
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
