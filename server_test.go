package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tallyfeed/tallyfeed/enginetest"
)

// These tests start the program as a user does: they build it once and talk to
// its processes over HTTP.

var program = sync.OnceValues(func() (string, error) {
	file := filepath.Join(programDir, "tallyfeed")
	out, err := exec.CommandContext(context.Background(), "go", "build", "-o", file, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return file, nil
})

var programDir string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if programDir, err = os.MkdirTemp("", "tallyfeed"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(programDir) }()
		return m.Run()
	}())
}

// output collects what a process prints.
type output struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buffer.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buffer.String()
}

// running is a process of the program.
type running struct {
	command     *exec.Cmd
	stdout, log output
	exited      chan struct{}
	status      int // read after exited is closed

	address string // http://127.0.0.1:PORT
	token   string // the one that was printed, if any
}

// start runs the program with args. env is added to a clean environment.
func start(t *testing.T, env []string, args ...string) *running {
	t.Helper()
	file, err := program()
	if err != nil {
		t.Fatal(err)
	}
	// Not bound to the test's context: that ends before its cleanups run, and a
	// stop in order is part of what is tested.
	p := &running{command: exec.CommandContext(context.WithoutCancel(t.Context()), file, args...), exited: make(chan struct{})}
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "TALLYFEED_") {
			p.command.Env = append(p.command.Env, pair)
		}
	}
	// Tests poll faster than anybody may; those of the limits set their own.
	p.command.Env = append(p.command.Env, "TALLYFEED_RATE_COST=0", "TALLYFEED_RATE_MUTATIONS=0")
	p.command.Env = append(p.command.Env, env...)
	p.command.Dir = t.TempDir() // where ./data would be
	p.command.Stdout, p.command.Stderr = &p.stdout, &p.log
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.command.Wait() // the status says how it ended
		p.status = p.command.ProcessState.ExitCode()
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("tallyfeed %s\n%s%s", strings.Join(args, " "), &p.stdout, &p.log)
		}
	})
	return p
}

var (
	addressLine = regexp.MustCompile(`(?m)^address +(http://\S+)/$`)
	tokenLine   = regexp.MustCompile(`(?m)^token +(\S+)$`)
)

const serveWithin = 60 * time.Second

// serving starts the program and waits until it says that it is ready.
func serving(t *testing.T, env []string, args ...string) *running {
	t.Helper()
	p := start(t, env, args...)
	eventually(t, serveWithin, func() error {
		select {
		case <-p.exited:
			t.Fatalf("ended with status %d: %s%s", p.status, &p.stdout, &p.log)
		default:
		}
		found := addressLine.FindStringSubmatch(p.stdout.String())
		if found == nil {
			return errors.New("no address yet")
		}
		p.address = found[1]
		if status, body := p.get(t, "/readyz"); status != http.StatusOK {
			return fmt.Errorf("not ready: %d %s", status, body)
		}
		return nil
	})
	if found := tokenLine.FindStringSubmatch(p.stdout.String()); found != nil {
		p.token = found[1]
	}
	return p
}

// eventually polls until check returns nil; after within it fails the test.
func eventually(t *testing.T, within time.Duration, check func() error) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s: %v", within, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (p *running) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := p.command.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

func (p *running) kill() {
	_ = p.command.Process.Kill() // it may have ended
	<-p.exited
}

// wait returns the exit status.
func (p *running) wait(t *testing.T, within time.Duration) int {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(within):
		t.Fatalf("still running after %s: %s%s", within, &p.stdout, &p.log)
	}
	return p.status
}

// stop asks the process to end, as an operator does.
func (p *running) stop(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	if status := p.wait(t, stopTimeout); status != 0 {
		t.Fatalf("SIGTERM: status %d: %s", status, &p.log)
	}
}

// execute runs a command to its end.
func execute(t *testing.T, env []string, args ...string) *running {
	t.Helper()
	p := start(t, env, args...)
	p.wait(t, serveWithin)
	return p
}

