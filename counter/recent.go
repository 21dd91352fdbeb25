package counter

import (
	"context"
	"fmt"
)

// Recent is what a viewer did within the last minute, as the facts have it now:
// for lists out of an archive that is some moments behind.
type Recent struct {
	Ordinal Ordinal
	// Has is false for a viewer who never reacted to anything.
	Has     bool
	Changes []RecentChange
}

// RecentChange is one subject that the viewer reacted to. Version is that of the
// last change of either fact.
type RecentChange struct {
	Subject Subject
	Version Version
	Liked   bool
	Faved   bool
}

// Recent reads a viewer's own last changes. Where Redis does not tell, the error
// says so, and the ordinal is good all the same.
func (r *Reader) Recent(ctx context.Context, viewer Viewer) (Recent, error) {
	var recent Recent
	var err error
	if recent.Ordinal, recent.Has, err = r.ordinals.Lookup(ctx, viewer); err != nil {
		return recent, fmt.Errorf("ordinal of a viewer: %w", err)
	}
	asking, cancel := context.WithTimeout(ctx, r.config.Timeout)
	defer cancel()
	own, err := r.redis.reads.HGetAll(asking, mineKey(viewer)).Result()
	if err != nil {
		return recent, fmt.Errorf("a viewer's last changes: %w", err)
	}
	if ordinal, ok := parseOrdinal(own[ordinalField]); ok && !recent.Has {
		recent.Ordinal, recent.Has = ordinal, true
		r.ordinals.Learn(viewer, ordinal)
	}
	delete(own, ordinalField)
	subjects := make([]Subject, 0, len(own))
	for name, value := range own {
		subject, err := ParseSubject(name)
		counts, ok := decodeOwn(value)
		if err != nil || !ok {
			continue // nothing of ours
		}
		subjects = append(subjects, subject)
		recent.Changes = append(recent.Changes, RecentChange{Subject: subject, Version: counts.Version})
	}
	if len(subjects) == 0 {
		return recent, nil
	}
	states, err := r.Viewer(ctx, viewer, subjects)
	if err != nil {
		recent.Changes = nil
		return recent, fmt.Errorf("a viewer's last changes: %w", err)
	}
	for i, state := range states {
		recent.Changes[i].Liked, recent.Changes[i].Faved = state.Liked, state.Faved
	}
	return recent, nil
}
