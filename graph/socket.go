package graph

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/coder/websocket"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/tallyfeed/tallyfeed/auth"
)

// The protocol is that of
// https://github.com/enisdenjo/graphql-ws/blob/master/PROTOCOL.md. gqlgen's own
// transport of it closes with codes that clients do not know, and takes half as
// much memory again for a connection.
const (
	protocol    = "graphql-transport-ws"
	initTimeout = 5 * time.Second
	pingEvery   = 20 * time.Second // who is silent for two of them is gone
	sendTimeout = 10 * time.Second // who does not take a message by then is too slow
	maxFrame    = 64 << 10         // bytes of a message

	maxOperations = 100 // of one connection at a time
)

// Codes of the protocol's, and of WebSocket's.
const (
	closeBadRequest   websocket.StatusCode = 4400
	closeUnauthorized websocket.StatusCode = 4401
	closeForbidden    websocket.StatusCode = 4403
	closeInitTimeout  websocket.StatusCode = 4408
	closeDuplicate    websocket.StatusCode = 4409
	closeTooManyInits websocket.StatusCode = 4429
	closeRestart      websocket.StatusCode = 1012 // clients come again
)

// socketTransport serves WebSockets. A connection lives on a goroutine of its own
// after its request has ended, which takes less memory.
type socketTransport struct{ resolver *resolver }

// Supports is part of graphql.Transport.
func (socketTransport) Supports(r *http.Request) bool { return isUpgrade(r) }

// Do is part of graphql.Transport.
func (t socketTransport) Do(w http.ResponseWriter, r *http.Request, executor graphql.GraphExecutor) {
	held, ok := r.Context().Value(connectionKey{}).(*connection)
	if !ok {
		return // accept has put it there
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols:       []string{protocol},
		InsecureSkipVerify: true, // accept has looked at the origin
	})
	if err != nil {
		return // it has been answered
	}
	conn.SetReadLimit(maxFrame)
	ctx, end := context.WithCancelCause(context.WithoutCancel(r.Context()))
	s := &socket{
		resolver: t.resolver, conn: conn, executor: executor, header: r.Header, connection: held, end: end,
		active: map[string]context.CancelFunc{},
	}
	held.detach(end)
	go s.serve(ctx)
}

// socket is one connection.
type socket struct {
	resolver   *resolver
	conn       *websocket.Conn
	executor   graphql.GraphExecutor
	header     http.Header
	connection *connection
	end        context.CancelCauseFunc
	heard      atomic.Int64 // when it said something last, in Unix nanoseconds

	mu     sync.Mutex
	active map[string]context.CancelFunc
}

