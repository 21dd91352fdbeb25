package archive_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/uptrace/bun"

	"github.com/tallyfeed/tallyfeed/archive"
	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/enginetest"
)

var quiet = slog.New(slog.DiscardHandler)

func topic(t *testing.T) counter.KafkaConfig {
	t.Helper()
	config := counter.KafkaConfig{Brokers: enginetest.Kafka(t), Topic: enginetest.Topic(t, "events"), Partitions: 4, Replication: 1}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := config.EnsureTopics(ctx); err != nil {
		t.Fatal(err)
	}
	return config
}

func send(t *testing.T, config counter.KafkaConfig, values ...any) {
	t.Helper()
	writer := &kafka.Writer{Addr: kafka.TCP(config.Brokers...), Topic: config.Topic, Balancer: kafka.Murmur2Balancer{}, RequiredAcks: kafka.RequireAll, BatchTimeout: 10 * time.Millisecond}
	defer func() { _ = writer.Close() }()
	var messages []kafka.Message
	for _, value := range values {
		text, isText := value.(string)
		key := "x"
		if e, ok := value.(counter.Event); ok {
			key = e.EntityType + ":" + e.EntityID
		}
		if !isText {
			raw, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			text = string(raw)
		}
		messages = append(messages, kafka.Message{Key: []byte(key), Value: []byte(text)})
	}
	// A topic just made may be unknown for a moment; what goes twice is no matter.
	var err error
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = writer.WriteMessages(t.Context(), messages...); err == nil {
			return
		}
	}
	t.Fatal(err)
}

// archiving runs an Archiver until the test ends or it is stopped.
func archiving(t *testing.T, db *bun.DB, config counter.KafkaConfig, group string) (a *archive.Archiver, stop func()) {
	t.Helper()
	a = archive.NewArchiver(archive.NewStore(db), config, quiet, archive.ArchiverConfig{Group: group})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-done, a.Close()); err != nil {
			t.Errorf("archiver: %v", err)
		}
	})
	t.Cleanup(stop)
	return a, stop
}

func eventually(t *testing.T, within time.Duration, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", within, what)
		}
	}
}

func active(t *testing.T, db *bun.DB) int {
	t.Helper()
	n, err := db.NewSelect().Table("reactions").Where("active").Count(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

// What lies on the topic is in SQL: a failing row and a record that is no event
// go to the dead letters with their reasons and hold nobody up; a second archiver
// beside the first, and a replay by another group, change nothing.
func TestArchiver(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db *bun.DB) {
		refuse13(t, db)
		config, group := topic(t), enginetest.Topic(t, "group")
		var values []any
		for o := range 200 {
			values = append(values, event(fmt.Sprint(o%5), counter.Like, o, true, 1+o))
		}
		values = append(values, "nonsense", event("13", counter.Like, 1, true, 5), event("1", counter.Fav, 1, true, 300),
			event("1", counter.Like, 299, true, 400), event("1", counter.Like, 299, false, 401))
		send(t, config, values...)
		a, _ := archiving(t, db, config, group)
		b, _ := archiving(t, db, config, group)
		eventually(t, 60*time.Second, "201 active rows and the dead letters", func() bool {
			return active(t, db) == 201 && a.BadRecords()+b.BadRecords() >= 2
		})
		before := rows(t, db)
		var found string
		eventually(t, 20*time.Second, "the reasons of both dead letters", func() bool {
			found = ""
			err := config.DeadLetters(t.Context(), func(d counter.DeadLetter) error { found += d.Reason + "\n"; return nil })
			return err == nil && strings.Contains(found, "not JSON") && strings.Contains(found, "write reactions")
		})

		c, _ := archiving(t, db, config, enginetest.Topic(t, "group"))
		eventually(t, 60*time.Second, "the replay's dead letters", func() bool { return c.BadRecords() >= 2 })
		if after := rows(t, db); after != before {
			t.Errorf("the replay changed\n%s\nto\n%s", before, after)
		}
	})
}

