package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tallyfeed/tallyfeed/auth"
)

// Who asks too often is told when to come again, and does not get round it.
func TestRateLimits(t *testing.T) {
	t.Parallel()
	const secret = "0123456789abcdef0123456789abcdef"
	p := serving(t, []string{"TALLYFEED_RATE_COST=5000", "TALLYFEED_RATE_MUTATIONS=3"},
		"serve", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--jwt-secret", secret)
	token := func(sub, name string) string {
		token, err := auth.Mint([]byte(secret), sub, name, "", "", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return "Bearer " + token
	}
	const like = `{subject:like(input:{subjectId:"post:10200"}){changed}}`
	page := jsonBody(`{feed(first:100){nodes{id title body likeCount favCount viewerHasLiked viewerHasFaved}}}`) // some 800
	limited := func(got reply) bool {
		if got.status != http.StatusTooManyRequests {
			if got.status != http.StatusOK {
				t.Errorf("status %d: %s", got.status, got.body)
			}
			return false
		}
		var a answer
		seconds, err := strconv.Atoi(got.header.Get("Retry-After"))
		if err := json.Unmarshal(got.body, &a); err != nil || len(a.Errors) != 1 || a.Errors[0].Extensions.Code != "RATE_LIMITED" || a.Data != nil {
			t.Errorf("%v in %s", err, got.body)
		}
		if err != nil || seconds < 1 || seconds > 60 {
			t.Errorf("Retry-After: %q, within a minute there is room again", got.header.Get("Retry-After"))
		}
		return true
	}
	// send returns how many of n pass.
	send := func(n int, body string, headers func(i int) http.Header) (passed int) {
		for i := range n {
			if !limited(hostile{body: body, headers: headers(i)}.send(t, p)) {
				passed++
			}
		}
		return passed
	}
	for name, tc := range map[string]struct {
		reason  string
		n       int
		body    string
		headers func(i int) http.Header
		atMost  int
	}{
		"Changes": {"Three a minute.", 6, jsonBody("mutation" + like), func(int) http.Header { return jsonHeaders("Authorization", token("eve", "")) }, 3},
		"OldMedia": {"A client of the older media type goes by the status as well.", 6, jsonBody("mutation" + like), func(int) http.Header {
			return http.Header{"Content-Type": {jsonMedia}, "Authorization": {token("old", "")}}
		}, 3},
		"NewTokens": {"Another token of the same viewer is the same viewer.", 6, jsonBody("mutation" + like), func(i int) http.Header { return jsonHeaders("Authorization", token("ann", fmt.Sprint("Ann ", i))) }, 3},
		"Costs":     {"A page of 100 costs hundreds, and 5,000 a minute are taken.", 12, page, func(int) http.Header { return jsonHeaders("Authorization", token("joe", "")) }, 7},
		"Addresses": {"Nobody says where a request comes from but a proxy that is trusted.", 12, page, func(i int) http.Header {
			return jsonHeaders("X-Forwarded-For", fmt.Sprintf("10.0.0.%d", i), "Forwarded", fmt.Sprintf("for=10.0.1.%d", i), "X-Real-Ip", fmt.Sprintf("10.0.2.%d", i))
		}, 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if passed := send(tc.n, tc.body, tc.headers); passed < 1 || passed > tc.atMost {
				t.Errorf("%s\n%d of %d pass, want at most %d", tc.reason, passed, tc.n, tc.atMost)
			}
		})
	}
}

// What a client may ask to be told.
func TestCostReport(t *testing.T) {
	t.Parallel()
	p := hostileServer(t)
	const document = `{feed(first:20){nodes{id title}}}`
	var a struct {
		Data       json.RawMessage
		Extensions struct {
			Cost *struct{ Cost, Limit int }
		}
	}
	got := hostile{body: jsonBody(document), headers: jsonHeaders("Tallyfeed-Cost", "1")}.send(t, p)
	if err := json.Unmarshal(got.body, &a); err != nil || a.Extensions.Cost == nil || a.Extensions.Cost.Limit != 5000 || a.Extensions.Cost.Cost < 20*2 || a.Extensions.Cost.Cost > 20*2*3 {
		t.Errorf("a page of 20 with two fields: %v, %s", err, got.body)
	}
	if got := (hostile{body: jsonBody(document)}).send(t, p); strings.Contains(string(got.body), "extensions") {
		t.Errorf("nobody asked: %s", got.body)
	}
}

// Every answer has an id that is good for a log, whatever was asked for.
func TestRequestIDs(t *testing.T) {
	t.Parallel()
	p := hostileServer(t)
	for sent, same := range map[string]bool{
		"":                       false,
		"0123-abc_DEF.9":         true,
		"a b":                    false, // two words in a log
		`a"b=c`:                  false,
		"a\tb":                   false,
		"é":                      false,
		strings.Repeat("x", 128): true,
		strings.Repeat("x", 129): false,
	} {
		for _, body := range []string{plainBody, "{"} {
			got := hostile{body: body, headers: jsonHeaders("X-Request-Id", sent)}.send(t, p)
			id := got.header.Get("X-Request-Id")
			if same != (id == sent) || id == "" {
				t.Errorf("X-Request-Id %q is answered by %q", sent, id)
			}
		}
	}
}

// Pages of other origins read answers only where an operator lets them.
func TestOrigins(t *testing.T) {
	t.Parallel()
	const app, evil = "https://app.example", "https://evil.example"
	for name, tc := range map[string]struct {
		reason        string
		flag, origin  string
		read, allowed string // Access-Control-Allow-Origin, of the answer and of what is asked before
	}{
		"None":      {"Nobody was let in.", "", evil, "", ""},
		"Listed":    {"This one was.", app, app, app, app},
		"Other":     {"And no other.", app, evil, "", ""},
		"Like":      {"Nor one that ends alike.", app, "https://app.example.evil.example", "", ""},
		"Begins":    {"Nor one that begins alike.", app, "https://evil-app.example", "", ""},
		"Plain":     {"Nor the same name without TLS.", app, "http://app.example", "", ""},
		"Sandboxed": {"A page in a sandbox is null, whoever made it.", app, "null", "", ""},
		"All":       {"A star is all, for what nobody is signed in to.", "*", evil, "*", "*"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var args []string
			if tc.flag != "" {
				args = []string{"--cors-origins", tc.flag}
			}
			p := hostileServer(t, args...)
			got := hostile{body: plainBody, headers: jsonHeaders("Origin", tc.origin)}.send(t, p)
			if allowed := got.header.Get("Access-Control-Allow-Origin"); got.status != http.StatusOK || allowed != tc.read {
				t.Errorf("%s\nstatus %d, Access-Control-Allow-Origin: %q, want %q", tc.reason, got.status, allowed, tc.read)
			}
			asked := hostile{method: http.MethodOptions, headers: http.Header{
				"Origin": {tc.origin}, "Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"authorization,content-type"},
			}}.send(t, p)
			if allowed := asked.header.Get("Access-Control-Allow-Origin"); allowed != tc.allowed {
				t.Errorf("%s\nasked before: Access-Control-Allow-Origin: %q, want %q", tc.reason, allowed, tc.allowed)
			}
			for _, answer := range []reply{got, asked} {
				if answer.header.Get("Access-Control-Allow-Credentials") != "" {
					t.Errorf("%s\ncookies would come along: %v", tc.reason, answer.header)
				}
			}
			if vary := strings.Join(got.header.Values("Vary"), ", "); tc.flag == app && !strings.Contains(vary, "Origin") {
				t.Errorf("%s\na cache would mix origins: Vary: %s", tc.reason, vary)
			}
		})
	}
}
