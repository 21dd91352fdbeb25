package graph_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tallyfeed/tallyfeed/graph"
)

// The playground is served from the binary and names no other host: it works
// offline, and tells nobody that it was opened.
func TestPlayground(t *testing.T) {
	t.Parallel()
	handler := graph.NewPlayground("/playground/")
	files := map[string]struct {
		reason, media string
		ours          bool // written here, so it must name no address at all
		says          string
	}{
		"":                            {"The page itself.", "text/html", true, "graphiql.min.js"},
		"playground.js":               {"A feed query to begin with, and where the token goes.", "text/javascript", true, "defaultHeaders"},
		"playground.css":              {"Its style.", "text/css", true, ""},
		"graphiql.min.js":             {"The editor.", "text/javascript", false, "GraphiQL"},
		"graphiql.min.css":            {"The editor's style.", "text/css", false, ""},
		"react.production.min.js":     {"What the editor is built on.", "text/javascript", false, ""},
		"react-dom.production.min.js": {"What the editor is built on.", "text/javascript", false, ""},
	}
	for name, tc := range files {
		t.Run("/"+name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/playground/"+name, nil))
			body, header := w.Body.String(), w.Header()
			if w.Code != http.StatusOK || len(body) == 0 {
				t.Fatalf("%s\nstatus %d, %d bytes", tc.reason, w.Code, len(body))
			}
			if got := header.Get("Content-Type"); !strings.HasPrefix(got, tc.media) {
				t.Errorf("%s\nContent-Type %s, want %s: with nosniff a browser does not run it", tc.reason, got, tc.media)
			}
			if policy := header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'self'") || strings.Contains(policy, "http") {
				t.Errorf("%s\nContent-Security-Policy %s", tc.reason, policy)
			}
			if !strings.Contains(body, tc.says) {
				t.Errorf("%s\nno %q in it", tc.reason, tc.says)
			}
			for _, address := range []string{"https://", "http://", `"//`} {
				if tc.ours && strings.Contains(body, address) {
					t.Errorf("%s\nit names an address: %s", tc.reason, body)
				}
			}
		})
	}
	t.Run("Missing", func(t *testing.T) {
		t.Parallel()
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/playground/nothing.js", nil))
		if w.Code != http.StatusNotFound {
			t.Errorf("status %d", w.Code)
		}
	})
}
