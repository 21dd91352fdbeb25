package graph

import (
	"context"
	"fmt"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/tallyfeed/tallyfeed/auth"
)

// Buckets are rate limits.
type Buckets interface {
	// Take takes n tokens of a caller's, or none and says how long to wait.
	Take(ctx context.Context, caller string, n int) time.Duration
	PerMinute() int
}

// limits refuses what asks for too much, or too often, before it is run.
type limits struct {
	users            Users
	introspection    bool
	costs, mutations Buckets // nil: no limit
}

var _ interface {
	graphql.HandlerExtension
	graphql.OperationContextMutator
	graphql.ResponseInterceptor
} = limits{}

// ExtensionName is part of graphql.HandlerExtension.
func (limits) ExtensionName() string { return "Limits" }

// Validate is part of graphql.HandlerExtension.
func (limits) Validate(graphql.ExecutableSchema) error { return nil }

// MutateOperationContext runs before the operation does.
func (l limits) MutateOperationContext(ctx context.Context, operation *graphql.OperationContext) *gqlerror.Error {
	if viewer, ok := auth.ViewerFrom(ctx); ok && l.users.Left(viewer.Sub) {
		return coded(nil, codeUnauthenticated, "this user was deleted")
	}
	// Before anything is collected: to collect fields panics where @skip or @include has no boolean.
	if err := noNulls(operation, operation.Operation.SelectionSet, map[string]bool{}); err != nil {
		return err
	}
	if !l.introspection && introspects(operation.Operation.SelectionSet) {
		return coded(nil, errcode.ValidationFailed, "the schema may not be read here: introspection is off")
	}
	cost := costOf(operation)
	if cost > MaxCost {
		return tooLarge("the operation costs %d, at most %d is taken", cost, MaxCost)
	}
	if l.costs != nil {
		if wait := l.costs.Take(ctx, callerFrom(ctx), cost); wait > 0 {
			return tooOften(wait, "queries", l.costs, "cost")
		}
	}
	if l.mutations != nil && operation.Operation.Operation == ast.Mutation {
		n := len(graphql.CollectFields(operation, operation.Operation.SelectionSet, []string{"Mutation"}))
		if wait := l.mutations.Take(ctx, callerFrom(ctx), n); wait > 0 {
			return tooOften(wait, "changes", l.mutations, "mutations")
		}
	}
	return nil
}

// costHeader asks for the cost of an operation among the answer's extensions.
const costHeader = "Tallyfeed-Cost"

// InterceptResponse adds the cost for whoever asks.
func (l limits) InterceptResponse(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
	response := next(ctx)
	operation := graphql.GetOperationContext(ctx)
	if response == nil || operation.Operation == nil || operation.Headers.Get(costHeader) == "" {
		return response
	}
	report := map[string]any{"cost": costOf(operation), "limit": MaxCost}
	if l.costs != nil {
		report["perMinute"] = l.costs.PerMinute()
	}
	if l.mutations != nil {
		report["mutationsPerMinute"] = l.mutations.PerMinute()
	}
	if response.Extensions == nil {
		response.Extensions = map[string]any{}
	}
	response.Extensions["cost"] = report
	return response
}

// introspects looks at the root fields, through fragments; what is below them is
// no way into the schema.
func introspects(set ast.SelectionSet) bool {
	for _, selection := range set {
		switch s := selection.(type) {
		case *ast.Field:
			if s.Name == "__schema" || s.Name == "__type" {
				return true
			}
		case *ast.InlineFragment:
			if introspects(s.SelectionSet) {
				return true
			}
		case *ast.FragmentSpread:
			if introspects(s.Definition.SelectionSet) {
				return true
			}
		}
	}
	return false
}

func tooLarge(format string, args ...any) *gqlerror.Error {
	return coded(nil, codeQueryTooLarge, fmt.Sprintf(format, args...))
}

// retryAfterKey holds whole seconds, as the header Retry-After does.
const retryAfterKey = "retryAfter"

func tooOften(wait time.Duration, what string, limit Buckets, unit string) *gqlerror.Error {
	seconds := int((wait + time.Second - 1) / time.Second)
	err := coded(nil, codeRateLimited, fmt.Sprintf("too many %s: at most %d %s a minute are taken, try again in %d s", what, limit.PerMinute(), unit, seconds))
	err.Extensions[retryAfterKey] = seconds
	return err
}

// callerKey is the context key of who draws on the rate limits.
type callerKey struct{}

func withCaller(ctx context.Context, caller string) context.Context {
	return context.WithValue(ctx, callerKey{}, caller)
}

func callerFrom(ctx context.Context) string {
	caller, _ := ctx.Value(callerKey{}).(string)
	return caller
}
