package graph

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// The codes in extensions.code. Parsing and validation have Apollo's own.
const (
	codeUnauthenticated = "UNAUTHENTICATED"
	codeForbidden       = "FORBIDDEN"
	codeNotFound        = "NOT_FOUND"
	codeBadUserInput    = "BAD_USER_INPUT"
	codeOverloaded      = "OVERLOADED"
	codeUnavailable     = "UNAVAILABLE"
	codeQueryTooLarge   = "QUERY_TOO_LARGE"
	codeInternal        = "INTERNAL_SERVER_ERROR"
)

// clientError is an error whose message is fit for a client. The cause is for
// the log.
type clientError struct {
	code, message string
	cause         error
}

func (e *clientError) Error() string { return e.message }
func (e *clientError) Unwrap() error { return e.cause }

func badInput(argument, reason string) error {
	return &clientError{code: codeBadUserInput, message: argument + " " + reason}
}

// unavailable says which part of the answer a failing backend takes with it.
func unavailable(what string, cause error) error {
	return &clientError{code: codeUnavailable, message: what + " are not available now, try again in a moment", cause: cause}
}

// present decides what a client learns of an error. Only clientError and what
// gqlgen says about the request itself go out; all else becomes an id that is
// in the log. It makes a new gqlerror each time: gqlgen writes the path into it.
func present(log *slog.Logger) graphql.ErrorPresenterFunc {
	return func(ctx context.Context, err error) *gqlerror.Error {
		path := graphql.GetPath(ctx)
		var known *clientError
		if errors.As(err, &known) {
			if known.cause != nil {
				log.WarnContext(ctx, "request failed", "code", known.code, "path", path.String(), "err", known.cause)
			}
			return coded(path, known.code, known.message)
		}
		var own *gqlerror.Error
		if errors.As(err, &own) && own.Unwrap() == nil {
			if own.Path == nil {
				own.Path = path
			}
			if _, has := own.Extensions["code"]; !has {
				errcode.Set(own, codeBadUserInput) // a value that gqlgen could not take
			}
			return own
		}
		id := rand.Text()
		log.ErrorContext(ctx, "internal error", "id", id, "path", path.String(), "err", err)
		return coded(path, codeInternal, "internal error "+id)
	}
}

func coded(path ast.Path, code, message string) *gqlerror.Error {
	return &gqlerror.Error{Path: path, Message: message, Extensions: map[string]any{"code": code}}
}

// recovered turns a panic into an error that present hides.
func recovered(_ context.Context, value any) error {
	return fmt.Errorf("panic: %v", value)
}
