package archive_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tallyfeed/tallyfeed/archive"
	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/enginetest"
	"github.com/tallyfeed/tallyfeed/lua"
)

func sqlite(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "archive.db") }

// An emptied Redis has all its facts again, in containers of the right size,
// and likes go on: nothing but the topic and the archive was needed.
func TestRestore(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		likers int
		step   int // between ordinals
		key    string
	}{
		"One":           {"The smallest.", 1, 1, "bm:like:post:1:few"},
		"Few512":        {"A set may be full.", 512, 1, "bm:like:post:1:few"},
		"Bitmap513":     {"One more, all in one chunk: a bitmap at once.", 513, 1, "bm:like:post:1:0"},
		"Spread513":     {"One more, each in a chunk of its own: small sets.", 513, 32768, "bm:like:post:1:512:few"},
		"TwoBitmaps":    {"Several chunks, each a bitmap.", 1400, 50, "bm:like:post:1:1"},
		"BitmapAndSet":  {"A full chunk and one that is not.", 700, 60, "bm:like:post:1:1:few"},
		"ChunkSets":     {"Several chunks, each a set of hundreds.", 1200, 100, "bm:like:post:1:0:few"},
		"LimitInChunks": {"The limit is passed in the second chunk.", 600, 65, "bm:like:post:1:0:few"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t, openSpread(t, sqlite(t), max(tc.likers, 20), tc.step), enginetest.RedisOptions{})
			s.setAll(upTo(tc.likers), "1", counter.Like, true)
			s.setAll(upTo(5), "1", counter.Fav, true)
			s.setAll(upTo(7), "2", counter.Like, true)
			s.set(3, "2", counter.Like, false)
			s.set(4, "3", counter.Fav, true)
			s.set(4, "3", counter.Fav, false) // known to the archive, and without facts
			s.published()
			before := s.held()
			s.empty()
			if _, err := s.facts.Set(t.Context(), viewer(9), post(t, "2"), counter.Like, true); !errors.Is(err, counter.ErrNoEpoch) {
				t.Errorf("%s\na like before the restore: %v", tc.reason, err)
			}
			if done := s.restore(); done.Tags != counter.Tags || done.Subjects != 3 || done.Facts != int64(tc.likers+5+6) {
				t.Errorf("%s\nrestored %+v", tc.reason, done)
			}
			same(t, s.held(), before)
			if n := s.direct.Keys(t.Context(), tc.key+"{*").Val(); len(n) != 1 {
				t.Errorf("%s\nno %s: there are %v", tc.reason, tc.key, s.direct.Keys(t.Context(), "bm:like:post:1:*").Val())
			}
			s.countsAre(before, "1", "2", "3")
			if left := s.direct.Keys(t.Context(), "restore*").Val(); len(left) > 0 {
				t.Errorf("%s\nleases are left: %v", tc.reason, left)
			}
			if got := s.set(0, "2", counter.Like, true); got.Changed || got.Counts.Like != 6 {
				t.Errorf("%s\nthe same like again: %+v", tc.reason, got)
			}
			if got := s.set(3, "2", counter.Like, true); !got.Changed || got.Counts.Like != 7 {
				t.Errorf("%s\na like after the restore: %+v", tc.reason, got)
			}
			if done := s.restore(); done.Tags != 0 {
				t.Errorf("%s\na second restore does something: %+v", tc.reason, done)
			}
		})
	}
}

// On PostgreSQL as well: what is read there by one query has the same order.
func TestRestoreFromPostgres(t *testing.T) {
	t.Parallel()
	s := newSystem(t, openWith(t, enginetest.Postgres(t), 700), enginetest.RedisOptions{})
	for i, id := range []string{"a", "B", "_", "-", "1", "10", "b"} {
		s.setAll(upTo(100*(i+1)), id, counter.Like, true)
		s.setAll(upTo(3), id, counter.Fav, true)
	}
	s.published()
	before := s.held()
	s.empty()
	s.restore()
	same(t, s.held(), before)
}

