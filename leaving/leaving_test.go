package leaving_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallyfeed/tallyfeed/archive"
	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/database"
	"github.com/tallyfeed/tallyfeed/enginetest"
	"github.com/tallyfeed/tallyfeed/feed"
	"github.com/tallyfeed/tallyfeed/leaving"
)

// system is everything a user leaves traces in.
type system struct {
	db        *bun.DB
	redis     *counter.Redis
	facts     *counter.Facts
	reader    *counter.Reader
	posts     *feed.Feed
	store     *archive.Store
	publisher *counter.Publisher
	catchUp   *counter.CatchUp
	log       *slog.Logger
}

func newSystem(t *testing.T, address string) *system {
	t.Helper()
	ctx := t.Context()
	db, err := database.Open(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := database.Migrate(ctx, db); err != nil {
		t.Fatal(err)
	}
	r, err := counter.OpenRedis(ctx, enginetest.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	ordinalStore := counter.NewSQLOrdinals(db)
	if err := r.Found(ctx, ordinalStore); err != nil {
		t.Fatal(err)
	}
	kafka := counter.KafkaConfig{Brokers: enginetest.Kafka(t), Partitions: 2, Replication: 1}
	kafka.Topic = enginetest.Topic(t, "leaving")
	if err := kafka.EnsureTopics(ctx); err != nil {
		t.Fatal(err)
	}
	s := &system{db: db, redis: r, store: archive.NewStore(db), log: slog.New(slog.DiscardHandler)}
	s.publisher = counter.NewPublisher(r, kafka, s.log)
	t.Cleanup(func() { _ = s.publisher.Close() })
	ordinals := counter.NewOrdinals(ordinalStore)
	s.facts = counter.NewFacts(r, ordinals, s.log, counter.FactsConfig{})
	s.reader = counter.NewReader(r, ordinals, counter.ReaderConfig{Timeout: time.Second})
	s.posts = feed.New(db, feed.Config{Log: s.log, Subjects: purge{s.facts}})
	s.catchUp = counter.NewCatchUp(kafka, kafka.Topic, s.store)
	return s
}

type purge struct{ facts *counter.Facts }

func (p purge) Delete(ctx context.Context, id string) error {
	s, err := counter.NewSubject(counter.TypePost, id)
	if err != nil {
		return err
	}
	return p.facts.Delete(ctx, s)
}

// caughtUp is what a server with the role archive waits for.
func (s *system) caughtUp(ctx context.Context) error {
	if err := s.publisher.DrainAll(ctx); err != nil {
		return err
	}
	_, err := s.catchUp.Run(ctx)
	return err
}

func (s *system) purger(config leaving.PurgerConfig) *leaving.Purger {
	if config.CatchUp == nil {
		config.CatchUp = s.caughtUp
	}
	if config.Grace == 0 {
		config.Grace = time.Nanosecond
	}
	return leaving.NewPurger(s.db, s.posts, s.facts, s.store, s.log, config)
}

func subject(t *testing.T, id string) counter.Subject {
	t.Helper()
	s, err := counter.NewSubject(counter.TypePost, id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *system) set(t *testing.T, sub, id string, m counter.Metric, want bool) {
	t.Helper()
	if _, err := s.facts.Set(t.Context(), counter.Viewer(sub), subject(t, id), m, want); err != nil {
		t.Fatal(err)
	}
}

// counts are those of the facts themselves.
func (s *system) counts(t *testing.T, id string) string {
	t.Helper()
	readings, err := s.reader.ExactCounts(t.Context(), []counter.Subject{subject(t, id)})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %d", readings[0].Exact.Like, readings[0].Exact.Fav)
}

func (s *system) number(t *testing.T, query string, args ...any) (n int) {
	t.Helper()
	if err := s.db.NewRaw(query, args...).Scan(t.Context(), &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func onEngines(t *testing.T, test func(t *testing.T, s *system)) {
	t.Helper()
	for name, address := range map[string]func(*testing.T) string{
		"SQLite":     func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "leaving.db") },
		"PostgreSQL": func(t *testing.T) string { return enginetest.Postgres(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newSystem(t, address(t)))
		})
	}
}

func imported(t *testing.T, s *system) {
	t.Helper()
	var lines strings.Builder
	for i := range 5 {
		for _, author := range []string{"ada", "bob"} {
			fmt.Fprintf(&lines, `{"id":"%s%d","author":%q,"authorName":"The name of %s","title":"T","body":"B","publishedAt":"2026-11-01T08:00:00Z","visibility":%q}`+"\n",
				author, i, author, author, []string{"PUBLIC", "PRIVATE"}[i%2])
		}
	}
	if _, err := s.posts.Import(t.Context(), strings.NewReader(lines.String())); err != nil {
		t.Fatal(err)
	}
}

// Of somebody who has left nothing is kept but the tombstone: posts, likes, favs,
// rows, name; counts are exact afterwards; others keep theirs. What had not
// reached the archive when they left goes as well, and what comes later than the
// end brings nothing back.
func TestPurge(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, s *system) {
		imported(t, s)
		for _, sub := range []string{"bob", "eve"} {
			s.set(t, sub, "ada0", counter.Like, true)
			s.set(t, sub, "ada0", counter.Fav, true)
			s.set(t, sub, "bob0", counter.Like, true)
			s.set(t, sub, "ada2", counter.Like, true)
			s.set(t, sub, "ada2", counter.Like, false) // an inactive row is of them, too
		}
		if err := s.caughtUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.set(t, "bob", "ada4", counter.Like, true) // in the outbox only
		ordinal := s.number(t, "SELECT ordinal FROM users WHERE sub = 'bob'")

		leavers := leaving.New(s.db, s.log)
		for range 2 { // the second changes nothing
			if err := leavers.Leave(t.Context(), "bob"); err != nil {
				t.Fatal(err)
			}
		}
		if n := s.number(t, "SELECT count(*) FROM user_purges"); n != 1 {
			t.Errorf("%d purges", n)
		}
		purger := s.purger(leaving.PurgerConfig{})
		if err := purger.Purge(t.Context()); err != nil { // sees it first
			t.Fatal(err)
		}
		if err := purger.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.caughtUp(t.Context()); err != nil { // with the unlikes, and everything before once more
			t.Fatal(err)
		}
		for id, want := range map[string]string{"ada0": "1 1", "ada2": "0 0", "ada4": "0 0"} {
			if got := s.counts(t, id); got != want {
				t.Errorf("counts of %s: %s, want %s", id, got, want)
			}
		}
		for query, want := range map[string]int{
			"SELECT count(*) FROM users WHERE sub = 'bob' OR name LIKE '%bob%'":       0,
			"SELECT count(*) FROM posts WHERE author_sub = 'bob'":                     0,
			"SELECT count(*) FROM posts WHERE author_sub = 'ada'":                     5,
			fmt.Sprintf("SELECT count(*) FROM reactions WHERE ordinal = %d", ordinal): 0,
			"SELECT count(*) FROM reactions WHERE active":                             2, // eve's, of ada's post
			"SELECT count(*) FROM user_purges":                                        0,
			"SELECT count(*) FROM deleted_users WHERE purged":                         1,
			"SELECT likes FROM subject_counts WHERE subject = 'post:ada0'":            1,
			"SELECT count(*) FROM subject_counts WHERE subject LIKE 'post:bob%'":      0,
		} {
			if got := s.number(t, query); got != want {
				t.Errorf("%s: %d, want %d", query, got, want)
			}
		}
		// The ordinal is nobody else's.
		s.set(t, "new", "ada0", counter.Like, true)
		if n := s.number(t, "SELECT ordinal FROM users WHERE sub = 'new'"); n <= ordinal {
			t.Errorf("ordinal %d was given again", n)
		}
	})
}

