package counter

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tallyfeed/tallyfeed/lua"
)

// fold folds one subject as the aggregator does.
func (s *system) fold(tb testing.TB, subject Subject, version Version) (Counts, error) {
	tb.Helper()
	return folded(s.redis.run(tb.Context(), lua.Fold, foldCall(subject, version))[0])
}

func (s *system) rawSnapshot(tb testing.TB, subject Subject) string {
	tb.Helper()
	text, err := s.redis.reads.Get(tb.Context(), keysOf(subject).snapshot()).Result()
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

func (s *system) put(tb testing.TB, key, value string) {
	tb.Helper()
	if err := s.redis.writes.Set(tb.Context(), key, value, 0).Err(); err != nil {
		tb.Fatal(err)
	}
}

// A snapshot is a copy of the facts, however it came to be wrong.
func TestFold(t *testing.T) {
	t.Parallel()
	full := func(view, like, fav, comment, share uint32, v Version) string {
		var b []byte
		for _, slot := range []uint32{view, like, fav, comment, share} {
			b = binary.BigEndian.AppendUint32(b, slot)
		}
		return string(binary.BigEndian.AppendUint64(b, uint64(v)))
	}
	cases := map[string]struct {
		reason   string
		snapshot string // "" for none
		version  Version
		want     func(got Counts, raw string) bool
	}{
		"Missing": {
			reason: "A like after the snapshot was deleted must not start at 1 (FAULTS 1), nor make the other metric 0 (FAULTS 2).",
			want:   func(got Counts, _ string) bool { return got.Version > 0 },
		},
		"WrongLength": {
			reason:   "A malformed snapshot is made anew.",
			snapshot: "27 bytes: not a snapshot at", version: 1 << 20,
			want: func(got Counts, raw string) bool { return len(raw) == 28 && got.Version > 1<<20 },
		},
		"WrongNumbers": {
			reason:   "Numbers that are wrong are replaced, not corrected by a delta; slots without facts stay.",
			snapshot: full(11, 99, 98, 12, 13, 5<<20), version: 6 << 20,
			want: func(got Counts, raw string) bool {
				return got.Version == 6<<20 && raw == full(11, 3, 1, 12, 13, 6<<20)
			},
		},
		"OldVersion": {
			reason:   "A late event still copies the facts of now, and takes no version back (FAULTS 13).",
			snapshot: full(0, 1, 0, 0, 0, 9<<20), version: 6 << 20,
			want: func(got Counts, _ string) bool { return got.Version == 9<<20 },
		},
		"HighBits": {
			reason:   "Versions are compared as two numbers: one double would round them together.",
			snapshot: full(0, 3, 1, 0, 0, 1796075523591<<20|5), version: 1796075523591<<20 | 6,
			want: func(got Counts, _ string) bool { return got.Version == 1796075523591<<20|6 },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t, FactsConfig{})
			p := post(t, "1")
			for o := range Ordinal(3) {
				s.set(t, o, p, Like, true)
			}
			s.set(t, 1, p, Fav, true)
			if tc.snapshot != "" {
				s.put(t, keysOf(p).snapshot(), tc.snapshot)
			}
			for range 2 { // the second fold changes nothing
				got, err := s.fold(t, p, tc.version)
				if err != nil || got.Like != 3 || got.Fav != 1 || !tc.want(got, s.rawSnapshot(t, p)) {
					t.Fatalf("%s\ngot %+v, %v, %x", tc.reason, got, err, s.rawSnapshot(t, p))
				}
			}
			if n, err := s.redis.reads.XLen(t.Context(), outboxKey(p.Tag())).Result(); err != nil || n != 4 {
				t.Errorf("%s\noutbox holds %d entries, %v: a drawn version must leave none", tc.reason, n, err)
			}
		})
	}
}

