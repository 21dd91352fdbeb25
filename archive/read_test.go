package archive_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/uptrace/bun"

	"github.com/tallyfeed/tallyfeed/archive"
	"github.com/tallyfeed/tallyfeed/counter"
)

// Pages of who likes a post and of what a viewer likes: newest first, nothing
// twice and nothing left out at their edges, also where versions are equal.
func TestPages(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db *bun.DB) {
		s := archive.NewStore(db)
		var events []counter.Event
		for o := range 50 {
			// Five share a version: then the ordinal decides. Every seventh has taken it back.
			events = append(events, event("1", counter.Like, o, true, 10+o/5), event("1", counter.Fav, o, true, 1))
			if o%7 == 0 {
				events = append(events, event("1", counter.Like, o, false, 100+o))
			}
			events = append(events, event(fmt.Sprintf("p%02d", o), counter.Fav, 3, true, 10+o/5))
		}
		events = append(events, event("p07", counter.Fav, 3, false, 500))
		apply(t, s, events...)
		execute(t, db, "UPDATE users SET name = 'Name of ' || sub")

		var want, got []string
		for o := 49; o >= 0; o-- {
			if o%7 != 0 {
				want = append(want, fmt.Sprintf("viewer-%d Name of viewer-%d", o, o))
			}
		}
		for _, size := range []int{1, 4, 7, 100} {
			got = got[:0]
			var after *archive.Liker
			for {
				pages, err := s.Likers(t.Context(),
					archive.LikersQuery{Subject: post(t, "1"), Metric: counter.Like, After: after, N: size},
					archive.LikersQuery{Subject: post(t, "p07"), Metric: counter.Fav, N: 1}) // nobody's any more
				if err != nil || len(pages) != 2 || len(pages[1]) != 0 {
					t.Fatal(pages, err)
				}
				page := pages[0]
				for _, liker := range page {
					got = append(got, string(liker.Sub)+" "+liker.Name)
				}
				if len(page) < size {
					break
				}
				after = &page[len(page)-1]
			}
			if !slices.Equal(got, want) {
				t.Errorf("likers in pages of %d:\n%v\nwant\n%v", size, got, want)
			}
		}

		// Posts that are gone or private are not the viewer's to see, but for the
		// viewer's own.
		published(t, db)
		execute(t, db, "DELETE FROM posts WHERE id = 'p11'")
		execute(t, db, "UPDATE posts SET visibility = 'PRIVATE' WHERE id IN ('p12', 'p13')")
		execute(t, db, "UPDATE posts SET author_sub = 'viewer-3' WHERE id = 'p13'")
		want = want[:0]
		for o := 49; o >= 0; o-- {
			if o != 7 && o != 11 && o != 12 {
				want = append(want, fmt.Sprintf("post:p%02d", o))
			}
		}
		want = append(want, "post:1") // the fav of version 1
		for _, size := range []int{1, 4, 7, 100} {
			got = got[:0]
			var after *archive.Mine
			for {
				page, err := s.Of(t.Context(), viewer(3), 3, counter.Fav, after, size)
				if err != nil {
					t.Fatal(err)
				}
				for _, mine := range page {
					got = append(got, mine.Subject.String())
				}
				if len(page) < size {
					break
				}
				after = &page[len(page)-1]
			}
			if !slices.Equal(got, want) {
				t.Errorf("a viewer's favs in pages of %d:\n%v\nwant\n%v", size, got, want)
			}
		}
		if n, err := s.CountOf(t.Context(), viewer(3), 3, counter.Fav); n != len(want) || err != nil {
			t.Errorf("the viewer has %d favs, %v; want %d", n, err, len(want))
		}
		counts, err := s.Counts(t.Context(), []counter.Subject{post(t, "1"), post(t, "p49"), post(t, "unknown")})
		if err != nil || len(counts) != 2 || counts[post(t, "1")].Like != 149 || counts[post(t, "p49")].Fav != 38 {
			t.Errorf("counts %+v, %v", counts, err)
		}
	})
}

