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

func TestStampedeIsOneQuery(t *testing.T) {
	onEngines(t, func(t *testing.T, db *bun.DB) {
		fill(t, db, 30)
		watch := &queries{}
		f := feed.New(db.WithQueryHook(watch), feed.Config{CacheFor: time.Hour})
		after := cursor(t, page(t, f, 5, nil).Posts[4])

		for name, place := range map[string]*feed.Cursor{"newest": nil, "older": after} {
			before := watch.count.Load()
			var group sync.WaitGroup
			start := make(chan struct{})
			for range 100 {
				group.Go(func() {
					<-start
					if p, err := f.Page(t.Context(), 20, place); err != nil || len(p.Posts) != 20 {
						t.Errorf("%s: %v", name, err)
					}
				})
			}
			close(start)
			group.Wait()
			if got := watch.count.Load() - before; got != 1 {
				t.Errorf("%s: 100 requests made %d queries", name, got)
			}
		}
	})
}

func TestEmptyPageIsCached(t *testing.T) {
	onEngines(t, func(t *testing.T, db *bun.DB) {
		watch := &queries{}
		f := feed.New(db.WithQueryHook(watch), feed.Config{CacheFor: time.Hour})
		for range 3 {
			if p := page(t, f, 20, nil); len(p.Posts) != 0 || p.HasNext {
				t.Fatalf("a feed without posts gives %q", titles(p))
			}
		}
		if got := watch.count.Load(); got != 1 {
			t.Errorf("3 requests made %d queries", got)
		}
	})
}

func TestOwnChangesAreSeenAtOnce(t *testing.T) {
	onEngines(t, func(t *testing.T, db *bun.DB) {
		f := feed.New(db, feed.Config{CacheFor: time.Hour})
		expect := func(when, want string) {
			t.Helper()
			if got := titles(page(t, f, 10, nil)); got != want {
				t.Errorf("%s: page is %q, want %q", when, got, want)
			}
		}
		expect("at first", "")
		post := publish(t, f, "alice", "One", feed.Public)
		expect("published", "One")
		if _, err := f.Post(t.Context(), post.ID, ""); err != nil {
			t.Fatal(err)
		}

		title := "Two"
		if _, err := f.Update(t.Context(), "alice", post.ID, feed.Changes{Title: &title}); err != nil {
			t.Fatal(err)
		}
		expect("updated", "Two")
		if got, err := f.Post(t.Context(), post.ID, ""); err != nil || got.Title != title {
			t.Errorf("updated: post is %+v, %v", got, err)
		}

		if err := f.Delete(t.Context(), "alice", post.ID); err != nil {
			t.Fatal(err)
		}
		expect("deleted", "")
		if _, err := f.Post(t.Context(), post.ID, ""); !errors.Is(err, feed.ErrNoPost) {
			t.Errorf("deleted: %v, want ErrNoPost", err)
		}
	})
}

// TestChangeDuringLoad commits a change after a load has read the old state and
// before it has stored it: what it stores must not be served from then on.
func TestChangeDuringLoad(t *testing.T) {
	onEngines(t, func(t *testing.T, db *bun.DB) {
		watch := holding()
		f := feed.New(db.WithQueryHook(watch), feed.Config{CacheFor: time.Hour})
		other := feed.New(db, feed.Config{})
		post := publish(t, other, "alice", "Old", feed.Public)

		var group sync.WaitGroup
		group.Go(func() { _, _ = f.Page(t.Context(), 10, nil) })
		group.Go(func() { _, _ = f.Post(t.Context(), post.ID, "") })
		<-watch.arrived
		<-watch.arrived // both have their answer, and don't know it yet

		// Update ends with a read, which is held as well.
		updated := make(chan error, 1)
		go func() {
			title := "New"
			_, err := f.Update(t.Context(), "alice", post.ID, feed.Changes{Title: &title})
			updated <- err
		}()
		<-watch.arrived
		close(watch.held)
		if err := <-updated; err != nil {
			t.Fatal(err)
		}
		for range 2 { // with the old loads perhaps ended, and surely ended
			if got := titles(page(t, f, 10, nil)); got != "New" {
				t.Errorf("page is %q after the change", got)
			}
			if got, err := f.Post(t.Context(), post.ID, ""); err != nil || got.Title != "New" {
				t.Errorf("post is %+v, %v after the change", got, err)
			}
			group.Wait()
		}
	})
}

