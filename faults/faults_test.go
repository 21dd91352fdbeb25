// Package faults breaks a whole system on purpose, for as long as one likes, and
// then compares what clients were told with the facts, the counts and the archive.
// At the end it empties Redis and compares once more what was restored:
//
//	go test ./faults -count=1 -v -timeout 0 -args -length 20m -seed 7
//
// It needs a real Redis, a real Kafka and PostgreSQL, and is skipped without
// them. Without arguments it makes faults for some seconds; make faults for
// three minutes.
package faults

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/database"
	"github.com/tallyfeed/tallyfeed/enginetest"
	"github.com/tallyfeed/tallyfeed/feed"
)

var (
	length = flag.Duration("length", 5*time.Second, "how long faults are made")
	seed   = flag.Uint64("seed", 0, "plan of an earlier run; 0: another one")
)

const (
	posts   = 60
	viewers = 300
	clients = 12
	// equalWithin is how long after the last fault the system may take until all
	// is equal. What was measured is printed.
	equalWithin = 60 * time.Second
)

// world is everything that can be broken.
type world struct {
	t       *testing.T
	redis   *enginetest.RedisServer
	kafka   *enginetest.KafkaServer
	direct  *redis.Client // past the proxies
	proxies []*enginetest.Proxy
	servers []*server
	extra   *server // joins and leaves the consumer group
	log     *logFile
	sql     string
}

