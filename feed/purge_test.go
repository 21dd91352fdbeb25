package feed_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallyfeed/tallyfeed/feed"
)

// subjects records what is deleted and fails for the ids in broken.
type subjects struct {
	mu      sync.Mutex
	deleted map[string]int
	broken  map[string]bool
	hang    bool // until the context ends
}

func (s *subjects) Delete(ctx context.Context, postID string) error {
	if s.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken[postID] {
		return errors.New("counting is down")
	}
	if s.deleted == nil {
		s.deleted = make(map[string]int)
	}
	s.deleted[postID]++
	return nil
}

func (s *subjects) times(postID string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deleted[postID]
}

func pending(t *testing.T, db *bun.DB) int {
	t.Helper()
	var n int
	if err := db.NewRaw("SELECT count(*) FROM purges").Scan(t.Context(), &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestDeletePurges(t *testing.T) {
	onEngines(t, func(t *testing.T, db *bun.DB) {
		counts := &subjects{}
		f := feed.New(db, feed.Config{Subjects: counts})
		post := publish(t, f, "alice", "T", feed.Public)
		if err := f.Delete(t.Context(), "alice", post.ID); err != nil {
			t.Fatal(err)
		}
		if counts.times(post.ID) != 1 || pending(t, db) != 0 {
			t.Errorf("purged %d times, %d rows are left", counts.times(post.ID), pending(t, db))
		}
	})
}

func TestDeleteDoesNotWaitForPurge(t *testing.T) {
	onEngines(t, func(t *testing.T, db *bun.DB) {
		f := feed.New(db, feed.Config{Subjects: &subjects{hang: true}, PurgeTimeout: 10 * time.Millisecond})
		post := publish(t, f, "alice", "T", feed.Public)
		if err := f.Delete(t.Context(), "alice", post.ID); err != nil {
			t.Errorf("the post is gone, but: %v", err)
		}
		if pending(t, db) != 1 {
			t.Errorf("%d rows, want the purge to be pending", pending(t, db))
		}
	})
}

func TestPurgesLeftBehind(t *testing.T) {
	onEngines(t, func(t *testing.T, db *bun.DB) {
		// This process can't purge, and dies.
		dead := feed.New(db, feed.Config{})
		var ids []string
		for range 3 {
			post := publish(t, dead, "alice", "T", feed.Public)
			ids = append(ids, post.ID)
			if err := dead.Delete(t.Context(), "alice", post.ID); err != nil {
				t.Fatal(err)
			}
		}

		counts := &subjects{broken: map[string]bool{ids[0]: true}}
		fresh := feed.New(db, feed.Config{Subjects: counts})
		if done, err := fresh.Purge(t.Context()); done != 0 || err != nil {
			t.Errorf("purged %d posts of a process that may be at it, %v", done, err)
		}
		later := feed.New(db, feed.Config{Subjects: counts, Now: func() time.Time { return time.Now().Add(time.Minute) }})
		if done, err := later.Purge(t.Context()); done != 2 || err == nil {
			t.Errorf("purged %d posts, %v; want two and the error of the third", done, err)
		}
		if pending(t, db) != 1 {
			t.Errorf("%d rows are left, want one", pending(t, db))
		}
	})
}

func TestRunPurges(t *testing.T) {
	onEngines(t, func(t *testing.T, db *bun.DB) {
		dead := feed.New(db, feed.Config{})
		post := publish(t, dead, "alice", "T", feed.Public)
		if err := dead.Delete(t.Context(), "alice", post.ID); err != nil {
			t.Fatal(err)
		}

		counts := &subjects{broken: map[string]bool{post.ID: true}}
		f := feed.New(db, feed.Config{Subjects: counts, PurgeEvery: time.Millisecond, PurgeTimeout: 100 * time.Millisecond})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- f.RunPurges(ctx) }()
		counts.mu.Lock()
		counts.broken = nil // it comes back
		counts.mu.Unlock()
		eventually(t, "the pending purge is done", func() bool { return counts.times(post.ID) > 0 && pending(t, db) == 0 })
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("told to stop: %v", err)
		}
	})
}
