package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/golang-jwt/jwt/v5"

	"github.com/tallyfeed/tallyfeed/auth"
)

// socket is a client of graphql-transport-ws that keeps to nothing.
type socket struct {
	conn *websocket.Conn
	t    *testing.T
}

func (p *running) dial(t *testing.T, header http.Header) socket {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	conn, response, err := websocket.Dial(ctx, p.address+"/graphql", &websocket.DialOptions{
		Subprotocols: []string{"graphql-transport-ws"}, HTTPHeader: header,
	})
	if err != nil {
		t.Fatal(err)
	}
	if response.Body != nil {
		_ = response.Body.Close()
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	return socket{conn, t}
}

func (s socket) send(text string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer cancel()
	// The server may have hung up already; what it said is then read.
	_ = s.conn.Write(ctx, websocket.MessageText, []byte(text))
}

// read returns the next message that is no ping, or how the connection ended.
func (s socket) read() (message string, ended websocket.StatusCode) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	for {
		_, text, err := s.conn.Read(ctx)
		if err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				s.t.Fatal("neither a message nor an end")
			}
			return "", websocket.CloseStatus(err)
		}
		if message := string(text); !strings.Contains(message, `"type":"ping"`) {
			return message, 0
		}
	}
}

// connected is a connection that has said connection_init.
func (p *running) connected(t *testing.T, payload string) socket {
	t.Helper()
	s := p.dial(t, nil)
	s.send(`{"type":"connection_init","payload":` + payload + `}`)
	if message, ended := s.read(); !strings.Contains(message, "connection_ack") {
		t.Fatalf("%q, ended %d", message, ended)
	}
	return s
}

// ask sends a document and returns all that comes for it. Some servers send
// complete after error: what ends is the next operation, so that is waited for.
func (s socket) ask(document string) string {
	s.t.Helper()
	s.send(subscribe("asked", document))
	s.send(subscribe("next", "{__typename}"))
	var asked strings.Builder
	var next, ended bool
	for !next || !ended {
		message, code := s.read()
		if message == "" {
			s.t.Fatalf("the connection ended by %d", code)
		}
		var m struct{ ID, Type string }
		if err := json.Unmarshal([]byte(message), &m); err != nil {
			s.t.Fatal(err)
		}
		over := m.Type == "complete" || m.Type == "error"
		if m.ID == "next" {
			next = next || over
			continue
		}
		asked.WriteString(message)
		ended = ended || over
	}
	return asked.String()
}

func subscribe(id, document string) string {
	return fmt.Sprintf(`{"id":%q,"type":"subscribe","payload":%s}`, id, jsonBody(document))
}