func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while")
	}
	if *seed == 0 {
		*seed = rand.Uint64() % 1_000_000
	}
	plan := planOf(*seed, *length, 3)
	t.Logf("seed %d, %d faults:\n%s", *seed, len(plan), describe(plan))

	w := newWorld(t)
	all := &told{states: map[fact]bool{}, unsure: map[fact]doubt{}}
	tokens := tokensFor(t, viewers)
	var crowd []*client
	for i := range clients {
		c := &client{
			told: all, tokens: tokens, posts: posts, random: rand.New(rand.NewPCG(*seed, uint64(i))),
			http:      &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 4}},
			addresses: []string{w.servers[0].address, w.servers[1].address},
		}
		for v := i; v < viewers; v += clients {
			c.viewers = append(c.viewers, v)
		}
		crowd = append(crowd, c)
	}
	ctx, stop := context.WithCancel(t.Context())
	var driving sync.WaitGroup
	for _, c := range crowd {
		driving.Go(func() { c.run(ctx) })
	}
	survived := map[kind]int{}
	for i, f := range plan {
		time.Sleep(f.after)
		t.Logf("%3d %s", i+1, f)
		w.make(f)
		survived[f.kind]++
	}
	stop()
	driving.Wait()
	for _, s := range w.servers {
		if s.address != "" {
			if err := s.awaitReady(30 * time.Second); err != nil {
				t.Fatalf("a server is not ready after the last fault: %v\n%s", err, strings.Join(w.log.lines(""), "\n"))
			}
		}
	}
	rested := time.Now()
	time.Sleep(time.Second) // what a stopped server still had in its buffers has run by now
	for _, c := range crowd {
		if err := c.settle(30 * time.Second); err != nil {
			t.Errorf("seed %d: %v", *seed, err)
		}
	}
	differences := w.compare(all, equalWithin)
	took := time.Since(rested)
	archived, wrong := w.compareArchive(all, equalWithin)
	differences = append(differences, wrong...)
	archivedAfter := time.Since(rested)
	restored := w.restore()
	differences = append(differences, w.compare(all, equalWithin)...)

	for _, k := range slices.Sorted(maps.Keys(survived)) {
		t.Logf("survived %3d x %s", survived[k], k)
	}
	replies, requests := 0, 0
	for _, p := range w.proxies {
		a, b := p.Lost()
		replies, requests = replies+a, requests+b
	}
	t.Logf("%d replies and %d requests were lost; %d answers, %d changes, %d errors", replies, requests, all.answers, all.changes, all.errs)
	t.Logf("%d facts of %d posts; equal %s after the last fault; drift mended by the audit: %d", len(all.states), posts,
		took.Round(10*time.Millisecond), len(w.log.lines("drift mended")))
	t.Logf("%d rows of the archive are as the clients were told, %s after the last fault", archived, archivedAfter.Round(10*time.Millisecond))
	t.Logf("an emptied redis was restored within %s; lost tails put back: %d", restored.Round(10*time.Millisecond), len(w.log.lines("put back from the archive")))
	for _, line := range w.log.lines("drift mended") {
		t.Log(line)
	}
	if n := len(w.log.lines("internal error")); n > 0 {
		t.Errorf("%d internal errors, the first: %s", n, w.log.lines("internal error")[0])
	}
	for _, d := range append(all.wrong, differences...) {
		t.Errorf("seed %d: %s", *seed, d)
	}
	if all.changes == 0 {
		t.Error("nothing was ever changed")
	}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, log: &logFile{}}
	w.redis = enginetest.StartRedis(t, enginetest.RedisOptions{AOF: true, Port: enginetest.FreePort(t)})
	if !w.redis.Real() {
		t.Skip("needs a real Redis")
	}
	w.sql = enginetest.Postgres(t)
	w.kafka = enginetest.StartKafka(t)
	options, err := redis.ParseURL(w.redis.URL())
	if err != nil {
		t.Fatal(err)
	}
	w.direct = redis.NewClient(options)
	t.Cleanup(func() { _ = w.direct.Close() })
	importPosts(t, w.sql)

	program, topic := build(t), enginetest.Topic(t, "events")
	add := func(roles string, api bool) *server {
		proxy := enginetest.NewProxy(t, w.redis.URL())
		w.proxies = append(w.proxies, proxy)
		s := &server{t: t, program: program, log: w.log}
		listen := "127.0.0.1:0"
		if api {
			s.address = freeAddress(t)
			listen = s.address
		}
		s.args = []string{
			"serve", "--rate-cost", "1000000000", "--rate-mutations", "1000000000", "--listen", listen, "--data", t.TempDir(), "--roles", roles, "--redis", proxy.URL(),
			"--kafka", strings.Join(w.kafka.Brokers(), ","), "--kafka-topic", topic, "--kafka-replication", "1",
			"--database", w.sql, "--jwt-secret", secret,
		}
		return s
	}
	w.servers = []*server{add("api,publish,aggregate,archive", true), add("api,aggregate,audit,archive", true), add("publish,aggregate", false)}
	w.extra = add("aggregate,archive", false)
	for _, s := range w.servers {
		s.start()
		t.Cleanup(func() { s.signal(syscall.SIGCONT); s.kill() })
	}
	for _, s := range w.servers[:2] {
		if err := s.awaitReady(30 * time.Second); err != nil {
			t.Fatalf("%v\n%s", err, strings.Join(w.log.lines(""), "\n"))
		}
	}
	return w
}

func importPosts(t *testing.T, url string) {
	t.Helper()
	db, err := database.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := database.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for i := 1; i <= posts; i++ {
		fmt.Fprintf(&lines, `{"id":"%d","author":"ada","title":"Post %d","body":"b","publishedAt":"2026-11-01T08:%02d:00Z"}`+"\n", i, i, i%60)
	}
	if _, err := feed.New(db, feed.Config{}).Import(t.Context(), strings.NewReader(lines.String())); err != nil {
		t.Fatal(err)
	}
}

