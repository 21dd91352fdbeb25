package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/database"
)

// purgeStep is how many rows one statement deletes.
const purgeStep = 5000

// Apply brings the archive up to date with events, in any order, however often.
// It returns, by their places, those that can't be taken and why: their sub and
// ordinal belong to no user, or SQL refuses their row. All others are committed
// when it returns without an error. Events of deleted posts and users are passed
// over; one that says "deleted" removes the subject's rows. After an error
// nothing, or all, or all but some deletions, may be done: apply them again.
func (s *Store) Apply(ctx context.Context, events []counter.Event) (refused map[int]error, err error) {
	refused = map[int]error{}
	var taken []change
	for i, e := range events {
		c, err := changeOf(i, e)
		if err != nil {
			refused[i] = err
			continue
		}
		taken = append(taken, c)
	}
	taken, err = s.ofUsers(ctx, taken, refused)
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	if err := s.write(ctx, taken, refused); err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	if err := s.bury(ctx, taken); err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	return refused, nil
}

// change is an event on its way into the tables.
type change struct {
	place   int
	subject counter.Subject
	viewer  counter.Viewer
	deleted bool
	row     reactionRow
	counts  countsRow
}

func changeOf(place int, e counter.Event) (change, error) {
	subject, err := counter.NewSubject(e.EntityType, e.EntityID)
	if err != nil {
		return change{}, err
	}
	version, err := counter.ParseVersion(e.Version)
	if err != nil {
		return change{}, err
	}
	if err := valid(e, version); err != nil {
		return change{}, err
	}
	name := subject.String()
	return change{
		place: place, subject: subject, viewer: counter.Viewer(e.UserID), deleted: e.Deleted,
		row:    reactionRow{Subject: name, Metric: e.Index, Ordinal: int64(e.Ordinal), Active: e.Delta > 0, Version: int64(version)},
		counts: countsRow{Subject: name, Tag: int(subject.Tag()), Likes: e.Like, Favs: e.Fav, Version: int64(version)},
	}, nil
}

// ofUsers keeps those whose sub and ordinal belong together: a row is kept by
// ordinal alone, so a foreign one would be somebody else's like.
func (s *Store) ofUsers(ctx context.Context, changes []change, refused map[int]error) ([]change, error) {
	unknown := map[counter.Viewer]bool{}
	for _, c := range changes {
		if _, ok := s.known.GetIfPresent(c.viewer); !ok && !c.deleted {
			unknown[c.viewer] = true
		}
	}
	left := map[string]bool{}
	if len(unknown) > 0 {
		viewers := make([]counter.Viewer, 0, len(unknown))
		for v := range unknown {
			viewers = append(viewers, v)
		}
		found, err := s.ordinals.Find(ctx, viewers)
		if err != nil {
			return nil, fmt.Errorf("look up ordinals: %w", err)
		}
		var absent []counter.Viewer
		for _, v := range viewers {
			if ordinal, ok := found[v]; ok {
				s.known.Set(v, ordinal)
			} else {
				absent = append(absent, v)
			}
		}
		if left, err = s.deletedUsers(ctx, s.db, absent); err != nil {
			return nil, err
		}
	}
	kept := changes[:0]
	for _, c := range changes {
		if c.deleted {
			kept = append(kept, c)
			continue
		}
		ordinal, ok := s.known.GetIfPresent(c.viewer)
		switch {
		case ok && int64(ordinal) == c.row.Ordinal:
			kept = append(kept, c)
		case !ok && left[UserHash(c.viewer)]:
		default:
			refused[c.place] = errForeign
		}
	}
	return kept, nil
}

// write commits changes. Where SQL refuses a row it halves the batch until that
// row stands alone, so what is good goes in. The halves are transactions of
// their own: what is committed is never wrong, only incomplete.
func (s *Store) write(ctx context.Context, changes []change, refused map[int]error) error {
	if len(changes) == 0 {
		return nil
	}
	err := s.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error { return s.upsert(ctx, tx, changes) })
	switch {
	case err == nil:
		return nil
	case !database.IsRowError(err):
		return err
	case len(changes) == 1:
		refused[changes[0].place] = err
		return nil
	}
	half := len(changes) / 2
	return errors.Join(s.write(ctx, changes[:half], refused), s.write(ctx, changes[half:], refused))
}

