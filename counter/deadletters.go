package counter

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/segmentio/kafka-go"
)

// DeadLetterSuffix makes the name of the dead-letter topic of a topic.
const DeadLetterSuffix = "-dlq"

// resendGroup remembers which dead letters have been sent in again.
const resendGroup = "counter-dlq-resent"

// Headers of a dead letter.
const (
	headerReason    = "reason"
	headerTopic     = "origin-topic"
	headerPartition = "origin-partition"
	headerOffset    = "origin-offset"
)

func (c KafkaConfig) deadLetters() KafkaConfig {
	c.Topic += DeadLetterSuffix
	return c
}

// deadLetter is a record that could not be taken, with what is known of it.
func deadLetter(m kafka.Message, reason error) kafka.Message {
	return kafka.Message{Key: m.Key, Value: m.Value, Headers: []kafka.Header{
		{Key: headerReason, Value: []byte(reason.Error())},
		{Key: headerTopic, Value: []byte(m.Topic)},
		{Key: headerPartition, Value: []byte(strconv.Itoa(m.Partition))},
		{Key: headerOffset, Value: []byte(strconv.FormatInt(m.Offset, 10))},
	}}
}

// DeadLetter is a record that was no event, as it lies in the dead-letter topic.
type DeadLetter struct {
	Partition int
	Offset    int64
	Key       []byte
	Value     []byte
	// Reason, and where the record stood.
	Reason, Topic            string
	OriginPart, OriginOffset string
	// Resent says that it was sent in again.
	Resent bool
}

// DeadLetters calls see for each dead letter there is now, partition by
// partition, oldest first, and stops at its first error.
func (c KafkaConfig) DeadLetters(ctx context.Context, see func(DeadLetter) error) error {
	dead := c.deadLetters()
	ranges, err := dead.ranges(ctx, resendGroup)
	if err != nil {
		return fmt.Errorf("dead letters: %w", err)
	}
	for _, span := range ranges {
		if err := dead.readRange(ctx, span, see); err != nil {
			return fmt.Errorf("dead letters: %w", err)
		}
	}
	return nil
}

// ResendDeadLetters sends those that were not sent in again yet to the topic
// they came from, and says how many. What is no event still comes back as a new
// dead letter. A run that is killed sends some of them again: folding does not
// mind.
func (c KafkaConfig) ResendDeadLetters(ctx context.Context) (sent int, err error) {
	dead := c.deadLetters()
	ranges, err := dead.ranges(ctx, resendGroup)
	if err != nil {
		return 0, fmt.Errorf("resend: %w", err)
	}
	writer := c.writer()
	defer func() { err = errors.Join(err, closeWriter(writer)) }()
	for _, span := range ranges {
		span.first = max(span.first, span.committed)
		err := dead.readRange(ctx, span, func(d DeadLetter) error {
			sent++
			return writer.WriteMessages(ctx, kafka.Message{Key: d.Key, Value: d.Value})
		})
		if err != nil {
			return sent, fmt.Errorf("resend: %w", err)
		}
		if span.end <= span.first {
			continue
		}
		if err := dead.commit(ctx, resendGroup, span.partition, span.end); err != nil {
			return sent, fmt.Errorf("resend: %w", err)
		}
	}
	return sent, nil
}

func (c KafkaConfig) readRange(ctx context.Context, s span, see func(DeadLetter) error) (err error) {
	if s.end <= s.first {
		return nil
	}
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: c.Brokers, Topic: c.Topic, Partition: s.partition, Dialer: c.dialer(),
		MaxWait: maxWait, MaxBytes: maxFetch,
	})
	defer func() { err = errors.Join(err, reader.Close()) }()
	if err := reader.SetOffset(s.first); err != nil {
		return err
	}
	for {
		m, err := reader.ReadMessage(ctx)
		if err != nil {
			return err
		}
		d := DeadLetter{Partition: m.Partition, Offset: m.Offset, Key: m.Key, Value: m.Value, Resent: m.Offset < s.committed}
		for _, header := range m.Headers {
			switch header.Key {
			case headerReason:
				d.Reason = string(header.Value)
			case headerTopic:
				d.Topic = string(header.Value)
			case headerPartition:
				d.OriginPart = string(header.Value)
			case headerOffset:
				d.OriginOffset = string(header.Value)
			}
		}
		if err := see(d); err != nil {
			return err
		}
		if m.Offset >= s.end-1 {
			return nil
		}
	}
}
