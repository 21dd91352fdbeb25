package graph_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tallyfeed/tallyfeed/auth"
	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/enginetest"
	"github.com/tallyfeed/tallyfeed/graph"
)

// liveEdge is an edge whose likes travel through Kafka, behind an HTTP server.
func liveEdge(t *testing.T) (*edge, *httptest.Server) {
	t.Helper()
	e := newEdge(t)
	log := slog.New(slog.NewTextHandler(e.log, nil))
	kafka := counter.KafkaConfig{Brokers: enginetest.Kafka(t), Topic: enginetest.Topic(t, "live"), Partitions: 2, Replication: 1}
	if err := kafka.EnsureTopics(t.Context()); err != nil {
		t.Fatal(err)
	}
	publisher, live := counter.NewPublisher(e.redis, kafka, log), counter.NewLive(kafka, log)
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- publisher.Run(ctx) }()
	go func() { done <- live.Run(ctx) }()
	t.Cleanup(func() {
		end()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		_ = publisher.Close()
	})
	e.facts = counter.NewFacts(e.redis, counter.NewOrdinals(counter.NewSQLOrdinals(e.db)), log, counter.FactsConfig{OnChange: publisher.Offer})
	e.with(func(s *graph.Services) { s.Facts, s.Live = e.facts, live })
	server := httptest.NewServer(e.handler)
	t.Cleanup(server.Close)
	return e, server
}

