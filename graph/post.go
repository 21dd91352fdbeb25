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
// to a mutation. Both say false when they do not know; why not has been
// reported once for the whole request.
type reactions interface {
	counts() (counter.Counts, bool)
	exact() (counter.Counts, bool)
	viewer() (counter.ViewerState, bool)
}

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
	counts, known := p.reactions.counts()
	return gqlCount(counts.Like, known)
}

// FavCount is nil when not known.
func (p *Post) FavCount() *int32 {
	counts, known := p.reactions.counts()
	return gqlCount(counts.Fav, known)
}

// ExactLikeCount is nil when not known.
func (p *Post) ExactLikeCount() *int32 {
	counts, known := p.reactions.exact()
	return gqlCount(counts.Like, known)
}

// ExactFavCount is nil when not known.
func (p *Post) ExactFavCount() *int32 {
	counts, known := p.reactions.exact()
	return gqlCount(counts.Fav, known)
}

// CountsAsOf is nil when not known.
func (p *Post) CountsAsOf() *time.Time {
	counts, known := p.reactions.counts()
	if !known || counts.Version == 0 {
		return nil
	}
	at := counts.Version.Time()
	return &at
}

// ViewerHasLiked is nil when nobody is signed in, or when not known.
func (p *Post) ViewerHasLiked() *bool {
	state, known := p.reactions.viewer()
	if !known {
		return nil
	}
	return &state.Liked
}

// ViewerHasFaved is nil when nobody is signed in, or when not known.
func (p *Post) ViewerHasFaved() *bool {
	state, known := p.reactions.viewer()
	if !known {
		return nil
	}
	return &state.Faved
}

// gqlCount saturates: Int has 31 bits and a sign.
func gqlCount(count uint32, known bool) *int32 {
	if !known {
		return nil
	}
	n := int32(min(count, math.MaxInt32))
	return &n
}

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
