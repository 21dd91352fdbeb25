package counter

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/tallyfeed/tallyfeed/enginetest"
)

func liveOn(t *testing.T, config KafkaConfig) *Live {
	t.Helper()
	if err := config.EnsureTopics(t.Context()); err != nil {
		t.Fatal(err)
	}
	live := NewLive(config, slog.New(slog.DiscardHandler))
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- live.Run(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return live
}

// liked is the event that a post has so many likes.
func liked(t *testing.T, id string, likes, version int) kafka.Message {
	t.Helper()
	value, err := json.Marshal(Event{
		EntityType: TypePost, EntityID: id, Metric: "like", UserID: "bob", Delta: 1, Like: int64(likes), Version: fmt.Sprintf("%d-0", version),
	})
	if err != nil {
		t.Fatal(err)
	}
	return kafka.Message{Key: []byte(TypePost + ":" + id), Value: value}
}

func happened(t *testing.T, w *kafka.Writer, events ...kafka.Message) {
	t.Helper()
	if err := w.WriteMessages(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
}

// heard waits until a listener has heard that a post has so many likes.
func heard(t *testing.T, l *Listener, s Subject, likes uint32) (messages int) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		select {
		case <-l.Changed():
			for _, change := range l.Take() {
				if messages++; change.Subject == s && change.Counts.Like == likes {
					return messages
				}
			}
		case <-deadline:
			t.Fatalf("%s: %d likes were not heard of", s, likes)
		}
	}
}

// Each listener hears of its own subjects, of each the newest, and at most four
// times a second, however many changes there are; who does not listen is not held.
func TestLive(t *testing.T) {
	t.Parallel()
	config := KafkaConfig{Brokers: enginetest.Kafka(t), Topic: enginetest.Topic(t, "live"), Partitions: 3, Replication: 1}
	live := liveOn(t, config)
	w := config.writer()
	t.Cleanup(func() { _ = w.Close() })
	a, b := post(t, "a"), post(t, "b")
	first, second, idle := live.Listen([]Subject{a, b}), live.Listen([]Subject{b}), live.Listen([]Subject{b})

	// The partitions are read from where they end: until then, nothing is heard.
	warm := func() {
		t.Helper()
		deadline := time.Now().Add(30 * time.Second)
		for i := 1; ; i++ {
			happened(t, w, liked(t, "a", 1, i), liked(t, "b", 1, i))
			select {
			case <-first.Changed():
			case <-time.After(100 * time.Millisecond):
			}
			seen := map[Subject]bool{}
			for _, change := range first.Take() {
				seen[change.Subject] = true
			}
			if seen[a] && seen[b] {
				return
			}
			if time.Now().After(deadline) {
				t.Fatal("nothing is heard")
			}
		}
	}
	warm()
	second.Take()

	begin := time.Now()
	const many = 400
	for i := 0; i < many; i += 20 {
		var some []kafka.Message
		for j := i + 1; j <= i+20; j++ {
			some = append(some, liked(t, "b", j, 1000+j))
		}
		happened(t, w, some...)
	}
	// One that comes late is older than what was heard; another is nobody's.
	happened(t, w, liked(t, "b", 7, 1001), liked(t, "c", 1, 5000))
	messages := heard(t, second, b, many)
	if most := int(time.Since(begin)/liveEvery) + 2; messages > most {
		t.Errorf("%d messages within %s, want at most %d", messages, time.Since(begin), most)
	}
	heard(t, first, b, many)
	// Who took nothing holds the newest of each subject, and no more. All listeners
	// have been told of it when nobody holds Live any longer.
	live.Listening()
	if changes := idle.Take(); len(changes) != 1 || changes[0].Counts.Like != many {
		t.Errorf("held for an idle listener: %+v", changes)
	}

	value, _ := json.Marshal(Event{EntityType: TypePost, EntityID: "a", Index: -1, Version: "9000-0", Deleted: true})
	happened(t, w, kafka.Message{Value: []byte("no event")}, kafka.Message{Key: []byte("post:a"), Value: value})
	deadline := time.After(30 * time.Second)
	for gone := false; !gone; {
		select {
		case <-first.Changed():
			for _, change := range first.Take() {
				gone = gone || change.Subject == a && change.Deleted
			}
		case <-deadline:
			t.Fatal("a deletion was not heard of")
		}
	}
	for _, l := range []*Listener{first, second, idle, first} {
		l.Close()
	}
	if n := live.Listening(); n != 0 {
		t.Errorf("%d subjects are listened to by nobody", n)
	}
}

// While Kafka is away nothing is heard, and afterwards all that happened is.
func TestLiveBrokerRestarts(t *testing.T) {
	t.Parallel()
	broker := enginetest.StartKafka(t)
	config := KafkaConfig{Brokers: broker.Brokers(), Topic: enginetest.Topic(t, "live"), Partitions: 1, Replication: 1}
	live := liveOn(t, config)
	w := config.writer()
	t.Cleanup(func() { _ = w.Close() })
	a := post(t, "a")
	l := live.Listen([]Subject{a})
	defer l.Close()
	deadline := time.Now().Add(30 * time.Second)
	for i := 1; len(l.Take()) == 0; i++ {
		if time.Now().After(deadline) {
			t.Fatal("nothing is heard")
		}
		happened(t, w, liked(t, "a", 1, i))
		time.Sleep(20 * time.Millisecond)
	}
	broker.Kill()
	broker.Restart()
	deadline = time.Now().Add(60 * time.Second)
	for i := 2; ; i++ {
		if err := w.WriteMessages(t.Context(), liked(t, "a", 42, 10_000+i)); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	heard(t, l, a, 42)
}

// What the sweeper sends again, or another server late, takes nobody back: not
// even a listener that has not taken the newer one yet.
func TestLiveForgetsNothingForWhatIsLate(t *testing.T) {
	t.Parallel()
	live := NewLive(KafkaConfig{}, slog.New(slog.DiscardHandler))
	s := post(t, "a")
	taken, idle := live.Listen([]Subject{s}), live.Listen([]Subject{s})
	now := time.Now()
	live.see(liked(t, "a", 20, 2000).Value)
	live.pass(now)
	if changes := taken.Take(); len(changes) != 1 || changes[0].Counts.Like != 20 {
		t.Fatalf("heard: %+v", changes)
	}
	live.see(liked(t, "a", 10, 1000).Value)
	live.pass(now.Add(liveEvery))
	if changes := taken.Take(); len(changes) != 0 {
		t.Errorf("heard once more: %+v", changes)
	}
	if changes := idle.Take(); len(changes) != 1 || changes[0].Counts.Like != 20 {
		t.Errorf("held for an idle listener: %+v", changes)
	}
}