// A WebSocket is a door of its own: what holds at the other must hold here.
func TestHostileSockets(t *testing.T) {
	t.Parallel()
	const secret = "0123456789abcdef0123456789abcdef"
	p := hostileServer(t, "--introspection", "off", "--jwt-secret", secret, "--rate-mutations", "3")
	upgrade := func(more ...string) http.Header {
		return jsonHeaders(append([]string{
			"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13",
			"Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==",
		}, more...)...)
	}
	const protocol = "Sec-WebSocket-Protocol"
	attack(t, p, map[string]hostile{
		"OtherOrigin": {reason: "A browser opens it for any page, and does not ask first.", method: "GET", headers: upgrade(protocol, "graphql-transport-ws", "Origin", "https://evil.example"), status: 403, code: "FORBIDDEN"},
		"NullOrigin":  {reason: "A page in a sandbox.", method: "GET", headers: upgrade(protocol, "graphql-transport-ws", "Origin", "null"), status: 403, code: "FORBIDDEN"},
		"LikeOrigin":  {reason: "An origin that begins as ours.", method: "GET", headers: upgrade(protocol, "graphql-transport-ws", "Origin", p.address+".evil.example"), status: 403, code: "FORBIDDEN"},
		"OldProtocol": {reason: "subscriptions-transport-ws is long gone.", method: "GET", headers: upgrade(protocol, "graphql-ws"), status: 400, code: "BAD_USER_INPUT"},
		"NoProtocol":  {reason: "Which one?", method: "GET", headers: upgrade(), status: 400, code: "BAD_USER_INPUT"},
		"BadToken":    {reason: "A bad token is nobody's here either.", method: "GET", headers: upgrade(protocol, "graphql-transport-ws", "Authorization", "Bearer "+hushText), status: 401, code: "UNAUTHENTICATED"},
	})

	mint := func(sub string, life time.Duration) string {
		token, err := auth.Mint([]byte(secret), sub, "", "", "", life)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	as := func(token string) string { return `{"Authorization":"Bearer ` + token + `"}` }
	by := func(exp time.Time) string {
		token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.RegisteredClaims{Subject: "bob", ExpiresAt: jwt.NewNumericDate(exp)}).SignedString([]byte(secret))
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	// Half a minute of leeway is given to clocks: this one has some seconds left.
	dying, expired := by(time.Now().Add(-27*time.Second)), by(time.Now().Add(-time.Hour))
	const ended websocket.StatusCode = -2 // by any code

	// What the connection must not outlive. 4403 tells a client that its token is
	// no good; of the others it is enough that they end.
	for name, tc := range map[string]struct {
		reason string
		sent   []string
		code   websocket.StatusCode
	}{
		"Silent":        {"Connections are not free.", nil, ended},
		"NoInit":        {"First it is said who asks.", []string{subscribe("1", "{viewer{id}}")}, ended},
		"BadToken":      {"Never taken for nobody.", []string{`{"type":"connection_init","payload":` + as(hushText) + `}`}, 4403},
		"Expired":       {"The client must learn so.", []string{`{"type":"connection_init","payload":` + as(expired) + `}`}, 4403},
		"InitTwice":     {"Who is it now?", []string{`{"type":"connection_init"}`, `{"type":"connection_init","payload":` + as(mint("mallory", time.Hour)) + `}`}, ended},
		"NotJSON":       {"No message.", []string{`{"type":"connection_init"}`, hushText}, ended},
		"UnknownType":   {"No message of the protocol.", []string{`{"type":"connection_init"}`, `{"type":"` + hushText + `"}`}, ended},
		"HugeMessage":   {"A message is held in memory.", []string{`{"type":"connection_init"}`, subscribe("1", "{viewer{id}} #"+strings.Repeat("x", 80<<10))}, websocket.StatusMessageTooBig},
		"HugeInit":      {"So is the first one.", []string{`{"type":"connection_init","payload":{"x":"` + strings.Repeat("x", 80<<10) + `"}}`}, websocket.StatusMessageTooBig},
		"EndsWithToken": {"A connection lives no longer than its token.", []string{`{"type":"connection_init","payload":` + as(dying) + `}`}, ended},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := p.dial(t, nil)
			for _, message := range tc.sent {
				s.send(message)
			}
			for {
				message, code := s.read()
				if strings.Contains(message, hushText) {
					t.Errorf("%s\nit repeats what was sent: %s", tc.reason, message)
				}
				if message == "" {
					if tc.code != ended && code != tc.code {
						t.Errorf("%s\nended by %d, want %d", tc.reason, code, tc.code)
					}
					return
				}
			}
		})
	}

	// What is asked there is measured, checked and counted as elsewhere.
	t.Run("Documents", func(t *testing.T) {
		t.Parallel()
		s := p.connected(t, `{}`)
		for name, tc := range map[string]struct{ reason, document, code string }{
			"Bomb":          {"A kilobyte that stands for four million fields.", doubling(22), "QUERY_TOO_LARGE"},
			"Typenames":     {"Quadratic.", "{" + strings.Repeat("__typename ", 1400) + "}", "QUERY_TOO_LARGE"},
			"Large":         {"More than a document may have.", "{viewer{id}} #" + strings.Repeat("x", 17<<10), "QUERY_TOO_LARGE"},
			"Introspection": {"Off is off.", "{__schema{queryType{name}}}", "GRAPHQL_VALIDATION_FAILED"},
			"Syntax":        {"No document.", "{", "GRAPHQL_PARSE_FAILED"},
			"Nobody":        {"Changes are somebody's.", `mutation{like(input:{subjectId:"post:10200"}){changed}}`, "UNAUTHENTICATED"},
			"IDs":           {"Ids are checked.", `{post(id:"post:*"){id}}`, "BAD_USER_INPUT"},
		} {
			if said := s.ask(tc.document); !strings.Contains(said, `"code":"`+tc.code+`"`) {
				t.Errorf("%s: %s\nwant %s: %.300s", name, tc.reason, tc.code, said)
			}
		}
	})

	// The limit of changes is one for all doors.
	t.Run("Limits", func(t *testing.T) {
		t.Parallel()
		token := mint("eve", time.Hour)
		like := `mutation{like(input:{subjectId:"post:10200"}){changed}}`
		for range 2 {
			p.ask(t, token, like, nil, &struct{ Like struct{ Changed bool } }{})
		}
		s := p.connected(t, as(token))
		limited := 0
		for range 4 {
			if strings.Contains(s.ask(like), "RATE_LIMITED") {
				limited++
			}
		}
		if limited != 3 {
			t.Errorf("%d of 4 are refused after two elsewhere, want 3: 3 a minute are taken", limited)
		}
	})
}
