package archive_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tallyfeed/tallyfeed/archive"
	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/enginetest"
)

func sqlite(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "archive.db") }

// An emptied Redis has all its facts again, in containers of the right size,
// and likes go on: nothing but the topic and the archive was needed.
func TestRestore(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		likers int
		step   int // between ordinals
		key    string
	}{
		"One":           {"The smallest.", 1, 1, "bm:like:post:1:few"},
		"Few512":        {"A set may be full.", 512, 1, "bm:like:post:1:few"},
		"Bitmap513":     {"One more, all in one chunk: a bitmap at once.", 513, 1, "bm:like:post:1:0"},
		"Spread513":     {"One more, each in a chunk of its own: small sets.", 513, 32768, "bm:like:post:1:512:few"},
		"TwoBitmaps":    {"Several chunks, each a bitmap.", 1400, 50, "bm:like:post:1:1"},
		"BitmapAndSet":  {"A full chunk and one that is not.", 700, 60, "bm:like:post:1:1:few"},
		"ChunkSets":     {"Several chunks, each a set of hundreds.", 1200, 100, "bm:like:post:1:0:few"},
		"LimitInChunks": {"The limit is passed in the second chunk.", 600, 65, "bm:like:post:1:0:few"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t, openSpread(t, sqlite(t), max(tc.likers, 20), tc.step), enginetest.RedisOptions{})
			s.setAll(upTo(tc.likers), "1", counter.Like, true)
			s.setAll(upTo(5), "1", counter.Fav, true)
			s.setAll(upTo(7), "2", counter.Like, true)
			s.set(3, "2", counter.Like, false)
			s.set(4, "3", counter.Fav, true)
			s.set(4, "3", counter.Fav, false) // known to the archive, and without facts
			s.published()
			before := s.held()
			s.empty()
			if _, err := s.facts.Set(t.Context(), viewer(9), post(t, "2"), counter.Like, true); !errors.Is(err, counter.ErrNoEpoch) {
				t.Errorf("%s\na like before the restore: %v", tc.reason, err)
			}
			if done := s.restore(); done.Tags != counter.Tags || done.Subjects != 3 || done.Facts != int64(tc.likers+5+6) {
				t.Errorf("%s\nrestored %+v", tc.reason, done)
			}
			same(t, s.held(), before)
			if n := s.direct.Keys(t.Context(), tc.key+"{*").Val(); len(n) != 1 {
				t.Errorf("%s\nno %s: there are %v", tc.reason, tc.key, s.direct.Keys(t.Context(), "bm:like:post:1:*").Val())
			}
			s.countsAre(before, "1", "2", "3")
			if left := s.direct.Keys(t.Context(), "restore*").Val(); len(left) > 0 {
				t.Errorf("%s\nleases are left: %v", tc.reason, left)
			}
			if got := s.set(0, "2", counter.Like, true); got.Changed || got.Counts.Like != 6 {
				t.Errorf("%s\nthe same like again: %+v", tc.reason, got)
			}
			if got := s.set(3, "2", counter.Like, true); !got.Changed || got.Counts.Like != 7 {
				t.Errorf("%s\na like after the restore: %+v", tc.reason, got)
			}
			if done := s.restore(); done.Tags != 0 {
				t.Errorf("%s\na second restore does something: %+v", tc.reason, done)
			}
		})
	}
}

// On PostgreSQL as well: what is read there by one query has the same order.
func TestRestoreFromPostgres(t *testing.T) {
	t.Parallel()
	s := newSystem(t, openWith(t, enginetest.Postgres(t), 700), enginetest.RedisOptions{})
	for i, id := range []string{"a", "B", "_", "-", "1", "10", "b"} {
		s.setAll(upTo(100*(i+1)), id, counter.Like, true)
		s.setAll(upTo(3), id, counter.Fav, true)
	}
	s.published()
	before := s.held()
	s.empty()
	s.restore()
	same(t, s.held(), before)
}

// A new system, which has never given an ordinal, is founded and not restored.
func TestRestoreFounds(t *testing.T) {
	t.Parallel()
	s := newSystem(t, openWith(t, sqlite(t), 0), enginetest.RedisOptions{})
	s.empty()
	s.restore()
	if got := s.set(1, "1", counter.Like, true); !got.Changed {
		t.Errorf("%+v", got)
	}
}

