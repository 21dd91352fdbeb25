package feed_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallyfeed/tallyfeed/feed"
)

func openFile(tb testing.TB) *bun.DB {
	tb.Helper()
	return open(tb, "sqlite:"+filepath.Join(tb.TempDir(), "feed.db"))
}

func TestPosts(t *testing.T) {
	onEngines(t, func(t *testing.T, db *bun.DB) {
		ids := fill(t, db, 5)
		writer := feed.New(db, feed.Config{})
		secret := publish(t, writer, "bob", "Secret", feed.Private).ID
		asked := []string{ids[4], "nobody", ids[0], "../etc", secret, ids[0], "", "a\x00b", ids[2]}

		cases := map[string]struct {
			reason string
			viewer string
			want   []string
		}{
			"Anonymous": {"Nobody is not the author of anything.", "", []string{ids[4], "", ids[0], "", "", ids[0], "", "", ids[2]}},
			"Other":     {"Somebody else's private post looks like none.", "alice", []string{ids[4], "", ids[0], "", "", ids[0], "", "", ids[2]}},
			"Author":    {"Its author reads it.", "bob", []string{ids[4], "", ids[0], "", secret, ids[0], "", "", ids[2]}},
		}
		watch := &queries{}
		f := feed.New(db.WithQueryHook(watch), feed.Config{CacheFor: time.Hour})
		for name, tc := range cases { // one cache for all viewers, as in a server
			posts, err := f.Posts(t.Context(), asked, tc.viewer)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got := make([]string, len(posts))
			for i, post := range posts {
				if post != nil {
					got[i] = post.ID
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("%s: %s\ngot  %q\nwant %q", name, tc.reason, got, tc.want)
			}
		}
		if got := watch.count.Load(); got != 1 {
			t.Errorf("three times nine ids made %d queries", got)
		}
	})
}

func TestPostHasEverything(t *testing.T) {
	onEngines(t, func(t *testing.T, db *bun.DB) {
		const odd = `It's "odd" \ ? ?? $1 %s ☃ 🎉` + "\n\ttwo lines"
		at := time.Date(2026, 5, 6, 7, 8, 9, 123456789, time.FixedZone("", 3600))
		f := feed.New(db, feed.Config{Now: func() time.Time { return at }})
		made, err := f.Publish(t.Context(), feed.Author{Sub: `o'b"\?`, Name: odd[:10]}, feed.Draft{Title: odd, Body: odd + odd})
		if err != nil {
			t.Fatal(err)
		}
		read, err := f.Post(t.Context(), made.ID, "")
		if err != nil {
			t.Fatal(err)
		}
		for what, post := range map[string]*feed.Post{"made": made, "read": read} {
			if post.Title != odd || post.Body != odd+odd || post.Visibility != feed.Public ||
				*post.Author != (feed.Author{Sub: `o'b"\?`, Name: odd[:10]}) {
				t.Errorf("%s: %+v by %+v", what, post, post.Author)
			}
			if !post.PublishedAt.Equal(at.Truncate(time.Microsecond)) || post.PublishedAt.Location() != time.UTC {
				t.Errorf("%s: published at %v", what, post.PublishedAt)
			}
		}
	})
}

func TestAuthors(t *testing.T) {
	onEngines(t, func(t *testing.T, db *bun.DB) {
		f := feed.New(db, feed.Config{CacheFor: time.Hour})
		if _, err := f.Author(t.Context(), "alice"); !errors.Is(err, feed.ErrNoAuthor) {
			t.Errorf("before the first post: %v, want ErrNoAuthor", err)
		}
		for _, step := range []struct{ reason, name, want string }{
			{"A token without a name gives none.", "", ""},
			{"A name is kept when it comes.", "Alice", "Alice"},
			{"A token without a name takes none away.", "", "Alice"},
			{"A new name replaces the old one.", "Alice B.", "Alice B."},
		} {
			post, err := f.Publish(t.Context(), feed.Author{Sub: "alice", Name: step.name}, feed.Draft{Title: "T"})
			if err != nil {
				t.Fatal(err)
			}
			author, err := f.Author(t.Context(), "alice")
			if err != nil || author.Name != step.want || post.Author.Name != step.want {
				t.Errorf("%s\nauthor %+v, post by %+v, %v", step.reason, author, post.Author, err)
			}
		}

		got, err := f.Authors(t.Context(), []string{"nobody", "alice", "", strings.Repeat("x", 129), "a\x00"})
		if err != nil || len(got) != 5 || got[0] != nil || got[1] == nil || got[1].Sub != "alice" || got[2] != nil || got[3] != nil || got[4] != nil {
			t.Errorf("authors are %v, %v", got, err)
		}
	})
}

func BenchmarkPostsWarm(b *testing.B) {
	db := openFile(b)
	ids := fill(b, db, 20)
	f := feed.New(db, feed.Config{CacheFor: time.Hour})
	b.ReportAllocs()
	for b.Loop() {
		posts, err := f.Posts(b.Context(), ids, "alice")
		if err != nil || len(posts) != len(ids) || posts[0] == nil {
			b.Fatalf("%d posts, %v", len(posts), err)
		}
	}
}
