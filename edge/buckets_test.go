package edge_test

import (
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tallyfeed/tallyfeed/edge"
	"github.com/tallyfeed/tallyfeed/enginetest"
)

// sharedOn is one process's way to a Redis.
func sharedOn(tb testing.TB, url string) *edge.Shared {
	tb.Helper()
	options, err := redis.ParseURL(url)
	if err != nil {
		tb.Fatal(err)
	}
	options.MaxRetries, options.ContextTimeoutEnabled = -1, true
	client := redis.NewClient(options)
	tb.Cleanup(func() { _ = client.Close() })
	return edge.NewShared(client, slog.New(slog.DiscardHandler))
}

// drain takes one by one until there is a wait, and says how many there were.
func drain(t *testing.T, b *edge.Buckets, caller string) int {
	t.Helper()
	for n := range 10_000 {
		if wait := b.Take(t.Context(), caller, 1); wait > 0 {
			if wait > time.Minute {
				t.Errorf("to wait %s for a token of a bucket that fills up in a minute", wait)
			}
			return n
		}
	}
	t.Fatal("there is no end")
	return 0
}

// All servers together give a caller what one would, and a caller's use is none
// of another's.
func TestBucketsAreShared(t *testing.T) {
	t.Parallel()
	url := enginetest.Redis(t)
	const perMinute = 600
	var servers []*edge.Buckets
	for range 3 {
		servers = append(servers, edge.NewBuckets(sharedOn(t, url), "test", perMinute))
	}
	var mu sync.Mutex
	taken := 0
	var all sync.WaitGroup
	begin := time.Now()
	for _, b := range servers {
		all.Go(func() {
			n := drain(t, b, "bob")
			mu.Lock()
			defer mu.Unlock()
			taken += n
		})
	}
	all.Wait()
	// What comes in meanwhile, ten a second, is taken as well; a handful may be left
	// with each.
	most := perMinute + int(time.Since(begin).Seconds()*10) + 10
	if least := perMinute - 2*perMinute/20; taken < least || taken > most {
		t.Errorf("%d tokens were taken, want between %d and %d", taken, least, most)
	}
	if n := drain(t, servers[0], "eve"); n < perMinute {
		t.Errorf("another caller had %d", n)
	}
	if n := drain(t, edge.NewBuckets(sharedOn(t, url), "other", perMinute), "bob"); n < perMinute {
		t.Errorf("another limit had %d", n)
	}
}

// A bucket fills up again, and the wait says when.
func TestBucketsFill(t *testing.T) {
	t.Parallel()
	b := edge.NewBuckets(sharedOn(t, enginetest.Redis(t)), "test", 1200) // 20 a second
	drain(t, b, "bob")
	wait := b.Take(t.Context(), "bob", 5)
	if wait <= 0 || wait > time.Second {
		t.Fatalf("to wait %s for five of twenty a second", wait)
	}
	deadline := time.Now().Add(10 * time.Second)
	for b.Take(t.Context(), "bob", 5) > 0 {
		if time.Now().After(deadline) {
			t.Fatal("nothing comes in")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Without Redis each process goes by its own, at once and not after a wait for
// each request; when Redis is back, it is asked again.
func TestBucketsWithoutRedis(t *testing.T) {
	t.Parallel()
	server := enginetest.StartRedis(t, enginetest.RedisOptions{})
	if !server.Real() {
		t.Skip("stops a real Redis")
	}
	const perMinute = 600
	b := edge.NewBuckets(sharedOn(t, server.URL()), "test", perMinute)
	server.Stop()
	begin := time.Now()
	n := drain(t, b, "bob")
	took := time.Since(begin)
	server.Continue()
	if n < perMinute || n > perMinute+100 {
		t.Errorf("%d tokens while Redis hangs, want %d", n, perMinute)
	}
	if took > 2*time.Second {
		t.Errorf("%d decisions took %s: each waits", n, took)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		b.Take(t.Context(), "eve", 1)
		if keys := rates(t, server.URL()); keys > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("Redis is not asked again")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// rates counts the buckets in a test's own Redis.
func rates(t *testing.T, url string) int {
	t.Helper()
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	defer func() { _ = client.Close() }()
	keys, _ := client.Keys(t.Context(), "rate:*").Result()
	return len(keys)
}
