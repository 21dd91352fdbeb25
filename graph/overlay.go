package graph

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/graph-gophers/dataloader/v7"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/tallyfeed/tallyfeed/archive"
	"github.com/tallyfeed/tallyfeed/auth"
	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/feed"
)

// overlay lays counts and the viewer's flags over the posts of one request. It
// lives as long as that request: nothing of a viewer outlives it.
//
// Every root field that finds posts announces them; when the last one has,
// both loaders send one pipeline each, side by side. So a request costs the
// same round trips whatever its shape, and no window is waited for.
type overlay struct {
	resolver     *resolver
	likersPolicy LikersPolicy
	likers       *dataloader.Loader[likersPage, []archive.Liker]

	counts *dataloader.Loader[counter.Subject, counter.Reading]
	states *dataloader.Loader[counter.Subject, counter.ViewerState] // nil: nobody is signed in
	wanted wanted                                                   // what of it the operation asks for

	// arriving is how many root fields have not announced their posts yet.
	arriving atomic.Int32
	// report tells the client, once, that something could not be read.
	report func(error)
	once   sync.Once
	// context of the root field that came first: errors are reported there.
	first     context.Context
	firstOnce sync.Once
}

type overlayKey struct{}

// safetyNet sends a batch that nobody sends, which would be a fault of ours.
const safetyNet = 100 * time.Millisecond

// withOverlay begins a request's overlay; it runs once for each operation.
func (r *resolver) withOverlay(ctx context.Context) context.Context {
	operation := graphql.GetOperationContext(ctx)
	o := &overlay{resolver: r, wanted: wantedBy(operation), likersPolicy: r.likers}
	if operation.Operation.Operation == ast.Subscription {
		return context.WithValue(ctx, overlayKey{}, o) // it has no posts to lay anything over
	}
	if o.wanted&listOverlay != 0 {
		o.likers = r.likersLoader()
	}
	read := r.Counts.Counts
	if o.wanted&exactOverlay != 0 {
		read = r.Counts.ExactCounts
	}
	if operation.Operation.Operation == ast.Query {
		o.arriving.Store(announcing(operation))
	}
	o.counts = dataloader.NewBatchedLoader(
		func(ctx context.Context, subjects []counter.Subject) []*dataloader.Result[counter.Reading] {
			return batch(ctx, o, len(subjects), func() ([]counter.Reading, error) {
				readings, err := read(ctx, subjects)
				if err != nil {
					r.fromArchive(ctx, subjects, readings)
				}
				return readings, err
			})
		},
		dataloader.WithWait[counter.Subject, counter.Reading](safetyNet),
		dataloader.WithInputCapacity[counter.Subject, counter.Reading](loaderInput),
	)
	if viewer, ok := auth.ViewerFrom(ctx); ok {
		o.states = dataloader.NewBatchedLoader(
			func(ctx context.Context, subjects []counter.Subject) []*dataloader.Result[counter.ViewerState] {
				return batch(ctx, o, len(subjects), func() ([]counter.ViewerState, error) {
					return r.Counts.Viewer(ctx, counter.Viewer(viewer.Sub), subjects)
				})
			},
			dataloader.WithWait[counter.Subject, counter.ViewerState](safetyNet),
			dataloader.WithInputCapacity[counter.Subject, counter.ViewerState](loaderInput),
		)
	}
	o.report = func(err error) {
		r.Log.WarnContext(ctx, "counts or flags not read", "err", err)
		graphql.AddError(o.first, err) //nolint:contextcheck // the error belongs to the root field that came first
	}
	return context.WithValue(ctx, overlayKey{}, o)
}

// fromArchive fills in counts that Redis did not tell, as of when the archive had
// them last: an older number that says so is better than none. What the archive
// does not know either stays unknown.
func (r *resolver) fromArchive(ctx context.Context, subjects []counter.Subject, readings []counter.Reading) {
	var unknown []counter.Subject
	for i, reading := range readings {
		if !reading.Known {
			unknown = append(unknown, subjects[i])
		}
	}
	ctx, cancel := context.WithTimeout(ctx, archiveTimeout)
	defer cancel()
	archived, err := r.Archive.Counts(ctx, unknown)
	if err != nil {
		r.Log.WarnContext(ctx, "archived counts not read either", "err", err)
		return
	}
	for i, reading := range readings {
		if totals, ok := archived[subjects[i]]; ok && !reading.Known {
			readings[i].Counts, readings[i].Known = totals.Counts(), true
		}
	}
}

// archiveTimeout is what a page without Redis may wait for the archive.
const archiveTimeout = time.Second

// loaderInput is the length of a loader's channel: a page and some.
const loaderInput = 32

// batch reads n values for a loader. A panic becomes an error of the request and
// values that know nothing: the loader would print it and drop the error.
func batch[V any](ctx context.Context, o *overlay, n int, read func() ([]V, error)) (all []*dataloader.Result[V]) {
	defer func() {
		if value := recover(); value != nil {
			o.once.Do(func() { o.report(recovered(ctx, value)) })
			all = results(make([]V, n))
		}
	}()
	values, err := read()
	o.failed(ctx, err)
	return results(values)
}

func results[V any](values []V) []*dataloader.Result[V] {
	all := make([]dataloader.Result[V], len(values))
	pointers := make([]*dataloader.Result[V], len(values))
	for i, value := range values {
		all[i].Data = value
		pointers[i] = &all[i]
	}
	return pointers
}

func overlayFrom(ctx context.Context) *overlay {
	o, _ := ctx.Value(overlayKey{}).(*overlay)
	return o
}

