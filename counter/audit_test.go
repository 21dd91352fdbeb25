package counter

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/tallyfeed/tallyfeed/enginetest"
	"github.com/tallyfeed/tallyfeed/lua"
)

// listed is a SubjectSource of some subjects.
type listed []Subject

func (l listed) After(_ context.Context, subject string, n int) ([]Subject, error) {
	from := 0
	for i, s := range l {
		if s.String() == subject {
			from = i + 1
		}
	}
	return l[from:min(from+n, len(l))], nil
}

func snapshotOf(slots [5]uint32, v Version) string {
	var b []byte
	for _, slot := range slots {
		b = binary.BigEndian.AppendUint32(b, slot)
	}
	return string(binary.BigEndian.AppendUint64(b, uint64(v)))
}

// Whatever got wrong is found and mended without an operator, and what is right
// is left alone.
func TestAudit(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		damage func(t *testing.T, s *system, p Subject)
		differ bool
	}{
		"Right":   {"A good snapshot is left alone.", func(*testing.T, *system, Subject) {}, false},
		"Missing": {"A missing one is made by the next page.", func(t *testing.T, s *system, p Subject) { s.del(t, keysOf(p).snapshot()) }, false},
		"WrongNumbers": {"Nothing else would ever mend this.", func(t *testing.T, s *system, p Subject) {
			s.put(t, keysOf(p).snapshot(), snapshotOf([5]uint32{7, 99, 98, 8, 9}, 1<<20))
		}, true},
		"FutureVersion": {"After a failover of a master whose clock was ahead (FAULTS 51).", func(t *testing.T, s *system, p Subject) {
			s.put(t, keysOf(p).snapshot(), snapshotOf([5]uint32{0, 600, 1, 0, 0}, 1<<63))
		}, true},
		"WrongN": {"A population that lost its way.", func(t *testing.T, s *system, p Subject) { s.put(t, keysOf(p).n(Like), "17") }, true},
		"MalformedN": {"A population that is no number makes every read fail.", func(t *testing.T, s *system, p Subject) {
			s.put(t, keysOf(p).n(Like), "x")
		}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t, FactsConfig{})
			p, other := post(t, "1"), post(t, "2")
			for i := range 600 {
				s.set(t, Ordinal(i*50), p, Like, true)
			}
			s.set(t, 1, p, Fav, true)
			s.set(t, 1, other, Like, true)
			s.counts(t, p)
			s.counts(t, other)
			before := s.counts(t, other)
			tc.damage(t, s, p)
			view := uint32(0)
			if raw, _ := s.redis.reads.Get(t.Context(), keysOf(p).snapshot()).Result(); len(raw) == snapshotSize {
				view = binary.BigEndian.Uint32([]byte(raw))
			}
			auditor := NewAuditor(s.redis, listed{p, other}, NewRecounter(s.redis, quiet), quiet, AuditConfig{Rate: 10_000, Grace: time.Millisecond})
			drift, err := auditor.Round(t.Context(), nil)
			want := Drift{Looked: 2}
			if tc.differ {
				want = Drift{Looked: 2, Differed: 1, Mended: 1}
			}
			if err != nil || drift != want {
				t.Errorf("%s\ngot %+v, %v, want %+v", tc.reason, drift, err, want)
			}
			if got := s.counts(t, p); got.Like != 600 || got.Fav != 1 || got.Version.Time().After(time.Now().Add(time.Hour)) {
				t.Errorf("%s\ncounts are %+v", tc.reason, got)
			}
			if raw := s.rawSnapshot(t, p); binary.BigEndian.Uint32([]byte(raw)) != view {
				t.Errorf("%s\nthe slot of views was %d and is lost: %x", tc.reason, view, raw)
			}
			if got := s.counts(t, other); got != before {
				t.Errorf("%s\nthe other subject was %+v and is %+v", tc.reason, before, got)
			}
			if drift, err := auditor.Round(t.Context(), nil); err != nil || drift.Differed != 0 {
				t.Errorf("%s\na second round: %+v, %v", tc.reason, drift, err)
			}
		})
	}
}