func (p *running) get(t *testing.T, path string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Apollo-Require-Preflight", "true")
	response, err := http.DefaultTransport.RoundTrip(r) // redirects are answers here
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// answer is what a client reads.
type answer struct {
	Data   json.RawMessage
	Errors []struct {
		Message    string
		Extensions struct{ Code string }
	}
}

// ask sends a document with a token, "" for none, and reads the data into into.
func (p *running) ask(t *testing.T, token, document string, variables map[string]any, into any) answer {
	t.Helper()
	body, err := json.Marshal(map[string]any{"query": document, "variables": variables})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.address+"/graphql", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var a answer
	if err := json.Unmarshal(text, &a); err != nil {
		t.Fatalf("status %d: %s", response.StatusCode, text)
	}
	if into == nil {
		return a
	}
	if response.StatusCode != http.StatusOK || len(a.Errors) > 0 {
		t.Fatalf("status %d: %s", response.StatusCode, text)
	}
	if err := json.Unmarshal(a.Data, into); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return a
}

// post is one of the feed, as a viewer sees it.
type post struct {
	ID             string
	Title          string
	LikeCount      *int
	ViewerHasLiked *bool
}

func (p post) String() string {
	count, liked := "null", "null"
	if p.LikeCount != nil {
		count = fmt.Sprint(*p.LikeCount)
	}
	if p.ViewerHasLiked != nil {
		liked = fmt.Sprint(*p.ViewerHasLiked)
	}
	return fmt.Sprintf("%s: %s likes, viewerHasLiked %s", p.ID, count, liked)
}

// see reads one post out of the first page.
func (p *running) see(t *testing.T, token, id string) post {
	t.Helper()
	var data struct{ Feed struct{ Nodes []post } }
	p.ask(t, token, `{feed(first:100){nodes{id title likeCount viewerHasLiked}}}`, nil, &data)
	for _, post := range data.Feed.Nodes {
		if post.ID == id {
			return post
		}
	}
	t.Fatalf("%s is not on the first page", id)
	return post{}
}

// react likes or unlikes and returns what the answer says.
func (p *running) react(t *testing.T, token, mutation, id string) (changed bool, subject post) {
	t.Helper()
	var data struct {
		React struct {
			Changed bool
			Subject post
		}
	}
	p.ask(t, token, `mutation($id:ID!){react:`+mutation+`(input:{subjectId:$id}){changed subject{id likeCount viewerHasLiked}}}`,
		map[string]any{"id": id}, &data)
	return data.React.Changed, data.React.Subject
}

// feed reads all pages.
func (p *running) feed(t *testing.T, token string, size int) []post {
	t.Helper()
	var all []post
	var after *string
	for {
		var data struct {
			Feed struct {
				Edges []struct {
					Cursor string
					Node   post
				}
				PageInfo struct {
					HasNextPage bool
					EndCursor   *string
				}
			}
		}
		p.ask(t, token, `query($n:Int,$after:String){feed(first:$n,after:$after){edges{cursor node{id title likeCount viewerHasLiked}} pageInfo{hasNextPage endCursor}}}`,
			map[string]any{"n": size, "after": after}, &data)
		for _, edge := range data.Feed.Edges {
			all = append(all, edge.Node)
		}
		if !data.Feed.PageInfo.HasNextPage {
			return all
		}
		after = data.Feed.PageInfo.EndCursor
		if after == nil || len(all) > 100_000 {
			t.Fatalf("a page with a next one and cursor %v, %d posts so far", after, len(all))
		}
	}
}

// writePosts makes a file of n public posts, 1 the oldest, and a private one.
func writePosts(t *testing.T, n int) string {
	t.Helper()
	var lines strings.Builder
	at := time.Date(2026, 11, 1, 8, 0, 0, 0, time.UTC)
	for i := 1; i <= n; i++ {
		// Groups of ten share a time: then the id decides.
		fmt.Fprintf(&lines, `{"id":"e%03d","author":"ada","authorName":"Ada","title":"Post %d","body":"Body","publishedAt":%q}`+"\n",
			i, i, at.Add(time.Duration(i/10)*time.Minute).Format(time.RFC3339))
	}
	fmt.Fprintf(&lines, `{"id":"hidden","author":"ada","title":"Mine","body":"","publishedAt":%q,"visibility":"PRIVATE"}`+"\n", at.Format(time.RFC3339))
	file := filepath.Join(t.TempDir(), "posts.jsonl")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// testSystem is how to start servers on one set of engines.
type testSystem struct {
	env     []string
	flags   []string // of serve
	stores  []string // of import
	token   func(t *testing.T, sub string) string
	secrets []string // must never be printed
}

func embeddedSystem(t *testing.T) testSystem {
	t.Helper()
	stores := []string{"--data", t.TempDir()}
	return testSystem{
		flags: stores, stores: stores,
		token: func(t *testing.T, sub string) string {
			t.Helper()
			p := execute(t, nil, append([]string{"token", "--sub", sub}, stores...)...)
			if p.status != 0 {
				t.Fatalf("token: status %d: %s", p.status, &p.log)
			}
			return strings.TrimSpace(p.stdout.String())
		},
	}
}

const redisPassword = "hush-redis-7"

// startRedis starts one that knows the user tally.
func startRedis(t *testing.T, aof bool) *enginetest.RedisServer {
	t.Helper()
	return enginetest.StartRedis(t, enginetest.RedisOptions{
		AOF: aof, Args: []string{"--user", "tally", "on", ">" + redisPassword, "~*", "&*", "+@all"},
	})
}

// realSystem has a Redis user with a password, a PostgreSQL URL with one (the
// test's server takes any), and a secret in the environment.
func realSystem(t *testing.T, redisServer *enginetest.RedisServer, brokers []string) testSystem {
	t.Helper()
	const sqlPassword, secret = "hush-sql-8", "hush-jwt-0123456789abcdef0123456789"
	redisURL := redisServer.URL()
	if redisServer.Real() {
		redisURL = strings.Replace(redisURL, "://", "://tally:"+redisPassword+"@", 1)
	}
	database, err := url.Parse(enginetest.Postgres(t))
	if err != nil {
		t.Fatal("the URL of PostgreSQL is none")
	}
	if _, has := database.User.Password(); !has {
		database.User = url.UserPassword(database.User.Username(), sqlPassword)
	}
	return testSystem{
		env: []string{"TALLYFEED_JWT_SECRET=" + secret, "TALLYFEED_REDIS=" + redisURL},
		flags: []string{
			"--kafka", strings.Join(brokers, ","), "--kafka-topic", enginetest.Topic(t, "events"), "--kafka-replication", "1",
			"--database", database.String(),
		},
		stores: []string{"--database", database.String()},
		token: func(t *testing.T, sub string) string {
			t.Helper()
			p := execute(t, nil, "token", "--sub", sub, "--jwt-secret", secret)
			if p.status != 0 {
				t.Fatalf("token: status %d: %s", p.status, &p.log)
			}
			return strings.TrimSpace(p.stdout.String())
		},
		secrets: []string{redisPassword, sqlPassword, secret},
	}
}

func (s testSystem) serve(t *testing.T, more ...string) *running {
	t.Helper()
	args := append([]string{"serve", "--listen", "127.0.0.1:0"}, s.flags...)
	p := serving(t, s.env, append(args, more...)...)
	t.Cleanup(func() {
		for _, secret := range s.secrets {
			if strings.Contains(p.stdout.String()+p.log.String(), secret) {
				t.Errorf("a secret is printed: %s%s", &p.stdout, &p.log)
			}
		}
	})
	return p
}

func (s testSystem) importFile(t *testing.T, file, says string) {
	t.Helper()
	p := execute(t, nil, append([]string{"import", file}, s.stores...)...)
	if p.status != 0 || p.stdout.String() != says {
		t.Fatalf("import: status %d: %s%s", p.status, &p.stdout, &p.log)
	}
}

// The main job, as a user sees it: import, page to the end, like, see it, have
// others see it, unlike, restart.
func TestMainJob(t *testing.T) {
	t.Parallel()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		mainJob(t, embeddedSystem(t))
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		mainJob(t, realSystem(t, startRedis(t, false), enginetest.Kafka(t)))
	})
}

