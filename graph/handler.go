package graph

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/99designs/gqlgen/graphql/handler"
	"github.com/99designs/gqlgen/graphql/handler/extension"
	"github.com/99designs/gqlgen/graphql/handler/lru"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// Limits of a request. Cost grows faster than the document does: validation is
// quadratic in the fields of one selection set, and every root field may ask
// for a page.
const (
	maxBody     = 256 << 10
	maxDocument = 16 << 10
	maxTokens   = 2000
	maxRoots    = 10
	documents   = 1000 // parsed documents kept, of at most maxDocument each
)

// Options are choices of the operator's.
type Options struct {
	// Introspection lets clients read the schema. Without it, errors suggest no
	// names either.
	Introspection bool
}

// NewHandler serves /graphql. It authenticates, and passes nothing on that has a
// bad token.
func NewHandler(services Services, options Options) http.Handler {
	r := &resolver{services}
	server := handler.New(NewExecutableSchema(Config{Resolvers: r}))
	server.AddTransport(transport{})
	server.SetQueryCache(lru.New[*ast.QueryDocument](documents))
	server.SetParserTokenLimit(maxTokens)
	server.SetErrorPresenter(present(r.Log))
	server.SetRecoverFunc(recovered)
	server.SetDisableSuggestion(!options.Introspection)
	if options.Introspection {
		server.Use(extension.Introspection{})
	}
	server.Use(limits{introspection: options.Introspection})
	server.AroundOperations(func(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
		return next(r.withOverlay(ctx))
	})
	server.AroundRootFields(arriveAlways)
	return within(maxRequest, r.authenticate(server))
}

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

// limits refuses what is too large before it is parsed, and what asks for too
// much before it is run.
type limits struct{ introspection bool }

var _ interface {
	graphql.HandlerExtension
	graphql.OperationParameterMutator
	graphql.OperationContextMutator
} = limits{}

// ExtensionName is part of graphql.HandlerExtension.
func (limits) ExtensionName() string { return "Limits" }

// Validate is part of graphql.HandlerExtension.
func (limits) Validate(graphql.ExecutableSchema) error { return nil }

// MutateOperationParameters runs before the document is parsed.
func (limits) MutateOperationParameters(_ context.Context, request *graphql.RawParams) *gqlerror.Error {
	if n := len(request.Query); n > maxDocument {
		return tooLarge("the document has %d bytes, at most %d are taken", n, maxDocument)
	}
	return nil
}

// MutateOperationContext runs before the operation does.
func (l limits) MutateOperationContext(_ context.Context, operation *graphql.OperationContext) *gqlerror.Error {
	// First of all: to collect fields panics where @skip or @include has no boolean.
	if err := noNulls(operation, operation.Operation.SelectionSet, map[string]bool{}); err != nil {
		return err
	}
	kind := "Query"
	if operation.Operation.Operation == ast.Mutation {
		kind = "Mutation"
	}
	roots := graphql.CollectFields(operation, operation.Operation.SelectionSet, []string{kind})
	if n := len(roots); n > maxRoots {
		return tooLarge("the operation has %d root fields, at most %d are taken", n, maxRoots)
	}
	for _, root := range roots {
		if !l.introspection && (root.Name == "__schema" || root.Name == "__type") {
			return coded(nil, errcode.ValidationFailed, "the schema may not be read here: introspection is off")
		}
	}
	return nil
}

func tooLarge(format string, args ...any) *gqlerror.Error {
	return coded(nil, codeQueryTooLarge, fmt.Sprintf(format, args...))
}

func init() {
	// A refused document is a request error: it never ran.
	errcode.RegisterErrorType(codeQueryTooLarge, errcode.KindProtocol)
}
