// Package auth finds out who asks: it takes the bearer token of a request and
// checks it. A request without a token is anonymous; one with a token that is
// not good in every respect is refused and never taken for anonymous.
package auth

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

var (
	// ErrInvalidToken wraps every fault of a token. The whole message is fit for
	// the client: it names the fault and nothing of what is inside.
	ErrInvalidToken = errors.New("invalid token")

	// ErrUnavailable says that the keys to check a token with can't be had now.
	// The token may be good: the client should come again.
	ErrUnavailable = errors.New("keys to check tokens are not available")
)

const (
	maxSub  = 128 // characters
	maxName = 200 // characters
)

// Viewer is who a token was given to.
type Viewer struct {
	Sub  string // 1–128 characters, none of them a control character
	Name string // at most 200 characters; "" when the token has no name

	Expires time.Time // from when on the token is not taken any more: for connections that outlive a request
}

type viewerKey struct{}

// WithViewer returns a context that says who asks.
func WithViewer(ctx context.Context, viewer Viewer) context.Context {
	return context.WithValue(ctx, viewerKey{}, viewer)
}

// ViewerFrom returns who asks, and false when nobody is signed in.
func ViewerFrom(ctx context.Context) (Viewer, bool) {
	viewer, ok := ctx.Value(viewerKey{}).(Viewer)
	return viewer, ok
}

// Bearer returns the token of r's Authorization header. present is false, with
// no error, when there is no such header. A header that is there and does not
// carry one bearer token is an ErrInvalidToken.
func Bearer(r *http.Request) (token string, present bool, err error) {
	headers := r.Header.Values("Authorization")
	switch len(headers) {
	case 0:
		return "", false, nil
	case 1:
	default:
		return "", true, invalid("more than one Authorization header")
	}
	token, err = Token(headers[0])
	return token, true, err
}

// Token returns the token that the value of an Authorization header carries.
// ErrInvalidToken where that is not one bearer token.
func Token(header string) (string, error) {
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", invalid("the Authorization header is not of the Bearer scheme")
	}
	token = strings.Trim(token, " ")
	if token == "" || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == ',' }) {
		return "", invalid("the Authorization header does not hold one token")
	}
	return token, nil
}

// invalidError is a fault of a token. It does not unwrap to what found it, which
// may tell more than the client should know.
type invalidError string

func invalid(reason string) error { return invalidError(reason) }

func (e invalidError) Error() string        { return ErrInvalidToken.Error() + ": " + string(e) }
func (e invalidError) Is(target error) bool { return target == ErrInvalidToken }

// checkSub returns what is wrong with a sub, or "".
func checkSub(sub string) string {
	switch {
	case sub == "":
		return "sub is empty"
	case !utf8.ValidString(sub):
		return "sub is not valid UTF-8"
	case utf8.RuneCountInString(sub) > maxSub:
		return "sub is longer than 128 characters"
	case strings.ContainsFunc(sub, unicode.IsControl):
		return "sub contains control characters"
	}
	return ""
}

// cleanName returns name as it may be shown: names decide nothing, so an odd one
// is mended rather than refused.
func cleanName(name string) string {
	name = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(name, "\ufffd"))
	name = strings.TrimSpace(name)
	if runes := []rune(name); len(runes) > maxName {
		name = strings.TrimSpace(string(runes[:maxName]))
	}
	return name
}