// message is what goes over a socket.
type message struct {
	ID      string          `json:"id,omitempty"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// closing is why a socket is closed.
type closing struct {
	code   websocket.StatusCode
	reason string
}

func (c *closing) Error() string { return c.reason }

// serve reads until somebody ends the connection.
func (s *socket) serve(ctx context.Context) {
	defer s.connection.release()
	defer s.end(nil)
	stop := context.AfterFunc(ctx, func() { s.hangUp(context.Cause(ctx)) })
	defer stop()
	s.heard.Store(time.Now().UnixNano())
	late := time.AfterFunc(initTimeout, func() { s.end(&closing{closeInitTimeout, "Connection initialisation timeout"}) })
	err := s.converse(ctx, late)
	late.Stop()
	if ctx.Err() == nil {
		s.end(err)
	}
}

// hangUp tells the client why.
func (s *socket) hangUp(cause error) {
	var why *closing
	if errors.As(cause, &why) {
		_ = s.conn.Close(why.code, why.reason)
		return
	}
	_ = s.conn.CloseNow() // the other end has gone, or is to be gone
}

func (s *socket) converse(ctx context.Context, late *time.Timer) error {
	var ping *time.Timer
	defer func() {
		if ping != nil {
			ping.Stop()
		}
	}()
	for {
		m, err := s.read(ctx)
		if err != nil {
			return err
		}
		switch {
		case m.Type == "ping":
			err = s.send(ctx, message{Type: "pong"})
		case m.Type == "pong":
		case m.Type == "connection_init" && ping != nil:
			err = &closing{closeTooManyInits, "Too many initialisation requests"}
		case m.Type == "connection_init":
			late.Stop()
			if ctx, err = s.init(ctx, m.Payload); err == nil {
				err = s.send(ctx, message{Type: "connection_ack"})
			}
			ping = s.pings(ctx)
		case m.Type == "subscribe" && ping == nil:
			err = &closing{closeUnauthorized, "Unauthorized"}
		case m.Type == "subscribe":
			err = s.subscribe(ctx, m)
		case m.Type == "complete":
			s.finish(m.ID)
		default:
			err = &closing{closeBadRequest, "Unknown message type"}
		}
		if err != nil {
			return err
		}
	}
}

func (s *socket) read(ctx context.Context) (message, error) {
	// Not on ctx: a read that is given up closes the connection without a word.
	kind, data, err := s.conn.Read(context.WithoutCancel(ctx))
	if err != nil {
		return message{}, err
	}
	s.heard.Store(time.Now().UnixNano())
	var m message
	decoder := json.NewDecoder(bytes.NewReader(data))
	if kind != websocket.MessageText || decoder.Decode(&m) != nil || ended(decoder) != nil {
		return m, &closing{closeBadRequest, "Invalid message"}
	}
	return m, nil
}

func (s *socket) send(ctx context.Context, m message) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTimeout)
	defer cancel()
	return s.conn.Write(ctx, websocket.MessageText, text)
}

// pings asks now and then whether the client is there. Between two of them there
// is no goroutine.
func (s *socket) pings(ctx context.Context) *time.Timer {
	var timer *time.Timer
	timer = time.AfterFunc(pingEvery, func() {
		switch silent := time.Since(time.Unix(0, s.heard.Load())); {
		case ctx.Err() != nil:
		case silent > 2*pingEvery, s.send(ctx, message{Type: "ping"}) != nil:
			s.end(nil)
		default:
			timer.Reset(pingEvery)
		}
	})
	return timer
}

// init takes the token out of connection_init, since browsers can't give an
// upgrade headers. Whom the upgrade's own header named stays, if there is none.
func (s *socket) init(ctx context.Context, payload json.RawMessage) (context.Context, error) {
	var fields struct{ Authorization *string }
	if len(payload) > 0 && json.Unmarshal(payload, &fields) != nil {
		return ctx, &closing{closeBadRequest, "Invalid payload"}
	}
	if fields.Authorization != nil {
		token, err := auth.Token(*fields.Authorization)
		var viewer auth.Viewer
		if err == nil {
			viewer, err = s.resolver.Verifier.Verify(ctx, token)
		}
		if err != nil {
			if errors.Is(err, auth.ErrUnavailable) {
				s.resolver.Log.WarnContext(ctx, "token not checked", "err", err)
			}
			return ctx, &closing{closeForbidden, "Forbidden"}
		}
		ctx = withViewer(ctx, viewer)
	}
	if viewer, ok := auth.ViewerFrom(ctx); ok {
		timer := time.AfterFunc(time.Until(viewer.Expires), func() { s.end(&closing{closeForbidden, "Token expired"}) })
		context.AfterFunc(ctx, func() { timer.Stop() })
	}
	return ctx, nil
}

// subscribe runs an operation of any kind.
func (s *socket) subscribe(ctx context.Context, m message) error {
	if m.ID == "" {
		return &closing{closeBadRequest, "Invalid message"}
	}
	params := &graphql.RawParams{Headers: s.header}
	if decodeFields(m.Payload, fieldsOf(params)) != nil {
		return &closing{closeBadRequest, "Invalid payload"}
	}
	running, err := s.begin(ctx, m.ID)
	switch {
	case errors.Is(err, errBusy):
		return s.send(ctx, refusal(m.ID, codeOverloaded, err.Error()))
	case err != nil:
		return err
	}
	go s.run(running, m.ID, params)
	return nil
}

var errBusy = errors.New("too many operations run on this connection")

// begin gives an operation its id, and a context that ends when the client says
// so.
func (s *socket) begin(ctx context.Context, id string) (context.Context, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.active[id]; taken {
		return nil, &closing{closeDuplicate, fmt.Sprintf("Subscriber for %.40s already exists", id)}
	}
	if len(s.active) >= maxOperations {
		return nil, errBusy
	}
	ctx, s.active[id] = context.WithCancel(ctx)
	return ctx, nil
}

// run sends what an operation answers, and that it is complete, unless the client
// has said so. Its id is free again before the client learns that it is.
func (s *socket) run(ctx context.Context, id string, params *graphql.RawParams) {
	ended := message{ID: id, Type: "complete"}
	defer func() {
		if value := recover(); value != nil { // nobody else would, on a goroutine of its own
			ended = refusal(id, codeInternal, s.resolver.internal(ctx, value))
		}
		given := ctx.Err() != nil
		s.finish(id)
		if !given {
			s.sendOrEnd(ctx, ended)
		}
	}()
	ctx = graphql.StartOperationTrace(ctx)
	start := graphql.Now()
	params.ReadTime = graphql.TraceTiming{Start: start, End: start}
	operation, errs := s.executor.CreateOperationContext(ctx, params)
	if errs != nil {
		response := s.executor.DispatchError(graphql.WithOperationContext(ctx, operation), errs)
		ended.Type, ended.Payload = "error", appendJSON(nil, response.Errors)
		return
	}
	responses, operationCtx := s.executor.DispatchOperation(ctx, operation)
	for response := responses(operationCtx); response != nil && ctx.Err() == nil; response = responses(operationCtx) {
		s.sendOrEnd(ctx, message{ID: id, Type: "next", Payload: encode(response)})
	}
}

// sendOrEnd ends the connection with a client that does not take the message.
func (s *socket) sendOrEnd(ctx context.Context, m message) {
	if err := s.send(ctx, m); err != nil {
		s.end(err)
	}
}

func (s *socket) finish(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel, ok := s.active[id]; ok {
		cancel()
		delete(s.active, id)
	}
}

func refusal(id, code, text string) message {
	return message{ID: id, Type: "error", Payload: appendJSON(nil, gqlerror.List{coded(nil, code, text)})}
}
