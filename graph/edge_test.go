package graph_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/uptrace/bun"

	"github.com/tallyfeed/tallyfeed/archive"
	"github.com/tallyfeed/tallyfeed/auth"
	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/database"
	"github.com/tallyfeed/tallyfeed/enginetest"
	"github.com/tallyfeed/tallyfeed/feed"
	"github.com/tallyfeed/tallyfeed/graph"
	"github.com/tallyfeed/tallyfeed/leaving"
)

// edge is the whole API over a Redis and an SQLite of its own; Kafka is not
// needed for what one request shows.
type edge struct {
	handler http.Handler
	redis   *counter.Redis
	raw     *redis.Client // past the hooks
	facts   *counter.Facts
	reader  *counter.Reader
	posts   *feed.Feed
	archive *archive.Store
	leavers *leaving.Leavers
	trips   *trips
	log     *locked
	secret  []byte

	// What handler is made of, for tests that put something else in its place.
	db       *bun.DB
	services graph.Services
}

var secret = bytes.Repeat([]byte("s"), 32)

func newEdge(tb testing.TB) *edge {
	tb.Helper()
	return edgeOn(tb, enginetest.Redis(tb), filepath.Join(tb.TempDir(), "feed.db"))
}

// edgeOn makes another server on the same stores when called again.
func edgeOn(tb testing.TB, redisURL, file string) *edge {
	tb.Helper()
	ctx := tb.Context()
	db, err := database.Open(ctx, "sqlite:"+file)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	if err := database.Migrate(ctx, db); err != nil {
		tb.Fatal(err)
	}
	r, err := counter.OpenRedis(ctx, redisURL)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = r.Close() })
	store := counter.NewSQLOrdinals(db)
	if err := r.Found(ctx, store); err != nil {
		tb.Fatal(err)
	}
	options, err := redis.ParseURL(redisURL)
	if err != nil {
		tb.Fatal(err)
	}
	raw := redis.NewClient(options)
	tb.Cleanup(func() { _ = raw.Close() })
	e := &edge{raw: raw, redis: r, trips: &trips{}, log: &locked{}, secret: secret, db: db}
	r.AddHook(e.trips)
	log := slog.New(slog.NewTextHandler(e.log, nil))
	ordinals := counter.NewOrdinals(store)
	e.facts = counter.NewFacts(r, ordinals, log, counter.FactsConfig{})
	e.reader = counter.NewReader(r, ordinals, counter.ReaderConfig{Timeout: time.Second})
	e.posts = feed.New(db, feed.Config{Log: log, Subjects: purge{e.facts}})
	if empty, err := e.posts.Empty(ctx); err != nil {
		tb.Fatal(err)
	} else if empty {
		if _, err := e.posts.Import(ctx, strings.NewReader(somePosts())); err != nil {
			tb.Fatal(err)
		}
	}
	verifier, err := auth.New(ctx, auth.Config{Secret: secret})
	if err != nil {
		tb.Fatal(err)
	}
	e.archive = archive.NewStore(db)
	e.leavers = leaving.New(db, log)
	e.services = graph.Services{
		Posts: e.posts, Facts: e.facts, Counts: e.reader, Archive: e.archive, Lists: archive.NewLists(e.archive, e.reader),
		Users: e.leavers, Verifier: verifier, Log: log,
	}
	e.handler = graph.NewHandler(e.services, graph.Options{Introspection: true})
	return e
}

// with puts other services in place of some.
func (e *edge) with(change func(*graph.Services)) *edge {
	change(&e.services)
	e.handler = graph.NewHandler(e.services, graph.Options{Introspection: true})
	return e
}

type purge struct{ facts *counter.Facts }

func (p purge) Delete(ctx context.Context, id string) error {
	s, err := counter.NewSubject(counter.TypePost, id)
	if err != nil {
		return err
	}
	return p.facts.Delete(ctx, s)
}