// A new system, which has never given an ordinal, is founded and not restored.
func TestRestoreFounds(t *testing.T) {
	t.Parallel()
	s := newSystem(t, openWith(t, sqlite(t), 0), enginetest.RedisOptions{})
	s.empty()
	s.restore()
	if got := s.set(1, "1", counter.Like, true); !got.Changed {
		t.Errorf("%+v", got)
	}
}

// Redis has lost its epochs and not its facts: what lies there that is not true
// goes, what waits in the outbox and in Kafka counts (FAULTS 59).
func TestRestoreOverLeftovers(t *testing.T) {
	t.Parallel()
	s := newSystem(t, openSpread(t, sqlite(t), 1500, 40), enginetest.RedisOptions{})
	s.setAll(upTo(1500), "1", counter.Like, true) // two chunks
	s.setAll(upTo(4), "2", counter.Like, true)
	s.published()
	_, stop := archiving(t, s.db, s.kafka, s.group)
	eventually(t, 60*time.Second, "all rows", func() bool { return active(t, s.db) == 1504 })
	stop()
	// These unlikes are in Kafka, and in no table yet.
	s.setAll(upTo(1100), "1", counter.Like, false)
	s.set(2, "2", counter.Like, false)
	s.published()
	// This one is in the outbox, and in no topic yet.
	s.facts = counter.NewFacts(s.redis, s.ordinals, quiet, counter.FactsConfig{})
	s.set(3, "2", counter.Like, false)
	want := s.held()
	s.forget()
	ctx := t.Context()
	tag := post(t, "2").Tag()
	s.direct.SAdd(ctx, fmt.Sprintf("bm:like:post:2:few{%s}", tag), 5, 6, 7)
	s.direct.SAdd(ctx, fmt.Sprintf("bm:fav:post:2:chunks{%s}", tag), 0, 1) // of a larger past
	s.direct.SAdd(ctx, fmt.Sprintf("bm:fav:post:2:0:few{%s}", tag), 5, 6, 7)
	s.direct.SetBit(ctx, fmt.Sprintf("bm:fav:post:2:1{%s}", tag), 5, 1)
	s.direct.Set(ctx, fmt.Sprintf("bm:fav:post:2:n{%s}", tag), 99, 0)
	s.restore()
	same(t, s.held(), want)
	s.countsAre(want, "1", "2")
	s.published()
}

// stopping is an archive that lets a test in before a fact is read.
type stopping struct {
	*archive.Store
	before func(fact counter.Reaction) error
}

func (s stopping) Active(ctx context.Context, subjects []counter.Subject, see func(counter.Reaction) error) error {
	return s.Store.Active(ctx, subjects, func(fact counter.Reaction) error {
		if err := s.before(fact); err != nil {
			return err
		}
		return see(fact)
	})
}

// A restore that is killed in the middle, anywhere, is done by the next one.
func TestRestoreKilled(t *testing.T) {
	t.Parallel()
	s := newSystem(t, openSpread(t, sqlite(t), 1500, 40), enginetest.RedisOptions{})
	s.setAll(upTo(1500), "1", counter.Like, true)
	for i := range 30 {
		s.setAll(upTo(10+i), fmt.Sprint(100+i), counter.Metric(i%2), true)
	}
	s.published()
	before := s.held()
	s.empty()
	for _, dies := range []int{1, 700, 1499, 1800} {
		n := 0
		var mu sync.Mutex
		_, err := s.restorer(stopping{s.store, func(counter.Reaction) error {
			mu.Lock()
			defer mu.Unlock()
			if n++; n >= dies {
				return errStop
			}
			return nil
		}}).Restore(t.Context())
		if !errors.Is(err, errStop) {
			t.Fatalf("killed at fact %d: %v", dies, err)
		}
		if _, err := s.reader.Counts(t.Context(), []counter.Subject{post(t, "1")}); dies < 1500 && !errors.Is(err, counter.ErrNoEpoch) {
			t.Errorf("half a subject is readable: %v", err)
		}
	}
	s.restore()
	same(t, s.held(), before)
}

