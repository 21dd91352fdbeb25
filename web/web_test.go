package web_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tallyfeed/tallyfeed/web"
)

func get(t *testing.T, path, host string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	request.Host = host
	w := httptest.NewRecorder()
	web.NewPage().ServeHTTP(w, request)
	return w
}

var (
	asset   = regexp.MustCompile(`(?:src|href)="(/assets/[^"]+)"`)
	address = regexp.MustCompile(`(?:https?:|wss?:|["'(=])//[\w.-]*`)
	inline  = regexp.MustCompile(`(?i)<style|<script[^>]*>[^<]|\sstyle=|\son\w+=|javascript:|data:`)
)

// The page works offline and tells nobody that it was opened.
func TestPage(t *testing.T) {
	t.Parallel()
	w := get(t, "/", "feed.example:8080")
	page, header := w.Body.String(), w.Header()
	if w.Code != http.StatusOK || !strings.HasPrefix(header.Get("Content-Type"), "text/html") {
		t.Fatalf("status %d, %s", w.Code, header.Get("Content-Type"))
	}
	if got := header.Get("Cache-Control"); got != "no-cache" {
		t.Errorf("the page names the assets of its build, so it must be asked for each time: Cache-Control %s", got)
	}
	const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self' ws://feed.example:8080 wss://feed.example:8080; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	if got := header.Get("Content-Security-Policy"); got != policy {
		t.Errorf("Content-Security-Policy %s", got)
	}
	if found := inline.FindString(page); found != "" {
		t.Errorf("the policy forbids what is inline: %s", found)
	}
	if found := address.FindString(page); found != "" {
		t.Errorf("it names a host: %s", found)
	}
	assets := asset.FindAllStringSubmatch(page, -1)
	if len(assets) != 3 {
		t.Fatalf("want a script, a style and an icon: %v", assets)
	}
	// Namespaces of XML, and where messages of React and Apollo are explained: text
	// that the policy keeps from being asked for.
	text := []string{"http://www.w3.org", "https://react.dev", "https://go.apollo.dev"}
	media := map[string]string{"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
	for _, match := range assets {
		w := get(t, match[1], "feed.example")
		if w.Code != http.StatusOK || w.Body.Len() == 0 {
			t.Errorf("%s: status %d, %d bytes", match[1], w.Code, w.Body.Len())
		}
		if got := w.Header().Get("Cache-Control"); got != "public, max-age=31536000, immutable" {
			t.Errorf("%s: Cache-Control %s", match[1], got)
		}
		_, end, _ := strings.Cut(match[1], ".")
		if got := w.Header().Get("Content-Type"); media[end] == "" || !strings.HasPrefix(got, media[end]) {
			t.Errorf("%s: Content-Type %s: with nosniff a browser does not use it", match[1], got)
		}
		for _, found := range address.FindAllString(w.Body.String(), -1) {
			if !slices.Contains(text, found) {
				t.Errorf("%s names a host: %s", match[1], found)
			}
		}
	}
}

// A header that is no host must not write the policy.
func TestPolicyOfNoHost(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"a; script-src *", "a *", "a,b", "a'b", "ä.example"} {
		if got := get(t, "/", host).Header().Get("Content-Security-Policy"); strings.Contains(got, host) || !strings.Contains(got, "connect-src 'self';") {
			t.Errorf("%s: %s", host, got)
		}
	}
}

func TestNoAsset(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/assets/", "/assets/nothing.js", "/assets/../web.go", "/index.html/"} {
		w := get(t, path, "feed.example")
		if w.Code != http.StatusNotFound || w.Header().Get("Cache-Control") != "" {
			t.Errorf("%s: status %d, Cache-Control %s", path, w.Code, w.Header().Get("Cache-Control"))
		}
	}
}
