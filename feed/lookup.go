package feed

import (
	"context"
	"fmt"

	"github.com/maypok86/otter/v2"
	"github.com/uptrace/bun"
)

// lookup finds things by key through a cache. That there is no such thing is
// cached like a thing, as nil.
type lookup[V any] struct {
	cache *otter.Cache[string, *V]
	bulk  otter.BulkLoader[string, *V]
}

// newLookup returns a lookup over load, which need not return the keys that it
// did not find.
func newLookup[V any](
	config Config,
	weigh func(*V) uint32,
	load func(ctx context.Context, keys []string) (map[string]*V, error),
) *lookup[V] {
	return &lookup[V]{
		cache: otter.Must(&otter.Options[string, *V]{
			MaximumWeight:    config.PostBytes,
			Weigher:          func(_ string, v *V) uint32 { return weigh(v) },
			ExpiryCalculator: otter.ExpiryWriting[string, *V](config.CacheFor),
		}),
		bulk: otter.BulkLoaderFunc[string, *V](func(ctx context.Context, keys []string) (map[string]*V, error) {
			ctx, cancel := config.loading(ctx)
			defer cancel()
			found, err := load(ctx, keys)
			if err != nil {
				return nil, err
			}
			for _, key := range keys {
				if _, ok := found[key]; !ok {
					found[key] = nil
				}
			}
			return found, nil
		}),
	}
}

// get returns one value for each key, in their order, nil where there is none.
// All that the cache does not have is loaded in one call; what another caller
// is loading already is waited for.
func (l *lookup[V]) get(ctx context.Context, keys []string) ([]*V, error) {
	values := make([]*V, len(keys))
	var missing []string
	for i, key := range keys {
		value, ok := l.cache.GetIfPresent(key)
		if !ok {
			missing = append(missing, key)
			continue
		}
		values[i] = value
	}
	if missing == nil {
		return values, nil
	}

	loaded, err := l.cache.BulkGet(ctx, missing, l.bulk)
	if err != nil {
		return nil, err
	}
	for i, key := range keys {
		if value := loaded[key]; value != nil {
			values[i] = value
		}
	}
	return values, nil
}

// Post returns one post, or ErrNoPost where the viewer can see none of this id.
func (f *Feed) Post(ctx context.Context, id, viewerSub string) (*Post, error) {
	posts, err := f.Posts(ctx, []string{id}, viewerSub)
	if err != nil {
		return nil, err
	}
	if posts[0] == nil {
		return nil, ErrNoPost
	}
	return posts[0], nil
}

// Posts returns one post for each id, in their order, and nil where the viewer
// can see none. It asks the store once for all that are not cached.
func (f *Feed) Posts(ctx context.Context, ids []string, viewerSub string) ([]*Post, error) {
	posts, err := getValid(ctx, f.posts, ids, ValidID)
	if err != nil {
		return nil, err
	}
	for i, post := range posts {
		if post != nil && !post.VisibleTo(viewerSub) {
			posts[i] = nil
		}
	}
	return posts, nil
}

// Author returns one author, or ErrNoAuthor.
func (f *Feed) Author(ctx context.Context, sub string) (*Author, error) {
	authors, err := f.Authors(ctx, []string{sub})
	if err != nil {
		return nil, err
	}
	if authors[0] == nil {
		return nil, ErrNoAuthor
	}
	return authors[0], nil
}

// Authors returns one author for each sub, in their order, and nil where there
// is none. It asks the store once for all that are not cached.
func (f *Feed) Authors(ctx context.Context, subs []string) ([]*Author, error) {
	return getValid(ctx, f.authors, subs, validSub)
}

// getValid is get without the keys that can't exist: what a client makes up
// must reach neither the store, which may choke on it, nor the cache.
func getValid[V any](ctx context.Context, l *lookup[V], keys []string, valid func(string) bool) ([]*V, error) {
	asked := make([]string, 0, len(keys))
	for _, key := range keys {
		if valid(key) {
			asked = append(asked, key)
		}
	}
	found, err := l.get(ctx, asked)
	if err != nil || len(asked) == len(keys) {
		return found, err
	}
	values := make([]*V, len(keys))
	for i, key := range keys {
		if valid(key) {
			values[i], found = found[0], found[1:]
		}
	}
	return values, nil
}

func (f *Feed) loadPosts(ctx context.Context, ids []string) (map[string]*Post, error) {
	rows := make([]postRow, 0, len(ids))
	if err := selectPosts(f.db, &rows).Where("p.id IN (?)", bun.List(ids)).Scan(ctx); err != nil {
		return nil, fmt.Errorf("read %d posts: %w", len(ids), err)
	}
	found := make(map[string]*Post, len(ids))
	for i := range rows {
		found[rows[i].ID] = rows[i].post()
	}
	return found, nil
}

func (f *Feed) loadAuthors(ctx context.Context, subs []string) (map[string]*Author, error) {
	var rows []struct{ Sub, Name string }
	err := f.db.NewRaw("SELECT sub, name FROM users WHERE sub IN (?)", bun.List(subs)).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("read %d authors: %w", len(subs), err)
	}
	found := make(map[string]*Author, len(subs))
	for _, row := range rows {
		found[row.Sub] = &Author{Sub: row.Sub, Name: row.Name}
	}
	return found, nil
}

// IDs returns up to n ids of posts, also private ones, that come after the given
// one in bytewise order; from the first for "". It is for who must see all.
func (f *Feed) IDs(ctx context.Context, after string, n int) ([]string, error) {
	var ids []string
	err := f.db.NewSelect().Table("posts").Column("id").Where("id > ?", after).Order("id").Limit(int64(n)).Scan(ctx, &ids)
	if err != nil {
		return nil, fmt.Errorf("list posts: %w", err)
	}
	return ids, nil
}

// ByAuthor returns up to n posts of an author, also private ones, whose ids come
// after the given one in bytewise order; from the first for "".
func (f *Feed) ByAuthor(ctx context.Context, sub, after string, n int) ([]*Post, error) {
	if !validSub(sub) {
		return nil, nil
	}
	var rows []postRow
	err := selectPosts(f.db, &rows).Where("p.author_sub = ?", sub).Where("p.id > ?", after).Order("p.id").Limit(int64(n)).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("list an author's posts: %w", err)
	}
	posts := make([]*Post, len(rows))
	for i := range rows {
		posts[i] = rows[i].post()
	}
	return posts, nil
}
