package graph_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tallyfeed/tallyfeed/auth"
	shared "github.com/tallyfeed/tallyfeed/edge"
	"github.com/tallyfeed/tallyfeed/enginetest"
	"github.com/tallyfeed/tallyfeed/graph"
)

// documentsOn is a server's store of persisted queries.
func documentsOn(tb testing.TB, url string) *shared.Documents {
	tb.Helper()
	options, err := redis.ParseURL(url)
	if err != nil {
		tb.Fatal(err)
	}
	options.MaxRetries, options.ContextTimeoutEnabled = -1, true
	client := redis.NewClient(options)
	tb.Cleanup(func() { _ = client.Close() })
	return shared.NewDocuments(shared.NewShared(client, slog.New(slog.DiscardHandler)))
}

func byHash(hash, more string) string {
	return fmt.Sprintf(`{"extensions":{"persistedQuery":{"version":1,"sha256Hash":%q}}%s}`, hash, more)
}

// A document that one server was sent is known to all by its hash, and what is
// no good is kept by none.
func TestPersistedQueries(t *testing.T) {
	t.Parallel()
	url := enginetest.Redis(t)
	var log locked
	first := newTransport(t, &log, graph.Options{Documents: documentsOn(t, url)})
	second := newTransport(t, &log, graph.Options{Documents: documentsOn(t, url)})
	const document, broken = `query Feed{feed{nodes{id}}}`, `query Feed{fead{nodes{id}}}`
	hash, brokenHash := shared.Hash(document), shared.Hash(broken)
	with := func(document string) string { return `,"query":"` + document + `"` }
	for _, step := range []struct {
		handler http.Handler
		httpCase
	}{
		{first, httpCase{reason: "Nobody has sent it yet: the client is told so, and sends it.", body: byHash(hash, ""), status: 200, code: "PERSISTED_QUERY_NOT_FOUND", says: "PersistedQueryNotFound"}},
		{first, httpCase{reason: "A hash of something else would hand out another one's document.", body: byHash(shared.Hash("{viewer{id}}"), with(document)), status: 400, code: "BAD_USER_INPUT", says: "sha256Hash"}},
		{first, httpCase{reason: "Still nobody.", body: byHash(hash, ""), status: 200, code: "PERSISTED_QUERY_NOT_FOUND"}},
		{first, httpCase{reason: "Both.", body: byHash(hash, with(document)), status: 200, says: `"feed"`}},
		{first, httpCase{reason: "The hash does.", body: byHash(hash, ""), status: 200, says: `"feed"`}},
		{second, httpCase{reason: "Any server knows it.", body: byHash(hash, ""), status: 200, says: `"feed"`}},
		{first, httpCase{reason: "What can't be run is not kept.", body: byHash(brokenHash, with(broken)), status: 400, code: "GRAPHQL_VALIDATION_FAILED"}},
		{first, httpCase{reason: "It was not.", body: byHash(brokenHash, ""), status: 200, code: "PERSISTED_QUERY_NOT_FOUND"}},
		{first, httpCase{reason: "The protocol has one version.", body: strings.Replace(byHash(hash, ""), `"version":1`, `"version":2`, 1), status: 400, code: "BAD_USER_INPUT", says: "version"}},
		{first, httpCase{reason: "A number that is not written as 1.", body: strings.Replace(byHash(hash, ""), `"version":1`, `"version":"1"`, 1), status: 400, code: "BAD_USER_INPUT", says: "version"}},
		{first, httpCase{reason: "No hash.", body: byHash("", ""), status: 400, code: "BAD_USER_INPUT", says: "sha256Hash"}},
		{first, httpCase{reason: "Not of hex digits.", body: byHash(strings.Repeat("x", 64), ""), status: 400, code: "BAD_USER_INPUT", says: "no document"}},
		{first, httpCase{reason: "A key of somebody's choice.", body: byHash("../*", ""), status: 400, code: "BAD_USER_INPUT", says: "no document"}},
		{first, httpCase{reason: "Capitals are another text.", body: byHash(strings.ToUpper(hash), ""), status: 400, code: "BAD_USER_INPUT", says: "no document"}},
		{first, httpCase{reason: "A megabyte of hash.", body: byHash(strings.Repeat("a", 100_000), ""), status: 400, code: "BAD_USER_INPUT", says: "sha256Hash"}},
		{first, httpCase{reason: "Not an object.", body: `{"extensions":{"persistedQuery":[1]}}`, status: 400, code: "BAD_USER_INPUT", says: "version"}},
		{first, httpCase{reason: "The name of the draft of GraphQL over HTTP.", body: `{"documentId":"sha256:` + hash + `"}`, status: 200, says: `"feed"`}},
		{first, httpCase{reason: "A document too large is too large with a hash as well.", body: byHash(hash, with("{"+strings.Repeat("viewer{id} ", 2000)+"}")), status: 400, code: "QUERY_TOO_LARGE"}},
	} {
		step.check(t, step.serve(t, step.handler))
	}
}

