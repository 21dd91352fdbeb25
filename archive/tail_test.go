package archive_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tallyfeed/tallyfeed/archive"
	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/enginetest"
)

func (s *system) tail() *counter.Tail {
	return counter.NewTail(s.redis, s.store, counter.NewCatchUp(s.kafka, s.group, s.store), s.publisher, s.facts, quiet, counter.TailConfig{Every: 100 * time.Millisecond})
}

func (s *system) look(tail *counter.Tail, putBack int) {
	s.t.Helper()
	n, err := tail.Look(s.t.Context())
	if err != nil || n != putBack {
		s.t.Fatalf("put back %d, %v; want %d", n, err, putBack)
	}
}

// failover makes a system on a replica that has what s has now, and no more of
// what comes: it takes over later.
func (s *system) failover() *system {
	s.t.Helper()
	if !s.server.Real() {
		s.t.Skip("needs a real Redis that has a replica")
	}
	replica := enginetest.StartRedis(s.t, enginetest.RedisOptions{})
	options, err := redis.ParseURL(replica.URL())
	if err != nil {
		s.t.Fatal(err)
	}
	direct := redis.NewClient(options)
	s.t.Cleanup(func() { _ = direct.Close() })
	ctx := s.t.Context()
	port := s.server.URL()[strings.LastIndex(s.server.URL(), ":")+1:]
	if err := direct.Do(ctx, "REPLICAOF", "127.0.0.1", port).Err(); err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, 30*time.Second, "a replica with all there is", func() bool {
		ours, err1 := s.direct.DBSize(ctx).Result()
		theirs, err2 := direct.DBSize(ctx).Result()
		info := direct.Info(ctx, "replication").Val()
		return err1 == nil && err2 == nil && ours == theirs && strings.Contains(info, "master_link_status:up")
	})
	if err := direct.Do(ctx, "REPLICAOF", "NO", "ONE").Err(); err != nil {
		s.t.Fatal(err)
	}
	next := *s
	next.server, next.direct = replica, direct
	if next.redis, err = counter.OpenRedis(ctx, replica.URL()); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = next.redis.Close() })
	next.publisher = counter.NewPublisher(next.redis, s.kafka, quiet)
	s.t.Cleanup(func() { _ = next.publisher.Close() })
	background(s.t, next.publisher.Run)
	next.facts = counter.NewFacts(next.redis, s.ordinals, quiet, counter.FactsConfig{OnChange: next.publisher.Offer})
	next.reader = counter.NewReader(next.redis, s.ordinals, counter.ReaderConfig{Timeout: 5 * time.Second})
	return &next
}

