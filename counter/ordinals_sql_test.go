package counter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/uptrace/bun"

	"github.com/tallyfeed/tallyfeed/database"
	"github.com/tallyfeed/tallyfeed/enginetest"
)

// onBothDatabases runs a test on SQLite and on PostgreSQL, each empty.
func onBothDatabases(t *testing.T, test func(t *testing.T, db *bun.DB)) {
	t.Helper()
	engines := map[string]func(*testing.T) string{
		"SQLite":     func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "ordinals.db") },
		"PostgreSQL": func(t *testing.T) string { return enginetest.Postgres(t) },
	}
	for name, address := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, err := database.Open(t.Context(), address(t))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			if err := database.Migrate(t.Context(), db); err != nil {
				t.Fatal(err)
			}
			test(t, db)
		})
	}
}

func viewersUpTo(n int) []Viewer {
	all := make([]Viewer, n)
	for i := range all {
		all[i] = Viewer(fmt.Sprintf("viewer-%03d", i))
	}
	return all
}

// dense fails the test unless viewers have the numbers 0 to n-1, each once.
func dense(t *testing.T, given map[Viewer]Ordinal, n int) {
	t.Helper()
	var numbers []Ordinal
	for _, ordinal := range given {
		numbers = append(numbers, ordinal)
	}
	slices.Sort(numbers)
	if len(numbers) != n {
		t.Fatalf("%d viewers have an ordinal, want %d", len(numbers), n)
	}
	for i, ordinal := range numbers {
		if ordinal != Ordinal(i) {
			t.Fatalf("ordinal %d stands where %d should: a gap or a number given twice in %v", ordinal, i, numbers)
		}
	}
}

// Facts are kept by ordinal, so a gap costs memory for ever, and a number given
// twice gives one viewer the other's likes.
func TestOrdinalsAreDense(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db *bun.DB) {
		const workers, batches, size, n = 8, 6, 40, 150
		store := NewSQLOrdinals(db)
		viewers := viewersUpTo(n)
		if given, err := store.Any(t.Context()); err != nil || given {
			t.Fatalf("a new system has ordinals: %t, %v", given, err)
		}

		var mu sync.Mutex
		told := map[Viewer]Ordinal{}
		var group sync.WaitGroup
		for worker := range workers {
			group.Go(func() {
				random := rand.New(rand.NewPCG(1, uint64(worker)))
				for range batches {
					batch := slices.Clone(viewers)
					random.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
					batch = batch[:size]
					given, err := store.Give(t.Context(), batch)
					if err != nil {
						t.Errorf("worker %d: %v", worker, err)
						return
					}
					mu.Lock()
					for _, viewer := range batch {
						ordinal, has := given[viewer]
						if before, known := told[viewer]; !has || known && before != ordinal {
							t.Errorf("worker %d: %s got %d, %t; before it was %d", worker, viewer, ordinal, has, before)
						}
						told[viewer] = ordinal
					}
					mu.Unlock()
				}
			})
		}
		group.Wait()
		if t.Failed() {
			return
		}
		dense(t, told, len(told))
		stored, err := store.Find(t.Context(), viewers)
		if err != nil {
			t.Fatal(err)
		}
		dense(t, stored, len(told))
		for viewer, ordinal := range told {
			if stored[viewer] != ordinal {
				t.Errorf("%s was told %d and has %d", viewer, ordinal, stored[viewer])
			}
		}
		if given, err := store.Any(t.Context()); err != nil || !given {
			t.Errorf("ordinals were given: %t, %v", given, err)
		}
	})
}

// A batch that fails gives nothing, and the next one starts where it would have.
func TestOrdinalsAfterRollback(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db *bun.DB) {
		store := NewSQLOrdinals(db)
		viewers := viewersUpTo(6)
		if _, err := store.Give(t.Context(), viewers[:2]); err != nil {
			t.Fatal(err)
		}

		// The counter is moved on last, so a fault there comes when everything
		// else of the transaction is done.
		hook := &faultyHook{match: "UPDATE"}
		faulty := db.WithQueryHook(hook)
		if given, err := NewSQLOrdinals(faulty).Give(t.Context(), viewers[2:4]); err == nil || given != nil {
			t.Fatalf("a batch that failed gave %v, %v", given, err)
		}
		if hook.hit == 0 {
			t.Fatal("the fault was not reached")
		}
		if found, err := store.Find(t.Context(), viewers); err != nil || len(found) != 2 {
			t.Fatalf("after the rollback: %v, %v", found, err)
		}
		given, err := store.Give(t.Context(), viewers)
		if err != nil {
			t.Fatal(err)
		}
		dense(t, given, len(viewers))
	})
}

// faultyHook cancels the query that begins with match before it is sent.
type faultyHook struct {
	match string
	hit   int
}

func (h *faultyHook) BeforeQuery(ctx context.Context, event *bun.QueryEvent) context.Context {
	if event.Operation() != h.match {
		return ctx
	}
	h.hit++
	ctx, cancel := context.WithCancelCause(ctx)
	cancel(errors.New("the fault"))
	return ctx
}

func (h *faultyHook) AfterQuery(context.Context, *bun.QueryEvent) {}

// An author has a row before the first like, with a name; a like adds the number
// and touches nothing else.
func TestOrdinalOfAuthor(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db *bun.DB) {
		if _, err := db.ExecContext(t.Context(), "INSERT INTO users (sub, name) VALUES ('ada', 'Ada'), ('bob', '')"); err != nil {
			t.Fatal(err)
		}
		store := NewSQLOrdinals(db)
		if found, err := store.Find(t.Context(), []Viewer{"ada", "bob"}); err != nil || len(found) != 0 {
			t.Fatalf("before the first like: %v, %v", found, err)
		}
		if given, err := store.Any(t.Context()); err != nil || given {
			t.Fatalf("authors alone are no reactions: %t, %v", given, err)
		}
		given, err := store.Give(t.Context(), []Viewer{"eve", "ada"})
		if err != nil {
			t.Fatal(err)
		}
		dense(t, given, 2)
		again, err := store.Give(t.Context(), []Viewer{"ada", "eve"})
		if err != nil || again["ada"] != given["ada"] || again["eve"] != given["eve"] {
			t.Fatalf("asked again: %v, before %v, %v", again, given, err)
		}
		var names []string
		if err := db.NewRaw("SELECT name FROM users ORDER BY sub").Scan(t.Context(), &names); err != nil {
			t.Fatal(err)
		}
		if want := []string{"Ada", "", ""}; !slices.Equal(names, want) {
			t.Errorf("names %q, want %q", names, want)
		}
	})
}

// Subs are any strings: quotes, what SQL takes for arguments and patterns, and
// such that differ in case or in a trailing space.
func TestOrdinalsOfOddSubs(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db *bun.DB) {
		store := NewSQLOrdinals(db)
		odd := []Viewer{"a", "A", "a ", "?", "?0", `'; DROP TABLE users; --`, `\`, "%", "é", "e\u0301", "😀", `"`, "$1"}
		given, err := store.Give(t.Context(), odd)
		if err != nil {
			t.Fatal(err)
		}
		dense(t, given, len(odd))
		found, err := store.Find(t.Context(), odd)
		if err != nil {
			t.Fatal(err)
		}
		for _, viewer := range odd {
			if found[viewer] != given[viewer] {
				t.Errorf("%q was given %d and has %d", viewer, given[viewer], found[viewer])
			}
		}
	})
}
