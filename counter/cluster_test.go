package counter

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tallyfeed/tallyfeed/enginetest"
)

// Every script and every page on three masters (FAULTS 25): one hash tag a
// subject, every key through KEYS.
func TestCluster(t *testing.T) {
	t.Parallel()
	s := systemOn(t, enginetest.Cluster(t), FactsConfig{ContainerLimit: 8})
	var posts []Subject
	for i := range 40 {
		posts = append(posts, post(t, fmt.Sprint(i)))
	}
	for i, p := range posts {
		for o := range Ordinal(20) { // promotes twice
			s.set(t, o, p, Like, true)
		}
		s.set(t, Ordinal(i), p, Fav, true)
	}
	readings, err := s.reader.Counts(t.Context(), posts)
	if err != nil {
		t.Fatal(err)
	}
	states, err := s.reader.Viewer(t.Context(), viewerOf(3), posts)
	if err != nil {
		t.Fatal(err)
	}
	for i := range posts {
		if readings[i].Counts.Like != 20 || readings[i].Counts.Fav != 1 || !states[i].Liked || states[i].Faved != (i == 3) {
			t.Errorf("post %d: %+v %+v", i, readings[i], states[i])
		}
	}
	r := NewRecounter(s.redis, quiet)
	for _, p := range posts[:5] {
		if result, err := r.Recount(t.Context(), p); err != nil || result.Mended() {
			t.Errorf("recount: %+v, %v", result, err)
		}
	}
	auditor := NewAuditor(s.redis, listed(posts), r, quiet, AuditConfig{Rate: 10_000})
	if drift, err := auditor.Round(t.Context(), nil); err != nil || drift != (Drift{Looked: 40}) {
		t.Errorf("audit: %+v, %v", drift, err)
	}
	config := topic(t, enginetest.Kafka(t))
	publisher := NewPublisher(s.redis, config, quiet)
	t.Cleanup(func() { _ = publisher.Close() })
	sweeper := NewSweeper(s.redis, publisher, quiet, SweeperConfig{})
	at := time.Now()
	if _, err := sweeper.Sweep(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	if n, err := sweeper.Sweep(t.Context(), at.Add(time.Minute)); n != 40*21 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	for _, p := range posts {
		if err := s.facts.Delete(t.Context(), p); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.facts.Set(t.Context(), "u1", posts[0], Like, true); !errors.Is(err, ErrGone) {
		t.Errorf("after the delete: %v", err)
	}
}

// A master dies under load and its replica takes over: likes fail meanwhile with
// errors, none is answered wrongly, and afterwards counts are the facts. What
// Redis itself loses in a failover (acknowledged writes that the replica had not
// got) is not hidden: such a fact is gone from facts and counts alike.
func TestClusterFailover(t *testing.T) {
	t.Parallel()
	cluster := enginetest.StartCluster(t, 1)
	s := systemOn(t, cluster.URL(), FactsConfig{})
	var posts []Subject
	for i := range 30 {
		posts = append(posts, post(t, fmt.Sprint(i)))
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var mu sync.Mutex
	failed, after := 0, 0
	dead := make(chan struct{})
	for w := range 4 {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				_, err := s.facts.Set(ctx, viewerOf(Ordinal(w*100_000+i)), posts[i%len(posts)], Like, true)
				mu.Lock()
				if err != nil {
					failed++
				} else {
					select {
					case <-dead:
						after++
					default:
					}
				}
				mu.Unlock()
				time.Sleep(time.Millisecond)
			}
		})
	}
	time.Sleep(300 * time.Millisecond) // some load before
	cluster.Kill(0)
	close(dead)
	// All subjects take likes again, those of the dead master too.
	eventually(t, 20*time.Second, "every subject writable after the failover", func() bool {
		for i, p := range posts {
			if _, err := s.facts.Set(t.Context(), viewerOf(Ordinal(900_000+i)), p, Like, true); err != nil {
				return false
			}
		}
		return true
	})
	stop()
	wg.Wait()
	t.Logf("%d likes failed, %d were taken after the kill", failed, after)
	if failed == 0 || after == 0 {
		t.Error("the master's death was not felt, or nothing worked after it")
	}
	for _, p := range posts {
		got, err := s.fold(t, p, 0)
		if err != nil {
			t.Fatal(err)
		}
		few, err := s.redis.writes.SCard(t.Context(), keysOf(p).few(Like)).Result()
		if err != nil {
			t.Fatal(err)
		}
		n, _ := s.redis.writes.Get(t.Context(), keysOf(p).n(Like)).Int64()
		if int64(got.Like) != max(few, n) {
			t.Errorf("%s: snapshot %d, facts %d/%d", p, got.Like, few, n)
		}
	}
}

