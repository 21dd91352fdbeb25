package enginetest

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

const redisReady = 20 * time.Second

// RedisOptions says what StartRedis starts. The zero value is a server on a
// unix socket that keeps nothing on disk.
type RedisOptions struct {
	// AOF keeps the data over Kill and Restart (appendfsync everysec: a killed
	// process loses nothing that the kernel has). Otherwise Restart is empty.
	AOF bool
	// Port is the TCP port on 127.0.0.1; 0 is a unix socket. See FreePort.
	Port int
	// Args are further arguments of redis-server. They win over those that
	// StartRedis gives. A replacement ignores them.
	Args []string
}

// RedisServer is a Redis of one test. Its methods fail the test on an error,
// so they are called from the test's own goroutine.
type RedisServer struct {
	tb      testing.TB
	url     string
	options RedisOptions

	// A real server.
	dir  string
	args []string
	run  *process

	// Its replacement.
	mini *miniredis.Miniredis
}

// Redis starts a Redis that keeps nothing on disk and returns its URL. args are
// those of redis-server. It ends at cleanup.
func Redis(tb testing.TB, args ...string) string {
	tb.Helper()
	return StartRedis(tb, RedisOptions{Args: args}).URL()
}

// StartRedis starts a Redis and returns when it answers. It ends at cleanup.
// Without redis-server it is a miniredis inside this process.
func StartRedis(tb testing.TB, options RedisOptions) *RedisServer {
	tb.Helper()
	s := &RedisServer{tb: tb, options: options}
	if _, err := exec.LookPath("redis-server"); err != nil {
		if realRequired(tb) {
			tb.Fatalf("TALLYFEED_TEST_ENGINES=real, and there is no redis-server: %v", err)
		}
		s.replace()
		return s
	}
	s.dir = folder(tb)
	s.args = []string{
		"--save", "", "--appendonly", yesNo(options.AOF), "--dir", s.dir, "--port", strconv.Itoa(options.Port),
	}
	if options.Port == 0 {
		socket := filepath.Join(s.dir, "redis.sock")
		s.args = append(s.args, "--unixsocket", socket)
		s.url = "unix://" + socket + "?db=0"
	} else {
		s.args = append(s.args, "--bind", "127.0.0.1")
		s.url = fmt.Sprintf("redis://127.0.0.1:%d", options.Port)
	}
	s.args = append(s.args, options.Args...)
	s.start()
	tb.Cleanup(func() {
		if err := s.run.kill(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// URL is where the server answers; a restart does not change it.
func (s *RedisServer) URL() string { return s.url }

// Real reports whether this is a redis-server and not a replacement.
func (s *RedisServer) Real() bool { return s.mini == nil }

// Kill ends the server as SIGKILL does. A second call does nothing.
func (s *RedisServer) Kill() {
	s.tb.Helper()
	if s.mini != nil {
		s.mini.Close()
		return
	}
	if err := s.run.kill(); err != nil {
		s.tb.Fatal(err)
	}
}

// Stop has the server accept and never answer, until Continue. A replacement
// can't do that: it skips the test.
func (s *RedisServer) Stop() {
	s.tb.Helper()
	if s.mini != nil {
		missing(s.tb, "there is no redis-server to stop")
	}
	if err := s.run.signal(pause); err != nil {
		s.tb.Fatal(err)
	}
}

// Continue ends what Stop began. Where nothing was stopped it does nothing.
func (s *RedisServer) Continue() {
	s.tb.Helper()
	if s.mini != nil {
		return
	}
	if err := s.run.signal(resume); err != nil {
		s.tb.Fatal(err)
	}
}

// Restart kills the server if it runs, and starts it again at the same address:
// with its data if it has an AOF, else empty.
func (s *RedisServer) Restart() {
	s.tb.Helper()
	s.Kill()
	if s.mini == nil {
		s.start()
		return
	}
	if !s.options.AOF {
		s.mini.FlushAll()
	}
	if err := s.mini.Restart(); err != nil {
		s.tb.Fatal(err)
	}
}

// start runs redis-server and returns when it has loaded its data.
func (s *RedisServer) start() {
	s.tb.Helper()
	run, err := startProcess(filepath.Join(s.dir, "log"), "redis-server", s.args...)
	if err != nil {
		s.tb.Fatal(err)
	}
	s.run = run
	options, err := redis.ParseURL(s.url)
	if err != nil {
		s.tb.Fatal(err)
	}
	if err := run.await(redisReady, func(ctx context.Context) error { return ping(ctx, options) }); err != nil {
		_ = run.kill() // it may run all the same, and the first error is the one to tell
		s.tb.Fatal(err)
	}
}

// replace puts a miniredis where a server would be. Its keys do not expire by
// the clock, so a ticker moves them on.
func (s *RedisServer) replace() {
	s.tb.Helper()
	s.mini = miniredis.NewMiniRedis()
	if err := s.mini.StartAddr(fmt.Sprintf("127.0.0.1:%d", s.options.Port)); err != nil {
		s.tb.Fatal(err)
	}
	s.url = "redis://" + s.mini.Addr()

	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for last := time.Now(); ; {
			select {
			case now := <-tick.C:
				s.mini.FastForward(now.Sub(last))
				last = now
			case <-stop:
				return
			}
		}
	}()
	s.tb.Cleanup(func() {
		close(stop)
		<-stopped
		s.mini.Close()
	})
}

func ping(ctx context.Context, options *redis.Options) error {
	client := redis.NewClient(options)
	return errors.Join(client.Ping(ctx).Err(), client.Close())
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}
