package feed_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallyfeed/tallyfeed/database"
	"github.com/tallyfeed/tallyfeed/enginetest"
	"github.com/tallyfeed/tallyfeed/feed"
)

// onEngines runs test once on each engine, with an empty store of its own.
func onEngines(t *testing.T, test func(t *testing.T, db *bun.DB)) {
	t.Helper()
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, open(t, "sqlite:"+filepath.Join(t.TempDir(), "feed.db")))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, open(t, enginetest.Postgres(t)))
	})
}

func open(tb testing.TB, address string) *bun.DB {
	tb.Helper()
	db, err := database.Open(tb.Context(), address)
	if err != nil {
		tb.Fatalf("open: %v", err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	if err := database.Migrate(tb.Context(), db); err != nil {
		tb.Fatalf("migrate: %v", err)
	}
	return db
}

// queries watches the queries of a store and may interfere with them.
type queries struct {
	count atomic.Int64
	fail  atomic.Bool

	// held, when set, keeps the answer of each query that reads until it is
	// closed, or the query itself with early; arrived is told of each.
	held    chan struct{}
	early   bool
	arrived chan struct{}
}

func (q *queries) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context {
	q.count.Add(1)
	if q.fail.Load() {
		dead, cancel := context.WithCancelCause(ctx)
		cancel(errors.New("the store is down"))
		return dead
	}
	if q.early {
		q.hold()
	}
	return ctx
}

func (q *queries) AfterQuery(_ context.Context, event *bun.QueryEvent) {
	if q.held != nil && !q.early && event.Operation() == "SELECT" {
		q.hold()
	}
}

func (q *queries) hold() {
	q.arrived <- struct{}{}
	<-q.held
}

func holding() *queries {
	return &queries{held: make(chan struct{}), arrived: make(chan struct{}, 100)}
}

// fill publishes n posts by alice at the same instant in groups of three, so
// that order depends on ids as well, and returns their ids, newest first.
func fill(tb testing.TB, db *bun.DB, n int) []string {
	tb.Helper()
	var lines strings.Builder
	ids := make([]string, n)
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i := range n {
		ids[n-1-i] = fmt.Sprintf("p%04d", i)
		fmt.Fprintf(&lines, `{"id":"p%04d","author":"alice","authorName":"Alice","title":"Post %d","body":"Text.","publishedAt":%q}`+"\n",
			i, i, start.Add(time.Duration(i/3)*time.Microsecond).Format(time.RFC3339Nano))
	}
	report, err := feed.New(db, feed.Config{}).Import(tb.Context(), strings.NewReader(lines.String()))
	if err != nil || report.Added != n {
		tb.Fatalf("import of %d posts: %+v, %v", n, report, err)
	}
	return ids
}

func publish(tb testing.TB, f *feed.Feed, sub, title string, visibility feed.Visibility) *feed.Post {
	tb.Helper()
	post, err := f.Publish(tb.Context(), feed.Author{Sub: sub}, feed.Draft{Title: title, Body: "Text.", Visibility: visibility})
	if err != nil {
		tb.Fatalf("publish %q: %v", title, err)
	}
	return post
}

func page(tb testing.TB, f *feed.Feed, first int, after *feed.Cursor) *feed.Page {
	tb.Helper()
	p, err := f.Page(tb.Context(), first, after)
	if err != nil {
		tb.Fatalf("page of %d: %v", first, err)
	}
	return p
}

func titles(p *feed.Page) string {
	var all []string
	for _, post := range p.Posts {
		all = append(all, post.Title)
	}
	return strings.Join(all, ", ")
}

func cursor(tb testing.TB, post *feed.Post) *feed.Cursor {
	tb.Helper()
	c, err := feed.ParseCursor(post.Cursor())
	if err != nil {
		tb.Fatalf("cursor of post %s: %v", post.ID, err)
	}
	return &c
}

// eventually polls until ok, and fails after the two seconds within which one
// server must see what another has changed.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	deadline := time.Now().Add(2 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			tb.Fatalf("still not after 2 s: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestEmpty(t *testing.T) {
	onEngines(t, func(t *testing.T, db *bun.DB) {
		f := feed.New(db, feed.Config{})
		check := func(want bool, when string) {
			t.Helper()
			if got, err := f.Empty(t.Context()); err != nil || got != want {
				t.Errorf("%s: empty = %t, %v; want %t", when, got, err, want)
			}
		}
		check(true, "at first")
		post := publish(t, f, "alice", "One", feed.Private)
		check(false, "with a post")
		if err := f.Delete(t.Context(), "alice", post.ID); err != nil {
			t.Fatal(err)
		}
		check(false, "with a tombstone only")
	})
}