// upsert writes the newest of each key, in the order of the keys: a statement of
// PostgreSQL's may not touch a row twice, and two archivers that lock rows in
// different orders would wait for each other.
func (s *Store) upsert(ctx context.Context, tx bun.Tx, changes []change) error {
	gone, err := s.deletedSubjects(ctx, tx, subjectsOf(changes))
	if err != nil {
		return err
	}
	left, err := s.deletedUsers(ctx, tx, viewersOf(changes))
	if err != nil {
		return err
	}
	rows, counts, tags := map[reactionKey]reactionRow{}, map[string]countsRow{}, map[int]int64{}
	for _, c := range changes {
		tags[c.counts.Tag] = max(tags[c.counts.Tag], c.counts.Version)
		if c.deleted || gone[c.subject] {
			continue
		}
		if c.counts.Version > counts[c.counts.Subject].Version {
			counts[c.counts.Subject] = c.counts
		}
		key := reactionKey{c.row.Subject, c.row.Metric, c.row.Ordinal}
		if c.row.Version > rows[key].Version && (len(left) == 0 || !left[UserHash(c.viewer)]) {
			rows[key] = c.row
		}
	}
	if err := insertCounts(ctx, tx, sortedCounts(counts)); err != nil {
		return err
	}
	if err := insertRows(ctx, tx, sortedRows(rows)); err != nil {
		return err
	}
	return insertTags(ctx, tx, tags)
}

type reactionKey struct {
	subject string
	metric  int
	ordinal int64
}

func insertCounts(ctx context.Context, tx bun.IDB, rows []countsRow) error {
	if len(rows) == 0 {
		return nil
	}
	_, err := tx.NewInsert().Model(&rows).On("CONFLICT (subject) DO UPDATE").
		Set("likes = EXCLUDED.likes, favs = EXCLUDED.favs, version = EXCLUDED.version").
		Where("EXCLUDED.version > c.version").Exec(ctx)
	return wrap("counts", err)
}

func insertRows(ctx context.Context, tx bun.IDB, rows []reactionRow) error {
	if len(rows) == 0 {
		return nil
	}
	_, err := tx.NewInsert().Model(&rows).On("CONFLICT (subject, metric, ordinal) DO UPDATE").
		Set("active = EXCLUDED.active, version = EXCLUDED.version").
		Where("EXCLUDED.version > r.version").Exec(ctx)
	return wrap("reactions", err)
}

func insertTags(ctx context.Context, tx bun.IDB, versions map[int]int64) error {
	rows := make([]tagRow, 0, len(versions))
	for tag, version := range versions {
		rows = append(rows, tagRow{Tag: tag, Version: version})
	}
	slices.SortFunc(rows, func(a, b tagRow) int { return cmp.Compare(a.Tag, b.Tag) })
	_, err := tx.NewInsert().Model(&rows).On("CONFLICT (tag) DO UPDATE").
		Set("version = EXCLUDED.version").Where("EXCLUDED.version > t.version").Exec(ctx)
	return wrap("versions", err)
}

func wrap(what string, err error) error {
	if err != nil {
		return fmt.Errorf("write %s: %w", what, err)
	}
	return nil
}

func sortedRows(rows map[reactionKey]reactionRow) []reactionRow {
	sorted := make([]reactionRow, 0, len(rows))
	for _, row := range rows {
		sorted = append(sorted, row)
	}
	slices.SortFunc(sorted, func(a, b reactionRow) int {
		return cmp.Or(strings.Compare(a.Subject, b.Subject), cmp.Compare(a.Metric, b.Metric), cmp.Compare(a.Ordinal, b.Ordinal))
	})
	return sorted
}

func sortedCounts(counts map[string]countsRow) []countsRow {
	sorted := make([]countsRow, 0, len(counts))
	for _, row := range counts {
		sorted = append(sorted, row)
	}
	slices.SortFunc(sorted, func(a, b countsRow) int { return strings.Compare(a.Subject, b.Subject) })
	return sorted
}