// No count wraps (FAULTS 10). Populations are set directly: nobody likes four
// billion times in a test.
func TestSaturation(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ population, after uint32 }{
		"2147483646": {2147483646, 2147483647},
		"2147483647": {2147483647, 2147483648},
		"2147483648": {2147483648, 2147483649},
		"4294967294": {4294967294, 4294967295},
		"4294967295": {4294967295, 4294967295},
		"4294967296": {4294967295, 4294967295},
	}
	for population, want := range cases {
		t.Run(population, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t, FactsConfig{})
			p := post(t, "1")
			s.put(t, keysOf(p).n(Like), population)
			if got := s.counts(t, p); got.Like != want.population {
				t.Errorf("folded %d, want %d", got.Like, want.population)
			}
			if got := s.set(t, 1, p, Like, true); got.Counts.Like != want.after {
				t.Errorf("one more: %d, want %d", got.Counts.Like, want.after)
			}
			n, err := s.redis.reads.Get(t.Context(), keysOf(p).n(Like)).Int64()
			if err != nil {
				t.Fatal(err)
			}
			if got := s.set(t, 1, p, Like, false); got.Counts.Like != want.population {
				t.Errorf("one less: %d, want %d (n was %d)", got.Counts.Like, want.population, n)
			}
		})
	}
}

// What a script refuses, or can't read, changes nothing (FAULTS 54).
func TestRefusals(t *testing.T) {
	t.Parallel()
	p, _ := NewSubject(TypePost, "1")
	k := keysOf(p)
	var malformed *MalformedError
	cases := map[string]struct {
		reason string
		config FactsConfig
		damage func(t *testing.T, s *system)
		want   func(error) bool
	}{
		"NoEpoch": {
			reason: "A Redis that was emptied takes no likes: they would start a new count (FAULTS 49).",
			damage: func(t *testing.T, s *system) { s.del(t, epochKey(p.Tag())) },
			want:   func(err error) bool { return errors.Is(err, ErrNoEpoch) },
		},
		"Gone": {
			reason: "No like after a delete (FAULTS 32).",
			damage: func(t *testing.T, s *system) { s.put(t, k.gone(), "1") },
			want:   func(err error) bool { return errors.Is(err, ErrGone) },
		},
		"OutboxFull": {
			reason: "Past the limit a like is refused before it changes anything.",
			config: FactsConfig{OutboxLimit: 2},
			damage: func(*testing.T, *system) {},
			want:   func(err error) bool { return errors.Is(err, ErrOverloaded) },
		},
		"NoMemory": {
			reason: "Redis's own refusal is an overload too.",
			config: FactsConfig{Full: func() bool { return false }},
			damage: func(t *testing.T, s *system) {
				if err := s.redis.writes.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
					t.Skip("needs CONFIG: ", err)
				}
			},
			want: func(err error) bool { return errors.Is(err, ErrOverloaded) },
		},
		"MalformedN": {
			reason: "A population that is no number is an answer, never half a change.",
			damage: func(t *testing.T, s *system) { s.put(t, k.n(Like), "many") },
			want:   func(err error) bool { return errors.As(err, &malformed) && malformed.Key == k.n(Like) },
		},
		"MalformedOther": {
			reason: "Also that of the other metric, whose count goes into the event.",
			damage: func(t *testing.T, s *system) { s.put(t, k.n(Fav), "-1") },
			want:   func(err error) bool { return errors.As(err, &malformed) },
		},
		"OutboxNoStream": {
			reason: "The outbox is looked at before the first write.",
			damage: func(t *testing.T, s *system) { s.del(t, outboxKey(p.Tag())); s.put(t, outboxKey(p.Tag()), "x") },
			want:   func(err error) bool { return err != nil },
		},
		"ChunksNoSet": {
			reason: "So is the set of chunks.",
			damage: func(t *testing.T, s *system) { s.put(t, k.n(Like), "2"); s.put(t, k.chunks(Like), "x") },
			want:   func(err error) bool { return err != nil },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t, tc.config)
			s.set(t, 1, p, Like, true)
			s.set(t, 2, p, Like, true)
			tc.damage(t, s)
			before := s.dump(t)
			_, err := s.facts.Set(t.Context(), viewerOf(3), p, Like, true)
			if !tc.want(err) {
				t.Errorf("%s\ngot %v", tc.reason, err)
			}
			if after := s.dump(t); after != before {
				t.Errorf("%s\nkeys were\n%q\nand are\n%q", tc.reason, before, after)
			}
		})
	}
}