// What a page asks reads one range of its index, whatever lies beside it: no
// sort, no pass over a table.
func TestPlans(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db *bun.DB) {
		fill(t, db)
		cases := map[string]struct {
			reason string
			ask    func(*archive.Store) error
			uses   []string
			scans  bool // may read a table: all of a viewer's posts may be most there are
		}{
			"Likers": {
				"The first page of a post that everybody likes.",
				func(s *archive.Store) error {
					_, err := s.Likers(t.Context(), archive.LikersQuery{Subject: post(t, "0"), N: 20})
					return err
				},
				[]string{"reactions_newest", "users"},
				false,
			},
			"LikersAfter": {
				"A page in the middle starts where the one before ended.",
				func(s *archive.Store) error {
					_, err := s.Likers(t.Context(),
						archive.LikersQuery{Subject: post(t, "0"), After: &archive.Liker{Version: 150 << 20, Ordinal: 150}, N: 20},
						archive.LikersQuery{Subject: post(t, "1"), N: 20})
					return err
				},
				[]string{"reactions_newest", "users"},
				false,
			},
			"Of": {
				"What a viewer likes.",
				func(s *archive.Store) error {
					_, err := s.Of(t.Context(), viewer(7), 7, counter.Like, nil, 20)
					return err
				},
				[]string{"reactions_mine", "posts_pkey|sqlite_autoindex_posts_1"},
				false,
			},
			"OfAfter": {
				"And a later page of it.",
				func(s *archive.Store) error {
					_, err := s.Of(t.Context(), viewer(7), 7, counter.Like, &archive.Mine{Version: 20 << 20, Subject: post(t, "5")}, 20)
					return err
				},
				[]string{"reactions_mine", "posts_pkey|sqlite_autoindex_posts_1"},
				false,
			},
			"CountOf": {
				"How many those are.",
				func(s *archive.Store) error {
					_, err := s.CountOf(t.Context(), viewer(7), 7, counter.Like)
					return err
				},
				[]string{"reactions_mine"},
				true,
			},
			"Counts": {
				"The counts of a page's posts.",
				func(s *archive.Store) error {
					_, err := s.Counts(t.Context(), []counter.Subject{post(t, "1"), post(t, "2")})
					return err
				},
				[]string{"subject_counts_pkey|sqlite_autoindex_subject_counts_1"},
				false,
			},
		}
		for name, tc := range cases {
			t.Run(name, func(t *testing.T) {
				var query string
				if err := tc.ask(archive.NewStore(db.WithQueryHook(queryHook(func(text string) { query = text })))); err != nil {
					t.Fatal(err)
				}
				plan := explain(t, db, query)
				for _, names := range tc.uses {
					if !slices.ContainsFunc(strings.Split(names, "|"), func(name string) bool { return strings.Contains(plan, name) }) {
						t.Errorf("%s\n%s\ndoes not use %s:\n%s", tc.reason, query, names, plan)
					}
				}
				for _, word := range []string{"Seq Scan", "Sort", "SCAN r", "SCAN u", "SCAN p", "TEMP B-TREE"} {
					if strings.Contains(plan, word) && !tc.scans {
						t.Errorf("%s\n%s\nhas a %s:\n%s", tc.reason, query, word, plan)
					}
				}
			})
		}
	})
}

// fill has many posts, one of them liked by all, and one viewer who likes many.
func fill(t *testing.T, db *bun.DB) {
	t.Helper()
	s := archive.NewStore(db)
	var events []counter.Event
	for p := range 300 {
		for o := range 40 {
			events = append(events, event(fmt.Sprint(p), counter.Like, (p+o*7)%users, true, 1+o))
		}
		events = append(events, event("0", counter.Like, p, true, 100+p), event(fmt.Sprint(p), counter.Like, 7, true, 200+p))
	}
	for p := range 3000 {
		events = append(events, event(fmt.Sprint(1000+p), counter.Like, 1, true, 1))
	}
	for batch := range slices.Chunk(events, 4000) {
		apply(t, s, batch...)
	}
	published(t, db)
	execute(t, db, "ANALYZE")
}

// published makes a post of every subject that the archive knows.
func published(t *testing.T, db *bun.DB) {
	t.Helper()
	execute(t, db, "INSERT INTO posts (id, author_sub, title, body, published_at, visibility) SELECT substr(subject, 6), 'viewer-0', 'Title', '', 0, 'PUBLIC' FROM subject_counts")
}

func explain(t *testing.T, db *bun.DB, query string) string {
	t.Helper()
	var lines []string
	if isPostgres(db) {
		if err := db.NewRaw("EXPLAIN "+query).Scan(t.Context(), &lines); err != nil {
			t.Fatal(err)
		}
		return strings.Join(lines, "\n")
	}
	var steps []struct {
		ID, Parent, Notused int
		Detail              string
	}
	if err := db.NewRaw("EXPLAIN QUERY PLAN "+query).Scan(t.Context(), &steps); err != nil {
		t.Fatal(err)
	}
	for _, step := range steps {
		lines = append(lines, step.Detail)
	}
	return strings.Join(lines, "\n")
}

// Rows of a subject and of a viewer go in bounded steps.
func TestDeleteSteps(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db *bun.DB) {
		s := archive.NewStore(db)
		var events []counter.Event
		for i := range 25 {
			events = append(events, event("1", counter.Like, i, i%2 == 0, 1+i), event(fmt.Sprint(100+i), counter.Metric(i%2), 7, i%3 > 0, 1+i))
		}
		apply(t, s, events...)
		steps := func(step func() (int, error)) (all []int) {
			for len(all) < 100 {
				n, err := step()
				if err != nil {
					t.Fatal(err)
				}
				if all = append(all, n); n < 10 {
					break
				}
			}
			return all
		}
		if got := steps(func() (int, error) { return s.DeleteSubjectStep(t.Context(), post(t, "1"), 10) }); !slices.Equal(got, []int{10, 10, 5}) {
			t.Errorf("rows of a subject went in steps of %v", got)
		}
		if counts, err := s.Counts(t.Context(), []counter.Subject{post(t, "1"), post(t, "100")}); err != nil || len(counts) != 1 {
			t.Errorf("counts left: %v, %v", counts, err)
		}
		if got := steps(func() (int, error) { return s.DeleteOrdinalStep(t.Context(), 7, 10) }); !slices.Equal(got, []int{10, 10, 5}) {
			t.Errorf("rows of a viewer went in steps of %v", got)
		}
		if left := rows(t, db); strings.Contains(left, "row") {
			t.Errorf("left behind:\n%s", left)
		}
	})
}
