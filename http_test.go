package main

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Every answer has an id that leads to its log lines; what a client may not put
// into the log is replaced.
func TestRequestID(t *testing.T) {
	t.Parallel()
	var lines bytes.Buffer
	log := slog.New(requestLog{slog.NewTextHandler(&lines, nil)})
	handler, err := wrapped(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { log.InfoContext(r.Context(), "seen") }))
	if err != nil {
		t.Fatal(err)
	}
	for given, kept := range map[string]bool{
		"7f3c-1": true, "Root=1-67891233-abcdef012345678912345678": true, "": false, strings.Repeat("x", 129): false,
		"a b": false, "a\"b": false, "a\nb": false, "é": false,
	} {
		lines.Reset()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header.Set("X-Request-Id", given)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		id := w.Header().Get("X-Request-Id")
		if id == "" || kept != (id == given) {
			t.Errorf("%q became %q", given, id)
		}
		if !strings.Contains(lines.String(), "request=") || !strings.Contains(lines.String(), id) {
			t.Errorf("%q is not in the log: %s", id, &lines)
		}
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %q", name, got)
			}
		}
	}
}

// Large answers are compressed for who can read it, small ones for nobody.
func TestCompression(t *testing.T) {
	t.Parallel()
	large := strings.Repeat(`{"id":"post:1","title":"Northern lights"},`, 200)
	handler, err := wrapped(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/graphql-response+json; charset=utf-8")
		text := large
		if r.URL.Path == "/small" {
			text = `{"data":null}`
		}
		_, _ = io.WriteString(w, text)
	}))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ path, accept, encoding string }{
		"Gzip":     {"/", "gzip, deflate", "gzip"},
		"Zstd":     {"/", "gzip, deflate, br, zstd", "zstd"},
		"None":     {"/", "", ""},
		"Refused":  {"/", "gzip;q=0", ""},
		"Identity": {"/", "identity", ""},
		"Small":    {"/small", "gzip", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, tc.path, nil)
			if tc.accept != "" {
				r.Header.Set("Accept-Encoding", tc.accept)
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if got := w.Header().Get("Content-Encoding"); got != tc.encoding {
				t.Fatalf("encoding %q, want %q", got, tc.encoding)
			}
			if !strings.Contains(strings.Join(w.Header().Values("Vary"), ","), "Accept-Encoding") {
				t.Errorf("Vary: %v", w.Header().Values("Vary"))
			}
			var body io.Reader = w.Body
			switch tc.encoding {
			case "gzip":
				body, err = gzip.NewReader(w.Body)
			case "zstd":
				body, err = zstd.NewReader(w.Body)
			}
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(body)
			if err != nil || tc.path == "/" && string(text) != large {
				t.Errorf("%d bytes, %v", len(text), err)
			}
		})
	}
}

// An address is that of the connection, unless a trusted proxy says otherwise:
// nobody chooses whose limits to use up.
func TestClientAddress(t *testing.T) {
	t.Parallel()
	address, err := clientAddress([]string{"10.0.0.0/8", "fd00::1"})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ reason, peer, forwarded, want string }{
		"Direct":     {"Nobody between.", "203.0.113.7:1234", "", "203.0.113.7"},
		"Forged":     {"Who is no proxy may say what it likes.", "203.0.113.7:1234", "198.51.100.1", "203.0.113.7"},
		"Proxy":      {"The proxy knows.", "10.1.2.3:80", "198.51.100.1", "198.51.100.1"},
		"ForgedThen": {"The client has put one in front.", "10.1.2.3:80", "192.0.2.9, 198.51.100.1", "198.51.100.1"},
		"Proxies":    {"Two of ours.", "10.1.2.3:80", "192.0.2.9, 198.51.100.1, 10.9.9.9", "198.51.100.1"},
		"Garbage":    {"No address at all.", "10.1.2.3:80", "hello", "10.1.2.3"},
		"Silent":     {"A proxy that says nothing.", "10.1.2.3:80", "", "10.1.2.3"},
		"IPv6":       {"A client has a whole network of them.", "[2001:db8:1:2:3:4:5:6]:443", "", "2001:db8:1:2::"},
		"IPv6Proxy":  {"Through a proxy.", "[fd00::1]:443", "2001:db8:1:2::9", "2001:db8:1:2::"},
		"Socket":     {"No address: a test, or a socket.", "@", "", "<nil>"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.RemoteAddr = tc.peer
		if tc.forwarded != "" {
			r.Header.Set("X-Forwarded-For", tc.forwarded)
		}
		if got := address(r); got != tc.want {
			t.Errorf("%s: %s\n%s, want %s", name, tc.reason, got, tc.want)
		}
	}
	if _, err := clientAddress([]string{"10.0.0.0/99"}); err == nil || !strings.Contains(err.Error(), "--trusted-proxies") {
		t.Errorf("a range that is none: %v", err)
	}
}
