package graph

import (
	"context"
	"errors"

	"github.com/99designs/gqlgen/graphql"

	"github.com/tallyfeed/tallyfeed/auth"
	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/feed"
)

type query struct{ *resolver }

const (
	maxPage  = 100
	maxNodes = 100
	anyPage  = 20

	notAPost = "is not a post's id, e.g. post:10001"
	notAnID  = "is not an id of this API, e.g. post:10001"
)

// Feed is a page of public posts.
func (q *query) Feed(ctx context.Context, first *int32, after *string) (*PostConnection, error) {
	overlay := overlayFrom(ctx)
	defer overlay.arrive(ctx)

	size, err := pageSize(first)
	if err != nil {
		return nil, err
	}
	var cursor *feed.Cursor
	if after != nil {
		at, err := feed.ParseCursor(*after)
		if err != nil {
			return nil, badInput("after", "is not a cursor of this feed")
		}
		cursor = &at
	}
	page, err := q.Posts.Page(ctx, size, cursor)
	if err != nil {
		return nil, unavailable("the feed", err)
	}
	return &PostConnection{
		posts: overlay.over(ctx, page.Posts...), hasNext: page.HasNext, hasPrevious: cursor != nil,
	}, nil
}

// Post is one post, nil where the viewer must not know of it.
func (q *query) Post(ctx context.Context, id string) (*Post, error) {
	defer overlayFrom(ctx).arrive(ctx)
	own, ok := parsePostID(id)
	if !ok {
		return nil, badInput("id", notAPost)
	}
	return q.post(ctx, own)
}

func (q *query) post(ctx context.Context, id string) (*Post, error) {
	post, err := q.Posts.Post(ctx, id, viewerSub(ctx))
	if errors.Is(err, feed.ErrNoPost) {
		return nil, nil
	}
	if err != nil {
		return nil, unavailable("posts", err)
	}
	return overlayFrom(ctx).over(ctx, post)[0], nil
}

// Node is a post or a user.
func (q *query) Node(ctx context.Context, id string) (Node, error) {
	defer overlayFrom(ctx).arrive(ctx)
	if own, ok := parsePostID(id); ok {
		post, err := q.post(ctx, own)
		if post == nil || err != nil {
			return nil, err // a nil *Post in an interface would not be nil
		}
		return post, nil
	}
	if sub, ok := parseUserID(id); ok {
		user, err := q.user(ctx, sub)
		if user == nil || err != nil {
			return nil, err
		}
		return user, nil
	}
	return nil, badInput("id", notAnID)
}

// Nodes finds all posts at once, and all users.
func (q *query) Nodes(ctx context.Context, ids []string) ([]Node, error) {
	overlay := overlayFrom(ctx)
	defer overlay.arrive(ctx)
	if len(ids) > maxNodes {
		return nil, badInput("ids", "must be at most 100")
	}
	nodes := make([]Node, len(ids))
	var own, subs []string
	var places, userPlaces []int
	for i, id := range ids {
		if post, ok := parsePostID(id); ok {
			own, places = append(own, post), append(places, i)
		} else if sub, ok := parseUserID(id); ok {
			subs, userPlaces = append(subs, sub), append(userPlaces, i)
		} else {
			// The error stands at its own place: the rest is not lost with it.
			place := graphql.WithPathContext(ctx, graphql.NewPathWithIndex(i))
			graphql.AddError(place, badInput("ids", notAnID))
		}
	}
	if len(subs) > 0 {
		authors, err := q.Posts.Authors(ctx, subs)
		if err != nil {
			return nil, unavailable("users", err)
		}
		for at, author := range authors {
			if author != nil {
				nodes[userPlaces[at]] = &User{sub: author.Sub, name: author.Name}
			}
		}
	}
	if len(own) == 0 {
		return nodes, nil
	}
	posts, err := q.Posts.Posts(ctx, own, viewerSub(ctx))
	if err != nil {
		return nil, unavailable("posts", err)
	}
	for at, post := range overlay.over(ctx, posts...) {
		if post != nil {
			nodes[places[at]] = post
		}
	}
	return nodes, nil
}

func (q *query) user(ctx context.Context, sub string) (*User, error) {
	author, err := q.Posts.Author(ctx, sub)
	if errors.Is(err, feed.ErrNoAuthor) {
		return nil, nil
	}
	if err != nil {
		return nil, unavailable("users", err)
	}
	return &User{sub: author.Sub, name: author.Name}, nil
}

// Viewer is who the token says.
func (q *query) Viewer(ctx context.Context) (*User, error) {
	viewer, ok := auth.ViewerFrom(ctx)
	if !ok {
		return nil, nil
	}
	if viewer.Name == "" {
		// A token without a name: an import may know it.
		user, err := q.user(ctx, viewer.Sub)
		if user != nil || err != nil {
			return user, err
		}
	}
	return &User{sub: viewer.Sub, name: viewer.Name}, nil
}

// reactable checks a subject that is to be changed.
func (r *resolver) reactable(ctx context.Context, argument, id, sub string) (counter.Subject, *feed.Post, error) {
	subject, err := counter.ParseSubject(id)
	if err != nil {
		return counter.Subject{}, nil, badInput(argument, "is not the id of something that can be liked, e.g. post:10001")
	}
	post, err := r.Posts.Post(ctx, subject.ID(), sub)
	if err != nil {
		return counter.Subject{}, nil, fromFeed(err)
	}
	return subject, post, nil
}
