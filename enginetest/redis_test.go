package enginetest_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tallyfeed/tallyfeed/enginetest"
)

func client(t *testing.T, url string) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	options.ContextTimeoutEnabled = true
	options.MaxRetries = -1
	c := redis.NewClient(options)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// eventually polls until done returns true and fails the test after a while.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 20 s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestRedis(t *testing.T) {
	t.Parallel()
	one, other := client(t, enginetest.Redis(t)), client(t, enginetest.Redis(t))
	if err := one.Set(t.Context(), "key", "value", 50*time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := other.Exists(t.Context(), "key").Result(); err != nil || n != 0 {
		t.Errorf("a key of one server is in another: %d, %v", n, err)
	}
	eventually(t, "key expires by the clock", func() bool {
		return one.Exists(t.Context(), "key").Val() == 0
	})
}

func TestRedisKill(t *testing.T) {
	t.Parallel()
	for name, aof := range map[string]bool{"Memory": false, "AOF": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := enginetest.StartRedis(t, enginetest.RedisOptions{AOF: aof})
			c := client(t, server.URL())
			if err := c.Set(t.Context(), "key", "value", 0).Err(); err != nil {
				t.Fatal(err)
			}
			server.Kill()
			server.Kill()
			if err := c.Ping(t.Context()).Err(); err == nil {
				t.Error("a killed server answers")
			}
			server.Restart()
			if n, err := c.Exists(t.Context(), "key").Result(); err != nil || n == 1 != aof {
				t.Errorf("after the restart the key is there %d times (%v), with AOF %t", n, err, aof)
			}
		})
	}
}

func TestRedisStop(t *testing.T) {
	t.Parallel()
	server := enginetest.StartRedis(t, enginetest.RedisOptions{Port: enginetest.FreePort(t)})
	c := client(t, server.URL())
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := c.Ping(short).Err(); err == nil {
		t.Error("a stopped server answers")
	}
	server.Continue()
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Errorf("after Continue: %v", err)
	}
}
