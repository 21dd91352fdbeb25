package feed

import (
	"context"
	"fmt"
	"math"
)

// MaxPage is the largest page there is.
const MaxPage = 100

// Page is a run of public posts, newest first. Nobody may change one: caches
// share it.
type Page struct {
	Posts   []*Post
	HasNext bool // whether there is at least one older post
}

func (p *Page) weight() uint32 {
	total := uint64(overhead)
	for _, post := range p.Posts {
		total += uint64(post.weight())
	}
	return uint32(min(total, math.MaxUint32))
}

type pageKey struct {
	first      int
	after      Cursor // zero: from the newest on
	generation uint64
}

// Page returns the first posts after a place, or the newest ones when after is
// nil. Order is by the time of publication and then by id, bytewise, both
// descending. Paging by the cursor of each page's last post gives no post twice
// and leaves none out, whatever is published or deleted meanwhile.
//
// first is 1 to MaxPage, else it is an *InvalidError. All who ask for the same
// page at once share one query, which none of them can cancel for the others. An
// error of the store is returned to all of them and not kept.
func (f *Feed) Page(ctx context.Context, first int, after *Cursor) (*Page, error) {
	if first < 1 || first > MaxPage {
		return nil, &InvalidError{Field: "first", Reason: fmt.Sprintf("must be 1 to %d", MaxPage)}
	}
	key := pageKey{first: first, generation: f.generation.Load()}
	if after != nil {
		key.after = *after
	}
	return f.pages.Get(ctx, key, f.pageLoader)
}

func (f *Feed) loadPage(ctx context.Context, key pageKey) (*Page, error) {
	ctx, cancel := f.config.loading(ctx)
	defer cancel()

	// One more than asked for: whether it is there is HasNext.
	rows := make([]postRow, 0, key.first+1)
	query := selectPosts(f.db, &rows).
		Where("p.visibility = ?", Public).
		OrderExpr("p.published_at DESC, p.id DESC").
		Limit(int64(key.first) + 1)
	if key.after != (Cursor{}) {
		query = query.Where("(p.published_at, p.id) < (?, ?)", key.after.published, key.after.id)
	}
	if err := query.Scan(ctx); err != nil {
		return nil, fmt.Errorf("read a page of %d posts: %w", key.first, err)
	}

	page := &Page{HasNext: len(rows) > key.first}
	rows = rows[:min(len(rows), key.first)]
	page.Posts = make([]*Post, len(rows))
	for i := range rows {
		page.Posts[i] = rows[i].post()
	}
	return page, nil
}

// loading is the context of a query that fills a cache. It outlives the request
// that happened to come first, since others wait for the same answer, but not
// for long.
func (c Config) loading(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), c.LoadTimeout)
}
