package counter

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect"
)

// SQLOrdinals keeps ordinals in the tables users and counters.
type SQLOrdinals struct{ db *bun.DB }

// NewSQLOrdinals expects the tables to be there.
func NewSQLOrdinals(db *bun.DB) *SQLOrdinals { return &SQLOrdinals{db: db} }

// userRow is what counter knows of a user.
type userRow struct {
	bun.BaseModel `bun:"table:users"`

	Sub     string `bun:"sub"`
	Name    string `bun:"name"`
	Ordinal *int64 `bun:"ordinal"`
}

// Find is part of OrdinalStore.
func (s *SQLOrdinals) Find(ctx context.Context, viewers []Viewer) (map[Viewer]Ordinal, error) {
	return find(ctx, s.db, viewers)
}

func find(ctx context.Context, db bun.IDB, viewers []Viewer) (map[Viewer]Ordinal, error) {
	var rows []userRow
	err := db.NewSelect().Model(&rows).Column("sub", "ordinal").
		Where("sub IN (?)", bun.List(viewers)).Where("ordinal IS NOT NULL").Scan(ctx)
	if err != nil {
		return nil, err
	}
	found := make(map[Viewer]Ordinal, len(rows))
	for _, row := range rows {
		found[Viewer(row.Sub)] = Ordinal(*row.Ordinal)
	}
	return found, nil
}

// Any is part of OrdinalStore.
func (s *SQLOrdinals) Any(ctx context.Context) (bool, error) {
	return s.db.NewSelect().Model((*userRow)(nil)).Where("ordinal IS NOT NULL").Exists(ctx)
}

// Give is part of OrdinalStore. The row in counters is locked first, so numbers
// are given by one transaction at a time and one that fails leaves no gap. (A
// sequence would lose a number with every conflict and every rollback.)
func (s *SQLOrdinals) Give(ctx context.Context, viewers []Viewer) (map[Viewer]Ordinal, error) {
	// Most callers only lack the cache: look before taking the lock.
	found, err := s.Find(ctx, viewers)
	if err != nil || len(found) == len(viewers) {
		return found, err
	}
	err = s.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		next, err := lockNext(ctx, tx)
		if err != nil {
			return err
		}
		if found, err = find(ctx, tx, viewers); err != nil {
			return err
		}
		var rows []userRow
		for _, viewer := range viewers {
			if _, has := found[viewer]; has {
				continue
			}
			ordinal := next
			next++
			found[viewer] = Ordinal(ordinal)
			rows = append(rows, userRow{Sub: string(viewer), Ordinal: &ordinal})
		}
		if len(rows) == 0 {
			return nil
		}
		if _, err := tx.NewInsert().Model(&rows).
			On("CONFLICT (sub) DO UPDATE").Set("ordinal = EXCLUDED.ordinal").Exec(ctx); err != nil {
			return err
		}
		_, err = tx.NewUpdate().Table("counters").Set("value = ?", next).Where("name = 'ordinal'").Exec(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// maxOrdinal is the last one that fits: a sub beyond it is refused.
const maxOrdinal = 1<<32 - 1

func lockNext(ctx context.Context, tx bun.Tx) (int64, error) {
	query := tx.NewSelect().Table("counters").Column("value").Where("name = 'ordinal'")
	if tx.Dialect().Name() == dialect.PG {
		query = query.For("UPDATE") // SQLite has one writer anyway
	}
	var next int64
	if err := query.Scan(ctx, &next); err != nil {
		return 0, err
	}
	if next > maxOrdinal-giveBatch {
		return 0, fmt.Errorf("no ordinals left: %d given", next)
	}
	return next, nil
}
