package graph

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/feed"
)

// Node is whatever node and nodes find.
type Node interface{ IsNode() }

// Reactable is what can be liked.
type Reactable interface{ IsReactable() }

// Post is a post as one viewer sees it. Its methods take no context, so gqlgen
// reads them one after the other instead of starting a goroutine for each.
type Post struct {
	post      *feed.Post
	reactions reactions
}

// reactions is where a post's counts and flags come from: loaders, or the answer
// to a mutation.
type reactions interface{ shown() *shown }

// IsNode is part of Node.
func (*Post) IsNode() {}

// IsReactable is part of Reactable.
func (*Post) IsReactable() {}

// ID is the id of this API.
func (p *Post) ID() string { return counter.TypePost + ":" + p.post.ID }

// Author wrote it.
func (p *Post) Author() *User { return &User{sub: p.post.Author.Sub, name: p.post.Author.Name} }

// Title is plain text.
func (p *Post) Title() string { return p.post.Title }

// Body is plain text.
func (p *Post) Body() string { return p.post.Body }

// PublishedAt orders the feed.
func (p *Post) PublishedAt() time.Time { return p.post.PublishedAt }

// Visibility says who may read it.
func (p *Post) Visibility() feed.Visibility { return p.post.Visibility }

// LikeCount is nil when not known.
func (p *Post) LikeCount() *int32 {
	s := p.reactions.shown()
	return where(s.countsKnown, &s.likes)
}

// FavCount is nil when not known.
func (p *Post) FavCount() *int32 {
	s := p.reactions.shown()
	return where(s.countsKnown, &s.favs)
}

// ExactLikeCount is nil when not known.
func (p *Post) ExactLikeCount() *int32 {
	s := p.reactions.shown()
	return where(s.exactKnown, &s.exactLikes)
}

// ExactFavCount is nil when not known.
func (p *Post) ExactFavCount() *int32 {
	s := p.reactions.shown()
	return where(s.exactKnown, &s.exactFavs)
}

// CountsAsOf is nil when not known.
func (p *Post) CountsAsOf() *time.Time {
	s := p.reactions.shown()
	return where(s.countsKnown && !s.asOf.IsZero(), &s.asOf)
}

// ViewerHasLiked is nil when nobody is signed in, or when not known.
func (p *Post) ViewerHasLiked() *bool {
	s := p.reactions.shown()
	return where(s.viewerKnown, &s.liked)
}

// ViewerHasFaved is nil when nobody is signed in, or when not known.
func (p *Post) ViewerHasFaved() *bool {
	s := p.reactions.shown()
	return where(s.viewerKnown, &s.faved)
}

// where is nil for what is not known.
func where[V any](known bool, value *V) *V {
	if !known {
		return nil
	}
	return value
}

// shown is a post's counts and flags as they go out: what a page has 20 of is
// made once, and its fields point into it. What is not known means nothing; why
// not has been reported once for the whole request.
type shown struct {
	likes, favs, exactLikes, exactFavs   int32
	asOf                                 time.Time // zero: nothing yet
	liked, faved                         bool
	countsKnown, exactKnown, viewerKnown bool
}

func (s *shown) count(counts counter.Counts) {
	s.likes, s.favs, s.countsKnown = gqlCount(counts.Like), gqlCount(counts.Fav), true
	if counts.Version != 0 {
		s.asOf = counts.Version.Time()
	}
}

func (s *shown) countExactly(counts counter.Counts) {
	s.exactLikes, s.exactFavs, s.exactKnown = gqlCount(counts.Like), gqlCount(counts.Fav), true
}

// gqlCount saturates: Int has 31 bits and a sign.
func gqlCount(count uint32) int32 { return int32(min(count, math.MaxInt32)) }

// MarshalVisibility writes the enum.
func MarshalVisibility(v feed.Visibility) graphql.Marshaler {
	return graphql.WriterFunc(func(w io.Writer) { _, _ = io.WriteString(w, strconv.Quote(string(v))) })
}

// UnmarshalVisibility reads the enum.
func UnmarshalVisibility(value any) (feed.Visibility, error) {
	text, _ := value.(string)
	if v := feed.Visibility(text); v == feed.Public || v == feed.Private {
		return v, nil
	}
	return "", fmt.Errorf("must be PUBLIC or PRIVATE")
}
