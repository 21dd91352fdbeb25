package graph_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/tallyfeed/tallyfeed/graph"
)

// What any page can make a browser send without asking is not run (the rule of
// Apollo Server).
func TestCrossSiteRequestForgery(t *testing.T) {
	t.Parallel()
	var log locked
	handler := newTransport(t, &log, graph.Options{})
	query := url.Values{"query": {"{viewer{id}}"}}
	headers := func(pairs ...string) map[string][]string {
		all := map[string][]string{"Accept": {newMedia}}
		for i := 0; i < len(pairs); i += 2 {
			all[pairs[i]] = []string{pairs[i+1]}
		}
		return all
	}
	const body = `{"query":"{viewer{id}}"}`
	for name, tc := range map[string]httpCase{
		"Link":          {reason: "An image's address.", method: "GET", query: query, headers: headers(), status: 400, code: "BAD_USER_INPUT", says: "Apollo-Require-Preflight"},
		"LinkForm":      {reason: "Forms set this type.", method: "GET", query: query, headers: headers("Content-Type", "text/plain"), status: 400, code: "BAD_USER_INPUT"},
		"LinkOdd":       {reason: "What can't be parsed may be sent without asking.", method: "GET", query: query, headers: headers("Content-Type", ";"), status: 400, code: "BAD_USER_INPUT"},
		"EmptyHeader":   {reason: "The header must hold something.", method: "GET", query: query, headers: headers("Apollo-Require-Preflight", ""), status: 400, code: "BAD_USER_INPUT"},
		"Kotlin":        {reason: "Apollo Kotlin's header.", method: "GET", query: query, headers: headers("Apollo-Require-Preflight", "true"), status: 200},
		"Web":           {reason: "Apollo Client's, with a name.", method: "GET", query: query, headers: headers("X-Apollo-Operation-Name", "Feed"), status: 200},
		"Draft":         {reason: "The name that is nobody's.", method: "GET", query: query, headers: headers("Graphql-Require-Preflight", "1"), status: 200},
		"JSONGet":       {reason: "No form can set this type.", method: "GET", query: query, headers: headers("Content-Type", oldMedia), status: 200},
		"Form":          {reason: "A form.", body: "query=%7Bviewer%7Bid%7D%7D", headers: headers("Content-Type", "application/x-www-form-urlencoded"), status: 415, code: "BAD_USER_INPUT"},
		"Multipart":     {reason: "A form with files.", body: body, headers: headers("Content-Type", "multipart/form-data; boundary=x"), status: 415, code: "BAD_USER_INPUT"},
		"Text":          {reason: "A form whose body looks like JSON.", body: body, headers: headers("Content-Type", "text/plain"), status: 415, code: "BAD_USER_INPUT"},
		"NoType":        {reason: "A blob without a type.", body: body, headers: headers(), status: 415, code: "BAD_USER_INPUT"},
		"TextPreflight": {reason: "Asked for or not, it is no JSON.", body: body, headers: headers("Content-Type", "text/plain", "Apollo-Require-Preflight", "true"), status: 415, code: "BAD_USER_INPUT"},
		"JSON":          {reason: "The usual.", body: body, headers: headers("Content-Type", "application/json; charset=utf-8"), status: 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.check(t, tc.serve(t, handler))
		})
	}
}

// Pages of listed origins may read answers, also refusals; others may not.
func TestCORS(t *testing.T) {
	t.Parallel()
	var log locked
	listed := newTransport(t, &log, graph.Options{Origins: []string{"https://app.example"}})
	all := newTransport(t, &log, graph.Options{Origins: []string{"*"}})
	none := newTransport(t, &log, graph.Options{})
	for name, tc := range map[string]struct {
		reason, method, origin string
		handler                http.Handler
		headers                string // asked for in advance
		body                   string
		status                 int
		allowed                string
	}{
		"Listed":         {"It may.", "POST", "https://app.example", listed, "", `{"query":"{viewer{id}}"}`, 200, "https://app.example"},
		"ListedRefused":  {"It may read why not.", "POST", "https://app.example", listed, "", `{`, 400, "https://app.example"},
		"Other":          {"It may not.", "POST", "https://evil.example", listed, "", `{"query":"{viewer{id}}"}`, 200, ""},
		"Suffix":         {"Another host.", "POST", "https://app.example.evil.example", listed, "", `{}`, 400, ""},
		"Null":           {"A sandbox.", "POST", "null", listed, "", `{}`, 400, ""},
		"All":            {"Everybody may.", "POST", "https://any.example", all, "", `{"query":"{viewer{id}}"}`, 200, "*"},
		"None":           {"Nobody may by default.", "POST", "https://app.example", none, "", `{"query":"{viewer{id}}"}`, 200, ""},
		"Preflight":      {"The browser asks first.", "OPTIONS", "https://app.example", listed, "apollo-require-preflight,authorization,content-type", "", 204, "https://app.example"},
		"PreflightOther": {"And is told no.", "OPTIONS", "https://evil.example", listed, "content-type", "", 204, ""},
		"PreflightNone":  {"Without a list there is no such method.", "OPTIONS", "https://app.example", none, "content-type", "", 405, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequestWithContext(t.Context(), tc.method, "/graphql", strings.NewReader(tc.body))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Origin", tc.origin)
			if tc.headers != "" {
				r.Header.Set("Access-Control-Request-Method", "POST")
				r.Header.Set("Access-Control-Request-Headers", tc.headers)
			}
			w := httptest.NewRecorder()
			tc.handler.ServeHTTP(w, r)
			if w.Code != tc.status {
				t.Errorf("%s\nstatus %d, want %d: %s", tc.reason, w.Code, tc.status, w.Body)
			}
			if got := w.Header().Get("Access-Control-Allow-Origin"); got != tc.allowed {
				t.Errorf("%s\nallowed %q, want %q", tc.reason, got, tc.allowed)
			}
			if w.Header().Get("Access-Control-Allow-Credentials") != "" {
				t.Errorf("%s\ncredentials are allowed: there are none", tc.reason)
			}
		})
	}
}