// A purge that fails at any step goes on from there; it waits for requests that
// may be under way.
func TestPurgeGoesOn(t *testing.T) {
	t.Parallel()
	s := newSystem(t, "sqlite:"+filepath.Join(t.TempDir(), "leaving.db"))
	imported(t, s)
	s.set(t, "bob", "ada0", counter.Like, true)
	if err := leaving.New(s.db, s.log).Leave(t.Context(), "bob"); err != nil {
		t.Fatal(err)
	}
	patient := s.purger(leaving.PurgerConfig{Grace: time.Hour})
	for range 2 {
		if err := patient.Purge(t.Context()); err != nil || s.number(t, "SELECT count(*) FROM users WHERE sub = 'bob'") != 1 {
			t.Fatalf("it does not wait: %v", err)
		}
	}
	away := errors.New("away")
	failing := s.purger(leaving.PurgerConfig{CatchUp: func(context.Context) error { return away }})
	_ = failing.Purge(t.Context())
	if err := failing.Purge(t.Context()); !errors.Is(err, away) {
		t.Fatalf("%v", err)
	}
	if n := s.number(t, "SELECT count(*) FROM deleted_users WHERE purged"); n != 0 || s.counts(t, "ada0") != "1 0" {
		t.Fatalf("nobody knows what there is, and it is called done: %d, %s", n, s.counts(t, "ada0"))
	}
	// Another process goes on.
	other := s.purger(leaving.PurgerConfig{})
	_ = other.Purge(t.Context())
	if err := other.Purge(t.Context()); err != nil || s.counts(t, "ada0") != "0 0" || s.number(t, "SELECT count(*) FROM users WHERE sub = 'bob'") != 0 {
		t.Errorf("%v, %s", err, s.counts(t, "ada0"))
	}
}

