package graph

import (
	"context"
	"crypto/rand"
	"net"
	"net/http"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler"
	"github.com/99designs/gqlgen/graphql/handler/extension"
	"github.com/99designs/gqlgen/graphql/handler/lru"
	"github.com/vektah/gqlparser/v2/ast"
)

// Options are choices of the operator's. The zero value lets nobody read the
// schema, and limits nothing but the size of a request.
type Options struct {
	// Introspection lets clients read the schema. Without it, errors suggest no
	// names either.
	Introspection bool
	// Origins are those of pages that may call this API from elsewhere, e.g.
	// https://app.example; "*" is all.
	Origins []string
	// Documents keeps automatic persisted queries; nil: there are none.
	Documents Documents
	// Trusted is the list of trusted documents, nil for none. With TrustedOnly no
	// other is run.
	Trusted     Trusted
	TrustedOnly bool
	// Costs and Mutations limit what a viewer, or else an address, may ask for;
	// nil: nothing is limited.
	Costs, Mutations Buckets
	// Likers says who may see who likes a post; "" means everybody.
	Likers LikersPolicy
	// Address says where a request comes from; nil: its connection does.
	Address func(*http.Request) string
}

// Handler serves /graphql.
type Handler struct {
	http.Handler
	sockets *sockets
}

// Close ends all WebSockets and takes no more: a server that is shut down waits
// for requests only.
func (h *Handler) Close() { h.sockets.close() }

// NewHandler serves /graphql. It authenticates, and passes nothing on that has a
// bad token.
func NewHandler(services Services, options Options) *Handler {
	r := &resolver{Services: services, likers: options.Likers}
	if options.Address == nil {
		options.Address = func(request *http.Request) string {
			host, _, _ := net.SplitHostPort(request.RemoteAddr)
			return host
		}
	}
	parsed := lru.New[*ast.QueryDocument](keptDocuments)
	server := handler.New(NewExecutableSchema(Config{Resolvers: r}))
	server.AddTransport(socketTransport{r})
	server.AddTransport(requests{})
	server.SetQueryCache(parsed)
	server.SetParserTokenLimit(maxTokens)
	server.SetErrorPresenter(present(r.Log, options.Introspection))
	server.SetRecoverFunc(recovered)
	server.SetDisableSuggestion(!options.Introspection)
	if options.Introspection {
		server.Use(extension.Introspection{})
	}
	// In this order: the document must be there to be measured, and good and paid
	// for to be kept.
	server.Use(persisted{documents: options.Documents, trusted: options.Trusted, only: options.TrustedOnly})
	server.Use(guard{passed: parsed})
	server.Use(limits{users: r.Users, introspection: options.Introspection, costs: options.Costs, mutations: options.Mutations})
	if options.Documents != nil && !options.TrustedOnly {
		server.Use(keeping{options.Documents})
	}
	server.AroundOperations(bounded)
	server.AroundOperations(func(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
		return next(r.withOverlay(ctx))
	})
	server.AroundRootFields(arriveAlways)

	h := &Handler{sockets: &sockets{}}
	authenticated := r.authenticate(options.Address, server)
	upgraded, answered := h.sockets.accept(options.Origins, authenticated), within(maxRequest, authenticated)
	streamed := h.sockets.hold(authenticated)
	h.Handler = crossOrigin(options.Origins, r.answering(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if isUpgrade(request) {
			upgraded.ServeHTTP(w, request)
			return
		}
		request.Header.Del("Upgrade") // gqlgen would take any for a WebSocket
		if accepted(request.Header.Values("Accept")).events {
			streamed.ServeHTTP(w, request)
			return
		}
		answered.ServeHTTP(w, request)
	})))
	return h
}

// answering turns a panic outside of any resolver into an answer.
func (r *resolver) answering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		ctx := request.Context()
		defer func() {
			if value := recover(); value != nil {
				refuse(w, request, http.StatusInternalServerError, codeInternal, r.internal(ctx, value))
			}
		}()
		next.ServeHTTP(w, request)
	})
}

// internal logs a panic, and returns what a client may know of it.
func (r *resolver) internal(ctx context.Context, value any) string {
	id := rand.Text()
	r.Log.ErrorContext(ctx, "internal error", "id", id, "err", recovered(ctx, value))
	return "internal error " + id
}

// keptDocuments is how many parsed documents are kept, of at most maxDocument
// each.
const keptDocuments = 1000

// maxRequest is how long a request may take: what takes longer has been given up
// by its client.
const maxRequest = 5 * time.Second

func within(limit time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		ctx, cancel := context.WithTimeout(request.Context(), limit)
		defer cancel()
		next.ServeHTTP(w, request.WithContext(ctx))
	})
}
