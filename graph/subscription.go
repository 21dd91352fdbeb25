package graph

import (
	"context"
	"time"

	"github.com/tallyfeed/tallyfeed/counter"
)

type subscription struct{ *resolver }

// settleAfter is when a subscription reads the counts once more: what happened
// right before it began to listen may not have been in them yet.
const settleAfter = time.Second

// CountsChanged tells of posts until ctx ends.
func (s *subscription) CountsChanged(ctx context.Context, ids []string) (<-chan *CountsChange, error) {
	if len(ids) < 1 || len(ids) > maxNodes {
		return nil, badInput("ids", "must be 1 to 100")
	}
	subjects := make([]counter.Subject, 0, len(ids))
	seen := make(map[counter.Subject]bool, len(ids))
	for _, id := range ids {
		own, ok := parsePostID(id)
		subject, err := counter.NewSubject(counter.TypePost, own)
		if !ok || err != nil {
			return nil, badInput("ids", notAPost)
		}
		if !seen[subject] {
			seen[subject] = true
			subjects = append(subjects, subject)
		}
	}
	w := &watching{
		resolver: s.resolver, sub: viewerSub(ctx), subjects: subjects,
		told: make(map[counter.Subject]counter.Version, len(subjects)), out: make(chan *CountsChange),
	}
	// Before the counts are read: what changes from now on is heard of.
	listener := s.Live.Listen(subjects)
	go func() {
		defer close(w.out)
		defer listener.Close()
		defer func() {
			if value := recover(); value != nil { // the subscription ends, and nobody else's
				_ = w.internal(ctx, value)
			}
		}()
		w.run(ctx, listener)
	}()
	return w.out, nil
}

// watching is one subscription.
type watching struct {
	*resolver
	sub      string
	subjects []counter.Subject
	told     map[counter.Subject]counter.Version
	out      chan *CountsChange
}

func (w *watching) run(ctx context.Context, listener *counter.Listener) {
	_ = w.tell(ctx, w.now(ctx))
	again := time.After(settleAfter)
	for {
		told := true
		select {
		case <-ctx.Done():
			return
		case <-again:
			told = w.tell(ctx, w.now(ctx))
		case <-listener.Changed():
			if w.sub != "" && w.Users.Left(w.sub) {
				return
			}
			told = w.tell(ctx, listener.Take())
		}
		if !told {
			again = time.After(settleAfter)
		}
	}
}

// now reads the counts. Without Redis there are none to begin with; changes are
// told all the same.
func (w *watching) now(ctx context.Context) []counter.LiveChange {
	readings, err := w.Counts.Counts(ctx, w.subjects)
	if err != nil && ctx.Err() == nil {
		w.Log.WarnContext(ctx, "a subscription begins without counts", "err", err)
	}
	var changes []counter.LiveChange
	for i, reading := range readings {
		if reading.Known {
			changes = append(changes, counter.LiveChange{Subject: w.subjects[i], Counts: reading.Counts})
		}
	}
	return changes
}

// tell passes on what is new and may be seen now: a post may have become private
// since. False means that nobody knew whether it may be.
func (w *watching) tell(ctx context.Context, changes []counter.LiveChange) bool {
	fresh, ids := changes[:0], make([]string, 0, len(changes))
	for _, change := range changes {
		if !change.Deleted && change.Counts.Version > w.told[change.Subject] {
			fresh, ids = append(fresh, change), append(ids, change.Subject.ID())
		}
	}
	if len(fresh) == 0 {
		return true
	}
	posts, err := w.Posts.Posts(ctx, ids, w.sub)
	if err != nil {
		if ctx.Err() == nil {
			w.Log.WarnContext(ctx, "changes are told later: nobody knows whether they may be", "err", err)
		}
		return false
	}
	for i, change := range fresh {
		if posts[i] == nil {
			continue
		}
		w.told[change.Subject] = change.Counts.Version
		all := shown{}
		all.count(change.Counts)
		out := &CountsChange{
			ID: change.Subject.String(), LikeCount: all.likes, FavCount: all.favs,
			CountsAsOf: where(!all.asOf.IsZero(), &all.asOf), Version: change.Counts.Version.String(),
		}
		select {
		case w.out <- out:
		case <-ctx.Done():
			return true
		}
	}
	return true
}