// failed reports the first error of the request as one that takes counts and
// flags away; all others have the same cause.
func (o *overlay) failed(ctx context.Context, err error) {
	if err != nil {
		o.firstOnce.Do(func() { o.first = ctx })
		o.once.Do(func() { o.report(unavailable("counts and flags", err)) })
	}
}

// over makes posts of one root field the viewer's and announces them; nil stays
// nil. Each resolver that announcing counts must also arrive.
func (o *overlay) over(ctx context.Context, posts ...*feed.Post) []*Post {
	o.firstOnce.Do(func() { o.first = ctx })
	loading := context.WithoutCancel(ctx) // a batch belongs to all who wait for it
	all := make([]Post, len(posts))
	views := make([]*Post, len(posts))
	loads := make([]loaded, len(posts))
	for i, post := range posts {
		if post == nil {
			continue
		}
		all[i] = Post{post: post, reactions: &loads[i]}
		views[i] = &all[i]
		subject, err := counter.NewSubject(counter.TypePost, post.ID)
		if err != nil || o.wanted&plainOverlay == 0 {
			continue
		}
		loads[i].reading = o.counts.Load(loading, subject)
		if o.states != nil {
			loads[i].state = o.states.Load(loading, subject)
		}
	}
	return views
}

// arrival is a root field's turn to arrive, which is taken once.
type arrival struct{ sync.Once }

type arrivalKey struct{}

// arriveAlways lets a root field arrive whose resolver is never called, since
// an argument of it is none of its type's.
func arriveAlways(ctx context.Context, next graphql.RootResolver) graphql.Marshaler {
	if !announces(graphql.GetRootFieldContext(ctx).Field.Name) {
		return next(ctx)
	}
	ctx = context.WithValue(ctx, arrivalKey{}, &arrival{})
	defer overlayFrom(ctx).arrive(ctx)
	return next(ctx)
}

// arrive says that a root field has announced all its posts.
func (o *overlay) arrive(ctx context.Context) {
	if turn, ok := ctx.Value(arrivalKey{}).(*arrival); ok {
		turn.Do(o.arrived)
		return
	}
	o.arrived() // a mutation's
}

func (o *overlay) arrived() {
	if o.arriving.Add(-1) <= 0 {
		o.flush()
	}
}

// flush sends what was announced.
func (o *overlay) flush() {
	o.counts.Flush()
	if o.states != nil {
		o.states.Flush()
	}
}

// forget drops what a mutation has changed, so that later fields of the same
// request read it anew.
func (o *overlay) forget(ctx context.Context, subject counter.Subject) {
	o.counts.Clear(ctx, subject)
	if o.states != nil {
		o.states.Clear(ctx, subject)
	}
}

// loaded is a post's reactions out of the loaders. One post may be on a page
// twice, so two fields may ask at once.
type loaded struct {
	reading dataloader.Thunk[counter.Reading] // nil: the operation does not ask
	state   dataloader.Thunk[counter.ViewerState]

	mu   sync.Mutex
	done bool
	all  shown
}

func (l *loaded) shown() *shown {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done || l.reading == nil {
		return &l.all
	}
	l.done = true
	reading, err := l.reading()
	if err != nil {
		reading = counter.Reading{}
	}
	if l.state != nil {
		if state, err := l.state(); err == nil {
			reading.Counts, reading.Exact = state.Over(reading.Counts), state.AtLeast(reading.Exact)
			l.all.liked, l.all.faved, l.all.viewerKnown = state.Liked, state.Faved, state.Known
		}
	}
	if reading.Known {
		l.all.count(reading.Counts)
	}
	if reading.ExactKnown {
		l.all.countExactly(reading.Exact)
	}
	return &l.all
}

// settled is a post's reactions as a mutation has just left them.
type settled struct{ all shown }

func newSettled(outcome counter.Outcome) *settled {
	s := &settled{shown{liked: outcome.Liked, faved: outcome.Faved, viewerKnown: true}}
	s.all.count(outcome.Counts)
	s.all.countExactly(outcome.Counts)
	return s
}

func (s *settled) shown() *shown { return &s.all }

// announcing counts the root fields whose resolvers arrive.
func announcing(operation *graphql.OperationContext) int32 {
	n := int32(0)
	for _, field := range graphql.CollectFields(operation, operation.Operation.SelectionSet, []string{"Query"}) {
		if announces(field.Name) {
			n++
		}
	}
	return n
}

func announces(rootField string) bool {
	switch rootField {
	case "feed", "post", "node", "nodes":
		return true
	}
	return false
}

// wanted is what an operation asks of the overlay.
type wanted int

const (
	plainOverlay wanted = 1 << iota
	exactOverlay
	listOverlay
)

// wantedBy looks at each fragment once, so it costs as much as the document is
// long.
func wantedBy(operation *graphql.OperationContext) wanted {
	all := wantedIn(operation.Operation.SelectionSet)
	for _, fragment := range operation.Doc.Fragments {
		all |= wantedIn(fragment.SelectionSet)
	}
	return all
}

func wantedIn(set ast.SelectionSet) (all wanted) {
	for _, selection := range set {
		switch s := selection.(type) {
		case *ast.Field:
			switch s.Name {
			case "exactLikeCount", "exactFavCount":
				all |= exactOverlay | plainOverlay
			case "likeCount", "favCount", "countsAsOf", "viewerHasLiked", "viewerHasFaved":
				all |= plainOverlay
			case "likers":
				all |= listOverlay | plainOverlay // its total is a count
			}
			all |= wantedIn(s.SelectionSet)
		case *ast.InlineFragment:
			all |= wantedIn(s.SelectionSet)
		}
	}
	return all
}