// make makes one fault and undoes it.
func (w *world) make(f fault) {
	w.t.Helper()
	server, proxy := w.servers[f.target], w.proxies[f.target]
	switch f.kind {
	case killServer:
		server.kill()
		time.Sleep(f.length)
		server.start()
	case pauseServer:
		server.signal(syscall.SIGSTOP)
		time.Sleep(f.length)
		server.signal(syscall.SIGCONT)
	case killRedis:
		w.redis.Kill()
		time.Sleep(f.length)
		w.redis.Restart()
	case pauseRedis:
		w.redis.Stop()
		time.Sleep(f.length)
		w.redis.Continue()
	case killKafka:
		w.kafka.Kill()
		time.Sleep(f.length)
		w.kafka.Restart()
	case pauseKafka:
		w.kafka.Stop()
		time.Sleep(f.length)
		w.kafka.Continue()
	case cutConnections:
		proxy.Cut()
	case stall:
		resume := proxy.Stall()
		time.Sleep(f.length)
		resume()
	case loseReplies:
		proxy.LoseReplies(f.size)
	case loseRequests:
		proxy.LoseRequests(f.size)
	case movePartitions:
		w.extra.start()
		time.Sleep(f.length)
		_ = w.extra.stop()
	case deleteSnapshots:
		for i := range f.size {
			s, _ := counter.NewSubject(counter.TypePost, fmt.Sprint(1+(f.target*17+i)%posts))
			if err := w.direct.Del(w.t.Context(), counter.SnapshotKey(s)).Err(); err != nil {
				w.t.Errorf("delete a snapshot: %v", err)
			}
		}
	}
}

// compare waits until facts and counts are what the clients were told, and
// returns what still differs at the end.
func (w *world) compare(all *told, within time.Duration) []string {
	w.t.Helper()
	r, err := counter.OpenRedis(w.t.Context(), w.redis.URL())
	if err != nil {
		return []string{err.Error()}
	}
	defer func() { _ = r.Close() }()
	db, err := database.Open(w.t.Context(), w.sql)
	if err != nil {
		return []string{err.Error()}
	}
	defer func() { _ = db.Close() }()
	reader := counter.NewReader(r, counter.NewOrdinals(counter.NewSQLOrdinals(db)), counter.ReaderConfig{Timeout: 5 * time.Second})
	var subjects []counter.Subject
	for i := 1; i <= posts; i++ {
		s, _ := counter.NewSubject(counter.TypePost, fmt.Sprint(i))
		subjects = append(subjects, s)
	}
	var differences []string
	for deadline := time.Now().Add(within); ; time.Sleep(100 * time.Millisecond) {
		if differences = w.differences(all, reader, subjects); len(differences) == 0 || time.Now().After(deadline) {
			return differences
		}
	}
}

func (w *world) differences(all *told, reader *counter.Reader, subjects []counter.Subject) (found []string) {
	counts := map[int][2]uint32{}
	for f, on := range all.states {
		if on {
			c := counts[f.post]
			if f.metric == "like" {
				c[0]++
			} else {
				c[1]++
			}
			counts[f.post] = c
		}
	}
	// The snapshot as it is: Reader would make a missing one.
	for i, s := range subjects {
		if n, err := w.direct.Exists(w.t.Context(), counter.SnapshotKey(s)).Result(); err != nil || n == 0 {
			continue // made by the next page, from the facts that are compared below
		}
		readings, err := reader.Counts(w.t.Context(), []counter.Subject{s})
		if err != nil {
			return []string{err.Error()}
		}
		want := counts[i+1]
		if got := readings[0].Counts; got.Like != want[0] || got.Fav != want[1] {
			found = append(found, fmt.Sprintf("%s: snapshot %d likes and %d favs, clients were told %d and %d", s, got.Like, got.Fav, want[0], want[1]))
		}
	}
	for v := range viewers {
		states, err := reader.Viewer(w.t.Context(), counter.Viewer(fmt.Sprintf("viewer%d", v)), subjects)
		if err != nil {
			return []string{err.Error()}
		}
		for i, state := range states {
			for metric, got := range map[string]bool{"like": state.Liked, "fav": state.Faved} {
				if want := all.states[fact{v, i + 1, metric}]; got != want {
					found = append(found, fmt.Sprintf("%s of viewer%d on %s: fact %t, client was told %t", metric, v, subjects[i], got, want))
				}
			}
		}
	}
	return found
}