// A like is a row within 2 s, when the archiver has settled in.
func TestArchiverIsInTime(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db *bun.DB) {
		config := topic(t)
		archiving(t, db, config, enginetest.Topic(t, "group"))
		send(t, config, event("1", counter.Like, 0, true, 1))
		eventually(t, 60*time.Second, "the first row", func() bool { return active(t, db) == 1 })
		best := time.Hour
		for o := 1; o < 4 && best > time.Second; o++ { // a busy machine may be late once
			began := time.Now()
			send(t, config, event("1", counter.Like, o, true, 1+o))
			eventually(t, 20*time.Second, "the next row", func() bool { return active(t, db) == 1+o })
			best = min(best, time.Since(began))
		}
		if best > 2*time.Second {
			t.Errorf("at best after %s", best)
		}
	})
}

// The process dies between the statement and the commit of the offsets, or with
// the transaction rolled back: the next one does all of it again (FAULTS 39).
func TestArchiverKilled(t *testing.T) {
	t.Parallel()
	for name, applies := range map[string]bool{"AfterTransaction": true, "BeforeTransaction": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := openWith(t, "sqlite:"+filepath.Join(t.TempDir(), "archive.db"), users)
			config, group := topic(t), enginetest.Topic(t, "group")
			send(t, config, event("1", counter.Like, 1, true, 1), event("2", counter.Like, 2, true, 2))

			// The records are taken and the process ends, without a step in order. Who
			// reads them here is another group's: only the archiver may commit.
			reader := kafka.NewReader(kafka.ReaderConfig{Brokers: config.Brokers, Topic: config.Topic, GroupID: enginetest.Topic(t, "group"), StartOffset: kafka.FirstOffset, MaxWait: 200 * time.Millisecond})
			dying := archive.NewArchiver(archive.NewStore(db), config, quiet, archive.ArchiverConfig{Group: group})
			ctx, kill := context.WithTimeout(t.Context(), 60*time.Second)
			defer kill()
			var err error
			for range 2 {
				var m kafka.Message
				if m, err = reader.FetchMessage(ctx); err != nil {
					t.Fatal(err)
				}
				dying.Take(ctx, m)
			}
			if !applies {
				execute(t, db, "ALTER TABLE tag_versions RENAME TO away") // written last: the rows before it are rolled back
			}
			if applies { // from now on a commit fails, as that of a dead process does
				err = dying.Close()
			}
			limited, cancel := context.WithTimeout(ctx, 5*time.Second)
			dying.Step(limited)
			cancel()
			if !applies {
				err = dying.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := reader.Close(); err != nil {
				t.Fatal(err)
			}
			if n := active(t, db); applies != (n == 2) {
				t.Errorf("%d rows before the restart", n)
			}
			if !applies {
				execute(t, db, "ALTER TABLE away RENAME TO tag_versions")
			} else {
				execute(t, db, "DELETE FROM reactions") // so that the second delivery shows
			}
			archiving(t, db, config, group)
			eventually(t, 60*time.Second, "both rows", func() bool { return active(t, db) == 2 })
		})
	}
}

// SQL is away for a while: Kafka keeps the events, nothing goes to the dead
// letters, and all is there when SQL is back.
func TestArchiverWithoutSQL(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db *bun.DB) {
		config := topic(t)
		a, _ := archiving(t, db, config, enginetest.Topic(t, "group"))
		send(t, config, event("1", counter.Like, 0, true, 1))
		eventually(t, 60*time.Second, "the first row", func() bool { return active(t, db) == 1 })
		execute(t, db, "ALTER TABLE tag_versions RENAME TO away") // to the archiver the store has failed
		for o := 1; o < 100; o++ {
			send(t, config, event("1", counter.Like, o, true, 1+o))
			if o == 50 {
				time.Sleep(time.Second) // some tries fail
			}
		}
		if n := active(t, db); n != 1 {
			t.Errorf("%d rows without their versions", n)
		}
		execute(t, db, "ALTER TABLE away RENAME TO tag_versions")
		eventually(t, 60*time.Second, "100 rows", func() bool { return active(t, db) == 100 })
		if n := a.BadRecords(); n != 0 {
			t.Errorf("%d dead letters", n)
		}
	})
}