// A slot moves to another master while its subject is liked and read: scripts
// that name absent keys are refused meanwhile (TRYAGAIN) and sent again, errors
// are errors, and at the end counts are the facts and what clients were told
// (FAULTS 55).
func TestSlotMovesUnderLoad(t *testing.T) {
	t.Parallel()
	cluster := enginetest.StartCluster(t, 0)
	s := systemOn(t, cluster.URL(), FactsConfig{ContainerLimit: 16})
	p := post(t, "1")
	s.set(t, 0, p, Like, true)

	ctx, stop := context.WithCancel(t.Context())
	var mu sync.Mutex
	told, refused := map[Ordinal]bool{}, 0
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				o, want := Ordinal(w*1000+i%200), i/200%2 == 0
				for { // until there is an answer
					outcome, err := s.facts.Set(t.Context(), viewerOf(o), p, Like, want) //nolint:contextcheck // the end of the load must not cut a like short
					mu.Lock()
					if err != nil {
						refused++
						mu.Unlock()
						continue
					}
					if outcome.Liked != want {
						t.Errorf("viewer %d to %t: %+v", o, want, outcome)
					}
					told[o] = want
					mu.Unlock()
					break
				}
				if _, err := s.reader.Counts(t.Context(), []Subject{p}); err != nil { //nolint:contextcheck // nor a read
					mu.Lock()
					refused++
					mu.Unlock()
				}
			}
		})
	}
	s.moveSlot(t, cluster, p)
	eventually(t, 20*time.Second, "likes after the move", func() bool {
		_, err := s.facts.Set(t.Context(), viewerOf(9_999), p, Like, true)
		return err == nil
	})
	stop()
	wg.Wait()
	t.Logf("%d refused while the slot moved", refused)
	want := 2 // viewers 0 and 9999
	for o, on := range told {
		if on && o != 0 {
			want++
		}
	}
	if on, known := told[0]; known && !on {
		want--
	}
	got, err := s.fold(t, p, 0)
	if err != nil || int(got.Like) != want {
		t.Errorf("snapshot %+v, %v, clients were told of %d", got, err, want)
	}
	for o, on := range told {
		if s.state(t, o, p).Liked != on {
			t.Errorf("viewer %d: fact is not %t", o, on)
		}
	}
}

// moveSlot moves the slot of a subject from its master to the next, key by key,
// as redis-cli does.
func (s *system) moveSlot(tb testing.TB, cluster *enginetest.RedisCluster, p Subject) {
	tb.Helper()
	ctx := tb.Context()
	nodes := make([]*redis.Client, cluster.Nodes())
	ids := make([]string, len(nodes))
	for i := range nodes {
		nodes[i] = redis.NewClient(&redis.Options{Addr: cluster.Addr(i), Protocol: 2})
		tb.Cleanup(func() { _ = nodes[i].Close() })
		id, err := nodes[i].Do(ctx, "cluster", "myid").Text()
		if err != nil {
			tb.Fatal(err)
		}
		ids[i] = id
	}
	slot, err := nodes[0].ClusterKeySlot(ctx, keysOf(p).snapshot()).Result()
	if err != nil {
		tb.Fatal(err)
	}
	from := -1
	for i, node := range nodes {
		if n, err := node.ClusterCountKeysInSlot(ctx, int(slot)).Result(); err == nil && n > 0 {
			from = i
		}
	}
	if from < 0 {
		tb.Fatal("nobody has the slot")
	}
	to := (from + 1) % len(nodes)
	must := func(err error) {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
	}
	must(nodes[to].Do(ctx, "cluster", "setslot", slot, "importing", ids[from]).Err())
	must(nodes[from].Do(ctx, "cluster", "setslot", slot, "migrating", ids[to]).Err())
	host, port, err := net.SplitHostPort(cluster.Addr(to))
	must(err)
	for {
		names, err := nodes[from].ClusterGetKeysInSlot(ctx, int(slot), 1).Result()
		must(err)
		if len(names) == 0 {
			break
		}
		must(nodes[from].Do(ctx, "migrate", host, port, names[0], 0, 5000).Err())
		time.Sleep(20 * time.Millisecond) // long enough for scripts to meet a half-moved slot
	}
	for _, i := range []int{to, from, 3 - to - from} {
		must(nodes[i].Do(ctx, "cluster", "setslot", slot, "node", ids[to]).Err())
	}
}
