package counter

import (
	"sync"
	"testing"

	"github.com/tallyfeed/tallyfeed/enginetest"
)

// A Redis that is back is back at once, however often it was asked in vain:
// go-redis' pool alone would go on for up to a second with the old failure. And
// what is surely not run stays told from what may have been.
func TestBackAtOnce(t *testing.T) {
	t.Parallel()
	server := enginetest.StartRedis(t, enginetest.RedisOptions{})
	if !server.Real() {
		t.Skip("kills a real Redis")
	}
	r, err := OpenRedis(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	server.Kill()
	// More often than a pool has places, which is 20 on two cores.
	var asking sync.WaitGroup
	for range 100 {
		asking.Go(func() {
			if err := r.Ping(t.Context()); err == nil {
				t.Error("a dead Redis answers")
			}
		})
	}
	asking.Wait()
	for i := range 200 {
		// The first ones have the connections that were there.
		if err := r.writes.Ping(t.Context()).Err(); err == nil || i >= 100 && !surelyNotRun(err) {
			t.Fatalf("what was never dialled may have run: %v", err)
		}
	}
	server.Restart()
	if err := r.Ping(t.Context()); err != nil {
		t.Errorf("reads: %v", err)
	}
	if err := r.writes.Ping(t.Context()).Err(); err != nil {
		t.Errorf("writes: %v", err)
	}
}
