package counter

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallyfeed/tallyfeed/enginetest"
)

// The reply of a like is lost after Redis has run it. The client must not send
// it again by itself and report that nothing changed (FAULTS 18): it is told of
// an error, and its retry says that it is so already.
func TestReplyLost(t *testing.T) {
	t.Parallel()
	p := enginetest.NewProxy(t, enginetest.Redis(t))
	s := systemOn(t, p.URL(), FactsConfig{})
	subject := post(t, "1")
	s.set(t, 1, subject, Like, true) // loads the scripts, opens a connection
	for i := range Ordinal(5) {
		p.LoseReplies(1)
		outcome, err := s.facts.Set(t.Context(), viewerOf(10+i), subject, Like, true)
		if err == nil {
			t.Fatalf("like %d: %+v without an error, its reply was lost", i, outcome)
		}
		if got := s.set(t, 10+i, subject, Like, true); got.Changed || got.Counts.Like != uint32(i+2) {
			t.Errorf("the retry of like %d: %+v, want unchanged and %d", i, got, i+2)
		}
	}
	if replies, _ := p.Lost(); replies != 5 {
		t.Errorf("%d replies were lost", replies)
	}
	if n, _ := s.redis.reads.XLen(t.Context(), outboxKey(subject.Tag())).Result(); n != 6 {
		t.Errorf("outbox holds %d entries, want 6: one a change, told or not", n)
	}
}

// A script that Redis no longer knows, after a restart or a failover, is sent
// again for itself; what ran in the same pipeline is not (FAULTS 19).
func TestScriptsForgotten(t *testing.T) {
	t.Parallel()
	s := newSystem(t, FactsConfig{})
	p := post(t, "1")
	for i := range Ordinal(3) {
		if err := s.redis.writes.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if got := s.set(t, i, p, Like, true); !got.Changed || got.Counts.Like != uint32(i+1) {
			t.Errorf("like %d: %+v", i, got)
		}
		s.del(t, keysOf(p).snapshot())
		if got := s.counts(t, p); got.Like != uint32(i+1) {
			t.Errorf("page %d: %+v", i, got)
		}
	}
}

// A broker that accepts connections and never answers delays no like, and the
// changes wait in the outbox until the sweeper gets them through (FAULTS 8).
func TestBrokerHangs(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, conn) }()
		}
	}()
	s := newSystem(t, FactsConfig{})
	p := post(t, "1")
	s.counts(t, p)
	hanging := NewPublisher(s.redis, KafkaConfig{Brokers: []string{listener.Addr().String()}, Topic: "events"}, quiet)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = hanging.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait(); _ = hanging.Close() })
	s.facts.config.OnChange = hanging.Offer
	for i := range Ordinal(200) {
		s.set(t, i, p, Like, true) // would block here if a like waited for Kafka
	}
	if n, _ := s.redis.reads.XLen(t.Context(), outboxKey(p.Tag())).Result(); n != 200 {
		t.Errorf("outbox holds %d entries of 200: what no broker has acknowledged must stay", n)
	}
	config := topic(t, enginetest.Kafka(t))
	publisher := NewPublisher(s.redis, config, quiet)
	t.Cleanup(func() { _ = publisher.Close() })
	sweeper := NewSweeper(s.redis, publisher, quiet, SweeperConfig{Patience: time.Millisecond, Every: 20 * time.Millisecond})
	background(t, sweeper.Run)
	startAggregator(t, s.redis, config, enginetest.Topic(t, "group"))
	s.snapshotIs(t, 30*time.Second, p, 200, 0)
	eventually(t, 20*time.Second, "an empty outbox", func() bool {
		n, err := s.redis.reads.XLen(t.Context(), outboxKey(p.Tag())).Result()
		return err == nil && n == 0
	})
}

// A broker that is not there: the publisher removes nothing from the outbox.
func TestNothingLeavesUnacknowledged(t *testing.T) {
	t.Parallel()
	s := newSystem(t, FactsConfig{})
	p := post(t, "1")
	var changes []Change
	s.facts.config.OnChange = func(c Change) { changes = append(changes, c) }
	s.set(t, 1, p, Like, true)
	publisher := NewPublisher(s.redis, KafkaConfig{Brokers: []string{"127.0.0.1:1"}, Topic: "events"}, quiet)
	t.Cleanup(func() { _ = publisher.Close() })
	if n, err := publisher.send(t.Context(), changes); n != 0 || err == nil {
		t.Errorf("sent %d, %v", n, err)
	}
	if n, _ := s.redis.reads.XLen(t.Context(), outboxKey(p.Tag())).Result(); n != 1 {
		t.Errorf("outbox holds %d entries", n)
	}
}

// Records are taken while Redis is away, and the process dies before it is back:
// their offsets must not be committed, or nobody would ever fold them.
func TestNothingCommittedUnfolded(t *testing.T) {
	t.Parallel()
	config := topic(t, enginetest.Kafka(t))
	s := newSystem(t, FactsConfig{})
	p := post(t, "1")
	publisher := startPublisher(t, s.redis, config)
	s.facts.config.OnChange = publisher.Offer
	s.set(t, 1, p, Like, true)
	group := enginetest.Topic(t, "group")

	away, err := openSingle("redis://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = away.Close() })
	a := NewAggregator(away, config, quiet, AggregatorConfig{Group: group, Settle: -1})
	ctx, kill := context.WithCancel(t.Context())
	records := make(chan struct{}, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			m, err := a.reader.FetchMessage(ctx)
			if err != nil {
				return
			}
			a.Take(ctx, m)
			a.changed.records = a.config.MaxChanges
			limited, cancel := context.WithTimeout(ctx, 2*time.Second)
			a.Step(limited)
			cancel()
			records <- struct{}{}
		}
	}()
	select {
	case <-records:
	case <-time.After(30 * time.Second):
		t.Fatal("no record came")
	}
	kill()
	<-done
	_ = a.Close()

	s.del(t, keysOf(p).snapshot())
	startAggregator(t, s.redis, config, group)
	s.snapshotIs(t, 30*time.Second, p, 1, 0)
}

// A page that waits for Redis waits for as long as it was told, not for the
// client's own time-outs.
func TestDeadlineObeyed(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	r, err := openSingle("redis://" + listener.Addr().String()) // accepts, never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	reader := NewReader(r, NewOrdinals(&memoryOrdinals{}), ReaderConfig{Timeout: 50 * time.Millisecond})
	began := time.Now()
	readings, err := reader.Counts(t.Context(), []Subject{post(t, "1")})
	if err == nil || readings[0].Known {
		t.Errorf("%+v, %v", readings, err)
	}
	if !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), "timeout") {
		t.Errorf("%v", err)
	}
	// Half of what the client would wait for a reply: a bound, not a measurement.
	if took := time.Since(began); took > replyTimeout/2 {
		t.Errorf("took %s", took)
	}
}
