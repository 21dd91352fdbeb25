package archive_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/uptrace/bun"

	"github.com/tallyfeed/tallyfeed/archive"
	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/database"
	"github.com/tallyfeed/tallyfeed/enginetest"
)

// onEngines runs a test on SQLite and on PostgreSQL, each with viewers 0 to
// users-1: viewer-N has ordinal N.
func onEngines(t *testing.T, test func(t *testing.T, db *bun.DB)) {
	t.Helper()
	for name, address := range map[string]func(*testing.T) string{
		"SQLite":     func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "archive.db") },
		"PostgreSQL": func(t *testing.T) string { return enginetest.Postgres(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, openWith(t, address(t), users))
		})
	}
}

const users = 300

func openWith(t *testing.T, address string, users int) *bun.DB {
	t.Helper()
	db, err := database.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := database.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	viewers := make([]counter.Viewer, users)
	for i := range viewers {
		viewers[i] = viewer(i)
	}
	ordinals := counter.NewSQLOrdinals(db)
	if _, err := ordinals.Give(t.Context(), viewers); err != nil {
		t.Fatal(err)
	}
	return db
}

func viewer(i int) counter.Viewer { return counter.Viewer(fmt.Sprintf("viewer-%d", i)) }

func post(t *testing.T, id string) counter.Subject {
	t.Helper()
	s, err := counter.NewSubject(counter.TypePost, id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// event is the like (or fav) of viewer o; its version is millisecond at.
func event(id string, m counter.Metric, o int, on bool, at int) counter.Event {
	e := counter.Event{
		EntityType: "post", EntityID: id, Metric: m.String(), Index: int(m), UserID: string(viewer(o)), Ordinal: counter.Ordinal(o),
		Delta: -1, Like: int64(at), Fav: int64(2 * at), Version: fmt.Sprintf("%d-0", at), Millis: int64(at),
	}
	if on {
		e.Delta = 1
	}
	return e
}

// rows is all there is in the tables, as text.
func rows(t *testing.T, db *bun.DB) string {
	t.Helper()
	var text strings.Builder
	for _, query := range []string{
		"SELECT 'row ' || subject || ' ' || metric || ' ' || ordinal || ' ' || CASE WHEN active THEN 1 ELSE 0 END || ' ' || (version / 1048576) FROM reactions ORDER BY subject, metric, ordinal",
		"SELECT 'counts ' || subject || ' ' || likes || ' ' || favs || ' ' || (version / 1048576) FROM subject_counts ORDER BY subject",
		"SELECT 'tag ' || tag || ' ' || (version / 1048576) FROM tag_versions ORDER BY tag",
	} {
		var lines []string
		if err := db.NewRaw(query).Scan(t.Context(), &lines); err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			text.WriteString(line + "\n")
		}
	}
	return text.String()
}

func apply(t *testing.T, s *archive.Store, events ...counter.Event) map[int]error {
	t.Helper()
	refused, err := s.Apply(t.Context(), events)
	if err != nil {
		t.Fatal(err)
	}
	return refused
}

func execute(t *testing.T, db *bun.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// What is left is the newest state of each key, however the events come.
func TestApply(t *testing.T) {
	t.Parallel()
	like, unlike := event("1", counter.Like, 7, true, 10), event("1", counter.Like, 7, false, 20)
	const liked = "row post:1 0 7 1 10\ncounts post:1 10 20 10\n"
	const unliked = "row post:1 0 7 0 20\ncounts post:1 20 40 20\n"
	gone := counter.Event{EntityType: "post", EntityID: "1", Version: "30-0", Index: -1, Deleted: true}
	cases := map[string]struct {
		reason  string
		batches [][]counter.Event
		want    string
	}{
		"Like":          {"The simplest of all.", [][]counter.Event{{like}}, liked},
		"Unlike":        {"An unlike keeps its row: without it a replay would revive the like.", [][]counter.Event{{like}, {unlike}}, unliked},
		"OneBatch":      {"PostgreSQL refuses to touch a row twice in a statement.", [][]counter.Event{{like, unlike}}, unliked},
		"Reversed":      {"Another order, within a batch (FAULTS 40).", [][]counter.Event{{unlike, like}}, unliked},
		"LateLike":      {"Another order, of two batches (FAULTS 40).", [][]counter.Event{{unlike}, {like}}, unliked},
		"Again":         {"Delivered three times, split differently (FAULTS 39).", [][]counter.Event{{like, unlike}, {like}, {unlike, like, unlike}}, unliked},
		"OtherMetric":   {"A fav is a row of its own.", [][]counter.Event{{like, event("1", counter.Fav, 7, true, 11)}}, "row post:1 0 7 1 10\nrow post:1 1 7 1 11\ncounts post:1 11 22 11\n"},
		"OtherViewer":   {"So is another viewer's like; counts are those of the newest.", [][]counter.Event{{event("1", counter.Like, 8, true, 11), like}}, "row post:1 0 7 1 10\nrow post:1 0 8 1 11\ncounts post:1 11 22 11\n"},
		"Deleted":       {"A deleted subject's rows go.", [][]counter.Event{{like}, {gone}}, ""},
		"DeletedInside": {"Also those of the same batch.", [][]counter.Event{{like, gone}}, ""},
		"DeletedTwice":  {"A second delivery finds nothing.", [][]counter.Event{{like, gone}, {gone}}, ""},
		"Nothing":       {"A batch may be empty.", [][]counter.Event{{}}, ""},
	}
	onEngines(t, func(t *testing.T, db *bun.DB) {
		for name, tc := range cases {
			t.Run(name, func(t *testing.T) {
				for _, table := range []string{"reactions", "subject_counts", "tag_versions"} {
					execute(t, db, "DELETE FROM "+table)
				}
				s := archive.NewStore(db)
				for _, batch := range tc.batches {
					if refused := apply(t, s, batch...); len(refused) > 0 {
						t.Errorf("%s\nrefused %v", tc.reason, refused)
					}
				}
				got := rows(t, db)
				if got, _, _ = strings.Cut(got, "tag "); got != tc.want {
					t.Errorf("%s\ngot\n%swant\n%s", tc.reason, got, tc.want)
				}
			})
		}
	})
}

// Two archivers at once, each event delivered several times in an order of its
// own, in batches of any size, give the same rows as one that reads in order.
func TestApplyAnyOrder(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db *bun.DB) {
		const posts, viewers, n = 4, 20, 600
		random := rand.New(rand.NewPCG(6, 1))
		var events []counter.Event
		for at := 1; at <= n; at++ {
			events = append(events, event(fmt.Sprint(random.IntN(posts)), counter.Metric(random.IntN(2)), random.IntN(viewers), random.IntN(2) == 0, at))
		}
		for _, e := range events { // one by one and in order: what is right
			apply(t, archive.NewStore(db), e)
		}
		want := rows(t, db)
		for _, table := range []string{"reactions", "subject_counts", "tag_versions"} {
			execute(t, db, "DELETE FROM "+table)
		}
		var group sync.WaitGroup
		for worker := range 4 {
			group.Go(func() {
				random := rand.New(rand.NewPCG(7, uint64(worker)))
				mixed := slices.Concat(events, events)
				random.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
				s := archive.NewStore(db)
				for len(mixed) > 0 {
					size := min(1+random.IntN(100), len(mixed))
					if refused, err := s.Apply(t.Context(), mixed[:size]); err != nil || len(refused) > 0 {
						t.Errorf("apply: %v, %v", refused, err)
						return
					}
					mixed = mixed[size:]
				}
			})
		}
		group.Wait()
		if got := rows(t, db); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

// A row that can't be taken is told by its place, and the rest goes in.
func TestApplyRefuses(t *testing.T) {
	t.Parallel()
	good := []counter.Event{event("1", counter.Like, 1, true, 5), event("1", counter.Like, 2, true, 6)}
	with := func(change func(*counter.Event)) counter.Event {
		e := event("1", counter.Like, 3, true, 7)
		change(&e)
		return e
	}
	cases := map[string]struct {
		reason string
		bad    counter.Event
	}{
		"NoUser":       {"Nobody has this sub: the row could not be shown to anybody.", with(func(e *counter.Event) { e.UserID = "nobody" })},
		"OtherOrdinal": {"The ordinal is somebody else's: it would be their like.", with(func(e *counter.Event) { e.Ordinal = 4 })},
		"ZeroByte":     {"PostgreSQL has no such text.", with(func(e *counter.Event) { e.UserID = "a\x00b" })},
		"FarFuture":    {"A version beyond 63 bits.", with(func(e *counter.Event) { e.Version = "17592186044415-0" })},
		"BelowZero":    {"A count that can't be.", with(func(e *counter.Event) { e.Like = -1 })},
		"RefusedBySQL": {"What SQL itself refuses, here by a rule of the test.", event("13", counter.Like, 3, true, 7)},
	}
	onEngines(t, func(t *testing.T, db *bun.DB) {
		refuse13(t, db)
		for name, tc := range cases {
			t.Run(name, func(t *testing.T) {
				execute(t, db, "DELETE FROM reactions")
				execute(t, db, "DELETE FROM subject_counts")
				for at := range 3 {
					refused := apply(t, archive.NewStore(db), slices.Insert(slices.Clone(good), at, tc.bad)...)
					if len(refused) != 1 || refused[at] == nil {
						t.Errorf("%s\nat place %d: refused %v", tc.reason, at, refused)
					}
				}
				if got, want := rows(t, db), "row post:1 0 1 1 5\nrow post:1 0 2 1 6\ncounts post:1 6 12 6\n"; !strings.HasPrefix(got, want+"tag") {
					t.Errorf("%s\ngot\n%swant\n%s", tc.reason, got, want)
				}
			})
		}
	})
}

// refuse13 makes SQL refuse rows of post:13.
func refuse13(t *testing.T, db *bun.DB) {
	t.Helper()
	if isPostgres(db) {
		execute(t, db, "ALTER TABLE reactions ADD CHECK (subject <> 'post:13')")
		return
	}
	execute(t, db, "CREATE TRIGGER refuse BEFORE INSERT ON reactions WHEN NEW.subject = 'post:13' BEGIN SELECT RAISE(ABORT, 'refused'); END")
}

func isPostgres(db *bun.DB) bool { return db.Dialect().Name().String() == "pg" }

// Events of deleted posts and of users who have left write nothing, and are no
// dead letters.
func TestApplyPassesOver(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db *bun.DB) {
		s := archive.NewStore(db)
		apply(t, s, event("2", counter.Like, 1, true, 1), event("2", counter.Like, 2, true, 2)) // both are known from now on
		execute(t, db, "INSERT INTO deleted_posts (id, deleted_at) VALUES ('1', 0)")
		execute(t, db, "INSERT INTO deleted_users (hash, deleted_at, purged) VALUES (?, 0, TRUE)", archive.UserHash(viewer(1)))
		events := []counter.Event{
			event("1", counter.Like, 2, true, 10), // of a deleted post
			event("2", counter.Like, 1, true, 11), // of a user who has left a moment ago
			event("2", counter.Fav, 2, true, 12),  // of neither
			event("1", counter.Like, 2, true, 13),
		}
		if refused := apply(t, s, events...); len(refused) > 0 {
			t.Errorf("refused %v", refused)
		}
		execute(t, db, "DELETE FROM users WHERE sub = ?", string(viewer(1)))
		if refused := apply(t, archive.NewStore(db), events...); len(refused) > 0 { // another process, later
			t.Errorf("once the user's row is gone: refused %v", refused)
		}
		want := "row post:2 0 2 1 2\nrow post:2 1 2 1 12\ncounts post:2 12 24 12\n"
		if got, _, _ := strings.Cut(rows(t, db), "tag "); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
		var highest int64
		tag := int(post(t, "1").Tag())
		if err := db.NewRaw("SELECT version / 1048576 FROM tag_versions WHERE tag = ?", tag).Scan(t.Context(), &highest); err != nil || highest != 13 {
			t.Errorf("the tag of the deleted post has version %d, %v: what was seen is seen", highest, err)
		}
	})
}

// A tombstone that is set while a batch is under way: whoever deletes may have
// looked before the batch was committed, so the batch looks behind itself.
func TestTombstoneDuringBatch(t *testing.T) {
	t.Parallel()
	db := openWith(t, enginetest.Postgres(t), users) // SQLite has one writer: there is no such moment
	other := archive.NewStore(db)
	set := false
	during := db.WithQueryHook(queryHook(func(query string) {
		if set || !strings.HasPrefix(query, `INSERT INTO "reactions"`) {
			return
		}
		set = true
		execute(t, db, "INSERT INTO deleted_posts (id, deleted_at) VALUES ('1', 0)")
		execute(t, db, "INSERT INTO deleted_users (hash, deleted_at, purged) VALUES (?, 0, TRUE)", archive.UserHash(viewer(2)))
		if err := other.DeleteSubject(t.Context(), post(t, "1")); err != nil {
			t.Error(err)
		}
		if err := other.DeleteOrdinal(t.Context(), 2); err != nil {
			t.Error(err)
		}
	}))
	apply(t, archive.NewStore(during), event("1", counter.Like, 1, true, 1), event("2", counter.Like, 2, true, 2), event("3", counter.Like, 3, true, 3))
	if got, _, _ := strings.Cut(rows(t, db), "counts"); got != "row post:3 0 3 1 3\n" || !set {
		t.Errorf("left behind (tombstones set: %t):\n%s", set, got)
	}
}

// queryHook is told of each query before it runs.
type queryHook func(query string)

// BeforeQuery is part of bun.QueryHook.
func (h queryHook) BeforeQuery(ctx context.Context, event *bun.QueryEvent) context.Context {
	h(event.Query)
	return ctx
}

// AfterQuery is part of bun.QueryHook.
func (queryHook) AfterQuery(context.Context, *bun.QueryEvent) {}
