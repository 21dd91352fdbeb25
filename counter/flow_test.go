package counter

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/segmentio/kafka-go"

	"github.com/tallyfeed/tallyfeed/enginetest"
)

// eventually waits for a state.
func eventually(tb testing.TB, within time.Duration, what string, holds func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(within); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("not within %s: %s", within, what)
		}
	}
}

// topic makes one of a test's own.
func topic(tb testing.TB, brokers []string) KafkaConfig {
	tb.Helper()
	config := KafkaConfig{Brokers: brokers, Topic: enginetest.Topic(tb, "events"), Partitions: 4, Replication: 1}
	ctx, cancel := context.WithTimeout(tb.Context(), 20*time.Second)
	defer cancel()
	if err := config.EnsureTopics(ctx); err != nil {
		tb.Fatal(err)
	}
	return config
}

// background runs a worker until the test ends; its error fails the test.
func background(tb testing.TB, run func(context.Context) error) (stop func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				tb.Errorf("worker: %v", err)
			}
		})
	}
	tb.Cleanup(stop)
	return stop
}

var quiet = slog.New(slog.DiscardHandler)

// startPublisher makes s's changes travel. It returns what NewFacts needs.
func startPublisher(tb testing.TB, r *Redis, config KafkaConfig) *Publisher {
	tb.Helper()
	p := NewPublisher(r, config, quiet)
	tb.Cleanup(func() { _ = p.Close() })
	background(tb, p.Run)
	return p
}

func startAggregator(tb testing.TB, r *Redis, config KafkaConfig, group string) (a *Aggregator, stop func()) {
	tb.Helper()
	a = NewAggregator(r, config, quiet, AggregatorConfig{Group: group, Settle: 100 * time.Millisecond})
	tb.Cleanup(func() { _ = a.Close() })
	return a, background(tb, a.Run)
}

// snapshotIs waits on the raw snapshot, since a read would make a missing one.
func (s *system) snapshotIs(tb testing.TB, within time.Duration, subject Subject, like, fav uint32) {
	tb.Helper()
	var got Counts
	eventually(tb, within, fmt.Sprintf("snapshot of %s with %d likes and %d favs", subject, like, fav), func() bool {
		text, _ := s.redis.reads.Get(tb.Context(), keysOf(subject).snapshot()).Result()
		var err error
		got, err = decodeSnapshot(text)
		return err == nil && got.Like == like && got.Fav == fav
	})
}

// The property of the whole flow: many viewers like, unlike, fav and unfav few
// posts in parallel; every record is delivered twice and out of order. At the
// end snapshot = facts = what the clients were told.
func TestFlow(t *testing.T) {
	t.Parallel()
	brokers := enginetest.Kafka(t)
	first, second := topic(t, brokers), topic(t, brokers)
	base := newSystem(t, FactsConfig{})
	publisher := startPublisher(t, base.redis, first)
	facts := NewFacts(base.redis, base.ordinals, quiet, FactsConfig{OnChange: publisher.Offer, ContainerLimit: 40})
	background(t, func(ctx context.Context) error { return doubler(ctx, first, second) })
	startAggregator(t, base.redis, second, enginetest.Topic(t, "group"))

	const posts, viewers, workers, steps = 5, 120, 8, 400
	type key struct {
		viewer Ordinal
		post   int
		metric Metric
	}
	var mu sync.Mutex
	told := map[key]bool{} // each viewer belongs to one worker, so the order is known
	changes := map[key]int{}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(11, uint64(w)))
			for range steps {
				k := key{Ordinal(random.IntN(viewers/workers)*workers+w) * 1000, random.IntN(posts), Metric(random.IntN(2))}
				want := random.IntN(3) > 0
				outcome, err := facts.Set(t.Context(), viewerOf(k.viewer), post(t, fmt.Sprint(k.post)), k.metric, want)
				if err != nil {
					t.Errorf("%+v: %v", k, err)
					return
				}
				mu.Lock()
				if outcome.Changed != (told[k] != want) {
					t.Errorf("%+v to %t: changed = %t, was %t", k, want, outcome.Changed, told[k])
				}
				if outcome.Changed {
					changes[k]++
				}
				told[k] = want
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for i := range posts {
		var want [metrics]uint32
		for k, on := range told {
			if k.post == i && on {
				want[k.metric]++
			}
		}
		base.snapshotIs(t, 30*time.Second, post(t, fmt.Sprint(i)), want[Like], want[Fav])
		for k, on := range told {
			if k.post == i {
				state := base.state(t, k.viewer, post(t, fmt.Sprint(i)))
				if got := [metrics]bool{state.Liked, state.Faved}[k.metric]; got != on {
					t.Errorf("%+v: fact is %t, client was told %t", k, got, on)
				}
			}
		}
	}
	eventually(t, 20*time.Second, "an empty outbox", func() bool {
		for tag := range tags {
			if n, err := base.redis.reads.XLen(t.Context(), outboxKey(Tag(tag))).Result(); err != nil || n > 0 {
				return false
			}
		}
		return true
	})
}

