package counter

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tallyfeed/tallyfeed/enginetest"
)

// A hundred thousand viewers like one post at once, twice each: exact, promoted
// on the way, and every one of them is told of one change. The long form is
// TALLYFEED_TEST_LIKES=1000000 go test ./counter -run ViralPost.
func TestViralPost(t *testing.T) {
	t.Parallel()
	s := newSystem(t, FactsConfig{OutboxLimit: 1 << 30})
	viewers := 100_000
	if !s.real(t) || testing.Short() {
		viewers = 3_000 // the replacement runs two thousand scripts a second
	}
	if long := os.Getenv("TALLYFEED_TEST_LIKES"); long != "" {
		var err error
		if viewers, err = strconv.Atoi(long); err != nil {
			t.Fatal(err)
		}
	}
	p := post(t, "1")
	const workers = 64
	var wg sync.WaitGroup
	changed := make([]int, workers)
	for w := range workers {
		wg.Go(func() {
			for i := w; i < viewers; i += workers {
				for range 2 {
					outcome, err := s.facts.Set(t.Context(), viewerOf(Ordinal(i*7)), p, Like, true)
					if err != nil {
						t.Errorf("viewer %d: %v", i, err)
						return
					}
					if outcome.Changed {
						changed[w]++
					}
				}
			}
		})
	}
	wg.Wait()
	total := 0
	for _, n := range changed {
		total += n
	}
	if got := s.counts(t, p); total != viewers || got.Like != uint32(viewers) || s.population(t, p) != viewers {
		t.Errorf("%d changes, snapshot %d, containers %d, want %d", total, got.Like, s.population(t, p), viewers)
	}
}

// real tells a Redis from its replacement.
func (s *system) real(tb testing.TB) bool {
	tb.Helper()
	info, err := s.redis.reads.Info(tb.Context(), "server").Result()
	return err == nil && infoField(info, "redis_version") != ""
}

// fill gives a subject n likes by writing its containers directly: full bitmaps,
// as a million likes leave them. n is a multiple of a chunk's size.
func (s *system) fill(tb testing.TB, p Subject, n int) {
	tb.Helper()
	k := keysOf(p)
	pipe := s.redis.writes.Pipeline()
	full := string(bytes.Repeat([]byte{0xff}, chunkSize/8))
	for chunk := range n / chunkSize {
		pipe.Set(tb.Context(), k.bitmap(Like, uint32(chunk)), full, 0)
		pipe.SAdd(tb.Context(), k.chunks(Like), chunk)
	}
	pipe.Set(tb.Context(), k.n(Like), n, 0)
	if _, err := pipe.Exec(tb.Context()); err != nil {
		tb.Fatal(err)
	}
}

// A post of a million likes is read, liked, recounted and deleted without
// anything that keeps Redis from others for 10 ms (FAULTS 24).
func TestMillionLikesPutNothingInTheSlowlog(t *testing.T) {
	t.Parallel()
	server := enginetest.StartRedis(t, enginetest.RedisOptions{Args: []string{"--slowlog-log-slower-than", "10000"}})
	if !server.Real() {
		t.Skip("reads a real SLOWLOG")
	}
	s := systemOn(t, server.URL(), FactsConfig{})
	p := post(t, "1")
	const likes = 31 * chunkSize // 1,015,808
	s.fill(t, p, likes)
	if got := s.set(t, 5, p, Like, true); got.Changed || got.Counts.Like != likes {
		t.Errorf("a like that is there: %+v", got)
	}
	if got := s.set(t, likes+5, p, Like, true); !got.Changed || got.Counts.Like != likes+1 {
		t.Errorf("one more: %+v", got)
	}
	if got := s.counts(t, p); got.Like != likes+1 {
		t.Errorf("snapshot: %+v", got)
	}
	if result, err := NewRecounter(s.redis, quiet).Recount(t.Context(), p); err != nil || result.Mended() {
		t.Errorf("recount: %+v, %v", result, err)
	}
	if err := s.facts.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(s.dump(t)) {
		if strings.HasPrefix(line, "bm:") || strings.HasPrefix(line, "cnt:") {
			t.Errorf("left behind: %.60q", line)
		}
	}
	slow, err := s.redis.reads.(*redis.Client).SlowLogGet(t.Context(), 10).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range slow {
		t.Errorf("%s took %s", entry.Args[0], entry.Duration)
	}
}

