package archive_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/enginetest"
)

// Restore, lost tail and compensation on three masters: every script stays on one
// slot, and one master that is emptied is restored alone.
func TestArchiveOnCluster(t *testing.T) {
	t.Parallel()
	url := enginetest.Cluster(t)
	options, err := redis.ParseClusterURL(url)
	if err != nil {
		t.Fatal(err)
	}
	cluster := redis.NewClusterClient(options)
	s := systemAt(t, openSpread(t, sqlite(t), 700, 60), url, cluster)
	s.setAll(upTo(700), "0", counter.Like, true)
	for i := 1; i < 30; i++ {
		s.setAll(upTo(i), fmt.Sprint(i), counter.Like, true)
		s.setAll(upTo(3), fmt.Sprint(i), counter.Fav, true)
	}
	s.published()
	right := func() {
		t.Helper()
		for i := range 30 {
			likes, favs := max(i, 700*(1-min(i, 1))), 3*min(i, 1)
			readings, err := s.reader.Counts(t.Context(), []counter.Subject{post(t, fmt.Sprint(i))})
			if err != nil || int(readings[0].Counts.Like) != likes || int(readings[0].Counts.Fav) != favs {
				t.Errorf("post %d: %+v, %v; want %d and %d", i, readings, err, likes, favs)
			}
			for _, v := range []int{0, i - 1, i} {
				states, err := s.reader.Viewer(t.Context(), viewer(max(v, 0)), []counter.Subject{post(t, fmt.Sprint(i))})
				if err != nil || states[0].Liked != (max(v, 0) < likes) || states[0].Faved != (max(v, 0) < favs) {
					t.Errorf("post %d, viewer %d: %+v, %v", i, v, states, err)
				}
			}
		}
	}
	for _, how := range []string{"one", "all"} {
		masters := 0
		var mu sync.Mutex
		err := cluster.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			if masters++; masters > 1 && how == "one" {
				return nil
			}
			return node.FlushAll(ctx).Err()
		})
		if err != nil || masters != 3 {
			t.Fatal(masters, err)
		}
		if done := s.restore(); done.Tags == 0 || (how == "all") != (done.Tags == counter.Tags) {
			t.Errorf("%s emptied: restored %+v", how, done)
		}
		right()
	}
	// The archive has a like that no facts have, in a version above all of its tag.
	at := s.set(50, "7", counter.Like, true).Counts.Version
	s.set(50, "7", counter.Like, false)
	s.published()
	lost := event("7", counter.Like, 51, true, int(at.Time().UnixMilli())+60_000)
	lost.Ordinal = 51 * 60
	if refused := apply(t, s.store, lost); len(refused) > 0 {
		t.Fatal(refused)
	}
	s.look(s.tail(), 1)
	if got := s.set(51, "7", counter.Like, false); !got.Changed || got.Counts.Like != 7 {
		t.Errorf("the like that was put back is taken back: %+v", got)
	}
	s.published()
	s.look(s.tail(), 0)
	list := make(posts, 0, 30)
	done, err := counter.NewCompensator(s.redis, s.store, list, s.tail(), quiet).Compensate(t.Context(), counter.CompensateOptions{All: true})
	if err != nil || done.Subjects != 30 || done.Mended+done.PutBack != 0 {
		t.Errorf("compensated %+v, %v", done, err)
	}
}