// Several restorers at once share the work, and give what one gives (FAULTS 59).
func TestRestoreTogether(t *testing.T) {
	t.Parallel()
	s := newSystem(t, openWith(t, sqlite(t), 600), enginetest.RedisOptions{})
	for i := range 200 {
		s.setAll(upTo(3+i%5), fmt.Sprint(i), counter.Like, true)
	}
	s.setAll(upTo(600), "1", counter.Like, true)
	s.published()
	before := s.held()
	s.empty()
	for range 3 {
		background(t, s.restorer(archive.NewStore(s.db)).Run)
	}
	eventually(t, 60*time.Second, "all epochs", func() bool {
		status, err := s.redis.Epoch(t.Context())
		return err == nil && status.Complete()
	})
	same(t, s.held(), before)
}

// A restorer is stopped for longer than its lease lasts. Another one restores,
// and likes and unlikes go on; when the first wakes up it must not write its old
// facts over them (FAULTS 16, 59).
func TestRestorerSleeps(t *testing.T) {
	t.Parallel()
	for name, loses := range map[string]func(*system){
		"LeaseEnded": func(s *system) {
			for _, key := range s.direct.Keys(s.t.Context(), "restore*").Val() {
				s.direct.Del(s.t.Context(), key)
			}
		},
		// Emptied once more in the middle: what was written under the lease went with it.
		"RedisEmptied": func(s *system) { s.empty() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t, openWith(t, sqlite(t), 600), enginetest.RedisOptions{})
			s.setAll(upTo(600), "1", counter.Like, true)
			s.setAll(upTo(10), "1", counter.Fav, true)
			s.published()
			s.empty()
			asleep, wake := make(chan struct{}), make(chan struct{})
			var once sync.Once
			slept := make(chan error, 1)
			go func() {
				_, err := s.restorer(stopping{s.store, func(fact counter.Reaction) error {
					if fact.Metric == counter.Like && fact.Ordinal == 5 {
						once.Do(func() { close(asleep); <-wake })
					}
					return nil
				}}).Restore(t.Context())
				slept <- err
			}()
			<-asleep
			s.othersDone()
			loses(s)
			s.restore()
			s.set(7, "1", counter.Like, false)
			s.set(8, "1", counter.Fav, false)
			want := s.held()
			close(wake)
			if err := <-slept; err == nil {
				t.Error("the sleeper noticed nothing")
			}
			same(t, s.held(), want)
		})
	}
}

// holding stops a process right before it would write an epoch.
type holding struct {
	reached chan struct{}
	release chan struct{}
	once    *sync.Once
	key     string
}

// DialHook is part of redis.Hook.
func (h holding) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook is part of redis.Hook.
func (h holding) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook is part of redis.Hook.
func (h holding) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); len(args) > 3 && args[1] == lua.Epoch.Hash && args[3] == h.key {
			h.once.Do(func() { close(h.reached); <-h.release })
		}
		return next(ctx, cmd)
	}
}

// othersDone waits until the sleeper's other workers have nothing to do any more:
// their scripts would notice that the lease is lost.
func (s *system) othersDone() {
	s.t.Helper()
	eventually(s.t, 30*time.Second, "all but one of some tags", func() bool {
		status, err := s.redis.Epoch(s.t.Context())
		return err == nil && status.Present%32 == 31
	})
}

// A restorer sleeps; another one restores, likes are taken back, Redis is emptied
// once more, and a third one has just written what is true now. Then the first
// wakes up: there is no epoch that would stop it, only the token.
func TestRestorerWakesIntoAnother(t *testing.T) {
	t.Parallel()
	s := newSystem(t, openWith(t, sqlite(t), 600), enginetest.RedisOptions{})
	s.setAll(upTo(600), "1", counter.Like, true)
	s.published()
	s.empty()
	asleep, wake, slept := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	var once sync.Once
	go func() {
		_, err := s.restorer(stopping{s.store, func(fact counter.Reaction) error {
			if fact.Ordinal == 599 {
				once.Do(func() { close(asleep); <-wake })
			}
			return nil
		}}).Restore(t.Context())
		slept <- err
	}()
	<-asleep
	s.othersDone()
	s.empty()
	s.restore()
	s.setAll(upTo(300), "1", counter.Like, false)
	s.published()
	want := s.held()
	s.empty()

	third := *s
	var err error
	if third.redis, err = counter.OpenRedis(t.Context(), s.server.URL()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = third.redis.Close() })
	hold := holding{make(chan struct{}), make(chan struct{}), &sync.Once{}, fmt.Sprintf("epoch{%s}", post(t, "1").Tag())}
	third.redis.AddHook(hold)
	finished := make(chan error, 1)
	go func() { _, err := third.restorer(s.store).Restore(t.Context()); finished <- err }()
	<-hold.reached
	close(wake)
	if err := <-slept; err == nil {
		t.Error("the sleeper noticed nothing")
	}
	close(hold.release)
	if err := <-finished; err != nil {
		t.Error(err)
	}
	same(t, s.held(), want)
}