// somePosts are 60 public ones by ada, p60 the newest, and a private one.
func somePosts() string {
	var lines strings.Builder
	at := time.Date(2026, 11, 1, 8, 0, 0, 0, time.UTC)
	for i := 1; i <= 60; i++ {
		fmt.Fprintf(&lines, `{"id":"p%d","author":"ada","authorName":"Ada","title":"Post %d","body":"Body %d","publishedAt":%q}`+"\n",
			i, i, i, at.Add(time.Duration(i)*time.Minute).Format(time.RFC3339))
	}
	fmt.Fprintf(&lines, `{"id":"secret","author":"ada","title":"Mine","body":"Only","publishedAt":%q,"visibility":"PRIVATE"}`+"\n", at.Format(time.RFC3339))
	return lines.String()
}

// locked is a buffer that a logger and a test may use at once.
type locked struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.String()
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.Write(p)
}

// trips counts what goes to Redis: a pipeline is one.
type trips struct {
	mu       sync.Mutex
	trips    int
	commands int
	names    []string
}

func (t *trips) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trips, t.commands, t.names = 0, 0, nil
}

func (t *trips) seen() (trips, commands int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.trips, t.commands
}

func (t *trips) add(cmds ...redis.Cmder) {
	if cmds[0].Name() == "hello" {
		return // a connection being made: the pool's matter, not the page's
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trips++
	t.commands += len(cmds)
	for _, cmd := range cmds {
		t.names = append(t.names, cmd.Name())
	}
}

func (t *trips) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (t *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		t.add(cmd)
		return next(ctx, cmd)
	}
}

func (t *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		t.add(cmds...)
		return next(ctx, cmds)
	}
}

// answer is what a client reads.
type answer struct {
	status int
	Data   map[string]any `json:"data"`
	Errors []struct {
		Message    string         `json:"message"`
		Path       []any          `json:"path"`
		Extensions map[string]any `json:"extensions"`
	} `json:"errors"`
	raw string
}

// code is that of the only error, "" for none.
func (a answer) code() string {
	if len(a.Errors) != 1 {
		return fmt.Sprintf("%d errors", len(a.Errors))
	}
	code, _ := a.Errors[0].Extensions["code"].(string)
	return code
}

// at follows a path of names and indexes into the data.
func (a answer) at(path ...any) any {
	var value any = a.Data
	for _, step := range path {
		switch step := step.(type) {
		case string:
			object, _ := value.(map[string]any)
			value = object[step]
		case int:
			list, _ := value.([]any)
			if step >= len(list) {
				return nil
			}
			value = list[step]
		}
	}
	return value
}

// ask sends a document as sub; "" is nobody.
func (e *edge) ask(tb testing.TB, sub, document string, variables map[string]any) answer {
	tb.Helper()
	body, err := json.Marshal(map[string]any{"query": document, "variables": variables})
	if err != nil {
		tb.Fatal(err)
	}
	r := httptest.NewRequestWithContext(tb.Context(), http.MethodPost, "/graphql", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if sub != "" {
		token, err := auth.Mint(e.secret, sub, "", "", "", time.Hour)
		if err != nil {
			tb.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	e.handler.ServeHTTP(w, r)
	a := answer{status: w.Code, raw: w.Body.String()}
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		tb.Fatalf("%v in %s", err, a.raw)
	}
	return a
}

// ok is ask for what must have no error.
func (e *edge) ok(tb testing.TB, sub, document string, variables map[string]any) answer {
	tb.Helper()
	a := e.ask(tb, sub, document, variables)
	if a.status != http.StatusOK || len(a.Errors) > 0 {
		tb.Fatalf("status %d: %s", a.status, a.raw)
	}
	return a
}

// forgetMine drops what is remembered of the viewers' own changes, as time does.
func (e *edge) forgetMine(tb testing.TB) {
	tb.Helper()
	names, err := e.raw.Keys(tb.Context(), "mine:*").Result() // a test's own Redis
	if err == nil && len(names) > 0 {
		err = e.raw.Del(tb.Context(), names...).Err()
	}
	if err != nil || len(names) == 0 {
		tb.Fatal(names, err)
	}
}
