package archive

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/tallyfeed/tallyfeed/counter"
)

// TagVersions is part of counter.Archive.
func (s *Store) TagVersions(ctx context.Context) (map[counter.Tag]counter.Version, error) {
	var rows []tagRow
	if err := s.db.NewSelect().Model(&rows).Scan(ctx); err != nil {
		return nil, fmt.Errorf("read versions of the archive: %w", err)
	}
	versions := make(map[counter.Tag]counter.Version, len(rows))
	for _, row := range rows {
		versions[counter.Tag(row.Tag)] = counter.Version(row.Version)
	}
	return versions, nil
}

// Subjects is part of counter.Archive.
func (s *Store) Subjects(ctx context.Context, tag counter.Tag, after string, n int) ([]counter.Totals, error) {
	var rows []countsRow
	err := s.db.NewSelect().Model(&rows).Where("tag = ?", int(tag)).Where("subject > ?", after).
		OrderExpr("subject").Limit(int64(n)).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("list archived subjects: %w", err)
	}
	all := make([]counter.Totals, len(rows))
	for i, row := range rows {
		if all[i], err = row.totals(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Active is part of counter.Archive. It holds one row in memory, whatever the
// size of a subject.
func (s *Store) Active(ctx context.Context, subjects []counter.Subject, see func(counter.Reaction) error) error {
	names := make([]string, len(subjects))
	known := make(map[string]counter.Subject, len(subjects))
	for i, subject := range subjects {
		names[i] = subject.String()
		known[names[i]] = subject
	}
	rows, err := s.db.QueryContext(ctx, `SELECT subject, metric, ordinal, version FROM reactions
		WHERE subject IN (?) AND active ORDER BY subject, metric, ordinal`, bun.List(names))
	if err != nil {
		return fmt.Errorf("read archived reactions: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var name string
		var metric int
		var ordinal, version int64
		if err := rows.Scan(&name, &metric, &ordinal, &version); err != nil {
			return fmt.Errorf("read archived reactions: %w", err)
		}
		err := see(counter.Reaction{
			Subject: known[name], Metric: counter.Metric(metric), Ordinal: counter.Ordinal(ordinal), Active: true, Version: counter.Version(version),
		})
		if err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read archived reactions: %w", err)
	}
	return nil
}

// Since is part of counter.Archive.
func (s *Store) Since(ctx context.Context, tag counter.Tag, above counter.Version, see func(counter.Reaction) error) error {
	rows, err := s.db.QueryContext(ctx, `SELECT r.subject, r.metric, r.ordinal, r.active, r.version, u.sub
		FROM subject_counts AS c JOIN reactions AS r ON r.subject = c.subject AND r.version > ? JOIN users AS u ON u.ordinal = r.ordinal
		WHERE c.tag = ? AND c.version > ?`, int64(above), int(tag), int64(above))
	if err != nil {
		return fmt.Errorf("read newly archived reactions: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var name, sub string
		var metric int
		var ordinal, version int64
		var active bool
		if err := rows.Scan(&name, &metric, &ordinal, &active, &version, &sub); err != nil {
			return fmt.Errorf("read newly archived reactions: %w", err)
		}
		subject, err := counter.ParseSubject(name)
		if err != nil {
			return fmt.Errorf("archived reaction to %q: %w", name, err)
		}
		err = see(counter.Reaction{
			Subject: subject, Metric: counter.Metric(metric), Ordinal: counter.Ordinal(ordinal), Active: active,
			Version: counter.Version(version), Viewer: counter.Viewer(sub),
		})
		if err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read newly archived reactions: %w", err)
	}
	return nil
}

var _ counter.Archive = (*Store)(nil)
