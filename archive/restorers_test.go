package archive_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tallyfeed/tallyfeed/archive"
	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/enginetest"
	"github.com/tallyfeed/tallyfeed/lua"
)

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
			sleeper := s.restorer(stopping{s.store, func(fact counter.Reaction) error {
				if fact.Metric == counter.Like && fact.Ordinal == 5 {
					once.Do(func() { close(asleep); <-wake })
				}
				return nil
			}})
			go func() { _, err := sleeper.Restore(t.Context()); slept <- err }()
			<-asleep
			s.othersDone()
			if progress := sleeper.Progress(); !strings.HasPrefix(progress, "restoring facts: ") {
				t.Errorf("what /readyz says meanwhile: %q", progress)
			}
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
