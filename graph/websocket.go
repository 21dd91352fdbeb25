package graph

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler/transport"
	"github.com/coder/websocket"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/tallyfeed/tallyfeed/auth"
)

// The protocol of https://github.com/enisdenjo/graphql-ws/blob/master/PROTOCOL.md,
// and what a connection may cost.
const (
	protocol       = "graphql-transport-ws"
	initTimeout    = 5 * time.Second
	pingEvery      = 20 * time.Second // a client that is silent for two of them is gone
	maxFrame       = 64 << 10         // bytes of a message
	maxConnections = 10_000
	maxOperations  = 100 // of one connection at a time
	// closeForbidden is the protocol's code for a token that is not good.
	closeForbidden = 4403
)

// sockets are the WebSocket connections of a process.
type sockets struct {
	mu     sync.Mutex
	open   map[*context.CancelFunc]struct{}
	closed bool
}

// add registers a connection; false says that there is no room for it.
func (s *sockets) add(end *context.CancelFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.open) >= maxConnections {
		return false
	}
	if s.open == nil {
		s.open = map[*context.CancelFunc]struct{}{}
	}
	s.open[end] = struct{}{}
	return true
}

func (s *sockets) remove(end *context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, end)
}

// close ends all connections, and takes no more.
func (s *sockets) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for end := range s.open {
		(*end)()
	}
}

// connection is a WebSocket, as its operations know it.
type connection struct {
	running atomic.Int32
	end     context.CancelFunc
}

type connectionKey struct{}

// isUpgrade holds for a request that wants to become a WebSocket.
func isUpgrade(r *http.Request) bool { return strings.EqualFold(r.Header.Get("Upgrade"), "websocket") }

// accept checks an upgrade and hands it over to gqlgen's transport.
func (s *sockets) accept(origins []string, next http.Handler) http.Handler {
	held := s.hold(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodGet || !strings.EqualFold(r.Header.Get("Upgrade"), "websocket"):
			refuse(w, r, http.StatusBadRequest, codeBadUserInput, "the only upgrade is to a WebSocket")
			return
		case !sameOrigin(r, origins):
			refuse(w, r, http.StatusForbidden, codeForbidden, "pages of this origin may not connect")
			return
		case !offers(r, protocol):
			refuse(w, r, http.StatusBadRequest, codeBadUserInput, "the subprotocol must be "+protocol)
			return
		}
		held.ServeHTTP(w, r)
	})
}

// hold is for connections that outlive a request: they have a place among a
// bounded number, and end when the server does.
func (s *sockets) hold(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, end := context.WithCancel(r.Context())
		defer end()
		if !s.add(&end) {
			w.Header().Set("Retry-After", "1")
			refuse(w, r, http.StatusServiceUnavailable, codeOverloaded, "no more connections are taken now, try again in a moment")
			return
		}
		defer s.remove(&end)
		next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, connectionKey{}, &connection{end: end})))
	})
}

func offers(r *http.Request, protocol string) bool {
	for _, header := range r.Header.Values("Sec-WebSocket-Protocol") {
		for _, offered := range strings.Split(header, ",") {
			if strings.TrimSpace(offered) == protocol {
				return true
			}
		}
	}
	return false
}

// socketTransport speaks the protocol.
func (r *resolver) socketTransport() transport.Websocket {
	limit := int64(maxFrame)
	return transport.Websocket{
		Implementation: transport.CoderWebsocketImplementation{AcceptOptions: websocket.AcceptOptions{
			Subprotocols:       []string{protocol},
			InsecureSkipVerify: true, // accept has looked at the origin
		}},
		InitFunc:         r.initSocket,
		InitTimeout:      initTimeout,
		PingPongInterval: pingEvery,
		PayloadReadLimit: &limit,
	}
}

// initSocket takes the token out of connection_init, since browsers can't give
// an upgrade headers. Whom the upgrade's own header named stays, if there is none.
func (r *resolver) initSocket(ctx context.Context, payload transport.InitPayload) (context.Context, *transport.InitPayload, error) {
	header := payload.Authorization()
	if header == "" {
		return ctx, nil, nil
	}
	refused := func(err error) (context.Context, *transport.InitPayload, error) {
		ctx := transport.WithWebsocketCloseCode(ctx, closeForbidden)
		return transport.AppendCloseReason(ctx, "Forbidden"), nil, err
	}
	token, err := auth.Token(header)
	if err != nil {
		return refused(err)
	}
	viewer, err := r.Verifier.Verify(ctx, token)
	if err != nil {
		if errors.Is(err, auth.ErrUnavailable) {
			r.Log.WarnContext(ctx, "token not checked", "err", err)
		}
		return refused(err)
	}
	if socket, ok := ctx.Value(connectionKey{}).(*connection); ok {
		timer := time.AfterFunc(time.Until(viewer.Expires), socket.end)
		context.AfterFunc(ctx, func() { timer.Stop() })
	}
	return withViewer(ctx, viewer), nil, nil
}

// bounded gives an operation of a WebSocket what a request has: a deadline, unless
// it is a subscription, and a place among a bounded number.
func bounded(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
	socket, ok := ctx.Value(connectionKey{}).(*connection)
	if !ok {
		return next(ctx)
	}
	if socket.running.Add(1) > maxOperations {
		socket.running.Add(-1)
		return graphql.OneShot(&graphql.Response{Errors: gqlerror.List{
			coded(nil, codeOverloaded, "too many operations run on this connection"),
		}})
	}
	cancel := func() {}
	if operation := graphql.GetOperationContext(ctx); operation.Operation.Operation != ast.Subscription {
		ctx, cancel = context.WithTimeout(ctx, maxRequest)
	}
	responses := next(ctx)
	return func(ctx context.Context) *graphql.Response {
		response := responses(ctx)
		if response == nil { // the end
			socket.running.Add(-1)
			cancel()
		}
		return response
	}
}
