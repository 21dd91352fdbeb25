// Package feed keeps posts and their authors and serves them in pages, newest
// first. What it hands out is the same for everybody who may see it: it knows
// who may read a post, and nothing about who has liked one.
//
// Pages, posts and authors are cached for a moment in the process. A change
// made through a Feed is seen by the next call on that Feed; one that another
// process made is seen after Config.CacheFor at the latest.
package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/uptrace/bun"
)

var (
	// ErrNoPost says that there is no such post for this viewer: it was never
	// published, is deleted, its id is malformed, or it is somebody's own.
	ErrNoPost = errors.New("no such post")

	// ErrForbidden says that the viewer may read the post and not change it.
	ErrForbidden = errors.New("the post is somebody else's")

	// ErrNoAuthor says that nobody of that sub has written or reacted yet.
	ErrNoAuthor = errors.New("no such author")
)

// Subjects deletes what is counted about a post; the counting side has it.
type Subjects interface {
	// Delete returns when nothing counted about the post is left. It may be
	// called again for a post that it has already deleted, by several at once.
	Delete(ctx context.Context, postID string) error
}

// Config holds what a Feed may be told. Each zero value means its default.
type Config struct {
	// CacheFor is how long a page, a post or an author is kept, and also how
	// long one that is not there is known not to be. 0: 1.5 s, which with the
	// time of a query is within the 2 s that other servers' changes may take.
	CacheFor time.Duration

	// PageBytes and PostBytes bound the text that is cached. 0: 64 MiB each.
	PageBytes, PostBytes uint64

	// LoadTimeout bounds a query that fills a cache. 0: 3 s.
	LoadTimeout time.Duration

	// Subjects is told of deleted posts. Nil: the rows of their pending purges
	// stay for another process that has one.
	Subjects Subjects

	// PurgeTimeout bounds one call of Subjects.Delete. 0: 2 s.
	PurgeTimeout time.Duration

	// PurgeEvery is how often RunPurges looks for purges that a process has left
	// behind. 0: 5 s. It leaves those alone that are younger than PurgeTimeout
	// twice over, since whoever deleted the post is likely still at it.
	PurgeEvery time.Duration

	// Now is the clock that publishedAt is taken from. Nil: time.Now.
	Now func() time.Time

	// Log gets what fails out of a caller's sight. Nil: nowhere.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.CacheFor <= 0 {
		c.CacheFor = 1500 * time.Millisecond
	}
	if c.PageBytes == 0 {
		c.PageBytes = 64 << 20
	}
	if c.PostBytes == 0 {
		c.PostBytes = 64 << 20
	}
	if c.LoadTimeout <= 0 {
		c.LoadTimeout = 3 * time.Second
	}
	if c.PurgeTimeout <= 0 {
		c.PurgeTimeout = 2 * time.Second
	}
	if c.PurgeEvery <= 0 {
		c.PurgeEvery = 5 * time.Second
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Feed is safe for use by many goroutines. It closes nothing and starts
// nothing; RunPurges is the caller's to run.
type Feed struct {
	db     *bun.DB
	config Config

	// generation is part of the key of every cached page and moves on with each
	// change made here. A page that was being read while the change was
	// committed is thus stored under a key that nobody asks for any more.
	generation atomic.Uint64

	pages      *otter.Cache[pageKey, *Page]
	pageLoader otter.Loader[pageKey, *Page]
	posts      *lookup[Post]
	authors    *lookup[Author]
}

// New makes a Feed over the tables that database.Migrate has made. The caches
// are its own: two Feeds on one store behave like two servers.
func New(db *bun.DB, config Config) *Feed {
	f := &Feed{db: db, config: config.withDefaults()}
	f.pages = otter.Must(&otter.Options[pageKey, *Page]{
		MaximumWeight:    f.config.PageBytes,
		Weigher:          func(_ pageKey, page *Page) uint32 { return page.weight() },
		ExpiryCalculator: otter.ExpiryWriting[pageKey, *Page](f.config.CacheFor),
	})
	f.pageLoader = otter.LoaderFunc[pageKey, *Page](f.loadPage)
	f.posts = newLookup(f.config, (*Post).weight, f.loadPosts)
	f.authors = newLookup(f.config, (*Author).weight, f.loadAuthors)
	return f
}

// Empty reports whether the store has never had a post: there is none, and none
// was ever deleted. It is the question whether to import the demo.
func (f *Feed) Empty(ctx context.Context) (bool, error) {
	var found bool
	err := f.db.NewRaw("SELECT EXISTS (SELECT 1 FROM posts) OR EXISTS (SELECT 1 FROM deleted_posts)").Scan(ctx, &found)
	if err != nil {
		return false, fmt.Errorf("look for any post: %w", err)
	}
	return !found, nil
}

// changed makes the next call see what was just committed to the posts ids. It
// must follow the commit: a load that begins after it reads the new state, and
// one that is under way is neither kept nor handed to those who ask from now on.
func (f *Feed) changed(ids ...string) {
	f.generation.Add(1)
	for _, id := range ids {
		f.posts.cache.Invalidate(id)
	}
}
