package graph

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"

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
	codeRateLimited     = "RATE_LIMITED"
	codeInternal        = "INTERNAL_SERVER_ERROR"

	codePersistedQueryNotFound  = "PERSISTED_QUERY_NOT_FOUND"
	codePersistedQueryNotInList = "PERSISTED_QUERY_NOT_IN_LIST"
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
func present(log *slog.Logger, suggestions bool) graphql.ErrorPresenterFunc {
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
		switch {
		case !errors.As(err, &own):
		case own.Unwrap() == nil:
			return fromGraphQL(own, path, suggestions)
		case len(own.Path) > len(path):
			// The path goes on from the field to an argument: its value passed
			// validation and is none of the type's, e.g. an Int of 33 bits.
			return coded(path, codeBadUserInput, own.Path[len(path):].String()+" has a value that can't be taken")
		}
		id := rand.Text()
		log.ErrorContext(ctx, "internal error", "id", id, "path", path.String(), "err", err)
		return coded(path, codeInternal, "internal error "+id)
	}
}

// fromGraphQL gives a code to what gqlgen says about the request itself.
func fromGraphQL(own *gqlerror.Error, path ast.Path, suggestions bool) *gqlerror.Error {
	if strings.HasPrefix(own.Message, tokenLimitExceeded) {
		return tooLarge("the document has more than %d tokens", maxTokens)
	}
	if !suggestions {
		// gqlgen's own switch misses arguments and the fields of inputs.
		own.Message, _, _ = strings.Cut(own.Message, " Did you mean")
	}
	own.Message = withoutValue(own.Message)
	if own.Path == nil {
		own.Path = path
	}
	if _, has := own.Extensions["code"]; !has {
		errcode.Set(own, codeBadUserInput) // a value that gqlgen could not take
	}
	return own
}

// withoutValue takes out of gqlparser's messages what a client sent: that may be
// a password in the wrong place, or very long.
func withoutValue(message string) string {
	for _, mark := range []string{" value: ", ", found ", " is not a valid "} {
		before, after, ok := strings.Cut(message, mark)
		switch {
		case !ok:
		case mark == " is not a valid ":
			message = "is not a valid " + after // what is before is the value
		case strings.HasPrefix(mark, " value"):
			message = before + " value"
		default:
			message = before
		}
	}
	if value, rest, ok := strings.Cut(message, "does not exist in "); ok && strings.HasPrefix(value, "Value ") {
		message = "The value does not exist in " + rest
	}
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "…"
	}
	return message
}

// maxMessage bounds what names in a document may add to an answer.
const maxMessage = 500

// tokenLimitExceeded is how the parser's own error begins; it has no type.
const tokenLimitExceeded = "exceeded token limit"

func coded(path ast.Path, code, message string) *gqlerror.Error {
	return &gqlerror.Error{Path: path, Message: message, Extensions: map[string]any{"code": code}}
}

// recovered turns a panic into an error that present hides. It is called where
// the panic is caught, so the stack still holds the place.
func recovered(_ context.Context, value any) error {
	return fmt.Errorf("panic: %v\n%s", value, debug.Stack())
}