func tokenOf(t *testing.T, sub string) string {
	t.Helper()
	token, err := auth.Mint(secret, sub, "", "", "", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// change is a message of countsChanged.
type change struct {
	Data struct {
		CountsChanged struct {
			ID                  string
			LikeCount, FavCount int
			CountsAsOf          *time.Time
			Version             string
		}
	}
}

const watch = `subscription{countsChanged(ids:[%s]){id likeCount favCount countsAsOf version}}`

func subscribe(t *testing.T, s *socket, ids ...string) {
	t.Helper()
	document := fmt.Sprintf(watch, `"`+strings.Join(ids, `","`)+`"`)
	s.send(t, message{ID: "w", Type: "subscribe", Payload: json.RawMessage(quoted(document))})
}

// next is the next change of a subscription.
func next(t *testing.T, s *socket) (id string, likes int, version counter.Version) {
	t.Helper()
	for {
		m := s.read(t)
		if m.Type == "ping" {
			continue
		}
		var c change
		if err := json.Unmarshal(m.Payload, &c); err != nil || m.Type != "next" || m.ID != "w" {
			t.Fatalf("%s %s: %s", m.Type, m.ID, m.Payload)
		}
		version, err := counter.ParseVersion(c.Data.CountsChanged.Version)
		if err != nil {
			t.Fatal(err)
		}
		return c.Data.CountsChanged.ID, c.Data.CountsChanged.LikeCount, version
	}
}

func connectAs(t *testing.T, server *httptest.Server, sub string) *socket {
	t.Helper()
	s := connect(t, "ws"+strings.TrimPrefix(server.URL, "http"))
	payload := `{}`
	if sub != "" {
		payload = `{"authorization":"Bearer ` + tokenOf(t, sub) + `"}`
	}
	s.send(t, message{Type: "connection_init", Payload: json.RawMessage(payload)})
	if m := s.read(t); m.Type != "connection_ack" {
		t.Fatalf("%+v", m)
	}
	return s
}

// A subscription tells the counts of now, then what they become, the newest
// always; and nothing of what its viewer may not read.
func TestSubscription(t *testing.T) {
	t.Parallel()
	e, server := liveEdge(t)
	e.ok(t, "eve", `mutation{like(input:{subjectId:"post:p1"}){changed}}`, nil)
	s := connectAs(t, server, "bob")
	subscribe(t, s, "post:p1", "post:p2", "post:secret", "post:none", "post:p1")
	versions := map[string]counter.Version{}
	begun := map[string]int{}
	for range 2 {
		id, likes, version := next(t, s)
		begun[id], versions[id] = likes, version
	}
	if len(begun) != 2 || begun["post:p1"] != 1 || begun["post:p2"] != 0 {
		t.Fatalf("it begins with %v", begun)
	}
	// The author's own: it tells others nothing.
	e.ok(t, "ada", `mutation{like(input:{subjectId:"post:secret"}){changed}}`, nil)
	const fans = 40
	for i := range fans {
		e.ok(t, fmt.Sprintf("fan%d", i), `mutation{like(input:{subjectId:"post:p2"}){changed}}`, nil)
	}
	for {
		id, likes, version := next(t, s)
		if id != "post:p2" || version <= versions[id] {
			t.Fatalf("%s: %d likes, version %s after %s", id, likes, version, versions[id])
		}
		versions[id] = version
		if likes == fans {
			break
		}
	}
	// A post that becomes private is told of no more, but to its author.
	author := connectAs(t, server, "ada")
	subscribe(t, author, "post:p2")
	if _, likes, _ := next(t, author); likes > fans {
		t.Errorf("%d likes", likes)
	}
	e.ok(t, "ada", `mutation{updatePost(input:{id:"post:p2",visibility:PRIVATE}){post{id}}}`, nil)
	e.ok(t, "ada", `mutation{like(input:{subjectId:"post:p2"}){changed}}`, nil)
	for {
		if _, likes, _ := next(t, author); likes == fans+1 {
			break
		}
	}
	e.ok(t, "eve", `mutation{unlike(input:{subjectId:"post:p1"}){changed}}`, nil)
	if id, likes, _ := next(t, s); id != "post:p1" || likes != 0 {
		t.Errorf("%s has %d likes; of the private one nothing must be told", id, likes)
	}
	// Who leaves hears no more: the subscription ends.
	if err := e.leavers.Leave(t.Context(), "bob"); err != nil {
		t.Fatal(err)
	}
	e.ok(t, "eve", `mutation{like(input:{subjectId:"post:p1"}){changed}}`, nil)
	if m := s.read(t); m.Type != "complete" {
		t.Errorf("%s %s", m.Type, m.Payload)
	}
	for _, ids := range [][]string{{"user:YWRh"}, {"hello"}, {"post:" + strings.Repeat("x", 65)}} {
		bad := connectAs(t, server, "ada")
		subscribe(t, bad, ids...)
		if m := bad.read(t); !strings.Contains(string(m.Payload), "BAD_USER_INPUT") {
			t.Errorf("%v: %s %s", ids, m.Type, m.Payload)
		}
	}
}

// events reads server-sent events.
type events struct{ lines *bufio.Scanner }

func (e events) next(t *testing.T) (name, data string) {
	t.Helper()
	for e.lines.Scan() {
		switch line := e.lines.Text(); {
		case strings.HasPrefix(line, "event: "):
			name = line[len("event: "):]
		case strings.HasPrefix(line, "data:"):
			data = strings.TrimSpace(line[len("data:"):])
		case line == "" && name != "":
			return name, data
		}
	}
	t.Fatalf("the stream ended: %v", e.lines.Err())
	return "", ""
}

// The same as server-sent events; who can't read them is told what would do.
func TestServerSentEvents(t *testing.T) {
	t.Parallel()
	e, server := liveEdge(t)
	ask := func(document, accept string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(quoted(document)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", accept)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = response.Body.Close() })
		return response
	}
	document := fmt.Sprintf(watch, `"post:p1"`)
	stream := ask(document, "text/event-stream")
	defer func() { _ = stream.Body.Close() }()
	if stream.StatusCode != 200 || stream.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" || stream.Header.Get("Cache-Control") != "private, no-store" {
		t.Fatalf("%d %v", stream.StatusCode, stream.Header)
	}
	reader := events{bufio.NewScanner(stream.Body)}
	if name, data := reader.next(t); name != "next" || !strings.Contains(data, `"id":"post:p1","likeCount":0`) {
		t.Errorf("%s %s", name, data)
	}
	e.ok(t, "eve", `mutation{like(input:{subjectId:"post:p1"}){changed}}`, nil)
	if name, data := reader.next(t); name != "next" || !strings.Contains(data, `"id":"post:p1","likeCount":1`) {
		t.Errorf("%s %s", name, data)
	}

	query := ask(`{viewer{id}}`, "text/event-stream")
	defer func() { _ = query.Body.Close() }()
	once := events{bufio.NewScanner(query.Body)}
	if name, data := once.next(t); name != "next" || data != `{"data":{"viewer":null}}` {
		t.Errorf("%s %s", name, data)
	}
	if name, data := once.next(t); name != "complete" || data != "" {
		t.Errorf("%s %s", name, data)
	}
	for accept, want := range map[string]struct {
		document string
		status   int
		media    string
	}{
		"application/json": {document, 406, oldMedia},
		"application/json;q=0.9, text/event-stream;q=0":        {document, 406, oldMedia},
		"text/event-stream, ":                                  {`subscription{nothing}`, 200, oldMedia},
		"text/event-stream, application/graphql-response+json": {`{viewer{id}}`, 200, newMedia},
		"*/*":        {document, 406, oldMedia},
		"text/plain": {document, 406, oldMedia},
	} {
		response := ask(want.document, accept)
		_ = response.Body.Close()
		if response.StatusCode != want.status || response.Header.Get("Content-Type") != want.media+"; charset=utf-8" {
			t.Errorf("Accept: %s: %d %s, want %d %s", accept, response.StatusCode, response.Header.Get("Content-Type"), want.status, want.media)
		}
	}
	if handler, ok := e.handler.(*graph.Handler); ok {
		handler.Close()
	}
	for reader.lines.Scan() {
		if strings.Contains(reader.lines.Text(), "next") {
			t.Error("events after the end")
		}
	}
}
