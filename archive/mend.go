package archive

import (
	"context"
	"fmt"

	"github.com/tallyfeed/tallyfeed/counter"
)

// Touched is part of counter.Ledger.
func (s *Store) Touched(ctx context.Context, tag counter.Tag, above counter.Version, after string, n int) ([]counter.Totals, error) {
	var rows []countsRow
	err := s.db.NewSelect().Model(&rows).Where("tag = ?", int(tag)).Where("version > ?", int64(above)).Where("subject > ?", after).
		OrderExpr("subject").Limit(int64(n)).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("list touched subjects: %w", err)
	}
	all := make([]counter.Totals, len(rows))
	for i, row := range rows {
		if all[i], err = row.totals(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// chunkSize is how many ordinals a chunk of facts has.
const chunkSize = 32768

// Chunks is part of counter.Ledger.
func (s *Store) Chunks(ctx context.Context, subject counter.Subject, m counter.Metric) ([]uint32, error) {
	var chunks []uint32
	err := s.db.NewRaw("SELECT DISTINCT ordinal / ? FROM reactions WHERE subject = ? AND metric = ?", chunkSize, subject.String(), int(m)).Scan(ctx, &chunks)
	if err != nil {
		return nil, fmt.Errorf("list archived chunks: %w", err)
	}
	return chunks, nil
}

// Rows is part of counter.Ledger.
func (s *Store) Rows(ctx context.Context, subject counter.Subject, m counter.Metric, from, to counter.Ordinal) ([]counter.Reaction, error) {
	var rows []reactionRow
	err := s.db.NewSelect().Model(&rows).Where("subject = ?", subject.String()).Where("metric = ?", int(m)).
		Where("ordinal BETWEEN ? AND ?", uint32(from), uint32(to)).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("read archived reactions: %w", err)
	}
	all := make([]counter.Reaction, len(rows))
	for i, row := range rows {
		all[i] = counter.Reaction{
			Subject: subject, Metric: counter.Metric(row.Metric), Ordinal: counter.Ordinal(row.Ordinal), Active: row.Active, Version: counter.Version(row.Version),
		}
	}
	return all, nil
}

// Mend is part of counter.Ledger.
func (s *Store) Mend(ctx context.Context, reactions []counter.Reaction) error {
	rows := make(map[reactionKey]reactionRow, len(reactions))
	for _, r := range reactions {
		row := reactionRow{Subject: r.Subject.String(), Metric: int(r.Metric), Ordinal: int64(r.Ordinal), Active: r.Active, Version: int64(r.Version)}
		rows[reactionKey{row.Subject, row.Metric, row.Ordinal}] = row
	}
	sorted := sortedRows(rows)
	_, err := s.db.NewInsert().Model(&sorted).On("CONFLICT (subject, metric, ordinal) DO UPDATE").
		Set("active = EXCLUDED.active, version = EXCLUDED.version").
		Where("EXCLUDED.version >= r.version").Exec(ctx)
	return wrap("mended reactions", err)
}

// MendCounts is part of counter.Ledger.
func (s *Store) MendCounts(ctx context.Context, totals counter.Totals) error {
	row := countsRow{Subject: totals.Subject.String(), Tag: int(totals.Subject.Tag()), Likes: totals.Like, Favs: totals.Fav, Version: int64(totals.Version)}
	_, err := s.db.NewInsert().Model(&row).On("CONFLICT (subject) DO UPDATE").
		Set("likes = EXCLUDED.likes, favs = EXCLUDED.favs, version = EXCLUDED.version").
		Where("EXCLUDED.version >= c.version").Exec(ctx)
	return wrap("mended counts", err)
}

// Marks is part of counter.Ledger.
func (s *Store) Marks(ctx context.Context) (map[counter.Tag]counter.Version, error) {
	var rows []tagRow
	if err := s.db.NewSelect().Model(&rows).ModelTableExpr("compensations AS t").Scan(ctx); err != nil {
		return nil, fmt.Errorf("read marks of the compensation: %w", err)
	}
	marks := make(map[counter.Tag]counter.Version, len(rows))
	for _, row := range rows {
		marks[counter.Tag(row.Tag)] = counter.Version(row.Version)
	}
	return marks, nil
}

// SetMark is part of counter.Ledger.
func (s *Store) SetMark(ctx context.Context, tag counter.Tag, version counter.Version) error {
	_, err := s.db.ExecContext(ctx, `INSERT INTO compensations (tag, version) VALUES (?, ?)
		ON CONFLICT (tag) DO UPDATE SET version = EXCLUDED.version`, int(tag), int64(version))
	return wrap("a mark of the compensation", err)
}

var _ counter.Ledger = (*Store)(nil)
