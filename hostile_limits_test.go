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

// The flag lets pages of these origins in, and of no others; graph has the rest.
func TestOriginsFlag(t *testing.T) {
	t.Parallel()
	const app = "https://app.example"
	p := hostileServer(t, "--cors-origins", app+",https://other.example")
	for origin, allowed := range map[string]bool{
		app: true, "https://other.example": true, "https://evil.example": false, "https://app.example.evil.example": false,
		"https://evil-app.example": false, "http://app.example": false, "https://app.example:8443": false, "null": false,
	} {
		got := hostile{body: plainBody, headers: jsonHeaders("Origin", origin)}.send(t, p)
		asked := hostile{method: http.MethodOptions, headers: http.Header{
			"Origin": {origin}, "Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"authorization,content-type"},
		}}.send(t, p)
		for _, answer := range []reply{got, asked} {
			want := ""
			if allowed {
				want = origin
			}
			if read := answer.header.Get("Access-Control-Allow-Origin"); read != want {
				t.Errorf("%s: status %d, Access-Control-Allow-Origin: %q, want %q", origin, answer.status, read, want)
			}
			if answer.header.Get("Access-Control-Allow-Credentials") != "" {
				t.Errorf("%s: cookies would come along: %v", origin, answer.header)
			}
			if vary := strings.Join(answer.header.Values("Vary"), ", "); !strings.Contains(vary, "Origin") {
				t.Errorf("%s: a cache would mix origins: Vary: %s", origin, vary)
			}
		}
	}
}