// The lost Redis's clock was hours ahead: new changes must get versions above the
// old ones, or snapshots and archive would decline them as old (FAULTS 51).
func TestRestoreAfterClockAhead(t *testing.T) {
	t.Parallel()
	s := newSystem(t, openWith(t, sqlite(t), 50), enginetest.RedisOptions{})
	ahead := time.Now().Add(3 * time.Hour).UnixMilli()
	apply(t, s.store, event("1", counter.Like, 1, true, int(ahead)), event("1", counter.Like, 2, true, int(ahead)+1))
	s.empty()
	s.restore()
	archiving(t, s.db, s.kafka, s.group)
	s.set(1, "1", counter.Like, false)
	s.set(3, "1", counter.Like, true)
	eventually(t, 60*time.Second, "the unlike and the like in the archive", func() bool {
		pages, err := s.store.Likers(t.Context(), archive.LikersQuery{Subject: post(t, "1"), N: 10})
		likers := slices.Concat(pages...)
		return err == nil && len(likers) == 2 && likers[0].Ordinal == 3 && likers[1].Ordinal == 2
	})
	counts, err := s.store.Counts(t.Context(), []counter.Subject{post(t, "1")})
	if got := counts[post(t, "1")]; err != nil || got.Like != 2 {
		t.Errorf("archived counts: %+v, %v", got, err)
	}
}

// A reader has seen a bitmap, and leaves the small sets out; after a restore the
// facts lie in a small set (FAULTS 62).
func TestReaderOverRestore(t *testing.T) {
	t.Parallel()
	s := newSystem(t, openWith(t, sqlite(t), 600), enginetest.RedisOptions{})
	s.setAll(upTo(600), "1", counter.Like, true)
	s.setAll(upTo(600)[20:], "1", counter.Like, false) // still a bitmap
	liked := func() bool {
		states, err := s.reader.Viewer(t.Context(), viewer(3), []counter.Subject{post(t, "1")})
		if err != nil || !states[0].Known {
			t.Fatalf("%+v, %v", states, err)
		}
		return states[0].Liked
	}
	if !liked() { // from now on the bitmap is remembered
		t.Fatal("not liked before the restore")
	}
	s.published()
	s.empty()
	s.restore()
	if n := s.direct.Keys(t.Context(), "bm:like:post:1:few*").Val(); len(n) != 1 {
		t.Fatal("not in a small set after the restore")
	}
	if !liked() {
		t.Error("not liked after the restore")
	}
}

// The facts of a post that was deleted do not come back, although its likes lie
// in Kafka still.
func TestRestoreLeavesDeletedOut(t *testing.T) {
	t.Parallel()
	s := newSystem(t, openWith(t, sqlite(t), 50), enginetest.RedisOptions{})
	s.setAll(upTo(20), "1", counter.Like, true)
	s.setAll(upTo(5), "2", counter.Like, true)
	execute(t, s.db, "INSERT INTO deleted_posts (id, deleted_at) VALUES ('1', 0)")
	if err := s.facts.Delete(t.Context(), post(t, "1")); err != nil {
		t.Fatal(err)
	}
	s.forget() // the `deleted` event is in the outbox
	s.restore()
	want := map[string][]int{"like:post:2": upTo(5)}
	same(t, s.held(), want)
	s.empty()
	s.restore()
	same(t, s.held(), want)
}