// Other servers know of it a moment later, also those that started before, and
// those whose clocks are behind.
func TestLeftElsewhere(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, s *system) {
		here, there := leaving.New(s.db, s.log), leaving.New(s.db, s.log)
		load := func() {
			t.Helper()
			if err := there.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		load()
		for _, sub := range []string{"bob", "auth0|5f7c 😀"} {
			if here.Left(sub) || there.Left(sub) {
				t.Fatal("before")
			}
			if err := here.Leave(t.Context(), sub); err != nil {
				t.Fatal(err)
			}
			if !here.Left(sub) {
				t.Error("not even here")
			}
			load()
			if !there.Left(sub) {
				t.Error("not there")
			}
		}
		if here.Left("eve") || there.Left("") {
			t.Error("others stay")
		}
		// By a server whose clock is half a minute behind.
		_, err := s.db.ExecContext(t.Context(), "INSERT INTO deleted_users (hash, deleted_at) VALUES (?, ?)",
			archive.UserHash("late"), time.Now().Add(-30*time.Second).UnixMicro())
		if err != nil {
			t.Fatal(err)
		}
		if load(); !there.Left("late") {
			t.Error("a tombstone of a slow clock is passed over")
		}
		fresh := leaving.New(s.db, s.log)
		if err := fresh.Load(t.Context()); err != nil || !fresh.Left("bob") || !fresh.Left("late") {
			t.Errorf("a server that starts later: %v", err)
		}
	})
}

// What is theirs, line by line.
func TestExport(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, s *system) {
		imported(t, s)
		s.set(t, "bob", "ada0", counter.Like, true)
		s.set(t, "bob", "ada1", counter.Fav, true) // private by now: theirs all the same
		s.set(t, "bob", "ada2", counter.Like, true)
		s.set(t, "bob", "ada2", counter.Like, false)
		s.set(t, "eve", "ada0", counter.Like, true)
		if err := s.caughtUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := leaving.Export(t.Context(), s.db, s.posts, s.store, "bob", &out); err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			var fields map[string]any
			if err := json.Unmarshal([]byte(line), &fields); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			if fields["type"] == "like" || fields["type"] == "fav" {
				if _, err := time.Parse(time.RFC3339, fmt.Sprint(fields["at"])); err != nil {
					t.Error(err)
				}
			}
			got = append(got, fmt.Sprint(fields["type"], " ", fields["id"], " ", fields["sub"], " ", fields["name"], " ", fields["visibility"]))
		}
		want := []string{
			"user <nil> bob The name of bob <nil>",
			"post post:bob0 <nil> <nil> PUBLIC", "post post:bob1 <nil> <nil> PRIVATE", "post post:bob2 <nil> <nil> PUBLIC",
			"post post:bob3 <nil> <nil> PRIVATE", "post post:bob4 <nil> <nil> PUBLIC",
			"like post:ada0 <nil> <nil> <nil>", "fav post:ada1 <nil> <nil> <nil>",
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if err := leaving.Export(t.Context(), s.db, s.posts, s.store, "nobody", &out); !errors.Is(err, leaving.ErrUnknown) {
			t.Errorf("%v", err)
		}
	})
}
