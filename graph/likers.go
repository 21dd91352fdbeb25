package graph

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"time"

	"github.com/graph-gophers/dataloader/v7"

	"github.com/tallyfeed/tallyfeed/archive"
	"github.com/tallyfeed/tallyfeed/counter"
)

// LikersPolicy says who may see who likes a subject.
type LikersPolicy string

// The policies.
const (
	LikersPublic LikersPolicy = "public"
	LikersAuthor LikersPolicy = "author"
	LikersOff    LikersPolicy = "off"
)

// Likers is a page of who likes the post.
func (p *Post) Likers(ctx context.Context, first *int32, after *string) (*UserConnection, error) {
	o := overlayFrom(ctx)
	switch o.likersPolicy {
	case LikersOff:
		return nil, nil
	case LikersAuthor:
		if sub := viewerSub(ctx); sub == "" || sub != p.post.Author.Sub {
			return nil, nil
		}
	}
	size, err := pageSize(first)
	if err != nil {
		return nil, err
	}
	subject, err := counter.NewSubject(counter.TypePost, p.post.ID)
	if err != nil {
		return nil, err
	}
	page := likersPage{subject: subject, n: size + 1}
	if after != nil {
		if page.after, err = parseLikersCursor(*after); err != nil {
			return nil, err
		}
	}
	found, err := o.likers.Load(context.WithoutCancel(ctx), page)()
	if err != nil {
		return nil, unavailable("who likes this", err)
	}
	return &UserConnection{
		post: p, likers: found[:min(size, len(found))],
		hasNext: len(found) > size, hasPrevious: after != nil,
	}, nil
}

// likersPage is what a likers loader is asked for; the zero cursor is the start.
type likersPage struct {
	subject counter.Subject
	after   likersCursor
	n       int
}

// likersWait is for how long posts of a page gather before one statement asks
// for all their likers.
const likersWait = time.Millisecond

func (r *resolver) likersLoader() *dataloader.Loader[likersPage, []archive.Liker] {
	return dataloader.NewBatchedLoader(
		func(ctx context.Context, pages []likersPage) []*dataloader.Result[[]archive.Liker] {
			queries := make([]archive.LikersQuery, len(pages))
			for i, page := range pages {
				queries[i] = archive.LikersQuery{Subject: page.subject, Metric: counter.Like, N: page.n}
				if page.after != (likersCursor{}) {
					queries[i].After = &archive.Liker{Version: page.after.version, Ordinal: page.after.ordinal}
				}
			}
			ctx, cancel := context.WithTimeout(ctx, maxRequest)
			defer cancel()
			answers, err := r.Archive.Likers(ctx, queries...)
			all := make([]*dataloader.Result[[]archive.Liker], len(pages))
			for i := range all {
				all[i] = &dataloader.Result[[]archive.Liker]{Error: err}
				if err == nil {
					all[i].Data = answers[i]
				}
			}
			return all
		},
		dataloader.WithWait[likersPage, []archive.Liker](likersWait),
	)
}

// UserConnection is a page of those who like a post.
type UserConnection struct {
	post                 *Post
	likers               []archive.Liker
	hasNext, hasPrevious bool
}

// UserEdge is one who likes a post.
type UserEdge struct{ liker archive.Liker }

// Edges has one for each user.
func (c *UserConnection) Edges() []*UserEdge {
	edges := make([]*UserEdge, len(c.likers))
	for i, liker := range c.likers {
		edges[i] = &UserEdge{liker}
	}
	return edges
}

// Nodes has the users alone.
func (c *UserConnection) Nodes() []*User {
	users := make([]*User, len(c.likers))
	for i, liker := range c.likers {
		users[i] = (&UserEdge{liker}).Node()
	}
	return users
}

// PageInfo says how to go on.
func (c *UserConnection) PageInfo() *PageInfo {
	return pageInfo(c.Edges(), c.hasNext, c.hasPrevious)
}

// TotalCount is the post's own count.
func (c *UserConnection) TotalCount() *int32 { return c.post.LikeCount() }

// Cursor is where the like stands.
func (e *UserEdge) Cursor() string {
	return likersCursor{e.liker.Version, e.liker.Ordinal}.String()
}

// Node is the user.
func (e *UserEdge) Node() *User { return &User{sub: string(e.liker.Sub), name: e.liker.Name} }

// LikedAt is when.
func (e *UserEdge) LikedAt() time.Time { return e.liker.Version.Time() }

// likersCursor is a like's place: 12 bytes in base64url.
type likersCursor struct {
	version counter.Version
	ordinal counter.Ordinal
}

func (c likersCursor) String() string {
	b := binary.BigEndian.AppendUint64(nil, uint64(c.version))
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(b, uint32(c.ordinal)))
}

func parseLikersCursor(text string) (likersCursor, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != 12 || b[0] >= 1<<7 {
		return likersCursor{}, badInput("after", "is not a cursor of this list")
	}
	return likersCursor{counter.Version(binary.BigEndian.Uint64(b)), counter.Ordinal(binary.BigEndian.Uint32(b[8:]))}, nil
}