// A failover loses the last changes, whose events are in Kafka already: they are
// put back, once, and counted (FAULTS 50).
func TestTail(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		// lost is what only the old master took, early what the new one takes before
		// anybody looks.
		lost, early func(*system)
		putBack     int
		likes       []int
	}{
		"Quiet": {
			"The outbox's last id is behind the archive.",
			func(s *system) {
				for o := 5; o < 10; o++ {
					s.set(o, "1", counter.Like, true)
				}
				s.set(0, "1", counter.Like, false)
			},
			func(*system) {}, 6,
			[]int{1, 2, 3, 4, 5, 6, 7, 8, 9},
		},
		"LikesGoOn": {
			"The next like makes the last id higher than the archive's: it no longer tells.",
			func(s *system) {
				for o := 5; o < 10; o++ {
					s.set(o, "1", counter.Like, true)
				}
			},
			func(s *system) {
				time.Sleep(5 * time.Millisecond) // a later millisecond than the lost ones
				s.set(20, "1", counter.Like, true)
			},
			5,
			[]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 20},
		},
		"Repeated": {
			"A client repeats its lost like: it is a fact already.",
			func(s *system) { s.set(5, "1", counter.Like, true); s.set(6, "1", counter.Like, true) },
			func(s *system) { s.set(5, "1", counter.Like, true) },
			1,
			[]int{0, 1, 2, 3, 4, 5, 6},
		},
		"ChangedMeanwhile": {
			"A viewer has taken the lost like back since: what came later wins.",
			func(s *system) { s.set(5, "1", counter.Like, true); s.set(6, "1", counter.Like, true) },
			func(s *system) {
				time.Sleep(5 * time.Millisecond)
				s.set(5, "1", counter.Like, true)
				s.set(5, "1", counter.Like, false)
			},
			1,
			[]int{0, 1, 2, 3, 4, 6},
		},
		"ClockAhead": {
			"The lost master's clock was hours ahead: new versions must be above its own (FAULTS 51).",
			func(s *system) {
				ahead := fmt.Sprintf("%d-0", time.Now().Add(3*time.Hour).UnixMilli())
				out := fmt.Sprintf("out{%s}", post(s.t, "1").Tag())
				s.direct.XAdd(s.t.Context(), &redis.XAddArgs{Stream: out, ID: ahead, Values: []string{"x", ""}})
				s.direct.XDel(s.t.Context(), out, ahead)
				s.set(5, "1", counter.Like, true)
				s.set(0, "1", counter.Like, false)
			},
			func(s *system) { s.set(6, "1", counter.Like, true) },
			2,
			[]int{1, 2, 3, 4, 5, 6},
		},
		"Nothing": {
			"Another server answers, and has all there is.",
			func(*system) {}, func(s *system) { s.set(5, "1", counter.Like, true) }, 0,
			[]int{0, 1, 2, 3, 4, 5},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t, openWith(t, sqlite(t), 50), enginetest.RedisOptions{Port: enginetest.FreePort(t), Args: []string{"--repl-diskless-sync-delay", "0"}})
			s.setAll(upTo(5), "1", counter.Like, true)
			s.setAll(upTo(5), "2", counter.Fav, true)
			s.published()
			next := s.failover()
			tail := next.tail()
			tc.lost(s)
			s.published()
			s.server.Kill()
			tc.early(next)
			next.look(tail, tc.putBack)
			want := map[string][]int{"like:post:1": tc.likes, "fav:post:2": upTo(5)}
			same(t, next.held(), want)
			if tc.putBack > 0 {
				next.countsAre(want, "1", "2")
			}
			epoch := func() string { return next.direct.Get(t.Context(), fmt.Sprintf("epoch{%s}", post(t, "1").Tag())).Val() }
			before := epoch()
			next.look(tail, 0)
			if epoch() != before {
				t.Errorf("%s\nlikes were stopped a second time", tc.reason)
			}
			// What comes later is archived and counted as ever, also on what was put back.
			if got := next.set(30, "1", counter.Like, true); !got.Changed || int(got.Counts.Like) != len(tc.likes)+1 {
				t.Errorf("%s\nthe next like: %+v", tc.reason, got)
			}
			last := slices.DeleteFunc(slices.Clone(tc.likes), func(o int) bool { return o == 5 })
			next.set(5, "1", counter.Like, false)
			next.published()
			if _, err := counter.NewCatchUp(s.kafka, s.group, s.store).Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			pages, err := s.store.Likers(t.Context(), archive.LikersQuery{Subject: post(t, "1"), N: 100})
			likers := slices.Concat(pages...)
			if err != nil {
				t.Fatal(err)
			}
			var archived []int
			for _, liker := range likers {
				archived = append(archived, int(liker.Ordinal))
			}
			if slices.Sort(archived); !slices.Equal(archived, append(last, 30)) {
				t.Errorf("%s\nthe archive has likes of %v, want %v and 30", tc.reason, archived, last)
			}
			counts, err := s.store.Counts(t.Context(), []counter.Subject{post(t, "1")})
			if got := counts[post(t, "1")]; err != nil || int(got.Like) != len(archived) {
				t.Errorf("%s\narchived counts %+v, %v; want %d", tc.reason, got, err, len(archived))
			}
			next.look(tail, 0)
		})
	}
}

// Nobody is disturbed while nothing is lost: not at the start, not at reconnects,
// not while the archive lags behind the likes.
func TestTailLeavesAlone(t *testing.T) {
	t.Parallel()
	s := newSystem(t, openWith(t, sqlite(t), 300), enginetest.RedisOptions{})
	archiving(t, s.db, s.kafka, s.group)
	var group sync.WaitGroup
	stop := make(chan struct{})
	for worker := range 4 {
		group.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := s.facts.Set(t.Context(), viewer(4*(i%75)+worker), post(t, fmt.Sprint(i%7)), counter.Like, i%3 > 0); err != nil {
					t.Errorf("a like was refused: %v", err)
					return
				}
			}
		})
	}
	for range 5 {
		n, err := s.tail().Look(t.Context()) // each as if just started
		if n != 0 || err != nil {
			t.Errorf("put back %d, %v", n, err)
		}
	}
	close(stop)
	group.Wait()
}