// Without Redis a server knows what it has seen, and the rest comes in full.
func TestPersistedQueriesWithoutRedis(t *testing.T) {
	t.Parallel()
	server := enginetest.StartRedis(t, enginetest.RedisOptions{})
	if !server.Real() {
		t.Skip("kills a real Redis")
	}
	var log locked
	handler := newTransport(t, &log, graph.Options{Documents: documentsOn(t, server.URL())})
	const document = `{viewer{id}}`
	server.Kill()
	for _, tc := range []httpCase{
		{reason: "Not seen.", body: byHash(shared.Hash(document), ""), status: 200, code: "PERSISTED_QUERY_NOT_FOUND"},
		{reason: "In full.", body: byHash(shared.Hash(document), `,"query":"`+document+`"`), status: 200, says: "viewer"},
		{reason: "Seen.", body: byHash(shared.Hash(document), ""), status: 200, says: "viewer"},
	} {
		tc.check(t, tc.serve(t, handler))
	}
}

// An answer that anybody may have may be kept for a moment; a viewer's, or one
// with an error, never.
func TestCacheControl(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	documents := documentsOn(t, enginetest.Redis(t))
	handler := graph.NewHandler(e.services, graph.Options{Documents: documents})
	const feed, failing = `{feed(first:2){nodes{id likeCount}}}`, `{feed(first:101){nodes{id}}}`
	for _, document := range []string{feed, failing} {
		documents.Keep(t.Context(), shared.Hash(document), document)
	}
	extensions := func(document string) string {
		return fmt.Sprintf(`{"persistedQuery":{"version":1,"sha256Hash":%q}}`, shared.Hash(document))
	}
	token, err := auth.Mint(secret, "bob", "", "", "", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		reason, method, query, extensions, token, want string
	}{
		"Persisted": {"The same address is the same page for everybody.", "GET", "", extensions(feed), "", "public, max-age=1"},
		"SignedIn":  {"It holds a viewer's hearts.", "GET", "", extensions(feed), token, "private, no-store"},
		"Error":     {"A failure is not to be kept.", "GET", "", extensions(failing), "", "private, no-store"},
		"Missing":   {"It will be there a moment later.", "GET", "", extensions("{viewer{id}}"), "", "private, no-store"},
		"Document":  {"A document by its text fills caches with all there are.", "GET", feed, "", "", "private, no-store"},
		"Post":      {"Not for caches.", "POST", "", extensions(feed), "", "private, no-store"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			values := url.Values{}
			for key, value := range map[string]string{"query": tc.query, "extensions": tc.extensions} {
				if value != "" {
					values.Set(key, value)
				}
			}
			r := httptest.NewRequestWithContext(t.Context(), tc.method, "/graphql?"+values.Encode(), strings.NewReader(`{"extensions":`+tc.extensions+`}`))
			r.Header.Set("Content-Type", "application/json")
			if tc.token != "" {
				r.Header.Set("Authorization", "Bearer "+tc.token)
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if got := w.Header().Get("Cache-Control"); got != tc.want {
				t.Errorf("%s\nCache-Control: %s, want %s: %s", tc.reason, got, tc.want, w.Body)
			}
			if vary := strings.Join(w.Header().Values("Vary"), ", "); !strings.Contains(vary, "Authorization") || !strings.Contains(vary, "Accept") {
				t.Errorf("%s\nVary: %s", tc.reason, vary)
			}
		})
	}
}

