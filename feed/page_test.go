package feed_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallyfeed/tallyfeed/feed"
)

func TestPagesGiveEachPostOnce(t *testing.T) {
	onEngines(t, func(t *testing.T, db *bun.DB) {
		ids := fill(t, db, 50)
		for _, size := range []int{1, 2, 7, 49, 50, 51, 100} {
			f := feed.New(db, feed.Config{})
			var got []string
			var after *feed.Cursor
			for {
				p := page(t, f, size, after)
				for _, post := range p.Posts {
					got = append(got, post.ID)
				}
				if wantNext := len(got) < len(ids); p.HasNext != wantNext {
					t.Fatalf("pages of %d: HasNext = %t after %d posts", size, p.HasNext, len(got))
				}
				if !p.HasNext {
					break
				}
				after = cursor(t, p.Posts[len(p.Posts)-1])
			}
			if !slices.Equal(got, ids) {
				t.Errorf("pages of %d: got %v\nwant %v", size, got, ids)
			}
		}
	})
}

func TestPagesWhileTheFeedChanges(t *testing.T) {
	onEngines(t, func(t *testing.T, db *bun.DB) {
		ids := fill(t, db, 9)
		f := feed.New(db, feed.Config{})
		first := page(t, f, 3, nil)
		last := first.Posts[2]

		publish(t, f, "bob", "Newer", feed.Public)
		for _, id := range []string{last.ID, ids[4]} { // the cursor's own, and one to come
			if err := f.Delete(t.Context(), "alice", id); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for _, post := range page(t, f, 3, cursor(t, last)).Posts {
			got = append(got, post.ID)
		}
		if want := []string{ids[3], ids[5], ids[6]}; !slices.Equal(got, want) {
			t.Errorf("second page is %v, want %v", got, want)
		}
	})
}

func TestPageLeavesPrivatePostsOut(t *testing.T) {
	onEngines(t, func(t *testing.T, db *bun.DB) {
		f := feed.New(db, feed.Config{})
		publish(t, f, "alice", "Open", feed.Public)
		publish(t, f, "alice", "Hidden", feed.Private)
		if got := page(t, f, 10, nil); titles(got) != "Open" || got.HasNext {
			t.Errorf("page is %q, HasNext %t", titles(got), got.HasNext)
		}
	})
}

func TestPageSize(t *testing.T) {
	onEngines(t, func(t *testing.T, db *bun.DB) {
		f := feed.New(db, feed.Config{})
		for _, first := range []int{-1, 0, 101} {
			_, err := f.Page(t.Context(), first, nil)
			if invalid, ok := errors.AsType[*feed.InvalidError](err); !ok || invalid.Field != "first" {
				t.Errorf("page of %d: %v, want it refused", first, err)
			}
		}
	})
}

func BenchmarkPageWarm(b *testing.B) {
	f := feed.New(openFile(b), feed.Config{CacheFor: time.Hour})
	if _, err := f.Import(b.Context(), feed.Demo()); err != nil {
		b.Fatal(err)
	}
	after := cursor(b, page(b, f, 20, nil).Posts[19])
	b.ReportAllocs()
	for b.Loop() {
		p, err := f.Page(b.Context(), 20, after)
		if err != nil || len(p.Posts) != 20 {
			b.Fatalf("%d posts, %v", len(p.Posts), err)
		}
	}
}
