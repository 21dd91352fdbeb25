package counter

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tallyfeed/tallyfeed/lua"
)

// containersOf says where the facts of one metric lie, for tests that must know.
func (s *system) containersOf(tb testing.TB, subject Subject, m Metric, chunk uint32) string {
	tb.Helper()
	k := keysOf(subject)
	var there []string
	for name, key := range map[string]string{
		"1few": k.few(m), "2n": k.n(m), "3chunkFew": k.chunkFew(m, chunk), "4bitmap": k.bitmap(m, chunk),
	} {
		n, err := s.redis.reads.Exists(tb.Context(), key).Result()
		if err != nil {
			tb.Fatal(err)
		}
		if n == 1 {
			there = append(there, name)
		}
	}
	slices.Sort(there)
	return strings.Join(there, " ")
}

// The borders of the containers: a set holds 512, the next one moves it.
func TestPromotion(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		// viewers are the ordinals that like, in this order.
		viewers    func(i int) Ordinal
		n          int
		containers string
	}{
		"Few511": {"Below the limit all stays in one small set.", func(i int) Ordinal { return Ordinal(i) }, 511, "1few"},
		"Few512": {"A set may be full.", func(i int) Ordinal { return Ordinal(i) }, 512, "1few"},
		"Few513Spread": {
			"One more splits it; viewers of many chunks land in small chunk sets.",
			func(i int) Ordinal { return Ordinal(i * chunkSize) }, 513, "2n 3chunkFew",
		},
		"Few513OneChunk": {
			"All in one chunk: the chunk set is full too, and becomes a bitmap in the same call.",
			func(i int) Ordinal { return Ordinal(i) }, 513, "2n 4bitmap",
		},
		"Chunk511": {
			"600 likes in other chunks first, then 511 in chunk 0.",
			func(i int) Ordinal { return chunk0After(i, 600) }, 600 + 511, "2n 3chunkFew",
		},
		"Chunk512": {"A chunk's set may be full.", func(i int) Ordinal { return chunk0After(i, 600) }, 600 + 512, "2n 3chunkFew"},
		"Chunk513": {"One more makes it a bitmap.", func(i int) Ordinal { return chunk0After(i, 600) }, 600 + 513, "2n 4bitmap"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t, FactsConfig{})
			p := post(t, "1")
			for i := range tc.n {
				got := s.set(t, tc.viewers(i), p, Like, true)
				if !got.Changed || got.Counts.Like != uint32(i+1) {
					t.Fatalf("%s\nlike %d: %+v", tc.reason, i, got)
				}
			}
			if got := s.containersOf(t, p, Like, 0); got != tc.containers {
				t.Errorf("%s\nfacts are in %q, want %q", tc.reason, got, tc.containers)
			}
			// Nobody was lost on the way, and everybody can leave again.
			for i := range tc.n {
				if !s.state(t, tc.viewers(i), p).Liked {
					t.Fatalf("%s\nviewer %d lost its like", tc.reason, tc.viewers(i))
				}
				if got := s.set(t, tc.viewers(i), p, Like, false); !got.Changed || got.Counts.Like != uint32(tc.n-i-1) {
					t.Fatalf("%s\nunlike %d: %+v", tc.reason, i, got)
				}
			}
		})
	}
}

// chunk0After is an ordinal outside chunk 0 for the first n, then inside.
func chunk0After(i, n int) Ordinal {
	if i < n {
		return Ordinal(chunkSize + i*1000)
	}
	return Ordinal(i - n)
}

