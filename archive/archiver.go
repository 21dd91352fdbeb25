package archive

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/tallyfeed/tallyfeed/counter"
)

// Group is the consumer group that archives.
const Group = "counter-archive"

// ArchiverConfig has a usable zero value.
type ArchiverConfig struct {
	// Group is the consumer group. "" means Group.
	Group string
	// Window is for how long events are gathered before they are written. 0 means
	// 200 ms.
	Window time.Duration
	// MaxEvents ends a window early. 0 means 4,000.
	MaxEvents int
}

// Archiver takes events from Kafka into the Store. Any number may run; Kafka
// gives each its partitions. Offsets are committed after the rows are, so a kill
// repeats a batch and loses none.
type Archiver struct {
	*counter.Consumer

	store  *Store
	config ArchiverConfig
	log    *slog.Logger

	events  []counter.Event
	records []kafka.Message // those of events
	letters []kafka.Message
	last    map[int]kafka.Message // of each partition, not committed
	retryAt time.Time             // a commit has failed: not before then
}

const (
	// writeTimeout bounds one try of a batch. On SQLite others may write first.
	writeTimeout = 30 * time.Second
	drainTimeout = 4 * time.Second
	maxPause     = 5 * time.Second
	commitPause  = time.Second
)

// NewArchiver joins the group once Run is called. Close it when Run has
// returned.
func NewArchiver(store *Store, kafkaConfig counter.KafkaConfig, log *slog.Logger, config ArchiverConfig) *Archiver {
	if config.Group == "" {
		config.Group = Group
	}
	if config.Window == 0 {
		config.Window = 200 * time.Millisecond
	}
	if config.MaxEvents == 0 {
		config.MaxEvents = 4000
	}
	return &Archiver{
		Consumer: counter.NewConsumer(kafkaConfig, config.Group, log),
		store:    store, config: config, log: log, last: map[int]kafka.Message{},
	}
}

// Run archives until ctx ends; then it writes and commits what it has taken. It
// holds what it can't write, since SQL is away, and reads no further.
func (a *Archiver) Run(ctx context.Context) error {
	a.Consume(ctx, a.config.Window, a)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if err := a.write(last); err != nil {
		return fmt.Errorf("last events not archived, they come again: %w", err)
	}
	return a.commit(last)
}

// Take is part of counter.Taker.
func (a *Archiver) Take(ctx context.Context, m kafka.Message) bool {
	a.last[m.Partition] = m
	event, _, err := counter.DecodeEvent(m.Value)
	if err != nil {
		a.letters = append(a.letters, a.Letter(ctx, m, err))
	} else {
		a.events, a.records = append(a.events, event), append(a.records, m)
	}
	return len(a.events)+len(a.letters) >= a.config.MaxEvents
}

// Step is part of counter.Taker. It does not give up before ctx ends.
func (a *Archiver) Step(ctx context.Context) {
	pause := a.config.Window
	for {
		err := a.write(ctx)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return
		}
		a.log.WarnContext(ctx, "not archived, trying again", "events", len(a.events), "in", pause, "err", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, maxPause)
	}
	if time.Now().Before(a.retryAt) {
		return
	}
	if err := a.commit(ctx); err != nil && ctx.Err() == nil {
		a.retryAt = time.Now().Add(commitPause)
		a.log.WarnContext(ctx, "not committed, trying again", "in", commitPause, "err", err)
	}
}

// Rejoin is part of counter.Taker.
func (a *Archiver) Rejoin() { clear(a.last) }

// write brings what was gathered into the store, and hands over the dead
// letters. What a failure leaves is gathered still.
func (a *Archiver) write(ctx context.Context) error {
	if len(a.events) > 0 {
		limited, cancel := context.WithTimeout(ctx, writeTimeout)
		defer cancel()
		refused, err := a.store.Apply(limited, a.events)
		if err != nil {
			return err
		}
		for i, m := range a.records {
			if reason := refused[i]; reason != nil {
				a.letters = append(a.letters, a.Letter(ctx, m, reason))
			}
		}
		a.events, a.records = a.events[:0], a.records[:0]
	}
	if err := a.Bury(ctx, a.letters); err != nil {
		return err
	}
	a.letters = nil
	return nil
}

// commit passes what is written.
func (a *Archiver) commit(ctx context.Context) error {
	if len(a.last) == 0 {
		return nil
	}
	if err := a.Commit(ctx, a.last); err != nil {
		return err
	}
	clear(a.last)
	return nil
}