func mainJob(t *testing.T, system testSystem) {
	t.Helper()
	const n = 95
	file := writePosts(t, n)
	system.importFile(t, file, "96 added, 0 there already, 0 bad\n")
	server := system.serve(t)
	system.importFile(t, file, "0 added, 96 there already, 0 bad\n") // also beside a running server
	bob, eve := system.token(t, "bob"), system.token(t, "eve")
	if server.token != "" {
		bob = server.token
	}

	// All of the feed, whatever the size of a page, and nothing twice.
	for _, size := range []int{7, 100} {
		all := server.feed(t, bob, size)
		if len(all) != n {
			t.Fatalf("pages of %d: %d posts, want %d", size, len(all), n)
		}
		for i, post := range all {
			if want := fmt.Sprintf("post:e%03d", n-i); post.ID != want {
				t.Fatalf("pages of %d: post %d is %s, want %s", size, i, post.ID, want)
			}
			if post.LikeCount == nil || *post.LikeCount != 0 || post.ViewerHasLiked == nil || *post.ViewerHasLiked {
				t.Fatalf("pages of %d: %s", size, post)
			}
		}
	}

	// A consumer group that has just been made takes seconds; what follows does
	// not wait for that any more.
	server.react(t, eve, "like", "post:e001")
	eventually(t, serveWithin, func() error { return want(server.see(t, "", "post:e001"), 1, nil) })

	yes, no := true, false
	// A busy machine may be late once: the best of three must be in time.
	best := time.Hour
	for i, id := range []string{"post:e095", "post:e094", "post:e050"} {
		changed, subject := server.react(t, bob, "like", id)
		began := time.Now()
		if err := want(subject, 1, &yes); err != nil || !changed {
			t.Fatalf("the like's answer: changed %t, %v", changed, err)
		}
		if err := want(server.see(t, bob, id), 1, &yes); err != nil {
			t.Fatalf("the viewer's next page: %v", err)
		}
		if changed, subject := server.react(t, bob, "like", id); changed || want(subject, 1, &yes) != nil {
			t.Fatalf("the same like again: changed %t, %s", changed, subject)
		}
		eventually(t, 10*time.Second, func() error {
			return errors.Join(want(server.see(t, eve, id), 1, &no), want(server.see(t, "", id), 1, nil))
		})
		best = min(best, time.Since(began))
		if best < time.Second && i > 0 {
			break
		}
	}
	if best >= time.Second {
		t.Errorf("others saw a like after %s at best", best)
	}

	changed, subject := server.react(t, bob, "unlike", "post:e094")
	if err := want(subject, 0, &no); err != nil || !changed {
		t.Fatalf("the unlike's answer: changed %t, %v", changed, err)
	}
	if err := want(server.see(t, bob, "post:e094"), 0, &no); err != nil {
		t.Fatalf("the viewer's page after the unlike: %v", err)
	}
	eventually(t, 10*time.Second, func() error { return want(server.see(t, "", "post:e094"), 0, nil) })
	if a := server.ask(t, "", `mutation{like(input:{subjectId:"post:e001"}){changed}}`, nil, nil); len(a.Errors) != 1 || a.Errors[0].Extensions.Code != "UNAUTHENTICATED" {
		t.Errorf("nobody's like: %+v", a)
	}

	server.stop(t)
	server = system.serve(t)
	if all := server.feed(t, bob, 40); len(all) != n {
		t.Errorf("after a restart: %d posts, want %d", len(all), n)
	}
	for id, likes := range map[string]int{"post:e095": 1, "post:e094": 0} {
		liked := likes == 1
		if err := want(server.see(t, bob, id), likes, &liked); err != nil {
			t.Errorf("after a restart: %v", err)
		}
	}
	server.stop(t)
}

// want compares a post with what it should be.
func want(p post, likes int, liked *bool) error {
	if p.LikeCount == nil || *p.LikeCount != likes ||
		(p.ViewerHasLiked == nil) != (liked == nil) || liked != nil && *p.ViewerHasLiked != *liked {
		text := "null"
		if liked != nil {
			text = fmt.Sprint(*liked)
		}
		return fmt.Errorf("%s; want %d and %s", p, likes, text)
	}
	return nil
}