// Others toggle the same subject while it is promoted from few to chunk sets to
// bitmaps; a reader that asks at any moment must not miss a fact that stands
// (FAULTS 61).
func TestPromotionUnderLoad(t *testing.T) {
	t.Parallel()
	s := newSystem(t, FactsConfig{})
	p := post(t, "1")
	const steady = Ordinal(5)
	s.set(t, steady, p, Like, true)

	done := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			states, err := s.reader.Viewer(t.Context(), viewerOf(steady), []Subject{p})
			if err != nil || !states[0].Liked {
				t.Errorf("a like that stands was read as %+v, %v", states[0], err)
				return
			}
		}
	})
	const writers, each = 8, 200
	var wg sync.WaitGroup
	changes := make([]int, writers)
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				viewer := Ordinal(100 + w*each + i)
				for _, want := range []bool{true, true, false, true} {
					outcome, err := s.facts.Set(t.Context(), viewerOf(viewer), p, Like, want)
					if err != nil {
						t.Errorf("viewer %d: %v", viewer, err)
						return
					}
					if outcome.Changed {
						changes[w]++
					}
				}
			}
		})
	}
	wg.Wait()
	close(done)
	reading.Wait()
	for w, n := range changes {
		if n != 3*each {
			t.Errorf("writer %d was told of %d changes, want %d", w, n, 3*each)
		}
	}
	got := s.set(t, steady, p, Like, true)
	if got.Changed || got.Counts.Like != writers*each+1 {
		t.Errorf("at the end: %+v, want %d", got, writers*each+1)
	}
	if where := s.containersOf(t, p, Like, 0); where != "2n 4bitmap" {
		t.Errorf("facts are in %q", where)
	}
}

// A sighting of a bitmap must not outlive the epoch it was made in: a restore
// chooses smaller containers (FAULTS 62).
func TestSightingEndsWithEpoch(t *testing.T) {
	t.Parallel()
	s := newSystem(t, FactsConfig{})
	p := post(t, "1")
	for i := range 513 {
		s.set(t, Ordinal(i), p, Like, true)
	}
	if !s.state(t, 7, p).Liked { // sees the bitmap
		t.Fatal("not liked")
	}
	// As a restore would leave it: the same facts in a small set, a new epoch.
	k := keysOf(p)
	pipe := s.redis.writes.TxPipeline()
	pipe.Del(t.Context(), k.bitmap(Like, 0), k.n(Like), k.chunks(Like), epochKey(p.Tag()))
	pipe.SAdd(t.Context(), k.few(Like), 7)
	pipe.Set(t.Context(), epochKey(p.Tag()), "another", 0)
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !s.state(t, 7, p).Liked {
		t.Error("the small set was not asked after a new epoch")
	}
}

// A promotion that was prepared before another chunk came in must not lose it.
func TestPromotionDeclines(t *testing.T) {
	t.Parallel()
	s := newSystem(t, FactsConfig{})
	p := post(t, "1")
	k := keysOf(p)
	for _, o := range []Ordinal{1, 40_000} {
		s.set(t, o, p, Like, true)
	}
	word, err := s.redis.run(t.Context(), lua.Promote, call{
		keys: []string{epochKey(p.Tag()), k.gone(), k.few(Like), k.n(Like), k.chunks(Like), k.chunkFew(Like, 0)},
		args: []any{"few", 0}, // chunk 1 is not named
	})[0].Text()
	if err != nil || word != "declined" {
		t.Fatalf("promote said %q, %v", word, err)
	}
	if where := s.containersOf(t, p, Like, 0); where != "1few" {
		t.Errorf("facts are in %q: a script that declines changes nothing", where)
	}
}

// between sends the commands of a pipeline one by one, and does something after
// the one with the given index: what another client's script may do there.
type between struct {
	at  int
	act func()
}

func (b *between) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (b *between) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (b *between) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		var first error
		for i, cmd := range cmds {
			if err := next(ctx, []redis.Cmder{cmd}); first == nil {
				first = err
			}
			if i == b.at && b.act != nil {
				b.act()
			}
		}
		return first
	}
}

// A fact moves from the small set to a chunk's set to the bitmap between any two
// of a reader's commands, and the reader finds it all the same (FAULTS 61).
func TestPromotionBetweenReads(t *testing.T) {
	t.Parallel()
	for at := range 8 {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			s := newSystem(t, FactsConfig{})
			p := post(t, "1")
			s.set(t, 7, p, Like, true)
			hook := &between{at: at, act: func() {
				for _, container := range []string{"few", "chunk"} {
					if err := s.facts.promote(t.Context(), permit{key: epochKey(p.Tag())}, p, Like, 0, container); err != nil {
						t.Error(err)
					}
				}
			}}
			s.redis.reads.AddHook(hook)
			if !s.state(t, 7, p).Liked {
				t.Error("not liked")
			}
			if where := s.containersOf(t, p, Like, 0); where != "2n 4bitmap" {
				t.Errorf("facts are in %q: nothing was promoted", where)
			}
		})
	}
}