// What an operator must know about a Redis that can lose likes is said at start.
func TestWarnings(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		args   []string
		want   []string
	}{
		"Good": {"Nothing to say.", []string{"--appendonly", "yes"}, nil},
		"Evicts": {
			"Likes can vanish.",
			[]string{"--appendonly", "yes", "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"},
			[]string{"evicts (allkeys-lru)"},
		},
		"NoFile":     {"A restart loses all.", nil, []string{"no append-only file"}},
		"SmallSets":  {"It costs memory.", []string{"--appendonly", "yes", "--set-max-intset-entries", "64"}, []string{"set-max-intset-entries 64"}},
		"NoConfig":   {"CONFIG may be forbidden: then nothing is known, and the server runs.", []string{"--rename-command", "CONFIG", ""}, nil},
		"Everything": {"Each has its own sentence.", []string{"--set-max-intset-entries", "64", "--maxmemory-policy", "volatile-ttl"}, []string{"evicts", "append-only", "intset"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := enginetest.StartRedis(t, enginetest.RedisOptions{Args: tc.args})
			if !server.Real() {
				t.Skip("asks a real Redis")
			}
			s := systemOn(t, server.URL(), FactsConfig{})
			got := s.redis.Warnings(t.Context())
			if len(got) != len(tc.want) {
				t.Fatalf("%s\ngot %q", tc.reason, got)
			}
			for i, part := range tc.want {
				if !strings.Contains(got[i], part) {
					t.Errorf("%s\ngot %q, want %q in it", tc.reason, got[i], part)
				}
			}
			s.set(t, 1, post(t, "1"), Like, true)
		})
	}
}

// Past its share of maxmemory Redis takes no more likes, before it refuses
// anything itself; and it takes them again when there is room.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	server := enginetest.StartRedis(t, enginetest.RedisOptions{Args: []string{"--maxmemory", "100mb", "--maxmemory-policy", "noeviction"}})
	if !server.Real() {
		t.Skip("asks a real Redis for its memory")
	}
	s := systemOn(t, server.URL(), FactsConfig{})
	watch := NewWatch(s.redis, 0.5, quiet)
	for i, tc := range []struct {
		megabytes int
		full      bool
	}{{1, false}, {70, true}, {1, false}} {
		s.del(t, "ballast")
		// Redis fills 70 MB before it answers, which a busy machine may not do in time.
		for try := 1; ; try++ {
			err := s.redis.writes.SetRange(t.Context(), "ballast", int64(tc.megabytes)<<20, "x").Err()
			if err == nil {
				break
			}
			if try == 20 {
				t.Fatal(err)
			}
		}
		watch.look(t.Context())
		if watch.Full() != tc.full {
			t.Errorf("step %d with %d MB: full is %t", i, tc.megabytes, watch.Full())
		}
	}
}

// Ids that could shift the parts of a key, match as a pattern or choose a slot
// never reach one (FAULTS 21, 22).
func TestHostileSubjects(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "*", "50000*", "?", "[a]", "a:b", "{a}", "a}", "a\n", "a b", "ä", "\x00", strings.Repeat("a", 65), strings.Repeat("a", 300)} {
		if s, err := NewSubject(TypePost, id); err == nil {
			t.Errorf("%q became %s", id, s)
		}
		if s, err := ParseSubject("post:" + id); err == nil {
			t.Errorf("post:%q became %s", id, s)
		}
	}
	for _, text := range []string{"", "post", "post:", ":1", "Post:1", "user:1", "post:1:2", " post:1"} {
		if s, err := ParseSubject(text); err == nil {
			t.Errorf("%q became %s", text, s)
		}
	}
	if s, err := ParseSubject("post:" + strings.Repeat("a", 64)); err != nil || s.String() != "post:"+strings.Repeat("a", 64) {
		t.Error(s, err)
	}
}

// The benchmarks of what every page and every like does.
func BenchmarkReader(b *testing.B) {
	for _, n := range []int{1, 20, 100} {
		b.Run(fmt.Sprintf("posts=%d", n), func(b *testing.B) {
			s := newSystem(b, FactsConfig{})
			var subjects []Subject
			for i := range n {
				p := post(b, fmt.Sprint(i))
				subjects = append(subjects, p)
				s.set(b, 7, p, Like, true)
			}
			if _, err := s.reader.Counts(b.Context(), subjects); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				readings, err := s.reader.Counts(b.Context(), subjects)
				if err != nil || !readings[n-1].Known {
					b.Fatal(readings, err)
				}
				states, err := s.reader.Viewer(b.Context(), viewerOf(7), subjects)
				if err != nil || !states[n-1].Liked {
					b.Fatal(states, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/post")
		})
	}
}

func BenchmarkSet(b *testing.B) {
	cases := map[string]int{"few": 0, "bitmap": 2 * chunkSize}
	for name, likes := range cases {
		b.Run(name, func(b *testing.B) {
			s := newSystem(b, FactsConfig{OutboxLimit: 1 << 30})
			p := post(b, "1")
			if likes > 0 {
				s.fill(b, p, likes)
			}
			b.ReportAllocs()
			want := false
			for b.Loop() {
				want = !want
				if _, err := s.facts.Set(b.Context(), viewerOf(9), p, Like, want); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkFold(b *testing.B) {
	for _, n := range []int{1, 500} {
		b.Run(fmt.Sprintf("subjects=%d", n), func(b *testing.B) {
			s := newSystem(b, FactsConfig{OutboxLimit: 1 << 30})
			a := &Aggregator{redis: s.redis, Consumer: &Consumer{log: quiet}}
			changed := map[Subject]Version{}
			for i := range n {
				p := post(b, fmt.Sprint(i))
				changed[p] = s.set(b, 1, p, Like, true).Counts.Version
			}
			for b.Loop() {
				if err := a.fold(b.Context(), changed); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/subject")
		})
	}
}
