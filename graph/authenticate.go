package graph

import (
	"context"
	"errors"
	"net/http"

	"github.com/tallyfeed/tallyfeed/auth"
)

// invalidToken is a challenge (RFC 6750, section 3).
const invalidToken = `Bearer error="invalid_token"`

// authenticate puts the viewer into the request's context. No token is nobody;
// a token that can't be believed is an error and never nobody: a client whose
// token has expired must learn so, and not see hearts go out.
func (r *resolver) authenticate(address func(*http.Request) string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		token, present, err := auth.Bearer(request)
		if err == nil && !present {
			next.ServeHTTP(w, request.WithContext(withCaller(request.Context(), "address:"+address(request))))
			return
		}
		var viewer auth.Viewer
		if err == nil {
			viewer, err = r.Verifier.Verify(request.Context(), token)
		}
		switch {
		case err == nil:
			next.ServeHTTP(w, request.WithContext(withViewer(request.Context(), viewer)))
		case errors.Is(err, auth.ErrUnavailable):
			r.Log.WarnContext(request.Context(), "token not checked", "err", err)
			w.Header().Set("Retry-After", "1")
			refuse(w, request, http.StatusServiceUnavailable, codeUnavailable, "tokens can't be checked now, try again in a moment")
		default:
			w.Header().Set("WWW-Authenticate", invalidToken)
			refuse(w, request, http.StatusUnauthorized, codeUnauthenticated, err.Error())
		}
	})
}

// withViewer says who asks, and whose rate limits that draws on.
func withViewer(ctx context.Context, viewer auth.Viewer) context.Context {
	return withCaller(auth.WithViewer(ctx, viewer), "viewer:"+viewer.Sub)
}
