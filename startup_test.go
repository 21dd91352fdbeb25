package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tallyfeed/tallyfeed/database"
)

// Each thing once, in this order: what the parts are, where to look, what to paste.
func TestStartUpText(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	p := serving(t, nil, "--listen", "127.0.0.1:0", "--data", data) // no command means serve
	form := regexp.MustCompile(`^redis +embedded \(likes are kept in the database\)
kafka +embedded \(kept in \S+\)
database +embedded \(SQLite, kept in \S+\)
address +http://127\.0\.0\.1:[1-9][0-9]*/
page +http://127\.0\.0\.1:[1-9][0-9]*/#token=[\w-]+\.[\w-]+\.[\w-]+
token +[\w-]+\.[\w-]+\.[\w-]+
 +\(alice, for a day; .*\)
$`)
	if text := p.stdout.String(); !form.MatchString(text) || !strings.Contains(text, data) {
		t.Errorf("%s", text)
	}
	if text := p.log.String(); text != "" {
		t.Errorf("a start without trouble logs nothing: %s", text)
	}
	// The token is good, and there is something to see.
	var posts struct{ Feed struct{ Nodes []post } }
	p.ask(t, p.token, `{feed(first:100){nodes{id title likeCount viewerHasLiked}}}`, nil, &posts)
	if len(posts.Feed.Nodes) != 100 || posts.Feed.Nodes[0].ViewerHasLiked == nil || posts.Feed.Nodes[0].LikeCount == nil {
		t.Errorf("the demo's feed: %v", posts.Feed.Nodes)
	}
	p.stop(t)
	// The secret is the owner's alone, and a token outlives a restart.
	info, err := os.Stat(filepath.Join(data, "secret"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the secret: %v, %v", info, err)
	}
	token := p.token
	p = serving(t, nil, "--listen", "127.0.0.1:0", "--data", data)
	var viewer struct{ Viewer *struct{ Name string } }
	if p.ask(t, token, `{viewer{name}}`, nil, &viewer); viewer.Viewer == nil || viewer.Viewer.Name != "Alice" {
		t.Errorf("the token of before the restart: %+v", viewer)
	}
	p.stop(t)
}

func TestPaths(t *testing.T) {
	t.Parallel()
	all := serving(t, nil, "serve", "--listen", "127.0.0.1:0", "--data", t.TempDir())
	workers := serving(t, nil, "serve", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--roles", "publish,aggregate")
	for path, tc := range map[string]struct {
		reason       string
		all, workers int
		says         string
	}{
		"/healthz":                            {"The process lives.", 200, 200, "ok"},
		"/readyz":                             {"Its parts answer.", 200, 200, "ready"},
		"/":                                   {"The feed page, where a user looks first.", 200, 404, "<title>Tallyfeed</title>"},
		"/playground":                         {"Without the slash its files would not be found.", 301, 404, ""},
		"/playground/":                        {"The page.", 200, 404, "graphiql"},
		"/graphql?query=%7Bviewer%7Bid%7D%7D": {"A query by its address.", 200, 404, `{"data":{"viewer":null}}`},
		"/nothing":                            {"No such page.", 404, 404, ""},
		"/graphql/":                           {"Another path.", 404, 404, ""},
	} {
		status, body := all.get(t, path)
		if status != tc.all || tc.all == 200 && !strings.Contains(body, tc.says) {
			t.Errorf("%s\nGET %s: %d %.200s, want %d", tc.reason, path, status, body, tc.all)
		}
		if status, body := workers.get(t, path); status != tc.workers {
			t.Errorf("%s\nGET %s without the role api: %d %.200s, want %d", tc.reason, path, status, body, tc.workers)
		}
	}
	all.stop(t)
	workers.stop(t)
}

// What is wrong is said in a sentence that names it, and the status is 1.
func TestRefusedStarts(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	first := serving(t, nil, "serve", "--listen", "127.0.0.1:0", "--data", data)
	host := strings.TrimPrefix(first.address, "http://")
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const secret = "hush-0123456789abcdef0123456789abcdef"
	named := []string{"--redis", "redis://127.0.0.1:1", "--kafka", "127.0.0.1:1", "--database", "postgres://u@127.0.0.1:1/x"}
	cases := map[string]struct {
		reason string
		env    []string
		args   []string
		says   []string
	}{
		"SameData": {
			"Two on one folder would spoil it.", nil,
			[]string{"serve", "--listen", "127.0.0.1:0", "--data", data},
			[]string{"another Tallyfeed is running on the data folder", data, "--data"},
		},
		"SamePort": {
			"The address is taken.", nil,
			[]string{"serve", "--listen", host, "--data", filepath.Join(t.TempDir(), "other")},
			[]string{"can't listen on " + host, "address already in use"},
		},
		"BadListen": {
			"No address.", nil,
			[]string{"serve", "--listen", "nonsense", "--data", filepath.Join(t.TempDir(), "other")},
			[]string{"can't listen on nonsense"},
		},
		"NoSecret": {
			"A secret in the data folder would be another one on each server.", nil,
			append([]string{"serve", "--listen", "127.0.0.1:0"}, named...),
			[]string{"--jwt-secret", "--jwt-secret-file", "--jwt-public-key", "--jwks"},
		},
		"NoSecretOneReal": {
			"The same where one part is real.", nil,
			[]string{"serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "other"), "--redis", "redis://127.0.0.1:1"},
			[]string{"--jwt-secret"},
		},
		"UnknownRole": {
			"A typing error must not leave a worker out.", nil,
			[]string{"serve", "--roles", "api,agregate"},
			[]string{"--roles", "agregate", "aggregate"},
		},
		"UnknownFlag":    {"Nor be passed over.", nil, []string{"serve", "--lisen", "x"}, []string{"--lisen"}},
		"UnknownCommand": {"Nor be taken for serve.", nil, []string{"srve"}, []string{"srve", "--help"}},
		"BadVariable":    {"Variables are checked like flags.", []string{"TALLYFEED_ROLES=nonsense"}, []string{"serve"}, []string{"nonsense"}},
		"RedisNoURL": {
			"No waiting for an address that can't be one, and no piece of a password.",
			[]string{"TALLYFEED_JWT_SECRET=" + secret},
			[]string{"serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "other"), "--redis", "127.0.0.1:6379"},
			[]string{"redis", "scheme"},
		},
		"RedisBadURL": {
			"A password that is not encoded.",
			[]string{"TALLYFEED_JWT_SECRET=" + secret},
			[]string{"serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "other"), "--redis", "redis://u:hush%zz@127.0.0.1:1"},
			[]string{"redis", "not a URL"},
		},
		"DatabaseNoURL": {
			"No waiting for an address that can't be one.",
			[]string{"TALLYFEED_JWT_SECRET=" + secret},
			[]string{"serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "other"), "--database", "mysql://u:hush@127.0.0.1/x"},
			[]string{"database", "postgres://"},
		},
		"KafkaNoPort": {
			"No waiting for an address that can't be one.",
			[]string{"TALLYFEED_JWT_SECRET=" + secret},
			[]string{"serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "other"), "--kafka", "broker"},
			[]string{"broker", "host:port"},
		},
		"ShortSecret": {
			"It could be guessed.", nil,
			[]string{"serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "other"), "--jwt-secret", "hush"},
			[]string{"at least 32"},
		},
		"EmptySecretFile": {
			"An empty file is a mistake, and not no secret.", nil,
			[]string{"serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "other"), "--jwt-secret-file", empty},
			[]string{"--jwt-secret-file", "empty"},
		},
		"SecretTwice": {
			"Which one?",
			[]string{"TALLYFEED_JWT_SECRET=" + secret},
			[]string{"serve", "--jwt-secret-file", empty},
			[]string{"--jwt-secret", "--jwt-secret-file"},
		},
		"TwoKeys": {
			"Which one?",
			[]string{"TALLYFEED_JWT_SECRET=" + secret},
			[]string{"serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "other"), "--jwks", "http://127.0.0.1:1/keys"},
			[]string{"exactly one"},
		},
		"DataIsFile": {"A folder is wanted.", nil, []string{"serve", "--listen", "127.0.0.1:0", "--data", empty}, []string{"data folder"}},
	}
	t.Run("each", func(t *testing.T) {
		for name, tc := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p := start(t, tc.env, tc.args...)
				if status := p.wait(t, 10*time.Second); status != 1 {
					t.Errorf("%s\nstatus %d", tc.reason, status)
				}
				log := p.log.String()
				for _, piece := range tc.says {
					if !strings.Contains(log, piece) {
						t.Errorf("%s\nnot a word of %q: %s", tc.reason, piece, log)
					}
				}
				if strings.Contains(log, "hush") {
					t.Errorf("%s\na secret is printed: %s", tc.reason, log)
				}
				if strings.Contains(p.stdout.String(), "address") || strings.Contains(log, "goroutine") {
					t.Errorf("%s\n%s%s", tc.reason, &p.stdout, log)
				}
			})
		}
	})
	// None of them was in the way of the one that runs.
	if status, body := first.get(t, "/readyz"); status != http.StatusOK {
		t.Errorf("the first server: %d %s", status, body)
	}
	first.stop(t)
}

// A part that is down is named at once; who asks the program to end while it
// tries need not wait.
func TestPartIsDown(t *testing.T) {
	t.Parallel()
	// A port that is ours and answers nothing to a connection.
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	silent := listener.Addr().String()
	env := []string{"TALLYFEED_JWT_SECRET=hush-0123456789abcdef0123456789abcdef"}
	for name, tc := range map[string]struct {
		reason, flag, address, says string
	}{
		"Redis":        {"Nothing listens there.", "--redis", "redis://u:hush@127.0.0.1:1/0?dial_timeout=1s", "can't reach redis redis://127.0.0.1:1/0"},
		"RedisSilent":  {"It accepts and does not answer.", "--redis", "redis://u:hush@" + silent, "can't reach redis redis://" + silent},
		"RedisCluster": {"None of several.", "--redis", "redis://u:hush@127.0.0.1:1,127.0.0.1:2", "can't reach redis redis://127.0.0.1:1,127.0.0.1:2"},
		"Kafka":        {"Nothing listens there.", "--kafka", "127.0.0.1:1,127.0.0.1:2", "can't reach kafka 127.0.0.1:1,127.0.0.1:2"},
		"KafkaSilent":  {"It accepts and does not answer.", "--kafka", silent, "can't reach kafka " + silent},
		"Database":     {"Nothing listens there.", "--database", "postgres://u:hush@127.0.0.1:1/x?sslmode=disable", "can't reach database postgres://127.0.0.1:1/x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, env, "serve", "--listen", "127.0.0.1:0", "--data", t.TempDir(), tc.flag, tc.address)
			eventually(t, 20*time.Second, func() error {
				if !strings.Contains(p.log.String(), tc.says) {
					return errors.New("not said yet: " + p.log.String())
				}
				return nil
			})
			p.signal(t, syscall.SIGTERM)
			if status := p.wait(t, stopTimeout); status != 1 {
				t.Errorf("%s\nstatus %d", tc.reason, status)
			}
			log := p.log.String()
			if !strings.Contains(log, "\ntallyfeed: "+tc.says) || strings.Contains(log, "goroutine") {
				t.Errorf("%s\nit does not say at its end what was wrong: %s", tc.reason, log)
			}
			if strings.Contains(log, "hush") {
				t.Errorf("%s\na secret is printed: %s", tc.reason, log)
			}
		})
	}
}

// Half a minute, by a clock that needs no waiting for.
func TestPatience(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	refused := errors.New("connection refused")
	cases := map[string]struct {
		reason   string
		open     func(time.Duration) error // after this time
		took     time.Duration
		failed   error
		attempts int // at least
	}{
		"Up":         {"No waiting where all is well.", func(time.Duration) error { return nil }, 0, nil, 1},
		"ComesUp":    {"A part that starts beside us.", func(at time.Duration) error { return pick(at < 10*time.Second, refused) }, 10 * time.Second, nil, 20},
		"StaysDown":  {"For 30 s and no longer.", func(time.Duration) error { return refused }, 30 * time.Second, refused, 60},
		"BadAddress": {"An address that can't be one gets no better.", func(time.Duration) error { return database.ErrURL }, 0, database.ErrURL, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began, attempts := time.Now(), 0
				err := keepTrying(t.Context(), log, "redis there", func(context.Context) error {
					attempts++
					return tc.open(time.Since(began))
				})
				if took := time.Since(began); took != tc.took || !errors.Is(err, tc.failed) || attempts < tc.attempts {
					t.Errorf("%s\nafter %s and %d attempts: %v; want %s and %v", tc.reason, took, attempts, err, tc.took, tc.failed)
				}
				if err != nil && !strings.Contains(err.Error(), "redis there") {
					t.Errorf("%s\nit does not say what: %v", tc.reason, err)
				}
			})
		})
	}
}

func pick(when bool, err error) error {
	if when {
		return err
	}
	return nil
}

// What is shown of an address is where it is, and nothing else.
func TestRedacted(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"redis://127.0.0.1:6379/0":                     "redis://127.0.0.1:6379/0",
		"redis://:hush@host:1":                         "redis://host:1",
		"rediss://user:hush@host:1/2?pool_size=3":      "rediss://host:1/2",
		"redis://user:hush@a:1,b:2,c:3?cluster=true":   "redis://a:1,b:2,c:3",
		"redis://user:hu@sh@host:1":                    "redis://host:1",
		"unix://user:hush@/run/redis.sock?db=0":        "unix:///run/redis.sock",
		"postgres://user:hush@host/name?password=hush": "postgres://host/name",
		"postgres://user:hu/sh@host/name":              "postgres://host/name",
		"postgres://user:hu?sh@host/name":              "postgres://…",
		"redis://user:hu?sh@host:1":                    "redis://…",
		"redis://[::1]:6379/0":                         "redis://[::1]:6379/0",
		"redis://[::1]":                                "redis://[::1]",
		"user:hush@host:1":                             "of an unknown kind",
		"postgres:///name?host=/run/postgresql&user=u": "postgres:///name",
		"sqlite:posts.db":                              "sqlite:posts.db",
	} {
		if got := redacted(address); got != want {
			t.Errorf("%s is shown as %s, want %s", address, got, want)
		}
	}
}
