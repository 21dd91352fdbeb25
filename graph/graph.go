// Package graph is the GraphQL edge: it asks who is there, calls feed and
// counter, and lays what a viewer did over what everybody sees.
//
//	query.go, mutation.go, subscription.go, post.go, user.go, connection.go   a file per type
//	likers.go, reacted.go   lists out of the archive
//	overlay.go     counts and the viewer's flags: one round trip a request
//	errors.go      what a client learns of an error
//	guard.go, cost.go, limits.go, nulls.go   what is not run
//	persisted.go   documents that are known by name
//	handler.go, transport.go, params.go, events.go, websocket.go, socket.go, authenticate.go, origin.go, playground.go   HTTP
package graph

import (
	"context"
	"log/slog"

	"github.com/tallyfeed/tallyfeed/archive"
	"github.com/tallyfeed/tallyfeed/auth"
	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/feed"
)

//go:generate go tool gqlgen generate

// Posts is what is asked of package feed.
type Posts interface {
	Page(ctx context.Context, first int, after *feed.Cursor) (*feed.Page, error)
	Post(ctx context.Context, id, viewerSub string) (*feed.Post, error)
	Posts(ctx context.Context, ids []string, viewerSub string) ([]*feed.Post, error)
	Author(ctx context.Context, sub string) (*feed.Author, error)
	Authors(ctx context.Context, subs []string) ([]*feed.Author, error)
	Publish(ctx context.Context, author feed.Author, draft feed.Draft) (*feed.Post, error)
	Update(ctx context.Context, sub, id string, changes feed.Changes) (*feed.Post, error)
	Delete(ctx context.Context, sub, id string) error
}

// Facts is what is asked of counter when somebody reacts.
type Facts interface {
	Set(ctx context.Context, viewer counter.Viewer, s counter.Subject, m counter.Metric, want bool) (counter.Outcome, error)
}

// Counts is what is asked of counter for a page.
type Counts interface {
	Counts(ctx context.Context, subjects []counter.Subject) ([]counter.Reading, error)
	ExactCounts(ctx context.Context, subjects []counter.Subject) ([]counter.Reading, error)
	Viewer(ctx context.Context, viewer counter.Viewer, subjects []counter.Subject) ([]counter.ViewerState, error)
}

// Archive is what is asked of archive about everybody.
type Archive interface {
	Likers(ctx context.Context, queries ...archive.LikersQuery) ([][]archive.Liker, error)
	Counts(ctx context.Context, subjects []counter.Subject) (map[counter.Subject]counter.Totals, error)
}

// Lists is what is asked of archive about the viewer.
type Lists interface {
	Page(ctx context.Context, viewer counter.Viewer, m counter.Metric, after *archive.Mine, n int) (archive.Page, error)
}

// Live is what is asked of counter for as long as somebody looks.
type Live interface {
	Listen(subjects []counter.Subject) *counter.Listener
}

// Users lets somebody leave.
type Users interface {
	// Leave makes sub unknown from now on. What is theirs goes within minutes.
	Leave(ctx context.Context, sub string) error
	// Left says whether sub has left. It is asked with every operation.
	Left(sub string) bool
}

// Verifier checks tokens.
type Verifier interface {
	Verify(ctx context.Context, token string) (auth.Viewer, error)
}

// Services is what the edge is wired to; all fields are needed.
type Services struct {
	Posts    Posts
	Facts    Facts
	Counts   Counts
	Archive  Archive
	Lists    Lists
	Live     Live
	Users    Users
	Verifier Verifier
	Log      *slog.Logger
}

// resolver is the root of all resolvers.
type resolver struct {
	Services
	likers LikersPolicy
}

// Query is part of ResolverRoot.
func (r *resolver) Query() QueryResolver { return &query{r} }

// Mutation is part of ResolverRoot.
func (r *resolver) Mutation() MutationResolver { return &mutation{r} }

// Subscription is part of ResolverRoot.
func (r *resolver) Subscription() SubscriptionResolver { return &subscription{r} }

// viewerSub is the sub of who asks, "" for nobody.
func viewerSub(ctx context.Context) string {
	viewer, _ := auth.ViewerFrom(ctx)
	return viewer.Sub
}
