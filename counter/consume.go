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

// Consumer is what everybody shares who reads the topic as a member of a group:
// joining, joining again when that fails or stalls, dead letters and commits.
// What is done with the records is a Taker's.
type Consumer struct {
	kafka  KafkaConfig
	group  string
	reader *kafka.Reader
	dead   *kafka.Writer
	log    *slog.Logger
	bad    atomic.Int64
}

// Taker works on what a Consumer brings. All calls come from one goroutine.
type Taker interface {
	// Take gathers a record, and says whether it is time for a step.
	Take(ctx context.Context, m kafka.Message) (full bool)
	// Step works off what was gathered, and commits what is done. It is called at
	// every tick and when Take says so. While it does not return nothing more is
	// read.
	Step(ctx context.Context)
	// Rejoin drops what would be committed: the group is joined again, and the
	// records will come again. What was gathered and not worked off stays.
	Rejoin()
}

// NewConsumer joins the group once Consume is called. Close it when that has
// returned.
func NewConsumer(config KafkaConfig, group string, log *slog.Logger) *Consumer {
	c := &Consumer{kafka: config, group: group, dead: config.deadLetters().writer(), log: log}
	c.join()
	return c
}

// join makes a reader, which joins the group at its first fetch.
func (c *Consumer) join() {
	c.reader = c.kafka.reader(c.group, func(format string, args ...any) {
		c.log.Debug("kafka reader", "says", fmt.Sprintf(format, args...))
	})
}

// Close leaves the group.
func (c *Consumer) Close() error { return errors.Join(c.reader.Close(), closeWriter(c.dead)) }

// BadRecords is how many records went to the dead letters.
func (c *Consumer) BadRecords() int64 { return c.bad.Load() }

// Consume brings records to t until ctx ends, with a step every window. It
// returns with ctx; what was taken and not worked off is t's to finish.
func (c *Consumer) Consume(ctx context.Context, window time.Duration, t Taker) {
	tick := time.NewTicker(window)
	defer tick.Stop()
	for {
		err := c.bring(ctx, tick.C, t)
		if ctx.Err() != nil {
			return
		}
		c.log.WarnContext(ctx, "joining the group again", "group", c.group, "err", err)
		c.rejoin(ctx, t, err)
	}
}

// errStalled says that records wait that nobody takes.
var errStalled = errors.New("records wait, and nobody takes them")

// bring passes on what the reader fetches, until that fails or ctx ends.
func (c *Consumer) bring(ctx context.Context, tick <-chan time.Time, t Taker) error {
	fetching, end := context.WithCancel(ctx)
	records, failed := make(chan kafka.Message), make(chan error, 1)
	reader := c.reader
	var fetch sync.WaitGroup
	fetch.Go(func() { failed <- fetchAll(fetching, reader, records) })
	defer fetch.Wait()
	defer end()

	watch := stallWatch{kafka: c.kafka, group: c.group}
	for {
		select {
		case m := <-records:
			watch.moved()
			if t.Take(ctx, m) {
				t.Step(ctx)
			}
		case <-tick:
			t.Step(ctx)
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

// rejoin takes another reader. What was done and not committed is given up: it
// will be delivered again, which no Taker minds, and after a topic was made anew
// its offsets mean other records.
func (c *Consumer) rejoin(ctx context.Context, t Taker, cause error) {
	t.Step(ctx)
	t.Rejoin()
	if err := c.reader.Close(); err != nil {
		c.log.WarnContext(ctx, "closing a reader", "err", err)
	}
	wait(ctx, time.Second)
	if errors.Is(cause, kafka.OffsetOutOfRange) {
		if err := c.kafka.rewind(ctx, c.group); err != nil {
			c.log.WarnContext(ctx, "group not set back to where the topic begins, trying again", "err", err)
		}
	}
	c.join()
}

// Letter makes a dead letter of a record that can't be taken, for Bury.
func (c *Consumer) Letter(ctx context.Context, m kafka.Message, reason error) kafka.Message {
	c.bad.Add(1)
	c.log.WarnContext(ctx, "record goes to the dead letters", "partition", m.Partition, "offset", m.Offset, "err", reason)
	return deadLetter(m, reason)
}

// Bury writes dead letters. That comes before the commit of their records: a
// kill in between repeats a dead letter, and loses none.
func (c *Consumer) Bury(ctx context.Context, letters []kafka.Message) error {
	if len(letters) == 0 {
		return nil
	}
	if err := c.dead.WriteMessages(ctx, letters...); err != nil {
		return fmt.Errorf("dead letters: %w", err)
	}
	return nil
}

// Commit says that everything up to the last record of each partition is done.
// Who fails tries again later and goes on meanwhile: a commit that a dead reader
// can't make must not keep the group from being joined again.
func (c *Consumer) Commit(ctx context.Context, last map[int]kafka.Message) error {
	messages := make([]kafka.Message, 0, len(last))
	for _, m := range last {
		messages = append(messages, m)
	}
	ctx, cancel := context.WithTimeout(ctx, kafkaTimeout)
	defer cancel()
	if err := c.reader.CommitMessages(ctx, messages...); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
