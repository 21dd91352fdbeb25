package graph

import (
	"context"
	"errors"

	"github.com/tallyfeed/tallyfeed/auth"
	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/feed"
)

type mutation struct{ *resolver }

// Like is a directed change, so a client may repeat it.
func (m *mutation) Like(ctx context.Context, input ReactionInput) (*ReactionPayload, error) {
	return m.react(ctx, input, counter.Like, true)
}

// Unlike takes a like back.
func (m *mutation) Unlike(ctx context.Context, input ReactionInput) (*ReactionPayload, error) {
	return m.react(ctx, input, counter.Like, false)
}

// Fav puts a subject among the viewer's favs.
func (m *mutation) Fav(ctx context.Context, input ReactionInput) (*ReactionPayload, error) {
	return m.react(ctx, input, counter.Fav, true)
}

// Unfav takes it off.
func (m *mutation) Unfav(ctx context.Context, input ReactionInput) (*ReactionPayload, error) {
	return m.react(ctx, input, counter.Fav, false)
}

func (m *mutation) react(ctx context.Context, input ReactionInput, metric counter.Metric, want bool) (*ReactionPayload, error) {
	viewer, err := signedIn(ctx)
	if err != nil {
		return nil, err
	}
	subject, post, err := m.reactable(ctx, "subjectId", input.SubjectID, viewer.Sub)
	if err != nil {
		return nil, err
	}
	outcome, err := m.Facts.Set(ctx, counter.Viewer(viewer.Sub), subject, metric, want)
	if err != nil {
		return nil, fromCounter(err)
	}
	overlayFrom(ctx).forget(ctx, subject)
	return &ReactionPayload{
		Changed:          outcome.Changed,
		Subject:          &Post{post: post, reactions: newSettled(outcome)},
		ClientMutationID: input.ClientMutationID,
	}, nil
}

// PublishPost makes the viewer an author.
func (m *mutation) PublishPost(ctx context.Context, input PublishPostInput) (*PublishPostPayload, error) {
	viewer, err := signedIn(ctx)
	if err != nil {
		return nil, err
	}
	draft := feed.Draft{Title: input.Title, Body: input.Body}
	if input.Visibility != nil {
		draft.Visibility = *input.Visibility
	}
	post, err := m.Posts.Publish(ctx, feed.Author{Sub: viewer.Sub, Name: viewer.Name}, draft)
	if err != nil {
		return nil, fromFeed(err)
	}
	return &PublishPostPayload{Post: m.view(ctx, post), ClientMutationID: input.ClientMutationID}, nil
}

// UpdatePost changes what is given.
func (m *mutation) UpdatePost(ctx context.Context, input UpdatePostInput) (*UpdatePostPayload, error) {
	viewer, err := signedIn(ctx)
	if err != nil {
		return nil, err
	}
	id, ok := parsePostID(input.ID)
	if !ok {
		return nil, badInput("id", notAPost)
	}
	post, err := m.Posts.Update(ctx, viewer.Sub, id, feed.Changes{Title: input.Title, Body: input.Body, Visibility: input.Visibility})
	if err != nil {
		return nil, fromFeed(err)
	}
	return &UpdatePostPayload{Post: m.view(ctx, post), ClientMutationID: input.ClientMutationID}, nil
}

// DeletePost is for good.
func (m *mutation) DeletePost(ctx context.Context, input DeletePostInput) (*DeletePostPayload, error) {
	viewer, err := signedIn(ctx)
	if err != nil {
		return nil, err
	}
	id, ok := parsePostID(input.ID)
	if !ok {
		return nil, badInput("id", notAPost)
	}
	if err := m.Posts.Delete(ctx, viewer.Sub, id); err != nil {
		return nil, fromFeed(err)
	}
	return &DeletePostPayload{DeletedPostID: input.ID, ClientMutationID: input.ClientMutationID}, nil
}

// DeleteUser is for good.
func (m *mutation) DeleteUser(ctx context.Context, input DeleteUserInput) (*DeleteUserPayload, error) {
	viewer, err := signedIn(ctx)
	if err != nil {
		return nil, err
	}
	if sub, ok := parseUserID(input.ID); !ok {
		return nil, badInput("id", "is not a user's id")
	} else if sub != viewer.Sub {
		return nil, &clientError{code: codeForbidden, message: "nobody can delete another user"}
	}
	if err := m.Users.Leave(ctx, viewer.Sub); err != nil {
		return nil, unavailable("deletions", err)
	}
	return &DeleteUserPayload{DeletedUserID: input.ID, ClientMutationID: input.ClientMutationID}, nil
}

// view reads the reactions of a post that a mutation returns.
func (m *mutation) view(ctx context.Context, post *feed.Post) *Post {
	overlay := overlayFrom(ctx)
	defer overlay.arrive(ctx)
	return overlay.over(ctx, post)[0]
}

func signedIn(ctx context.Context) (auth.Viewer, error) {
	viewer, ok := auth.ViewerFrom(ctx)
	if !ok {
		return auth.Viewer{}, &clientError{code: codeUnauthenticated, message: "this needs a token: send Authorization: Bearer …"}
	}
	return viewer, nil
}

// fromFeed says what a client learns of an error of package feed.
func fromFeed(err error) error {
	var invalid *feed.InvalidError
	switch {
	case errors.As(err, &invalid):
		return badInput(invalid.Field, invalid.Reason)
	case errors.Is(err, feed.ErrNoPost):
		return &clientError{code: codeNotFound, message: "there is no such post"}
	case errors.Is(err, feed.ErrForbidden):
		return &clientError{code: codeForbidden, message: "only its author may do this"}
	}
	return unavailable("posts", err)
}

// fromCounter says what a client learns of an error of package counter.
func fromCounter(err error) error {
	switch {
	case errors.Is(err, counter.ErrGone):
		return &clientError{code: codeNotFound, message: "there is no such post"}
	case errors.Is(err, counter.ErrOverloaded):
		return &clientError{code: codeOverloaded, message: "too many changes are waiting; nothing was changed, try again in a moment", cause: err}
	}
	return unavailable("reactions", err)
}
