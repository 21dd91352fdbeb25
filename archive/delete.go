package archive

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/tallyfeed/tallyfeed/counter"
)

// bury removes what a batch has written of subjects and users whose tombstone
// was set meanwhile, and what its "deleted" events are about. The tombstone is
// committed before the rows are deleted: either this look behind the batch's own
// commit finds it, or that deletion finds the batch's rows.
func (s *Store) bury(ctx context.Context, changes []change) error {
	gone, err := s.deletedSubjects(ctx, s.db, subjectsOf(changes))
	if err != nil {
		return err
	}
	for _, c := range changes {
		if c.deleted {
			gone[c.subject] = true
		}
	}
	for subject := range gone {
		if err := s.DeleteSubject(ctx, subject); err != nil {
			return err
		}
	}
	left, err := s.deletedUsers(ctx, s.db, viewersOf(changes))
	if err != nil || len(left) == 0 {
		return err
	}
	for _, c := range changes {
		if c.deleted || !left[UserHash(c.viewer)] {
			continue
		}
		s.known.Invalidate(c.viewer)
		if err := s.DeleteOrdinal(ctx, counter.Ordinal(c.row.Ordinal)); err != nil {
			return err
		}
	}
	return nil
}

// DeleteSubject removes all rows of a subject, and its counts when none is left,
// in bounded steps. A second call finds nothing. Only a tombstone in SQL keeps
// late events from bringing rows back.
func (s *Store) DeleteSubject(ctx context.Context, subject counter.Subject) error {
	for {
		n, err := s.DeleteSubjectStep(ctx, subject, purgeStep)
		if err != nil || n < purgeStep {
			return err
		}
	}
}

// DeleteSubjectStep removes at most n rows of a subject and returns how many it
// removed; fewer than n means that none is left, and that its counts went too.
func (s *Store) DeleteSubjectStep(ctx context.Context, subject counter.Subject, n int) (int, error) {
	result, err := s.db.ExecContext(ctx, `DELETE FROM reactions WHERE (subject, metric, ordinal) IN
		(SELECT subject, metric, ordinal FROM reactions WHERE subject = ? LIMIT ?)`, subject.String(), n)
	if err != nil {
		return 0, fmt.Errorf("delete reactions of %s: %w", subject, err)
	}
	removed, err := result.RowsAffected()
	if err != nil || int(removed) >= n {
		return int(removed), err
	}
	if _, err := s.db.ExecContext(ctx, "DELETE FROM subject_counts WHERE subject = ?", subject.String()); err != nil {
		return int(removed), fmt.Errorf("delete counts of %s: %w", subject, err)
	}
	return int(removed), nil
}

// DeleteOrdinal removes all rows of a viewer, in bounded steps. A second call
// finds nothing. Only the tombstone in deleted_users keeps late events from
// bringing rows back.
func (s *Store) DeleteOrdinal(ctx context.Context, ordinal counter.Ordinal) error {
	for {
		n, err := s.DeleteOrdinalStep(ctx, ordinal, purgeStep)
		if err != nil || n < purgeStep {
			return err
		}
	}
}

// DeleteOrdinalStep removes at most n rows of a viewer, those that hold no more
// as well, and returns how many it removed; fewer than n means that none is left.
func (s *Store) DeleteOrdinalStep(ctx context.Context, ordinal counter.Ordinal, n int) (int, error) {
	total := 0
	// Two statements, since each state has an index of its own.
	for _, state := range []string{"active", "NOT active"} {
		result, err := s.db.ExecContext(ctx, `DELETE FROM reactions WHERE (subject, metric, ordinal) IN
			(SELECT subject, metric, ordinal FROM reactions WHERE ordinal = ? AND `+state+` LIMIT ?)`, uint32(ordinal), n-total)
		if err != nil {
			return total, fmt.Errorf("delete reactions of a viewer: %w", err)
		}
		removed, err := result.RowsAffected()
		if err != nil {
			return total, err
		}
		if total += int(removed); total >= n {
			break
		}
	}
	return total, nil
}

// deletedSubjects returns those of subjects that have a tombstone.
func (s *Store) deletedSubjects(ctx context.Context, db bun.IDB, subjects map[counter.Subject]bool) (map[counter.Subject]bool, error) {
	gone := map[counter.Subject]bool{}
	ids := make([]string, 0, len(subjects))
	for subject := range subjects {
		if subject.Type() == counter.TypePost {
			ids = append(ids, subject.ID())
		}
	}
	if len(ids) == 0 {
		return gone, nil
	}
	var found []string
	if err := db.NewSelect().Table("deleted_posts").Column("id").Where("id IN (?)", bun.List(ids)).Scan(ctx, &found); err != nil {
		return nil, fmt.Errorf("look for tombstones of posts: %w", err)
	}
	for _, id := range found {
		subject, err := counter.NewSubject(counter.TypePost, id)
		if err != nil {
			return nil, err
		}
		gone[subject] = true
	}
	return gone, nil
}

// deletedUsers returns the hashes of those who have left.
func (s *Store) deletedUsers(ctx context.Context, db bun.IDB, viewers []counter.Viewer) (map[string]bool, error) {
	left := map[string]bool{}
	if len(viewers) == 0 {
		return left, nil
	}
	hashes := make([]string, len(viewers))
	for i, v := range viewers {
		hashes[i] = UserHash(v)
	}
	var found []string
	if err := db.NewSelect().Table("deleted_users").Column("hash").Where("hash IN (?)", bun.List(hashes)).Where("purged").Scan(ctx, &found); err != nil {
		return nil, fmt.Errorf("look for tombstones of users: %w", err)
	}
	for _, hash := range found {
		left[hash] = true
	}
	return left, nil
}

func subjectsOf(changes []change) map[counter.Subject]bool {
	all := map[counter.Subject]bool{}
	for _, c := range changes {
		all[c.subject] = true
	}
	return all
}

func viewersOf(changes []change) []counter.Viewer {
	seen := map[counter.Viewer]bool{}
	var all []counter.Viewer
	for _, c := range changes {
		if !c.deleted && !seen[c.viewer] {
			seen[c.viewer] = true
			all = append(all, c.viewer)
		}
	}
	return all
}
