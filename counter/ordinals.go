package counter

import (
	"context"
	"fmt"
	"time"

	"github.com/graph-gophers/dataloader/v7"
	"github.com/maypok86/otter/v2"
)

// OrdinalStore keeps the ordinals for good.
type OrdinalStore interface {
	// Find returns the ordinals of those viewers that have one.
	Find(ctx context.Context, viewers []Viewer) (map[Viewer]Ordinal, error)
	// Give returns the ordinals of all viewers, and gives the next numbers to
	// those that have none: dense, each once.
	Give(ctx context.Context, viewers []Viewer) (map[Viewer]Ordinal, error)
	// Any says whether any ordinal has ever been given.
	Any(ctx context.Context) (bool, error)
}

// Ordinals caches an OrdinalStore. An ordinal never changes, so it is kept as
// long as there is room; that a viewer has none is believed for 30 s.
type Ordinals struct {
	store  OrdinalStore
	known  *otter.Cache[Viewer, Ordinal]
	absent *otter.Cache[Viewer, struct{}]
	give   *dataloader.Loader[Viewer, Ordinal]
}

const (
	maxKnownOrdinals  = 1_000_000
	maxAbsentOrdinals = 100_000
	absentLife        = 30 * time.Second

	// First likes that come within a millisecond share a transaction.
	giveWait    = time.Millisecond
	giveBatch   = 500
	giveTimeout = 5 * time.Second
)

// NewOrdinals returns a cache in front of store.
func NewOrdinals(store OrdinalStore) *Ordinals {
	o := &Ordinals{
		store:  store,
		known:  otter.Must(&otter.Options[Viewer, Ordinal]{MaximumSize: maxKnownOrdinals}),
		absent: otter.Must(&otter.Options[Viewer, struct{}]{MaximumSize: maxAbsentOrdinals, ExpiryCalculator: otter.ExpiryWriting[Viewer, struct{}](absentLife)}),
	}
	o.give = dataloader.NewBatchedLoader(o.giveAll,
		dataloader.WithCache[Viewer, Ordinal](&dataloader.NoCache[Viewer, Ordinal]{}),
		dataloader.WithWait[Viewer, Ordinal](giveWait),
		dataloader.WithBatchCapacity[Viewer, Ordinal](giveBatch),
	)
	return o
}

// Lookup returns the viewer's ordinal, and whether there is one. What another
// server has given within the last 30 s may be missed; then Learn it.
func (o *Ordinals) Lookup(ctx context.Context, viewer Viewer) (Ordinal, bool, error) {
	if ordinal, ok := o.known.GetIfPresent(viewer); ok {
		return ordinal, true, nil
	}
	if _, ok := o.absent.GetIfPresent(viewer); ok {
		return 0, false, nil
	}
	found, err := o.store.Find(ctx, []Viewer{viewer})
	if err != nil {
		return 0, false, fmt.Errorf("look up ordinal: %w", err)
	}
	ordinal, ok := found[viewer]
	if ok {
		o.Learn(viewer, ordinal)
	} else {
		o.absent.Set(viewer, struct{}{})
	}
	return ordinal, ok, nil
}

// Learn takes an ordinal that somebody else looked up.
func (o *Ordinals) Learn(viewer Viewer, ordinal Ordinal) {
	o.known.Set(viewer, ordinal)
	o.absent.Invalidate(viewer)
}

// Assign returns the viewer's ordinal, and gives one to who has none.
func (o *Ordinals) Assign(ctx context.Context, viewer Viewer) (Ordinal, error) {
	if ordinal, ok := o.known.GetIfPresent(viewer); ok {
		return ordinal, nil
	}
	return o.give.Load(ctx, viewer)()
}

func (o *Ordinals) giveAll(ctx context.Context, viewers []Viewer) []*dataloader.Result[Ordinal] {
	// The batch belongs to all who wait for it, so the first one's going away
	// must not end it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveTimeout)
	defer cancel()

	results := make([]*dataloader.Result[Ordinal], len(viewers))
	given, err := o.store.Give(ctx, viewers)
	for i, viewer := range viewers {
		ordinal, ok := given[viewer]
		switch {
		case err != nil:
			results[i] = &dataloader.Result[Ordinal]{Error: fmt.Errorf("give ordinal: %w", err)}
		case !ok:
			results[i] = &dataloader.Result[Ordinal]{Error: fmt.Errorf("give ordinal: store left a viewer out")}
		default:
			o.Learn(viewer, ordinal)
			results[i] = &dataloader.Result[Ordinal]{Data: ordinal}
		}
	}
	return results
}
