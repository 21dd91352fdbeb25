package enginetest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tallyfeed/tallyfeed/enginetest"
)

func clusterClient(t *testing.T, url string) *redis.ClusterClient {
	t.Helper()
	options, err := redis.ParseClusterURL(url)
	if err != nil {
		t.Fatal(err)
	}
	// By default the client asks once a minute who the masters are, and dials the
	// dead one until then.
	options.ClusterStateReloadInterval = time.Second
	c := redis.NewClusterClient(options)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestCluster(t *testing.T) {
	t.Parallel()
	c := clusterClient(t, enginetest.Cluster(t))
	for i := range 100 { // over all slots
		if err := c.Set(t.Context(), fmt.Sprintf("key%d", i), i, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := c.DBSize(t.Context()).Result()
	if err != nil || whole != 100 {
		t.Errorf("%d keys, %v; want 100 over the masters", whole, err)
	}
}

func TestClusterFailover(t *testing.T) {
	t.Parallel()
	cluster := enginetest.StartCluster(t, 1)
	if n := cluster.Nodes(); n != 6 {
		t.Fatalf("%d nodes", n)
	}
	// The probe's slot lies with the master that is killed.
	c := clusterClient(t, cluster.URL())
	key := ""
	for i := 0; key == ""; i++ {
		candidate := fmt.Sprintf("key%d", i)
		master, err := c.MasterForKey(t.Context(), candidate)
		if err != nil {
			t.Fatal(err)
		}
		if master.Options().Addr == cluster.Addr(0) {
			key = candidate
		}
	}
	if err := c.Set(t.Context(), key, "value", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := client(t, "redis://"+cluster.Addr(0)).Wait(t.Context(), 1, 5*time.Second).Err(); err != nil {
		t.Fatal(err)
	}
	cluster.Kill(0)
	eventually(t, "a replica takes over", func() bool {
		return c.Get(t.Context(), key).Val() == "value"
	})
	cluster.Restart(0)
	cluster.Await()
}