func (s *system) del(tb testing.TB, names ...string) {
	tb.Helper()
	for _, key := range names {
		if err := s.redis.writes.Del(tb.Context(), key).Err(); err != nil {
			tb.Fatal(err)
		}
	}
}

// dump is what a test's own Redis holds, without what a viewer's pages need for
// a minute. (Only tests look at the whole keyspace.)
func (s *system) dump(tb testing.TB) string {
	tb.Helper()
	names, err := s.redis.reads.Keys(tb.Context(), "*").Result()
	if err != nil {
		tb.Fatal(err)
	}
	slices.Sort(names)
	var text strings.Builder
	for _, key := range names {
		if strings.HasPrefix(key, "mine:") || strings.HasPrefix(key, "epoch") {
			continue
		}
		raw, err := s.redis.reads.Dump(tb.Context(), key).Result()
		if err != nil {
			raw, _ = s.redis.reads.Get(tb.Context(), key).Result() // miniredis can't dump all
		}
		text.WriteString(key + " " + raw + "\n")
	}
	return text.String()
}

// A page makes missing snapshots, all in one more round trip, and never shows a
// number it does not know.
func TestReadMissingSnapshots(t *testing.T) {
	t.Parallel()
	s := newSystem(t, FactsConfig{})
	a, b, c, gone, lost := post(t, "a"), post(t, "b"), post(t, "c"), post(t, "gone"), post(t, "lost")
	s.set(t, 1, a, Like, true)
	s.set(t, 2, a, Like, true)
	s.set(t, 2, b, Fav, true)
	s.put(t, keysOf(c).snapshot(), "short")
	s.put(t, keysOf(gone).gone(), "1")
	if lost.Tag() == a.Tag() || lost.Tag() == b.Tag() || lost.Tag() == c.Tag() {
		t.Fatal("choose another id: the tags must differ")
	}
	s.del(t, epochKey(lost.Tag()))
	for range 2 {
		got, err := s.reader.Counts(t.Context(), []Subject{a, b, c, gone, lost})
		if !errors.Is(err, ErrNoEpoch) {
			t.Errorf("error %v, want that of the tag without an epoch", err)
		}
		for i, want := range []Reading{
			{Counts: Counts{Like: 2}, Known: true}, {Counts: Counts{Fav: 1}, Known: true}, {Known: true}, {}, {},
		} {
			if got[i].Known != want.Known || got[i].Counts.Like != want.Counts.Like || got[i].Counts.Fav != want.Counts.Fav {
				t.Errorf("%d: got %+v, want %+v", i, got[i], want)
			}
		}
	}
}

// Facts, snapshot and chunks of a deleted subject go in bounded steps, and
// nothing that comes late brings any of it back (FAULTS 26).
func TestDelete(t *testing.T) {
	t.Parallel()
	s := newSystem(t, FactsConfig{})
	p := post(t, "1")
	const viewers = 600 // over more chunks than one step deletes
	for i := range viewers {
		s.set(t, Ordinal(i*chunkSize), p, Like, true)
	}
	s.set(t, 1, p, Fav, true)
	s.counts(t, p)
	for range 2 {
		if err := s.facts.Delete(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.facts.Set(t.Context(), viewerOf(3), p, Like, true); !errors.Is(err, ErrGone) {
		t.Errorf("a like after the delete: %v", err)
	}
	if _, err := s.fold(t, p, 1<<40); !errors.Is(err, ErrGone) {
		t.Errorf("a late event: %v", err)
	}
	left := s.dump(t)
	for line := range strings.Lines(left) {
		if strings.HasPrefix(line, "bm:") || strings.HasPrefix(line, "cnt:") {
			t.Errorf("left behind: %q", line)
		}
	}
	entries, err := s.redis.reads.XRevRangeN(t.Context(), outboxKey(p.Tag()), "+", "-", 5).Result()
	if err != nil || len(entries) != 5 {
		t.Fatal(entries, err)
	}
	deleted := 0
	for _, entry := range entries {
		change, err := changeOf(entry)
		if err != nil {
			t.Fatal(err)
		}
		if event, _, _ := change.entry.event(); event.Deleted {
			deleted++
		}
	}
	if deleted != 1 {
		t.Errorf("%d deleted events, want 1", deleted)
	}
}
