package graph

import (
	"context"
	"net/http"
	"strings"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
)

// maxConnections is how many WebSockets and streams a process takes.
const maxConnections = 10_000

// sockets are the connections of a process that outlive a request.
type sockets struct {
	mu     sync.Mutex
	open   map[*connection]struct{}
	closed bool
}

// connection is one of them.
type connection struct {
	owner    *sockets
	end      func()
	detached bool // it lives on when its request has ended
}

type connectionKey struct{}

// detach keeps the connection's place until release, and says how it ends.
func (c *connection) detach(end context.CancelCauseFunc) {
	c.owner.mu.Lock()
	defer c.owner.mu.Unlock()
	c.detached = true
	c.end = func() { end(&closing{closeRestart, "Service restart"}) }
	if c.owner.closed {
		c.end()
	}
}

func (c *connection) release() {
	c.owner.mu.Lock()
	defer c.owner.mu.Unlock()
	delete(c.owner.open, c)
}

// add gives a connection its place; false says that there is none.
func (s *sockets) add(c *connection) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.open) >= maxConnections {
		return false
	}
	if s.open == nil {
		s.open = map[*connection]struct{}{}
	}
	s.open[c] = struct{}{}
	return true
}

// close ends all connections, and takes no more.
func (s *sockets) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for c := range s.open {
		c.end()
	}
}

// isUpgrade holds for a request that wants to become a WebSocket.
func isUpgrade(r *http.Request) bool { return strings.EqualFold(r.Header.Get("Upgrade"), "websocket") }

// accept checks an upgrade before it is one.
func (s *sockets) accept(origins []string, next http.Handler) http.Handler {
	held := s.hold(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodGet:
			refuse(w, r, http.StatusBadRequest, codeBadUserInput, "a WebSocket begins with GET")
		case !sameOrigin(r, origins):
			refuse(w, r, http.StatusForbidden, codeForbidden, "pages of this origin may not connect")
		case !offers(r, protocol):
			refuse(w, r, http.StatusBadRequest, codeBadUserInput, "the subprotocol must be "+protocol)
		default:
			held.ServeHTTP(w, r)
		}
	})
}

// hold is for connections that outlive a request: they have a place among a
// bounded number, and end when the server does.
func (s *sockets) hold(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, end := context.WithCancel(r.Context())
		defer end()
		c := &connection{owner: s, end: end}
		if !s.add(c) {
			w.Header().Set("Retry-After", "1")
			refuse(w, r, http.StatusServiceUnavailable, codeOverloaded, "no more connections are taken now, try again in a moment")
			return
		}
		defer func() {
			if !c.detached {
				c.release()
			}
		}()
		next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, connectionKey{}, c)))
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

// bounded gives an operation on such a connection the deadline that a request
// has, unless it is a subscription.
func bounded(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
	_, held := ctx.Value(connectionKey{}).(*connection)
	if !held || graphql.GetOperationContext(ctx).Operation.Operation == ast.Subscription {
		return next(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, maxRequest)
	responses := next(ctx)
	return func(ctx context.Context) *graphql.Response {
		response := responses(ctx)
		if response == nil { // the end
			cancel()
		}
		return response
	}
}
