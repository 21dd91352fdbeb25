// Package web holds the feed page: its sources, and what they are built to.
package web

import (
	"embed"
	"io/fs"
	"net/http"
	"strings"
)

// `make web` makes dist from src, index.html and package-lock.json.
//
//go:embed dist
var files embed.FS

// NewPage serves the page at / and what it is made of below /assets/. It names
// no other host, and the policy keeps it from any.
func NewPage() http.Handler {
	dist, err := fs.Sub(files, "dist")
	if err != nil {
		panic(err) // the name above is wrong
	}
	content := http.FileServerFS(dist)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			if strings.HasSuffix(r.URL.Path, "/") {
				http.NotFound(w, r) // no listing
				return
			}
			// The name of an asset has a hash of its content.
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
			content.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("Content-Security-Policy", policy(r.Host))
		content.ServeHTTP(w, r)
	})
}

// policy is strict: nothing inline, nothing from elsewhere. WebSockets to the
// page's own host are named, since not every browser counts them as 'self'.
func policy(host string) string {
	connect := "'self'"
	if strings.Trim(host, hostCharacters) == "" {
		connect += " ws://" + host + " wss://" + host
	}
	return "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src " + connect +
		"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

const hostCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-.:[]"
