package graph

import (
	"embed"
	"io/fs"
	"net/http"
)

// GraphiQL 4.1.2 with React 18.2.0, the last ones that need no bundler. The
// files are as npm has them; graph/playground/README.md says how they got here.
//
//go:embed playground
var playgroundFiles embed.FS

// NewPlayground serves GraphiQL below the given path, from the binary: the page
// names no other host, so it works offline and tells nobody.
func NewPlayground(path string) http.Handler {
	root, err := fs.Sub(playgroundFiles, "playground")
	if err != nil {
		panic(err) // the name above is wrong
	}
	files := http.StripPrefix(path, http.FileServerFS(root))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; frame-ancestors 'none'")
		files.ServeHTTP(w, r)
	})
}
