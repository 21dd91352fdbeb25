package graph

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"time"

	"github.com/tallyfeed/tallyfeed/archive"
	"github.com/tallyfeed/tallyfeed/counter"
)

// LikedPosts are the viewer's own.
func (u *User) LikedPosts(ctx context.Context, first *int32, after *string) (*ReactedPostConnection, error) {
	return u.reacted(ctx, counter.Like, first, after)
}

// FavedPosts are the viewer's own.
func (u *User) FavedPosts(ctx context.Context, first *int32, after *string) (*ReactedPostConnection, error) {
	return u.reacted(ctx, counter.Fav, first, after)
}

func (u *User) reacted(ctx context.Context, m counter.Metric, first *int32, after *string) (*ReactedPostConnection, error) {
	if sub := viewerSub(ctx); sub == "" || sub != u.sub {
		return nil, nil
	}
	size, err := pageSize(first)
	if err != nil {
		return nil, err
	}
	var from *archive.Mine
	if after != nil {
		if from, err = parseReactedCursor(*after); err != nil {
			return nil, err
		}
	}
	o := overlayFrom(ctx)
	page, err := o.resolver.Lists.Page(ctx, counter.Viewer(u.sub), m, from, size+1)
	if err != nil {
		return nil, unavailable("the list", err)
	}
	if page.Behind != nil {
		o.failed(ctx, page.Behind)
	}
	ids := make([]string, len(page.Mine))
	for i, mine := range page.Mine {
		ids[i] = mine.Subject.ID()
	}
	posts, err := o.resolver.Posts.Posts(ctx, ids, u.sub)
	if err != nil {
		return nil, unavailable("posts", err)
	}
	c := &ReactedPostConnection{total: page.Total, hasNext: len(page.Mine) > size, hasPrevious: after != nil}
	views := o.over(ctx, posts...)
	o.flush() // below the root: the others have their own batch
	for i, view := range views[:min(size, len(views))] {
		if view != nil { // deleted this moment
			c.edges = append(c.edges, &ReactedPostEdge{post: view, place: page.Mine[i]})
		}
	}
	return c, nil
}

// ReactedPostConnection is a page of posts that the viewer likes or favs.
type ReactedPostConnection struct {
	edges                []*ReactedPostEdge
	total                int
	hasNext, hasPrevious bool
}

// ReactedPostEdge is one of them.
type ReactedPostEdge struct {
	post  *Post
	place archive.Mine
}

// Edges has one for each post.
func (c *ReactedPostConnection) Edges() []*ReactedPostEdge { return c.edges }

// Nodes has the posts alone.
func (c *ReactedPostConnection) Nodes() []*Post {
	posts := make([]*Post, len(c.edges))
	for i, edge := range c.edges {
		posts[i] = edge.post
	}
	return posts
}

// PageInfo says how to go on.
func (c *ReactedPostConnection) PageInfo() *PageInfo {
	return pageInfo(c.edges, c.hasNext, c.hasPrevious)
}

// TotalCount is that of the whole list.
func (c *ReactedPostConnection) TotalCount() int32 { return int32(max(c.total, 0)) }

// Cursor is where the post stands: its version and its subject, in base64url.
func (e *ReactedPostEdge) Cursor() string {
	b := binary.BigEndian.AppendUint64(nil, uint64(e.place.Version))
	return base64.RawURLEncoding.EncodeToString(append(b, e.place.Subject.String()...))
}

// Node is the post.
func (e *ReactedPostEdge) Node() *Post { return e.post }

// ReactedAt is when.
func (e *ReactedPostEdge) ReactedAt() time.Time { return e.place.Version.Time() }

func parseReactedCursor(text string) (*archive.Mine, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < 8 || b[0] >= 1<<7 {
		return nil, badInput("after", "is not a cursor of this list")
	}
	subject, err := counter.ParseSubject(string(b[8:]))
	if err != nil {
		return nil, badInput("after", "is not a cursor of this list")
	}
	return &archive.Mine{Version: counter.Version(binary.BigEndian.Uint64(b)), Subject: subject}, nil
}