// Counted in slices, a like in a chunk already counted and an unlike in one
// still to come must not add up to a wrong number (FAULTS 53), also while others
// keep changing the subject.
func TestRecountInSlices(t *testing.T) {
	t.Parallel()
	s := newSystem(t, FactsConfig{ContainerLimit: 4})
	p := post(t, "1")
	const chunks = 9
	for i := range chunks * 6 {
		s.set(t, Ordinal(i%chunks*chunkSize+i), p, Like, true)
	}
	r := NewRecounter(s.redis, quiet)
	r.slice = 2
	k := keysOf(p)
	// Between every two slices one viewer of chunk 0 comes and one goes.
	between := func() error {
		on := s.set(t, 30_000, p, Like, true).Changed
		if !on {
			s.set(t, 30_000, p, Like, false)
		}
		return nil
	}
	s.put(t, k.n(Like), "1000")
	if _, err := r.population(t.Context(), p, Like, "", between); !errors.Is(err, errSlices) {
		t.Errorf("changed between slices: %v", err)
	}
	if n, _ := s.redis.reads.Get(t.Context(), k.n(Like)).Int(); n < 1000 {
		t.Errorf("n was written, %d, although the subject changed meanwhile", n)
	}
	// Left alone, the same recount mends it.
	truth := s.population(t, p)
	if result, err := r.Recount(t.Context(), p); err != nil || !result.Populations[Like] || int(result.After.Like) != truth {
		t.Errorf("at rest: %+v, %v, want %d", result, err, truth)
	}
	// And in one slice it is exact at any time.
	r.slice = recountSlice
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 300 {
				if _, err := s.facts.Set(t.Context(), viewerOf(Ordinal(w*chunkSize+20_000+i/2)), p, Like, i%2 == 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 50 {
		if wrong, err := r.population(t.Context(), p, Like, "", func() error { return nil }); wrong || err != nil && !errors.Is(err, errSlices) {
			t.Errorf("while it changes: wrong %t, %v", wrong, err)
		}
	}
	wg.Wait()
	if n, _ := s.redis.reads.Get(t.Context(), k.n(Like)).Int(); n != s.population(t, p) {
		t.Errorf("n is %d, containers hold %d", n, s.population(t, p))
	}
}

// population counts the likes of p in their containers, command by command.
func (s *system) population(tb testing.TB, p Subject) int {
	tb.Helper()
	k, total := keysOf(p), 0
	members, err := s.redis.reads.SMembers(tb.Context(), k.chunks(Like)).Result()
	if err != nil {
		tb.Fatal(err)
	}
	for _, chunk := range members {
		bits, _ := s.redis.reads.BitCount(tb.Context(), "bm:like:"+k.subject+":"+chunk+k.end, nil).Result()
		few, _ := s.redis.reads.SCard(tb.Context(), "bm:like:"+k.subject+":"+chunk+":few"+k.end).Result()
		total += int(bits + few)
	}
	return total
}

// One at a time recounts a subject, three times in 10 s at most, later and later
// after failures; a lock that ran out is not given back by its old owner
// (FAULTS 16); and every key of it expires (FAULTS 17).
func TestRecountLimits(t *testing.T) {
	t.Parallel()
	s := newSystem(t, FactsConfig{})
	p := post(t, "1")
	k := keysOf(p)
	s.set(t, 1, p, Like, true)
	a, b := NewRecounter(s.redis, quiet), NewRecounter(s.redis, quiet)

	if err := a.hold(t.Context(), k, "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Recount(t.Context(), p); !errors.Is(err, ErrBusy) {
		t.Errorf("while another holds the lease: %v", err)
	}
	// a is paused for longer than its lease lasts; b takes it.
	s.del(t, k.recountLease())
	if err := b.hold(t.Context(), k, "b"); err != nil {
		t.Fatal(err)
	}
	if err := a.hold(t.Context(), k, "a"); !errors.Is(err, ErrBusy) {
		t.Errorf("a went on after its lease was lost: %v", err)
	}
	if freed, _ := s.redis.run(t.Context(), lua.Release, call{keys: []string{k.recountLease()}, args: []any{"a"}})[0].Int(); freed != 0 {
		t.Error("a gave back the lease of b")
	}
	s.del(t, k.recountLease())

	for i := range 4 {
		_, err := a.Recount(t.Context(), p)
		if busy := errors.Is(err, ErrBusy); busy != (i == 3) {
			t.Errorf("recount %d: %v", i, err)
		}
	}
	s.del(t, k.recountLimit())
	s.del(t, epochKey(p.Tag()))
	if _, err := a.Recount(t.Context(), p); !errors.Is(err, ErrNoEpoch) {
		t.Errorf("without an epoch: %v", err)
	}
	if _, err := a.Recount(t.Context(), p); !errors.Is(err, ErrBusy) {
		t.Errorf("right after a failure: %v", err)
	}
	names, err := s.redis.reads.Keys(t.Context(), "recount:*").Result()
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		if ttl, err := s.redis.reads.PTTL(t.Context(), name).Result(); err != nil || ttl == -1 {
			t.Errorf("%s does not expire: %v, %v", name, ttl, err)
		}
	}
}

// Bad records lie in the dead-letter topic with reason and origin, and can be
// sent in again.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	config := topic(t, enginetest.Kafka(t))
	s := newSystem(t, FactsConfig{})
	p := post(t, "1")
	writer := config.writer()
	t.Cleanup(func() { _ = closeWriter(writer) })
	publisher := startPublisher(t, s.redis, config)
	s.facts.config.OnChange = publisher.Offer
	for _, value := range []string{"{", `{"entityType":"post","entityId":"a:b"}`} {
		if err := writer.WriteMessages(t.Context(), kafka.Message{Key: []byte(p.String()), Value: []byte(value)}); err != nil {
			t.Fatal(err)
		}
	}
	s.set(t, 1, p, Like, true)
	startAggregator(t, s.redis, config, enginetest.Topic(t, "group"))
	s.snapshotIs(t, 30*time.Second, p, 1, 0)

	list := func() (waiting, resent int) {
		err := config.DeadLetters(t.Context(), func(d DeadLetter) error {
			if d.Topic != config.Topic || d.OriginPart == "" || d.OriginOffset == "" || !strings.Contains(d.Reason, "not an event") || string(d.Key) != p.String() {
				return fmt.Errorf("%+v", d)
			}
			if d.Resent {
				resent++
			} else {
				waiting++
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return waiting, resent
	}
	eventually(t, 20*time.Second, "two dead letters", func() bool { w, _ := list(); return w == 2 })
	if n, err := config.ResendDeadLetters(t.Context()); n != 2 || err != nil {
		t.Fatalf("%d resent, %v", n, err)
	}
	eventually(t, 20*time.Second, "the two resent are dead letters anew", func() bool { w, r := list(); return w == 2 && r == 2 })
}
