package counter

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/tallyfeed/tallyfeed/enginetest"
)

// memoryOrdinals is an OrdinalStore in memory: viewer "u17" has ordinal 17, so
// that a test chooses where facts lie. What SQL does is tested in
// ordinals_sql_test.go.
type memoryOrdinals struct {
	mu    sync.Mutex
	given map[Viewer]Ordinal
}

func (m *memoryOrdinals) Find(_ context.Context, viewers []Viewer) (map[Viewer]Ordinal, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := map[Viewer]Ordinal{}
	for _, v := range viewers {
		if o, ok := m.given[v]; ok {
			found[v] = o
		}
	}
	return found, nil
}

func (m *memoryOrdinals) Give(_ context.Context, viewers []Viewer) (map[Viewer]Ordinal, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.given == nil {
		m.given = map[Viewer]Ordinal{}
	}
	given := map[Viewer]Ordinal{}
	for _, v := range viewers {
		var o uint32
		if _, err := fmt.Sscanf(string(v), "u%d", &o); err != nil {
			return nil, err
		}
		m.given[v] = Ordinal(o)
		given[v] = Ordinal(o)
	}
	return given, nil
}

func (m *memoryOrdinals) Any(context.Context) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.given) > 0, nil
}

// viewerOf is the viewer with the given ordinal.
func viewerOf(o Ordinal) Viewer { return Viewer(fmt.Sprintf("u%d", o)) }

// bench is what most tests need: a Redis of their own with an epoch.
type system struct {
	redis    *Redis
	ordinals *Ordinals
	store    *memoryOrdinals
	facts    *Facts
	reader   *Reader
}

func newSystem(tb testing.TB, config FactsConfig) *system {
	tb.Helper()
	return systemOn(tb, enginetest.Redis(tb), config)
}

func systemOn(tb testing.TB, url string, config FactsConfig) *system {
	tb.Helper()
	r, err := OpenRedis(tb.Context(), url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = r.Close() })
	s := &system{redis: r, store: &memoryOrdinals{}}
	if err := r.Found(tb.Context(), s.store); err != nil {
		tb.Fatal(err)
	}
	s.ordinals = NewOrdinals(s.store)
	s.facts = NewFacts(r, s.ordinals, slog.New(slog.DiscardHandler), config)
	s.reader = NewReader(r, s.ordinals, ReaderConfig{Timeout: 5e9})
	return s
}

func post(tb testing.TB, id string) Subject {
	tb.Helper()
	s, err := NewSubject(TypePost, id)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func (s *system) set(tb testing.TB, o Ordinal, subject Subject, m Metric, want bool) Outcome {
	tb.Helper()
	outcome, err := s.facts.Set(tb.Context(), viewerOf(o), subject, m, want)
	if err != nil {
		tb.Fatalf("set %s of %s by %d to %t: %v", m, subject, o, want, err)
	}
	return outcome
}

// counts reads one subject as a page does.
func (s *system) counts(tb testing.TB, subject Subject) Counts {
	tb.Helper()
	readings, err := s.reader.Counts(tb.Context(), []Subject{subject})
	if err != nil || !readings[0].Known {
		tb.Fatalf("counts of %s: %+v, %v", subject, readings, err)
	}
	return readings[0].Counts
}

// state reads what a viewer did, as a page does.
func (s *system) state(tb testing.TB, o Ordinal, subject Subject) ViewerState {
	tb.Helper()
	states, err := s.reader.Viewer(tb.Context(), viewerOf(o), []Subject{subject})
	if err != nil || !states[0].Known {
		tb.Fatalf("state of %d on %s: %+v, %v", o, subject, states, err)
	}
	return states[0]
}

func TestFactsSet(t *testing.T) {
	t.Parallel()
	type step struct {
		viewer  Ordinal
		metric  Metric
		want    bool
		changed bool
		like    uint32
		fav     uint32
	}
	cases := map[string]struct {
		reason string
		steps  []step
	}{
		"Repeated": {
			reason: "A client that retries its like must not be counted twice (FAULTS 42).",
			steps:  []step{{7, Like, true, true, 1, 0}, {7, Like, true, false, 1, 0}},
		},
		"UnlikeFirst": {
			reason: "An unlike of what was never liked must not go below zero (FAULTS 43).",
			steps:  []step{{7, Like, false, false, 0, 0}, {7, Like, true, true, 1, 0}, {7, Like, false, true, 0, 0}, {7, Like, false, false, 0, 0}},
		},
		"Apart": {
			reason: "Like and fav of one viewer are two facts.",
			steps:  []step{{7, Like, true, true, 1, 0}, {7, Fav, true, true, 1, 1}, {7, Like, false, true, 0, 1}},
		},
		"Chunks": {
			reason: "Viewers at the borders of chunks, and far apart, are different viewers (FAULTS 23).",
			steps: []step{
				{0, Like, true, true, 1, 0},
				{32767, Like, true, true, 2, 0},
				{32768, Like, true, true, 3, 0},
				{5_000_000, Like, true, true, 4, 0},
				{1 << 31, Like, true, true, 5, 0},
				{1<<32 - 1, Like, true, true, 6, 0},
				{32768, Like, false, true, 5, 0},
				{0, Like, true, false, 5, 0},
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t, FactsConfig{})
			p := post(t, "1")
			for i, step := range tc.steps {
				got := s.set(t, step.viewer, p, step.metric, step.want)
				if got.Changed != step.changed || got.Counts.Like != step.like || got.Counts.Fav != step.fav {
					t.Fatalf("%s\nstep %d %+v: got %+v", tc.reason, i, step, got)
				}
				own := got.Liked
				if step.metric == Fav {
					own = got.Faved
				}
				if own != step.want {
					t.Errorf("%s\nstep %d: own flag %t", tc.reason, i, own)
				}
				state := s.state(t, step.viewer, p)
				if state.Liked != got.Liked || state.Faved != got.Faved {
					t.Errorf("%s\nstep %d: page says %+v, mutation said %+v", tc.reason, i, state, got)
				}
				if over := state.Over(s.counts(t, p)); over.Like != step.like || over.Fav != step.fav {
					t.Errorf("%s\nstep %d: the viewer's page shows %+v", tc.reason, i, over)
				}
			}
		})
	}
}
