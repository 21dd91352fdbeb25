package embedded_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tallyfeed/tallyfeed/embedded"
)

func TestRedis(t *testing.T) {
	t.Parallel()
	part, err := embedded.Redis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	options, err := redis.ParseURL(part.URL())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	defer client.Close()

	script := `redis.call("SET", KEYS[1], ARGV[1], "PX", 300); return redis.call("GET", KEYS[1])`
	if got, err := client.Eval(t.Context(), script, []string{"key"}, "value").Text(); err != nil || got != "value" {
		t.Errorf("EVAL = %q, %v", got, err)
	}
	begin := time.Now()
	for client.Exists(t.Context(), "key").Val() == 1 {
		if time.Since(begin) > 20*time.Second {
			t.Fatal("the key does not expire")
		}
		time.Sleep(10 * time.Millisecond)
	}
	// The clock moves in steps, so a key may go one step early.
	if lived := time.Since(begin); lived < 150*time.Millisecond {
		t.Errorf("a key of 300 ms expired after %s", lived)
	}

	if err := part.Close(); err != nil {
		t.Fatal(err)
	}
	if err := part.Close(); err == nil {
		t.Error("a second Close is no error")
	}
	if client.Ping(t.Context()).Err() == nil {
		t.Error("a closed server answers")
	}
}
