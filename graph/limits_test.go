package graph_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallyfeed/tallyfeed/auth"
	"github.com/tallyfeed/tallyfeed/graph"
)

// purse is a rate limit that a test fills.
type purse struct {
	mu   sync.Mutex
	left map[string]int
}

func (p *purse) PerMinute() int { return 1000 }

func (p *purse) Take(_ context.Context, caller string, n int) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left[caller] < n {
		return 2500 * time.Millisecond
	}
	p.left[caller] -= n
	return 0
}

// Queries cost what they ask for, changes are counted, and each caller has a
// limit of their own.
func TestRateLimits(t *testing.T) {
	t.Parallel()
	costs := &purse{left: map[string]int{"viewer:bob": 100, "address:192.0.2.1": 5}}
	mutations := &purse{left: map[string]int{"viewer:bob": 3}}
	var log locked
	handler := newTransport(t, &log, graph.Options{Costs: costs, Mutations: mutations})
	token, err := auth.Mint(secret, "bob", "", "", "", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	const like = `like(input:{subjectId:"post:1"}){changed}`
	for _, tc := range []struct {
		reason, document string
		signedIn         bool
		media            string
		status           int
	}{
		{"A page costs its fields times its posts.", "{feed(first:20){nodes{id title}}}", true, newMedia, 200},          // 61 of 100
		{"What is left does not do.", "{feed(first:20){nodes{id title}}}", true, newMedia, 429},                         //
		{"A smaller one still goes.", "{feed(first:5){nodes{id}}}", true, newMedia, 200},                                // 11
		{"Clients of the older media type learn it as well.", "{feed(first:20){nodes{id title}}}", true, oldMedia, 429}, //
		{"Two changes.", "mutation{a:" + like + " b:" + like + "}", true, newMedia, 200},                                // and 4
		{"Two more are one too many.", "mutation{a:" + like + " b:" + like + "}", true, newMedia, 429},                  //
		{"An address has its own.", "{viewer{id name}}", false, newMedia, 200},                                          // 3 of 5
		{"It is used up.", "{viewer{id name}}", false, newMedia, 429},                                                   //
		{"What can't be run costs nothing.", "{nothing}", false, newMedia, 400},                                         //
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/graphql", strings.NewReader(quoted(tc.document)))
		r.Header = http.Header{"Content-Type": {oldMedia}, "Accept": {tc.media}}
		if tc.signedIn {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != tc.status {
			t.Errorf("%s\nstatus %d, want %d: %s", tc.reason, w.Code, tc.status, w.Body)
		}
		limited := w.Code == http.StatusTooManyRequests
		if limited != (w.Header().Get("Retry-After") == "3") || limited != strings.Contains(w.Body.String(), `"RATE_LIMITED"`) {
			t.Errorf("%s\nRetry-After: %q: %s", tc.reason, w.Header().Get("Retry-After"), w.Body)
		}
	}
}

// Who asks is told what an operation costs, whatever its shape; nobody else is.
func TestCostShown(t *testing.T) {
	t.Parallel()
	var log locked
	handler := newTransport(t, &log, graph.Options{Costs: &purse{left: map[string]int{"address:192.0.2.1": 100_000}}})
	for name, tc := range map[string]struct {
		reason, document, variables string
		cost                        int
	}{
		"Plain":         {"A field is 1.", "{viewer{id name}}", "", 3},
		"Page":          {"Below a page, times its size.", "{feed(first:20){nodes{id title} pageInfo{endCursor}}}", "", 1 + 20*5},
		"Default":       {"What is not said is the default.", "{feed{nodes{id}}}", "", 1 + 20*2},
		"Variable":      {"What a variable says.", "query($n:Int){feed(first:$n){nodes{id}}}", `{"n":50}`, 1 + 50*2},
		"VariableUnset": {"What the variable's own default says.", "query($n:Int=7){feed(first:$n){nodes{id}}}", "", 1 + 7*2},
		"VariableNull":  {"Null is counted as the most.", "query($n:Int){feed(first:$n){nodes{id}}}", `{"n":null}`, 1 + 100*2},
		"TooMany":       {"More than it takes is the most.", "{feed(first:2000000){nodes{id}}}", "", 1 + 100*2},
		"Negative":      {"Less than nothing is no discount.", "{feed(first:-5){nodes{id}}}", "", 1 + 100*2},
		"Ids":           {"Times the ids.", `{nodes(ids:["post:1","post:2","post:3"]){id ...on Post{title}}}`, "", 1 + 3*2},
		"IdsVariable":   {"Also as a variable.", `query($i:[ID!]!){nodes(ids:$i){id}}`, `{"i":["post:1","post:2"]}`, 1 + 2},
		"Fragments":     {"A fragment costs at each use.", "{a:feed(first:10){...p} b:feed(first:1){...p}} fragment p on PostConnection{nodes{id}}", "", 2 + 10*2 + 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			variables := tc.variables
			if variables == "" {
				variables = "{}"
			}
			body := strings.TrimSuffix(quoted(tc.document), "}") + `,"variables":` + variables + "}"
			for _, asked := range []string{"", "1"} {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/graphql", strings.NewReader(body))
				r.Header.Set("Content-Type", oldMedia)
				if asked != "" {
					r.Header.Set("Tallyfeed-Cost", asked)
				}
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				var a struct {
					Extensions struct {
						Cost *struct{ Cost, Limit, PerMinute int }
					}
				}
				if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
					t.Fatal(err)
				}
				switch {
				case asked == "":
					if strings.Contains(w.Body.String(), "extensions\":{\"cost") {
						t.Errorf("not asked for: %s", w.Body)
					}
				case a.Extensions.Cost == nil || a.Extensions.Cost.Cost != tc.cost || a.Extensions.Cost.Limit != 5000 || a.Extensions.Cost.PerMinute != 1000:
					t.Errorf("%s\nwant %d: %s", tc.reason, tc.cost, w.Body)
				}
			}
		})
	}
}
