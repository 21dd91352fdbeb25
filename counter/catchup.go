package counter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/segmentio/kafka-go"
)

// CatchUp brings the archive up to what the topic holds, straight from the
// partitions and without joining a group: whoever restores can't wait for a
// group to form. The archiver may do the same beside it.
type CatchUp struct {
	kafka   KafkaConfig
	group   string
	archive Archive
}

// NewCatchUp starts where group, that of the archiver, has committed.
func NewCatchUp(config KafkaConfig, group string, archive Archive) *CatchUp {
	return &CatchUp{kafka: config, group: group, archive: archive}
}

const (
	catchUpBatch = 4000
	// catchUpTries bounds fetches that bring nothing although records are there.
	catchUpTries = 20
)

// Run applies what lies between the group's committed offsets and the ends that
// the partitions have now, and returns how many events that were. What can't be
// applied is left to the archiver, which has a place for it.
func (c *CatchUp) Run(ctx context.Context) (int, error) {
	limited, cancel := context.WithTimeout(ctx, 2*kafkaTimeout)
	client, done := c.kafka.client()
	defer done()
	spans, err := c.kafka.rangesBy(limited, client, c.group)
	cancel()
	if err != nil {
		return 0, fmt.Errorf("catch up: %w", err)
	}
	applied := 0
	for _, s := range spans {
		if s.committed <= s.end { // else the topic was made anew
			s.first = max(s.first, s.committed)
		}
		n, err := c.partition(ctx, client, s)
		applied += n
		if err != nil {
			return applied, fmt.Errorf("catch up with partition %d: %w", s.partition, err)
		}
	}
	return applied, nil
}

// Lag is how many records the group has not committed yet.
func (c *CatchUp) Lag(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*kafkaTimeout)
	defer cancel()
	spans, err := c.kafka.ranges(ctx, c.group)
	if err != nil {
		return 0, fmt.Errorf("lag of %s: %w", c.group, err)
	}
	lag := int64(0)
	for _, s := range spans {
		lag += max(s.end-max(s.first, s.committed), 0)
	}
	return lag, nil
}

func (c *CatchUp) partition(ctx context.Context, client *kafka.Client, s span) (applied int, err error) {
	var events []Event
	flush := func() error {
		if len(events) == 0 {
			return nil
		}
		_, err := c.archive.Apply(ctx, events)
		applied += len(events)
		events = events[:0]
		return err
	}
	empty := 0
	for at := s.first; at < s.end; {
		next, err := c.kafka.fetch(ctx, client, s.partition, at, func(value []byte) error {
			event, _, err := DecodeEvent(value)
			if err != nil {
				return nil //nolint:nilerr // the archiver sends it to the dead letters
			}
			if events = append(events, event); len(events) < catchUpBatch {
				return nil
			}
			return flush()
		})
		switch {
		case errors.Is(err, kafka.OffsetOutOfRange):
			return applied, flush() // retention has passed it
		case err != nil:
			return applied, err
		case next > at:
			at, empty = next, 0
			continue
		}
		if empty++; empty == catchUpTries {
			return applied, fmt.Errorf("nothing at offset %d of %d", at, s.end)
		}
	}
	return applied, flush()
}

// fetch calls see with the values of the records from offset on that one request
// brings, and returns the offset behind them.
func (c KafkaConfig) fetch(ctx context.Context, client *kafka.Client, partition int, offset int64, see func([]byte) error) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // see may wait for SQL
	defer cancel()
	reply, err := client.Fetch(ctx, &kafka.FetchRequest{
		Topic: c.Topic, Partition: partition, Offset: offset, MinBytes: 1, MaxBytes: maxFetch, MaxWait: maxWait,
	})
	if err != nil {
		return offset, err
	}
	if reply.Error != nil {
		return offset, reply.Error
	}
	for {
		record, err := reply.Records.ReadRecord()
		if errors.Is(err, io.EOF) {
			return offset, nil
		}
		if err != nil {
			return offset, err
		}
		if record.Offset < offset {
			continue // batches begin where they begin
		}
		value, err := kafka.ReadAll(record.Value)
		if err != nil {
			return offset, err
		}
		if err := see(value); err != nil {
			return offset, err
		}
		offset = record.Offset + 1
	}
}