func TestOthersChangesAreSeenSoon(t *testing.T) {
	onEngines(t, func(t *testing.T, db *bun.DB) {
		here, there := feed.New(db, feed.Config{}), feed.New(db, feed.Config{})
		if p := page(t, here, 10, nil); len(p.Posts) != 0 {
			t.Fatalf("a feed without posts gives %q", titles(p))
		}
		post := publish(t, there, "alice", "One", feed.Public)
		eventually(t, "the new post is on the page", func() bool { return titles(page(t, here, 10, nil)) == "One" })

		if _, err := here.Post(t.Context(), post.ID, ""); err != nil {
			t.Fatal(err)
		}
		if err := there.Delete(t.Context(), "alice", post.ID); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the post is gone", func() bool {
			_, err := here.Post(t.Context(), post.ID, "")
			return errors.Is(err, feed.ErrNoPost)
		})
	})
}

func TestFirstCallerCancels(t *testing.T) {
	onEngines(t, func(t *testing.T, db *bun.DB) {
		ids := fill(t, db, 5)
		watch := holding()
		watch.early = true
		f := feed.New(db.WithQueryHook(watch), feed.Config{})

		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { _, _ = f.Page(ctx, 5, nil) })
		group.Go(func() { _, _ = f.Posts(ctx, ids, "") })
		<-watch.arrived
		<-watch.arrived
		group.Go(func() {
			if p, err := f.Page(t.Context(), 5, nil); err != nil || len(p.Posts) != 5 {
				t.Errorf("page for the second caller: %v", err)
			}
		})
		group.Go(func() {
			if _, err := f.Posts(t.Context(), ids, ""); err != nil {
				t.Errorf("posts for the second caller: %v", err)
			}
		})
		cancel()
		close(watch.held)
		group.Wait()
		if got := watch.count.Load(); got != 2 {
			t.Errorf("%d queries, want those of the first caller to do for both", got)
		}
	})
}

func TestErrorsAreNotCached(t *testing.T) {
	onEngines(t, func(t *testing.T, db *bun.DB) {
		ids := fill(t, db, 3)
		watch := &queries{}
		f := feed.New(db.WithQueryHook(watch), feed.Config{CacheFor: time.Hour})

		watch.fail.Store(true)
		if _, err := f.Page(t.Context(), 3, nil); err == nil {
			t.Error("a page came from a store that is down")
		}
		if _, err := f.Post(t.Context(), ids[0], ""); err == nil || errors.Is(err, feed.ErrNoPost) {
			t.Errorf("post of a store that is down: %v; it must not look deleted", err)
		}
		if _, err := f.Author(t.Context(), "alice"); err == nil || errors.Is(err, feed.ErrNoAuthor) {
			t.Errorf("author of a store that is down: %v", err)
		}

		watch.fail.Store(false)
		if p := page(t, f, 3, nil); len(p.Posts) != 3 {
			t.Errorf("page has %d posts when the store is back", len(p.Posts))
		}
		if _, err := f.Post(t.Context(), ids[0], ""); err != nil {
			t.Errorf("post when the store is back: %v", err)
		}
	})
}

func TestEndedContext(t *testing.T) {
	onEngines(t, func(t *testing.T, db *bun.DB) {
		ids := fill(t, db, 3)
		f := feed.New(db, feed.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := f.Post(ctx, ids[0], ""); !errors.Is(err, context.Canceled) {
			t.Errorf("cold post: %v; it must not look deleted", err)
		}
		if _, err := f.Page(ctx, 3, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("cold page: %v", err)
		}
	})
}
