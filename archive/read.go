package archive

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

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

// LikersQuery asks for at most N of those who like (or fav) a subject, newest
// first, behind After; nil starts with the newest. Only Version and Ordinal of
// After are looked at.
type LikersQuery struct {
	Subject counter.Subject
	Metric  counter.Metric
	After   *Liker
	N       int
}

// maxUnion is how many of them go into one statement; SQLite takes 500.
const maxUnion = 100

// Likers answers queries in their order, with one statement for a page's.
func (s *Store) Likers(ctx context.Context, queries ...LikersQuery) ([][]Liker, error) {
	answers := make([][]Liker, len(queries))
	for first := 0; first < len(queries); first += maxUnion {
		last := min(first+maxUnion, len(queries))
		if err := s.likers(ctx, queries[first:last], answers[first:last]); err != nil {
			return nil, fmt.Errorf("read who reacted: %w", err)
		}
	}
	return answers, nil
}

func (s *Store) likers(ctx context.Context, queries []LikersQuery, answers [][]Liker) error {
	var text strings.Builder
	var args []any
	for i, q := range queries {
		if i > 0 {
			text.WriteString(" UNION ALL ")
		}
		text.WriteString("SELECT * FROM (SELECT ? AS place, u.sub, u.name, r.ordinal, r.version" +
			" FROM reactions AS r JOIN users AS u ON u.ordinal = r.ordinal" +
			" WHERE r.subject = ? AND r.metric = ? AND r.active")
		args = append(args, i, q.Subject.String(), int(q.Metric))
		if q.After != nil {
			text.WriteString(" AND (r.version, r.ordinal) < (?, ?)")
			args = append(args, int64(q.After.Version), uint32(q.After.Ordinal))
		}
		text.WriteString(" ORDER BY r.version DESC, r.ordinal DESC LIMIT ?) AS q" + strconv.Itoa(i))
		args = append(args, q.N)
	}
	var rows []struct {
		Place            int
		Sub, Name        string
		Ordinal, Version int64
	}
	if err := s.db.NewRaw(text.String(), args...).Scan(ctx, &rows); err != nil {
		return err
	}
	for _, row := range rows {
		answers[row.Place] = append(answers[row.Place], Liker{
			Sub: counter.Viewer(row.Sub), Name: row.Name, Ordinal: counter.Ordinal(row.Ordinal), Version: counter.Version(row.Version),
		})
	}
	for _, answer := range answers { // a union has no order of its own
		slices.SortFunc(answer, func(a, b Liker) int {
			return cmp.Or(cmp.Compare(b.Version, a.Version), cmp.Compare(b.Ordinal, a.Ordinal))
		})
	}
	return nil
}
