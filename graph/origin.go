package graph

import (
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/rs/cors"
)

// preflighted says whether a browser would have asked first before it let a
// foreign page send this request. If not, any page could have sent it with
// whatever the browser adds by itself, so it is refused (the rule of Apollo
// Server: https://www.apollographql.com/docs/apollo-server/security/cors#preventing-cross-site-request-forgery-csrf).
func preflighted(r *http.Request) bool {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && media == mediaJSON {
		return true
	}
	for _, name := range []string{"Apollo-Require-Preflight", "X-Apollo-Operation-Name", "GraphQL-Require-Preflight"} {
		if r.Header.Get(name) != "" {
			return true
		}
	}
	return false
}

// crossOrigin lets pages of other origins in. Nothing is taken from cookies, so
// no credentials are allowed.
func crossOrigin(origins []string, next http.Handler) http.Handler {
	if len(origins) == 0 {
		return next
	}
	return cors.New(cors.Options{
		AllowedOrigins: origins,
		AllowedMethods: []string{http.MethodGet, http.MethodPost},
		AllowedHeaders: []string{
			"Accept", "Authorization", "Content-Type", "X-Request-Id", costHeader,
			"Apollo-Require-Preflight", "X-Apollo-Operation-Name", "GraphQL-Require-Preflight",
			"X-Apollo-Operation-Id", "X-Apollo-Operation-Type", "ApolloGraphQL-Client-Name", "ApolloGraphQL-Client-Version",
		},
		ExposedHeaders: []string{"X-Request-Id", "Retry-After"},
		MaxAge:         7200, // what Chromium takes at most
	}).Handler(next)
}

// sameOrigin says whether a WebSocket may be opened: browsers send an Origin and
// do not ask first. Who sends none is no browser.
func sameOrigin(r *http.Request, origins []string) bool {
	origin := r.Header.Get("Origin")
	if origin == "" || slices.Contains(origins, "*") {
		return true
	}
	for _, allowed := range origins {
		if strings.EqualFold(origin, allowed) {
			return true
		}
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}
