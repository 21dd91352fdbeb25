package counter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/segmentio/kafka-go"

	"github.com/tallyfeed/tallyfeed/lua"
)

const (
	publishBatch = 1000
	publishQueue = 10_000
	drainTimeout = 4 * time.Second
)

// Publisher takes changes from the outbox to Kafka. An entry leaves the outbox
// only after the broker has acknowledged it.
type Publisher struct {
	redis  *Redis
	writer *kafka.Writer
	queue  chan Change
	log    *slog.Logger
}

// NewPublisher returns a Publisher. Close it when Run has returned.
func NewPublisher(r *Redis, config KafkaConfig, log *slog.Logger) *Publisher {
	return &Publisher{redis: r, writer: config.writer(), queue: make(chan Change, publishQueue), log: log}
}

// Close closes the connections to Kafka.
func (p *Publisher) Close() error { return closeWriter(p.writer) }

// Offer hands over a change that this process has just made. It never blocks:
// when Kafka is so slow that the queue is full, the entry stays in the outbox
// and the sweeper sends it.
func (p *Publisher) Offer(c Change) {
	select {
	case p.queue <- c:
	default:
	}
}

// Run publishes what is offered until ctx ends, then what was offered before
// that, within a few seconds. What it can't send stays in the outbox.
func (p *Publisher) Run(ctx context.Context) error {
	for {
		select {
		case c := <-p.queue:
			p.publish(context.WithoutCancel(ctx), p.batch(c))
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
			defer cancel()
			for len(p.queue) > 0 && last.Err() == nil {
				p.publish(last, p.batch(<-p.queue))
			}
			return nil
		}
	}
}

// batch takes what else is waiting.
func (p *Publisher) batch(first Change) []Change {
	batch := []Change{first}
	for len(batch) < publishBatch {
		select {
		case c := <-p.queue:
			batch = append(batch, c)
		default:
			return batch
		}
	}
	return batch
}

func (p *Publisher) publish(ctx context.Context, changes []Change) {
	if _, err := p.send(ctx, changes); err != nil {
		p.log.WarnContext(ctx, "changes not published, they wait in the outbox", "changes", len(changes), "err", err)
	}
}

// send publishes changes and removes from the outbox what the broker has
// acknowledged; it says how many that were. The same change may be sent twice:
// folding does not mind.
func (p *Publisher) send(ctx context.Context, changes []Change) (int, error) {
	messages := make([]kafka.Message, 0, len(changes))
	for _, c := range changes {
		event, _, err := c.entry.event()
		if err != nil {
			return 0, fmt.Errorf("outbox entry of %s: %w", c.subject, err)
		}
		value, err := json.Marshal(event)
		if err != nil {
			return 0, fmt.Errorf("event of %s: %w", c.subject, err)
		}
		messages = append(messages, kafka.Message{Key: []byte(c.subject.String()), Value: value})
	}
	err := p.writer.WriteMessages(ctx, messages...)
	var each kafka.WriteErrors
	if err != nil && !errors.As(err, &each) {
		return 0, fmt.Errorf("publish: %w", err)
	}
	acked := changes
	if each != nil {
		acked = nil
		for i, failed := range each {
			if failed == nil {
				acked = append(acked, changes[i])
			} else {
				err = failed
			}
		}
	}
	if ackErr := p.ack(ctx, acked); ackErr != nil {
		// They will be sent again, which is harmless.
		return len(acked), errors.Join(err, ackErr)
	}
	if err != nil {
		return len(acked), fmt.Errorf("publish: %w", err)
	}
	return len(acked), nil
}

// drain sends what lies in the outbox of a tag, without a lease: what goes twice
// does no harm. It returns when it has come to the end.
func (p *Publisher) drain(ctx context.Context, t Tag) error {
	from := "-"
	for {
		found, err := p.redis.reads.XRangeN(ctx, outboxKey(t), from, "+", sweepBatch).Result()
		if err != nil {
			return fmt.Errorf("read outbox: %w", err)
		}
		if len(found) == 0 {
			return nil
		}
		if _, err := p.sendEntries(ctx, t, found); err != nil {
			return err
		}
		from = "(" + found[len(found)-1].ID
	}
}

// DrainAll sends what lies in all outboxes now.
func (p *Publisher) DrainAll(ctx context.Context) error {
	for t := range Tags {
		if err := p.drain(ctx, Tag(t)); err != nil {
			return err
		}
	}
	return nil
}

// sendEntries sends what was read from the outbox of a tag.
func (p *Publisher) sendEntries(ctx context.Context, t Tag, found []redis.XMessage) (int, error) {
	changes := make([]Change, 0, len(found))
	for _, message := range found {
		change, err := changeOf(message)
		if err != nil {
			p.log.ErrorContext(ctx, "an outbox entry is not ours and stays", "key", outboxKey(t), "id", message.ID, "err", err)
			continue
		}
		changes = append(changes, change)
	}
	if len(changes) == 0 {
		return 0, nil
	}
	return p.send(ctx, changes)
}

func (p *Publisher) ack(ctx context.Context, changes []Change) error {
	if len(changes) == 0 {
		return nil
	}
	byTag := map[Tag]*call{}
	for _, c := range changes {
		tag := c.subject.Tag()
		run := byTag[tag]
		if run == nil {
			run = &call{keys: []string{outboxKey(tag)}}
			byTag[tag] = run
		}
		run.args = append(run.args, c.entry.id)
		for _, value := range c.entry.values {
			run.args = append(run.args, value)
		}
	}
	calls := make([]call, 0, len(byTag))
	for _, run := range byTag {
		calls = append(calls, *run)
	}
	var first error
	for _, reply := range p.redis.run(ctx, lua.Ack, calls...) {
		first = firstOf(first, reply.Err())
	}
	if first != nil {
		return fmt.Errorf("acknowledge: %w", first)
	}
	return nil
}
