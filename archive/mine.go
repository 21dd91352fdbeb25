package archive

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"github.com/tallyfeed/tallyfeed/counter"
)

// Mine is a post that a viewer likes or favs. Both are its place in the list.
type Mine struct {
	Subject counter.Subject
	Version counter.Version
}

func (m Mine) compare(other Mine) int {
	return cmp.Or(cmp.Compare(m.Version, other.Version), cmp.Compare(m.Subject.String(), other.Subject.String()))
}

// Of returns at most n posts that a viewer likes (or favs), the newest reaction
// first, behind after; nil starts with the newest. Posts that the viewer may not
// read are left out, and the page is full all the same.
func (s *Store) Of(ctx context.Context, viewer counter.Viewer, ordinal counter.Ordinal, m counter.Metric, after *Mine, n int) ([]Mine, error) {
	query := s.visible(viewer, ordinal, m).ColumnExpr("r.subject, r.version")
	if after != nil {
		query = query.Where("(r.version, r.subject) < (?, ?)", int64(after.Version), after.Subject.String())
	}
	return mineOf(ctx, query.OrderExpr("r.version DESC, r.subject DESC").Limit(int64(n)))
}

// CountOf returns how many there are in all.
func (s *Store) CountOf(ctx context.Context, viewer counter.Viewer, ordinal counter.Ordinal, m counter.Metric) (int, error) {
	count, err := s.visible(viewer, ordinal, m).Count(ctx)
	if err != nil {
		return 0, fmt.Errorf("count a viewer's reactions: %w", err)
	}
	return int(count), nil
}

// All returns at most n subjects that a viewer likes (or favs), whoever may read
// them, the newest first, behind after.
func (s *Store) All(ctx context.Context, ordinal counter.Ordinal, m counter.Metric, after *Mine, n int) ([]Mine, error) {
	query := s.db.NewSelect().TableExpr("reactions AS r").ColumnExpr("r.subject, r.version").
		Where("r.ordinal = ?", uint32(ordinal)).Where("r.metric = ?", int(m)).Where("r.active")
	if after != nil {
		query = query.Where("(r.version, r.subject) < (?, ?)", int64(after.Version), after.Subject.String())
	}
	return mineOf(ctx, query.OrderExpr("r.version DESC, r.subject DESC").Limit(int64(n)))
}

// visible is a viewer's active reactions to posts that the viewer may read. The
// posts stand in the same database, so one statement knows both.
func (s *Store) visible(viewer counter.Viewer, ordinal counter.Ordinal, m counter.Metric) *bun.SelectQuery {
	return s.db.NewSelect().TableExpr("reactions AS r").
		Join("JOIN posts AS p ON p.id = substr(r.subject, ?)", len(counter.TypePost)+2).
		Where("r.ordinal = ?", uint32(ordinal)).Where("r.metric = ?", int(m)).Where("r.active").
		Where("(p.visibility = 'PUBLIC' OR p.author_sub = ?)", string(viewer))
}

func mineOf(ctx context.Context, query *bun.SelectQuery) ([]Mine, error) {
	var rows []struct {
		Subject string
		Version int64
	}
	if err := query.Scan(ctx, &rows); err != nil {
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

// Recent says what a viewer did a moment ago.
type Recent interface {
	Recent(ctx context.Context, viewer counter.Viewer) (counter.Recent, error)
}

// Lists answers what a viewer likes and favs, with what the viewer did a moment
// ago, which the archive may not know yet.
type Lists struct {
	store  *Store
	recent Recent
}

// NewLists returns Lists of store.
func NewLists(store *Store, recent Recent) *Lists { return &Lists{store: store, recent: recent} }

// Page is a page of a viewer's list.
type Page struct {
	Mine  []Mine
	Total int // of the whole list
	// Behind is why the viewer's last changes may be missing, nil when they are not.
	Behind error
}

// Page returns at most n of what a viewer likes (or favs), newest first.
func (l *Lists) Page(ctx context.Context, viewer counter.Viewer, m counter.Metric, after *Mine, n int) (Page, error) {
	recent, behind := l.recent.Recent(ctx, viewer)
	page := Page{Behind: behind}
	if !recent.Has {
		return page, nil
	}
	added, dropped, err := l.own(ctx, viewer, recent, m)
	if err != nil {
		return page, err
	}
	if page.Total, err = l.store.CountOf(ctx, viewer, recent.Ordinal, m); err != nil {
		return page, err
	}
	page.Total += len(added) - len(dropped)
	rows, err := l.store.Of(ctx, viewer, recent.Ordinal, m, after, n+len(dropped))
	if err != nil {
		return page, err
	}
	rows = slices.DeleteFunc(rows, func(row Mine) bool { return dropped[row.Subject] })
	for _, own := range added {
		if after == nil || own.compare(*after) < 0 {
			rows = append(rows, own)
		}
	}
	slices.SortFunc(rows, func(a, b Mine) int { return b.compare(a) })
	page.Mine = rows[:min(n, len(rows))]
	return page, nil
}

// own compares a viewer's last changes with the archive: what is to be added to
// its list, and what dropped from it. What it has already keeps its place.
func (l *Lists) own(ctx context.Context, viewer counter.Viewer, recent counter.Recent, m counter.Metric) (added []Mine, dropped map[counter.Subject]bool, err error) {
	dropped = map[counter.Subject]bool{}
	if len(recent.Changes) == 0 {
		return nil, dropped, nil
	}
	names, ids := make([]string, len(recent.Changes)), make([]string, len(recent.Changes))
	for i, change := range recent.Changes {
		names[i], ids[i] = change.Subject.String(), change.Subject.ID()
	}
	archived, err := mineOf(ctx, l.store.visible(viewer, recent.Ordinal, m).ColumnExpr("r.subject, r.version").Where("r.subject IN (?)", bun.List(names)))
	if err != nil {
		return nil, nil, err
	}
	has := map[counter.Subject]bool{}
	for _, row := range archived {
		has[row.Subject] = true
	}
	var readable []string
	err = l.store.db.NewSelect().TableExpr("posts AS p").Column("p.id").Where("p.id IN (?)", bun.List(ids)).
		Where("(p.visibility = 'PUBLIC' OR p.author_sub = ?)", string(viewer)).Scan(ctx, &readable)
	if err != nil {
		return nil, nil, fmt.Errorf("read which posts a viewer may read: %w", err)
	}
	may := map[string]bool{}
	for _, id := range readable {
		may[id] = true
	}
	for _, change := range recent.Changes {
		set := change.Liked
		if m == counter.Fav {
			set = change.Faved
		}
		switch {
		case set && !has[change.Subject] && may[change.Subject.ID()]:
			added = append(added, Mine{Subject: change.Subject, Version: change.Version})
		case !set && has[change.Subject]:
			dropped[change.Subject] = true
		}
	}
	return added, dropped, nil
}