// doubler copies records to another topic, each twice, the second time late and
// out of order.
func doubler(ctx context.Context, from, to KafkaConfig) error {
	writer := to.writer()
	defer func() { _ = closeWriter(writer) }()
	records := make(chan kafka.Message)
	for partition := range from.Partitions {
		go func() {
			reader := kafka.NewReader(kafka.ReaderConfig{Brokers: from.Brokers, Topic: from.Topic, Partition: partition, MaxWait: 100 * time.Millisecond})
			defer func() { _ = reader.Close() }()
			for {
				m, err := reader.ReadMessage(ctx)
				if err != nil {
					return
				}
				select {
				case records <- kafka.Message{Key: m.Key, Value: m.Value}:
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	random := rand.New(rand.NewPCG(5, 6))
	var late []kafka.Message
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		var send []kafka.Message
		select {
		case m := <-records:
			late = append(late, m)
			send = []kafka.Message{m}
			for len(send) < 100 && len(records) > 0 {
				m := <-records
				late, send = append(late, m), append(send, m)
			}
		case <-tick.C:
			random.Shuffle(len(late), func(i, j int) { late[i], late[j] = late[j], late[i] })
			send, late = late, nil
		case <-ctx.Done():
			return nil
		}
		if len(send) > 0 {
			if err := writer.WriteMessages(ctx, send...); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// A process that dies right after the fact was set leaves its entry behind; the
// sweeper of another sends it (FAULTS 7), also when the clock has stepped back
// and the entry seems to come from the future (FAULTS 56).
func TestSweeper(t *testing.T) {
	t.Parallel()
	config := topic(t, enginetest.Kafka(t))
	s := newSystem(t, FactsConfig{}) // nothing publishes
	p, future := post(t, "1"), post(t, "2")
	s.counts(t, p)
	s.counts(t, future)
	s.set(t, 1, p, Like, true)
	s.set(t, 2, p, Fav, true)
	err := s.redis.writes.XAdd(t.Context(), &redis.XAddArgs{
		Stream: outboxKey(future.Tag()), ID: fmt.Sprintf("%d-0", time.Now().Add(3*time.Hour).UnixMilli()), Values: []string{"s", "post:2", "m", "like", "u", "u9", "o", "9", "d", "1", "l", "1", "f", "0"},
	}).Err()
	if err != nil {
		t.Fatal(err)
	}
	s.set(t, 9, future, Like, true)
	startAggregator(t, s.redis, config, enginetest.Topic(t, "group"))

	publisher := NewPublisher(s.redis, config, quiet)
	t.Cleanup(func() { _ = publisher.Close() })
	sweepers := []*Sweeper{
		NewSweeper(s.redis, publisher, quiet, SweeperConfig{}),
		NewSweeper(s.redis, publisher, quiet, SweeperConfig{}),
	}
	at := time.Now()
	for _, sweeper := range sweepers {
		if n, err := sweeper.Sweep(t.Context(), at); n != 0 || err != nil {
			t.Errorf("at first sight %d were sent, %v: their own server may be at it", n, err)
		}
	}
	for i, sweeper := range sweepers {
		n, err := sweeper.Sweep(t.Context(), at.Add(5*time.Second))
		if want := []int{4, 0}[i]; n != want || err != nil {
			t.Errorf("after the patience sweeper %d sent %d, want %d, %v", i, n, want, err)
		}
	}
	s.snapshotIs(t, 20*time.Second, p, 1, 1)
	s.snapshotIs(t, 20*time.Second, future, 1, 0)
}

// An acknowledgement takes only the entry that was published: after a failover
// the same id may belong to another change (FAULTS 52).
func TestAckOfRecurredID(t *testing.T) {
	t.Parallel()
	s := newSystem(t, FactsConfig{})
	p := post(t, "1")
	var offered []Change
	s.facts.config.OnChange = func(c Change) { offered = append(offered, c) }
	s.set(t, 1, p, Like, true)
	other := offered[0]
	other.entry.values[2] = "somebody else"
	publisher := &Publisher{redis: s.redis}
	for i, tc := range []struct {
		changes []Change
		left    int64
	}{{[]Change{other}, 1}, {offered, 0}, {offered, 0}} {
		if err := publisher.ack(t.Context(), tc.changes); err != nil {
			t.Fatal(err)
		}
		if n, _ := s.redis.reads.XLen(t.Context(), outboxKey(p.Tag())).Result(); n != tc.left {
			t.Errorf("ack %d left %d entries, want %d", i, n, tc.left)
		}
	}
}

// Records that are no events hold nobody up, and the ones around them count
// (FAULTS 6); a replay of the whole topic beside the running consumer changes
// nothing (FAULTS 20).
func TestBadRecordsAndReplay(t *testing.T) {
	t.Parallel()
	config := topic(t, enginetest.Kafka(t))
	s := newSystem(t, FactsConfig{})
	p := post(t, "1")
	s.counts(t, p)
	publisher := startPublisher(t, s.redis, config)
	s.facts.config.OnChange = publisher.Offer
	writer := config.writer()
	t.Cleanup(func() { _ = closeWriter(writer) })
	bad := 0
	for i := range 10 {
		s.set(t, Ordinal(i), p, Like, true)
		for _, value := range []string{"", "{", `{"entityType":"post","entityId":"50000*"}`, string(make([]byte, 5000)), "\xff"} {
			if err := writer.WriteMessages(t.Context(), kafka.Message{Key: []byte(p.String()), Value: []byte(value)}); err != nil {
				t.Fatal(err)
			}
			bad++
		}
	}
	a, _ := startAggregator(t, s.redis, config, enginetest.Topic(t, "group"))
	s.snapshotIs(t, 30*time.Second, p, 10, 0)
	eventually(t, 20*time.Second, "all bad records counted", func() bool { return a.BadRecords() == int64(bad) })

	replay, _ := startAggregator(t, s.redis, config, enginetest.Topic(t, "group"))
	eventually(t, 30*time.Second, "all replayed", func() bool { return replay.BadRecords() == int64(bad) })
	s.snapshotIs(t, time.Second, p, 10, 0)
}

// The aggregator's process is killed after it folded and before it committed:
// the next one folds again, and nothing is counted twice (FAULTS 4). What it
// could not fold, since Redis was away, it keeps.
func TestAggregatorRestart(t *testing.T) {
	t.Parallel()
	config := topic(t, enginetest.Kafka(t))
	s := newSystem(t, FactsConfig{})
	p := post(t, "1")
	publisher := startPublisher(t, s.redis, config)
	s.facts.config.OnChange = publisher.Offer
	group := enginetest.Topic(t, "group")

	for i := range 3 {
		// Settle so long that nothing is ever committed by this one.
		a := NewAggregator(s.redis, config, quiet, AggregatorConfig{Group: group, Settle: time.Hour})
		ctx, kill := context.WithCancel(t.Context())
		done := make(chan struct{})
		records := make(chan kafka.Message)
		go func() { defer close(records); _ = fetchAll(ctx, a.reader, records) }()
		go func() {
			defer close(done)
			for m := range records {
				a.Take(ctx, m)
				_ = a.Flush(ctx)
			}
		}()
		for j := range 5 {
			s.set(t, Ordinal(10*i+j), p, Like, true)
		}
		s.snapshotIs(t, 30*time.Second, p, uint32(5*(i+1)), 0)
		kill()
		<-done
		_ = a.Close()
	}
	s.del(t, keysOf(p).snapshot())
	startAggregator(t, s.redis, config, group)
	s.snapshotIs(t, 30*time.Second, p, 15, 0) // from the records that nobody committed
}

// A commit that fails, as one through a dead reader always does, must not keep
// the aggregator from folding on, or from joining its group again; the offsets
// are kept for another try.
func TestFailingCommitHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	s := newSystem(t, FactsConfig{})
	p := post(t, "1")
	var changes []Change
	s.facts.config.OnChange = func(c Change) { changes = append(changes, c) }
	s.set(t, 1, p, Like, true)
	event, _, err := changes[0].entry.event()
	if err != nil {
		t.Fatal(err)
	}
	value, err := json.Marshal(event)
	if err != nil {
		t.Fatal(err)
	}
	a := NewAggregator(s.redis, topic(t, enginetest.Kafka(t)), quiet, AggregatorConfig{Group: enginetest.Topic(t, "group"), Settle: -1})
	if err := a.Close(); err != nil { // from now on every commit fails
		t.Fatal(err)
	}
	a.Take(t.Context(), kafka.Message{Topic: a.kafka.Topic, Value: value})
	done := make(chan struct{})
	go func() { defer close(done); a.Step(t.Context()) }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("the step tries to commit for ever")
	}
	s.snapshotIs(t, time.Second, p, 1, 0)
	if len(a.settling) != 1 {
		t.Errorf("%d batches wait for their commit, want 1", len(a.settling))
	}
}