// Redis has lost its epochs and not its facts: what lies there that is not true
// goes, what waits in the outbox and in Kafka counts (FAULTS 59).
func TestRestoreOverLeftovers(t *testing.T) {
	t.Parallel()
	s := newSystem(t, openSpread(t, sqlite(t), 1500, 40), enginetest.RedisOptions{})
	s.setAll(upTo(1500), "1", counter.Like, true) // two chunks
	s.setAll(upTo(4), "2", counter.Like, true)
	s.published()
	_, stop := archiving(t, s.db, s.kafka, s.group)
	eventually(t, 60*time.Second, "all rows", func() bool { return active(t, s.db) == 1504 })
	stop()
	// These unlikes are in Kafka, and in no table yet.
	s.setAll(upTo(1100), "1", counter.Like, false)
	s.set(2, "2", counter.Like, false)
	s.published()
	// This one is in the outbox, and in no topic yet.
	s.facts = counter.NewFacts(s.redis, s.ordinals, quiet, counter.FactsConfig{})
	s.set(3, "2", counter.Like, false)
	want := s.held()
	s.forget()
	ctx := t.Context()
	tag := post(t, "2").Tag()
	s.direct.SAdd(ctx, fmt.Sprintf("bm:like:post:2:few{%s}", tag), 5, 6, 7)
	s.direct.SAdd(ctx, fmt.Sprintf("bm:fav:post:2:chunks{%s}", tag), 0, 1) // of a larger past
	s.direct.SAdd(ctx, fmt.Sprintf("bm:fav:post:2:0:few{%s}", tag), 5, 6, 7)
	s.direct.SetBit(ctx, fmt.Sprintf("bm:fav:post:2:1{%s}", tag), 5, 1)
	s.direct.Set(ctx, fmt.Sprintf("bm:fav:post:2:n{%s}", tag), 99, 0)
	s.restore()
	same(t, s.held(), want)
	s.countsAre(want, "1", "2")
	s.published()
}

// The lost Redis's clock was hours ahead: new changes must get versions above the
// old ones, or snapshots and archive would decline them as old (FAULTS 51).
func TestRestoreAfterClockAhead(t *testing.T) {
	t.Parallel()
	s := newSystem(t, openWith(t, sqlite(t), 50), enginetest.RedisOptions{})
	ahead := time.Now().Add(3 * time.Hour).UnixMilli()
	apply(t, s.store, event("1", counter.Like, 1, true, int(ahead)), event("1", counter.Like, 2, true, int(ahead)+1))
	s.empty()
	s.restore()
	archiving(t, s.db, s.kafka, s.group)
	s.set(1, "1", counter.Like, false)
	s.set(3, "1", counter.Like, true)
	eventually(t, 60*time.Second, "the unlike and the like in the archive", func() bool {
		pages, err := s.store.Likers(t.Context(), archive.LikersQuery{Subject: post(t, "1"), N: 10})
		likers := slices.Concat(pages...)
		return err == nil && len(likers) == 2 && likers[0].Ordinal == 3 && likers[1].Ordinal == 2
	})
	counts, err := s.store.Counts(t.Context(), []counter.Subject{post(t, "1")})
	if got := counts[post(t, "1")]; err != nil || got.Like != 2 {
		t.Errorf("archived counts: %+v, %v", got, err)
	}
}

// A reader has seen a bitmap, and leaves the small sets out; after a restore the
// facts lie in a small set (FAULTS 62).
func TestReaderOverRestore(t *testing.T) {
	t.Parallel()
	s := newSystem(t, openWith(t, sqlite(t), 600), enginetest.RedisOptions{})
	s.setAll(upTo(600), "1", counter.Like, true)
	s.setAll(upTo(600)[20:], "1", counter.Like, false) // still a bitmap
	liked := func() bool {
		states, err := s.reader.Viewer(t.Context(), viewer(3), []counter.Subject{post(t, "1")})
		if err != nil || !states[0].Known {
			t.Fatalf("%+v, %v", states, err)
		}
		return states[0].Liked
	}
	if !liked() { // from now on the bitmap is remembered
		t.Fatal("not liked before the restore")
	}
	s.published()
	s.empty()
	s.restore()
	if n := s.direct.Keys(t.Context(), "bm:like:post:1:few*").Val(); len(n) != 1 {
		t.Fatal("not in a small set after the restore")
	}
	if !liked() {
		t.Error("not liked after the restore")
	}
}

// The facts of a post that was deleted do not come back, although its likes lie
// in Kafka still.
func TestRestoreLeavesDeletedOut(t *testing.T) {
	t.Parallel()
	s := newSystem(t, openWith(t, sqlite(t), 50), enginetest.RedisOptions{})
	s.setAll(upTo(20), "1", counter.Like, true)
	s.setAll(upTo(5), "2", counter.Like, true)
	execute(t, s.db, "INSERT INTO deleted_posts (id, deleted_at) VALUES ('1', 0)")
	if err := s.facts.Delete(t.Context(), post(t, "1")); err != nil {
		t.Fatal(err)
	}
	s.forget() // the `deleted` event is in the outbox
	s.restore()
	want := map[string][]int{"like:post:2": upTo(5)}
	same(t, s.held(), want)
	s.empty()
	s.restore()
	same(t, s.held(), want)
}
