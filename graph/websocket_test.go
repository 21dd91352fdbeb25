package graph_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/golang-jwt/jwt/v5"

	"github.com/tallyfeed/tallyfeed/auth"
	"github.com/tallyfeed/tallyfeed/feed"
	"github.com/tallyfeed/tallyfeed/graph"
)

// socket is a client of graphql-transport-ws. An error is the last message of an
// operation: complete does not follow it.
type socket struct {
	conn *websocket.Conn
	ctx  context.Context
}

type message struct {
	ID      string          `json:"id,omitempty"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// dial returns nil and the status where the server refuses.
func dial(t *testing.T, address string, header http.Header, protocols ...string) (*socket, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	conn, response, err := websocket.Dial(ctx, address, &websocket.DialOptions{HTTPHeader: header, Subprotocols: protocols})
	if response == nil {
		t.Fatal(err)
	}
	if response.Body != nil { // it is, once the connection has become a WebSocket
		defer func() { _ = response.Body.Close() }()
	}
	if err != nil {
		return nil, response.StatusCode
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	return &socket{conn: conn, ctx: ctx}, response.StatusCode
}

// connect is dial for what must succeed.
func connect(t *testing.T, address string) *socket {
	t.Helper()
	s, status := dial(t, address, nil, socketProtocol)
	if s == nil || s.conn.Subprotocol() != socketProtocol {
		t.Fatalf("no connection: %d", status)
	}
	return s
}

func (s *socket) send(t *testing.T, m message) {
	t.Helper()
	if err := wsjson.Write(s.ctx, s.conn, m); err != nil {
		t.Fatal(err)
	}
}

func (s *socket) read(t *testing.T) message {
	t.Helper()
	var m message
	if err := wsjson.Read(s.ctx, s.conn, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// closed returns the code that the server closes with.
func (s *socket) closed(t *testing.T) websocket.StatusCode {
	t.Helper()
	for {
		_, _, err := s.conn.Read(s.ctx)
		if err == nil {
			continue
		}
		code := websocket.CloseStatus(err)
		if code == -1 {
			t.Fatalf("no close frame: %v", err)
		}
		return code
	}
}

// run runs a document and returns what came for it, up to its end.
func (s *socket) run(t *testing.T, id, document string) []message {
	t.Helper()
	s.send(t, message{ID: id, Type: "subscribe", Payload: json.RawMessage(quoted(document))})
	var all []message
	for {
		m := s.read(t)
		if m.Type == "ping" {
			continue
		}
		all = append(all, m)
		if m.Type == "complete" || m.Type == "error" {
			return all
		}
	}
}

const socketProtocol = "graphql-transport-ws"

func socketServer(t *testing.T, options graph.Options) (*graph.Handler, string) {
	t.Helper()
	handler := graph.NewHandler(newEdge(t).services, options)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return handler, "ws" + strings.TrimPrefix(server.URL, "http")
}

// Queries and mutations run over a WebSocket as they do over HTTP, with the token
// of connection_init.
func TestWebSocket(t *testing.T) {
	t.Parallel()
	_, address := socketServer(t, graph.Options{})
	token, err := auth.Mint(secret, "bob", "Bob", "", "", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	s := connect(t, address)
	s.send(t, message{Type: "connection_init", Payload: json.RawMessage(`{"authorization":"Bearer ` + token + `"}`)})
	if m := s.read(t); m.Type != "connection_ack" {
		t.Fatalf("%+v", m)
	}
	s.send(t, message{Type: "ping"})
	if m := s.read(t); m.Type != "pong" {
		t.Errorf("%+v", m)
	}
	for _, tc := range []struct{ reason, document, kind, says string }{
		{"Who asks.", "{viewer{name}}", "next", `{"data":{"viewer":{"name":"Bob"}}}`},
		{"A change.", `mutation{like(input:{subjectId:"post:p1"}){changed subject{likeCount viewerHasLiked}}}`, "next", `"likeCount":1,"viewerHasLiked":true`},
		{"It is seen.", `{post(id:"post:p1"){likeCount viewerHasLiked exactLikeCount}}`, "next", `{"likeCount":1,"viewerHasLiked":true,"exactLikeCount":1}`},
		{"What can't be run is an error.", "{nothing}", "error", "GRAPHQL_VALIDATION_FAILED"},
		{"Limits hold.", "{" + numbered(11, "a%d:viewer{id}") + "}", "error", "QUERY_TOO_LARGE"},
		{"A refusal has its code.", `mutation{like(input:{subjectId:"post:none"}){changed}}`, "next", "NOT_FOUND"},
	} {
		all := s.run(t, "1", tc.document)
		if all[0].Type != tc.kind || all[0].ID != "1" || !strings.Contains(string(all[0].Payload), tc.says) {
			t.Errorf("%s\n%s %s, want %s with %s", tc.reason, all[0].Type, all[0].Payload, tc.kind, tc.says)
		}
		if tc.kind == "next" && (len(all) != 2 || all[1].Type != "complete") {
			t.Errorf("%s\n%+v", tc.reason, all)
		}
	}
}

// What would hold a connection that nobody uses, or gives it to somebody else,
// ends it.
func TestWebSocketRefusals(t *testing.T) {
	t.Parallel()
	_, address := socketServer(t, graph.Options{Origins: []string{"https://app.example"}})
	origin := func(value string) http.Header { return http.Header{"Origin": {value}} }
	for name, tc := range map[string]struct {
		reason    string
		header    http.Header
		protocols []string
		status    int
	}{
		"NoBrowser":    {"It sends no origin.", nil, []string{socketProtocol}, 101},
		"Listed":       {"A listed page.", origin("https://app.example"), []string{socketProtocol}, 101},
		"Own":          {"A page of this server.", origin("http" + strings.TrimPrefix(address, "ws")), []string{socketProtocol}, 101},
		"Other":        {"Any page may open one, and browsers do not ask.", origin("https://evil.example"), []string{socketProtocol}, 403},
		"Null":         {"A sandbox.", origin("null"), []string{socketProtocol}, 403},
		"OldProtocol":  {"The one before, which its authors gave up.", nil, []string{"graphql-ws"}, 400},
		"NoProtocol":   {"None at all.", nil, nil, 400},
		"BadToken":     {"A bad token in the header is refused at once.", http.Header{"Authorization": {"Bearer x"}}, []string{socketProtocol}, 401},
		"SeveralNamed": {"Ours among others.", nil, []string{"graphql-ws", socketProtocol}, 101},
	} {
		t.Run(name, func(t *testing.T) {
			if _, status := dial(t, address, tc.header, tc.protocols...); status != tc.status {
				t.Errorf("%s\nstatus %d, want %d", tc.reason, status, tc.status)
			}
		})
	}
	first := map[string]struct {
		reason string
		send   []message
		code   websocket.StatusCode
	}{
		"Forged":     {"A token that can't be believed is never nobody's.", []message{{Type: "connection_init", Payload: json.RawMessage(`{"Authorization":"Bearer a.b.c"}`)}}, 4403},
		"NoBearer":   {"Nor what is no token.", []message{{Type: "connection_init", Payload: json.RawMessage(`{"Authorization":"Basic x"}`)}}, 4403},
		"NotFirst":   {"Nothing is run before connection_init.", []message{{ID: "1", Type: "subscribe", Payload: json.RawMessage(quoted("{viewer{id}}"))}}, 4401},
		"Unknown":    {"No such message.", []message{{Type: "hello"}}, 4400},
		"Again":      {"Once is enough.", []message{{Type: "connection_init"}, {Type: "connection_init"}}, 4429},
		"SameID":     {"Answers could not be told apart.", []message{{Type: "connection_init"}, {ID: "1", Type: "subscribe", Payload: json.RawMessage(`{"query":"subscription{countsChanged(ids:[\"post:p1\"]){id}}"}`)}, {ID: "1", Type: "subscribe", Payload: json.RawMessage(quoted("{viewer{id}}"))}}, 4409},
		"NoID":       {"Its answer would be nobody's.", []message{{Type: "connection_init"}, {Type: "subscribe", Payload: json.RawMessage(quoted("{viewer{id}}"))}}, 4400},
		"NoObject":   {"A payload is a request.", []message{{Type: "connection_init"}, {ID: "1", Type: "subscribe", Payload: json.RawMessage(`[1]`)}}, 4400},
		"BadPayload": {"A token is a text.", []message{{Type: "connection_init", Payload: json.RawMessage(`{"authorization":1}`)}}, 4400},
		"Silent":     {"Who says nothing for 5 s is not served.", nil, 4408},
	}
	for name, tc := range first {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := connect(t, address)
			for _, m := range tc.send {
				s.send(t, m)
			}
			if code := s.closed(t); code != tc.code {
				t.Errorf("%s\nclosed with %d, want %d", tc.reason, code, tc.code)
			}
		})
	}
	t.Run("Shutdown", func(t *testing.T) {
		own, address := socketServer(t, graph.Options{})
		s := connect(t, address)
		s.send(t, message{Type: "connection_init"})
		if m := s.read(t); m.Type != "connection_ack" {
			t.Fatalf("%+v", m)
		}
		own.Close()
		if code := s.closed(t); code != websocket.StatusServiceRestart {
			t.Errorf("closed with %d", code)
		}
		if _, status := dial(t, address, nil, socketProtocol); status != http.StatusServiceUnavailable {
			t.Errorf("a connection after the end: %d", status)
		}
	})
}

// A token that ends takes its connection with it.
func TestWebSocketTokenEnds(t *testing.T) {
	t.Parallel()
	_, address := socketServer(t, graph.Options{})
	// It ended 28 s ago, and the leeway is 30 s.
	expired, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"sub": "bob", "exp": time.Now().Add(-28 * time.Second).Unix(),
	}).SignedString(secret)
	if err != nil {
		t.Fatal(err)
	}
	s := connect(t, address)
	s.send(t, message{Type: "connection_init", Payload: json.RawMessage(`{"authorization":"Bearer ` + expired + `"}`)})
	if m := s.read(t); m.Type != "connection_ack" {
		t.Fatalf("%+v", m)
	}
	if code := s.closed(t); code != 4403 {
		t.Errorf("closed with %d", code)
	}
}

// panicking is a store that is broken.
type panicking struct{ noStores }

func (panicking) Posts(context.Context, []string, string) ([]*feed.Post, error) { panic("broken") }

// A panic in one subscription, which runs on goroutines of its own, ends that one
// and is in the log; the connection and the server go on.
func TestSubscriptionPanics(t *testing.T) {
	t.Parallel()
	e, _ := liveEdge(t)
	broken := e.services
	broken.Posts = panicking{}
	other := httptest.NewServer(graph.NewHandler(broken, graph.Options{}))
	t.Cleanup(other.Close)
	s := connectAs(t, other, "")
	subscribe(t, s, "post:p1")
	if m := s.read(t); m.Type != "complete" || m.ID != "w" {
		t.Errorf("%s %s", m.Type, m.Payload)
	}
	if all := s.run(t, "1", "{__typename}"); all[0].Type != "next" {
		t.Errorf("the connection is of no use any more: %+v", all)
	}
	if !strings.Contains(e.log.String(), "panic: broken") {
		t.Errorf("not in the log: %s", e.log)
	}
}
