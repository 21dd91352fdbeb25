package archive

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/tallyfeed/tallyfeed/counter"
)

// Counts returns what the archive knows of subjects; those it knows nothing of
// are left out. They are as of their Version, and may lag behind the facts.
func (s *Store) Counts(ctx context.Context, subjects []counter.Subject) (map[counter.Subject]counter.Totals, error) {
	found := make(map[counter.Subject]counter.Totals, len(subjects))
	if len(subjects) == 0 {
		return found, nil
	}
	names := make([]string, len(subjects))
	for i, subject := range subjects {
		names[i] = subject.String()
	}
	var rows []countsRow
	if err := s.db.NewSelect().Model(&rows).Where("subject IN (?)", bun.List(names)).Scan(ctx); err != nil {
		return nil, fmt.Errorf("read archived counts: %w", err)
	}
	for _, row := range rows {
		totals, err := row.totals()
		if err != nil {
			return nil, err
		}
		found[totals.Subject] = totals
	}
	return found, nil
}

func (r countsRow) totals() (counter.Totals, error) {
	subject, err := counter.ParseSubject(r.Subject)
	if err != nil {
		return counter.Totals{}, fmt.Errorf("archived counts of %q: %w", r.Subject, err)
	}
	return counter.Totals{Subject: subject, Like: r.Likes, Fav: r.Favs, Version: counter.Version(r.Version)}, nil
}

// Liker is one who likes a subject. Its Version and Ordinal are its place in the
// list; Version.Time is when it was.
type Liker struct {
	Sub     counter.Viewer
	Name    string
	Ordinal counter.Ordinal
	Version counter.Version
}

// Likers returns at most n of those who like (or fav) a subject, newest first,
// behind after; nil starts with the newest. Only Version and Ordinal of after are
// looked at.
func (s *Store) Likers(ctx context.Context, subject counter.Subject, m counter.Metric, after *Liker, n int) ([]Liker, error) {
	query := s.db.NewSelect().TableExpr("reactions AS r").Join("JOIN users AS u ON u.ordinal = r.ordinal").
		ColumnExpr("u.sub, u.name, r.ordinal, r.version").
		Where("r.subject = ?", subject.String()).Where("r.metric = ?", int(m)).Where("r.active")
	if after != nil {
		query = query.Where("(r.version, r.ordinal) < (?, ?)", int64(after.Version), uint32(after.Ordinal))
	}
	var rows []struct {
		Sub, Name        string
		Ordinal, Version int64
	}
	if err := query.OrderExpr("r.version DESC, r.ordinal DESC").Limit(int64(n)).Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("read who reacted to %s: %w", subject, err)
	}
	likers := make([]Liker, len(rows))
	for i, row := range rows {
		likers[i] = Liker{Sub: counter.Viewer(row.Sub), Name: row.Name, Ordinal: counter.Ordinal(row.Ordinal), Version: counter.Version(row.Version)}
	}
	return likers, nil
}

// Mine is a subject that a viewer likes or favs. Both are its place in the list.
type Mine struct {
	Subject counter.Subject
	Version counter.Version
}

// Of returns at most n subjects that a viewer likes (or favs), the newest
// reaction first, behind after; nil starts with the newest. Subjects that were
// deleted a moment ago may still be among them.
func (s *Store) Of(ctx context.Context, ordinal counter.Ordinal, m counter.Metric, after *Mine, n int) ([]Mine, error) {
	query := s.db.NewSelect().TableExpr("reactions AS r").ColumnExpr("r.subject, r.version").
		Where("r.ordinal = ?", uint32(ordinal)).Where("r.metric = ?", int(m)).Where("r.active")
	if after != nil {
		query = query.Where("(r.version, r.subject) < (?, ?)", int64(after.Version), after.Subject.String())
	}
	var rows []struct {
		Subject string
		Version int64
	}
	if err := query.OrderExpr("r.version DESC, r.subject DESC").Limit(int64(n)).Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("read a viewer's reactions: %w", err)
	}
	mine := make([]Mine, len(rows))
	for i, row := range rows {
		subject, err := counter.ParseSubject(row.Subject)
		if err != nil {
			return nil, fmt.Errorf("archived reaction to %q: %w", row.Subject, err)
		}
		mine[i] = Mine{Subject: subject, Version: counter.Version(row.Version)}
	}
	return mine, nil
}

// CountOf returns how many subjects a viewer likes (or favs).
func (s *Store) CountOf(ctx context.Context, ordinal counter.Ordinal, m counter.Metric) (int, error) {
	count, err := s.db.NewSelect().Table("reactions").
		Where("ordinal = ?", uint32(ordinal)).Where("metric = ?", int(m)).Where("active").Count(ctx)
	if err != nil {
		return 0, fmt.Errorf("count a viewer's reactions: %w", err)
	}
	return int(count), nil
}
