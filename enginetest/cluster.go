package enginetest

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	clusterMasters = 3
	clusterReady   = 60 * time.Second
)

// RedisCluster is a Redis Cluster of one test. Its methods fail the test on an
// error, so they are called from the test's own goroutine. Nodes are numbered
// from 0: first the three masters of the beginning, then the replicas.
type RedisCluster struct {
	tb    testing.TB
	nodes []*RedisServer
}

// Cluster starts a Redis Cluster of three masters and returns its URL, which
// names all nodes: redis://127.0.0.1:A?addr=127.0.0.1:B&addr=127.0.0.1:C, as
// redis.ParseClusterURL takes it. It ends at cleanup. Without redis-server it
// skips the test, or fails it if real engines are required.
func Cluster(tb testing.TB) string {
	tb.Helper()
	return StartCluster(tb, 0).URL()
}

// StartCluster is Cluster with that many replicas for each master. Nodes keep
// their data over Kill and Restart. A master that is gone for two seconds is
// replaced by its replica, if it has one.
func StartCluster(tb testing.TB, replicas int) *RedisCluster {
	tb.Helper()
	for _, program := range []string{"redis-server", "redis-cli"} {
		if _, err := exec.LookPath(program); err != nil {
			missing(tb, fmt.Sprintf("there is no %s (Debian: redis-server)", program))
		}
	}
	c := &RedisCluster{tb: tb}
	create := []string{"--cluster", "create"}
	for range clusterMasters * (1 + replicas) {
		port := FreePort(tb)
		node := StartRedis(tb, RedisOptions{Port: port, AOF: true, Args: []string{
			"--cluster-enabled", "yes", "--cluster-node-timeout", "2000",
			// A replica may take over however long it has been cut off.
			"--cluster-replica-validity-factor", "0",
		}})
		c.nodes = append(c.nodes, node)
		create = append(create, c.Addr(len(c.nodes)-1))
	}
	create = append(create, "--cluster-replicas", strconv.Itoa(replicas), "--cluster-yes")
	ctx, cancel := context.WithTimeout(tb.Context(), clusterReady)
	defer cancel()
	if output, err := exec.CommandContext(ctx, "redis-cli", create...).CombinedOutput(); err != nil {
		tb.Fatalf("redis-cli --cluster create: %v: %s", err, output)
	}
	c.Await()
	return c
}

// URL names all nodes; restarts do not change it.
func (c *RedisCluster) URL() string {
	var more []string
	for i := 1; i < len(c.nodes); i++ {
		more = append(more, "addr="+c.Addr(i))
	}
	return "redis://" + c.Addr(0) + "?" + strings.Join(more, "&")
}

// Nodes is their number.
func (c *RedisCluster) Nodes() int { return len(c.nodes) }

// Addr is the host and port of a node.
func (c *RedisCluster) Addr(node int) string {
	return fmt.Sprintf("127.0.0.1:%d", c.nodes[node].options.Port)
}

// Kill ends a node as SIGKILL does. A second call does nothing.
func (c *RedisCluster) Kill(node int) {
	c.tb.Helper()
	c.nodes[node].Kill()
}

// Restart kills a node if it runs, and starts it again with its data at the same
// address. It does not wait for the cluster: see Await.
func (c *RedisCluster) Restart(node int) {
	c.tb.Helper()
	c.nodes[node].Restart()
}

// Stop has a node accept and never answer, until Continue.
func (c *RedisCluster) Stop(node int) {
	c.tb.Helper()
	c.nodes[node].Stop()
}

// Continue ends what Stop began.
func (c *RedisCluster) Continue(node int) {
	c.tb.Helper()
	c.nodes[node].Continue()
}

// Await returns when every node that runs says that the cluster is whole and,
// if it is a replica, that it follows its master.
func (c *RedisCluster) Await() {
	c.tb.Helper()
	for _, node := range c.nodes {
		if node.run.ended() {
			continue
		}
		err := node.run.await(clusterReady, func(ctx context.Context) error { return whole(ctx, node.url) })
		if err != nil {
			c.tb.Fatal(err)
		}
	}
}

// whole asks one node.
func whole(ctx context.Context, url string) error {
	options, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	client := redis.NewClient(options)
	state, stateErr := client.ClusterInfo(ctx).Result()
	role, roleErr := client.Info(ctx, "replication").Result()
	err = errors.Join(stateErr, roleErr, client.Close())
	switch {
	case err != nil:
		return err
	case !strings.Contains(state, "cluster_state:ok"):
		return errors.New("cluster_state is not ok")
	case strings.Contains(role, "role:slave") && !strings.Contains(role, "master_link_status:up"):
		return errors.New("the replica does not follow its master")
	}
	return nil
}