// Documents of the list go by their ids; where nothing else is taken, nothing
// else is.
func TestTrustedDocuments(t *testing.T) {
	t.Parallel()
	const feed = `query Feed($n:Int!){feed(first:$n){nodes{id}}}`
	body, err := json.Marshal(map[string]any{
		"format": "apollo-persisted-query-manifest", "version": 1,
		"operations": []map[string]string{
			{"id": shared.Hash(feed), "name": "Feed", "type": "query", "body": feed},
			{"id": "short-7", "name": "Me", "type": "query", "body": "query Me{viewer{id}}"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	list, err := shared.ReadManifest(strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	var log locked
	open := newTransport(t, &log, graph.Options{Trusted: list, Documents: documentsOn(t, enginetest.Redis(t))})
	only := newTransport(t, &log, graph.Options{Trusted: list, TrustedOnly: true, Documents: documentsOn(t, enginetest.Redis(t))})
	variables := `,"variables":{"n":2}`
	for _, step := range []struct {
		handler http.Handler
		httpCase
	}{
		{open, httpCase{reason: "By its hash.", body: byHash(shared.Hash(feed), variables), status: 200, says: "feed"}},
		{open, httpCase{reason: "By any id.", body: byHash("short-7", ""), status: 200, says: "viewer"}},
		{open, httpCase{reason: "By documentId.", body: `{"documentId":"short-7"}`, status: 200, says: "viewer"}},
		{open, httpCase{reason: "By GET.", method: "GET", query: url.Values{"documentId": {"short-7"}}, status: 200, says: "viewer", cache: "public, max-age=1"}},
		{open, httpCase{reason: "The text beside the id must be the list's.", body: byHash("short-7", `,"query":"{feed{nodes{id}}}"`), status: 400, code: "BAD_USER_INPUT", says: "not the trusted document"}},
		{open, httpCase{reason: "Others are run as well.", body: `{"query":"{viewer{name}}"}`, status: 200, says: "viewer"}},
		{open, httpCase{reason: "No such document.", body: byHash("short-8", ""), status: 400, code: "BAD_USER_INPUT", says: "no document"}},
		{only, httpCase{reason: "By its hash.", body: byHash(shared.Hash(feed), variables), status: 200, says: "feed"}},
		{only, httpCase{reason: "By its text, as a client without ids sends it.", body: `{"query":"query Me{viewer{id}}"}`, status: 200, says: "viewer"}},
		{only, httpCase{reason: "Its text with another hash.", body: byHash(shared.Hash("query Me{viewer{id}}"), `,"query":"query Me{viewer{id}}"`), status: 200, says: "viewer"}},
		{only, httpCase{reason: "Nothing else.", body: `{"query":"{viewer{name}}"}`, status: 400, code: "PERSISTED_QUERY_NOT_IN_LIST"}},
		{only, httpCase{reason: "Nor by its hash.", body: byHash(shared.Hash("{viewer{name}}"), `,"query":"{viewer{name}}"`), status: 400, code: "PERSISTED_QUERY_NOT_IN_LIST"}},
		{only, httpCase{reason: "Nor a hash alone.", body: byHash(shared.Hash("{viewer{name}}"), ""), status: 400, code: "PERSISTED_QUERY_NOT_IN_LIST"}},
	} {
		step.check(t, step.serve(t, step.handler))
	}
}

// A document of the list that could not be run is found at the start.
func TestCheckDocument(t *testing.T) {
	t.Parallel()
	for document, says := range map[string]string{
		"{feed{nodes{id}}}":                             "",
		"query A{feed{nodes{id}}} query B{viewer{id}}":  "",
		"{feed{nodes{id}}":                              "Expected",
		"{fead{nodes{id}}}":                             "fead",
		doubling(22):                                    "at most",
		"{viewer{" + strings.Repeat("id ", 2000) + "}}": "token",
	} {
		err := graph.CheckDocument(document)
		if (says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%.40s: %v, want %q", document, err, says)
		}
	}
}
