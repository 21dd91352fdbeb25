package graph_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tallyfeed/tallyfeed/enginetest"
)

const overlayFields = `id likeCount favCount countsAsOf viewerHasLiked viewerHasFaved`

// A page costs the same round trips whatever the query's shape (FAULTS 36): two
// pipelines side by side, one for nobody's page, one more where snapshots are
// missing.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	shapes := map[string]struct {
		reason   string
		posts    int // different ones
		document string
	}{
		"Nodes":   {"The plain page.", 20, `{feed(first:20){nodes{` + overlayFields + `}}}`},
		"Edges":   {"Relay's shape: gqlgen's own batches fall apart here.", 20, `{feed(first:20){edges{cursor node{` + overlayFields + `}}}}`},
		"Both":    {"The same posts twice in one page.", 20, `{feed(first:20){edges{node{` + overlayFields + `}} nodes{` + overlayFields + `}}}`},
		"Aliases": {"The same field by two names.", 20, `{feed(first:20){nodes{a:likeCount b:likeCount c:viewerHasLiked}}}`},
		"Feeds": {
			"Several pages in one request.", 50,
			`{a:feed(first:20){nodes{` + overlayFields + `}} b:feed(first:50){edges{node{` + overlayFields + `}}} c:feed(first:1){nodes{likeCount}}}`,
		},
		"Lookups": {
			"Pages beside single posts.", 9,
			`{feed(first:5){nodes{` + overlayFields + `}} nodes(ids:["post:p1","post:p2","post:none","user:YWRh"]){... on Post{` + overlayFields + `}} post(id:"post:p3"){` + overlayFields + `} node(id:"post:p4"){... on Reactable{` + overlayFields + `}}}`,
		},
		"Skipped": {
			"A root field that is skipped announces nothing, and nobody waits for it.", 20,
			`query($no:Boolean=false){feed(first:20){nodes{` + overlayFields + `}} post(id:"post:p3")@include(if:$no){likeCount}}`,
		},
		"Fragments": {
			"Fields that come through fragments.", 20,
			`query{feed(first:20){...c}} fragment c on PostConnection{nodes{...p}} fragment p on Post{...on Reactable{` + overlayFields + `}}`,
		},
		"OneFails": {
			"A root field that fails announces nothing; the others must not wait for it.", 20,
			`{post(id:"post:none"){likeCount} node(id:"post:none"){id} feed(first:20){nodes{` + overlayFields + `}}}`,
		},
	}
	for name, tc := range shapes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEdge(t)
			e.ok(t, "bob", `mutation{like(input:{subjectId:"post:p1"}){changed}}`, nil) // an ordinal
			for _, state := range []struct {
				what, sub string
				trips     int
			}{
				{"snapshots missing", "bob", 3}, {"signed in", "bob", 2}, {"nobody", "", 1},
			} {
				e.trips.reset()
				e.ok(t, state.sub, tc.document, nil)
				got, commands := e.trips.seen()
				// A snapshot each; signed in also six reads, an epoch for each tag, and
				// the own changes.
				most := tc.posts
				if state.sub != "" {
					most = 8*tc.posts + 1
				}
				if state.trips == 3 {
					most += tc.posts // the folds
				}
				if commands > most {
					t.Errorf("%s\n%s: %d commands for %d posts, want at most %d", tc.reason, state.what, commands, tc.posts, most)
				}
				if got != state.trips {
					t.Errorf("%s\n%s: %d round trips with %d commands, want %d: %v", tc.reason, state.what, got, commands, state.trips, e.trips.names)
				}
			}
		})
	}
}

// A root field with an error of its own announces nothing either: the others come
// at once, in the same two trips.
func TestRootFieldWithError(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	const document = `{bad:node(id:"nonsense"){id} worse:feed(first:0){nodes{id}} feed(first:20){nodes{` + overlayFields + `}}}`
	e.ask(t, "bob", `{feed(first:20){nodes{likeCount}}}`, nil)
	e.ok(t, "bob", `mutation{like(input:{subjectId:"post:p1"}){changed}}`, nil)
	e.trips.reset()
	got := e.ask(t, "bob", `{bad:node(id:"nonsense"){id} feed(first:20){nodes{`+overlayFields+`}}}`, nil)
	if trips, _ := e.trips.seen(); trips != 2 || got.code() != "BAD_USER_INPUT" || got.at("feed", "nodes", 19, "likeCount") != 0.0 {
		t.Errorf("%d trips: %s", trips, got.raw)
	}
	if got := e.ask(t, "bob", document, nil); len(got.Errors) != 2 || got.Data != nil {
		t.Errorf("feed is non-null, so its error takes the data: %s", got.raw)
	}
}

// Who asks for no counts pays for none.
func TestNoOverlayAskedFor(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	e.trips.reset()
	e.ok(t, "bob", `{viewer{name} feed{nodes{id title author{name}} pageInfo{endCursor}}}`, nil)
	if got, _ := e.trips.seen(); got != 0 {
		t.Errorf("%d round trips", got)
	}
}

// A mutation's answer is the script's own: one trip for the change, one to
// remember it, none to read.
func TestMutationAnswer(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	const react = `mutation{like(input:{subjectId:"post:p1",clientMutationId:"m1"}){changed clientMutationId subject{` + overlayFields + `}}}`
	e.ok(t, "bob", `mutation{fav(input:{subjectId:"post:p2"}){changed}}`, nil)
	for i, changed := range []bool{true, false} {
		e.trips.reset()
		a := e.ok(t, "bob", react, nil)
		if trips, _ := e.trips.seen(); trips > 2+1-i { // the first may have to load the script
			t.Errorf("run %d: %d round trips", i, trips)
		}
		if a.at("like", "changed") != changed || a.at("like", "subject", "likeCount") != 1.0 ||
			a.at("like", "subject", "viewerHasLiked") != true || a.at("like", "subject", "viewerHasFaved") != false ||
			a.at("like", "clientMutationId") != "m1" {
			t.Errorf("run %d: %s", i, a.raw)
		}
	}
	a := e.ok(t, "bob", `mutation{
		a:like(input:{subjectId:"post:p3"}){subject{likeCount}}
		b:fav(input:{subjectId:"post:p3"}){subject{likeCount favCount viewerHasLiked viewerHasFaved}}
		c:unlike(input:{subjectId:"post:p3"}){subject{likeCount favCount viewerHasLiked viewerHasFaved}}}`, nil)
	if a.at("b", "subject", "likeCount") != 1.0 || a.at("b", "subject", "viewerHasLiked") != true ||
		a.at("c", "subject", "likeCount") != 0.0 || a.at("c", "subject", "viewerHasFaved") != true {
		t.Errorf("several in one request: %s", a.raw)
	}
}

// Own changes are seen by the viewer's next page, also through another server,
// before anything was folded; nobody else's flags are touched (FAULTS 28-30, 57).
func TestReadYourWrites(t *testing.T) {
	t.Parallel()
	url, file := enginetest.Redis(t), filepath.Join(t.TempDir(), "feed.db")
	a, b := edgeOn(t, url, file), edgeOn(t, url, file)
	const page = `{feed(first:3){nodes{` + overlayFields + `}}}`
	// Both know the snapshot, with one like of ann's in it, and that bob has no
	// ordinal.
	a.ok(t, "ann", `mutation{like(input:{subjectId:"post:p60"}){changed}}`, nil)
	check := func(server *edge, when, sub string, liked any, count float64) {
		t.Helper()
		got := server.ok(t, sub, page, nil)
		if got.at("feed", "nodes", 0, "viewerHasLiked") != liked || got.at("feed", "nodes", 0, "likeCount") != count {
			t.Errorf("%s, %q: %s", when, sub, got.raw)
		}
	}
	for _, server := range []*edge{a, b} {
		check(server, "at first", "bob", false, 1)
	}
	a.ok(t, "bob", `mutation{like(input:{subjectId:"post:p60"}){changed}}`, nil)
	for _, server := range []*edge{a, b} {
		check(server, "after the like", "bob", true, 2)
		check(server, "after the like, before the fold", "eve", false, 1)
		check(server, "after the like, before the fold", "", nil, 1)
	}
	b.ok(t, "bob", `mutation{unlike(input:{subjectId:"post:p60"}){changed}}`, nil)
	for _, server := range []*edge{a, b} {
		check(server, "after the unlike", "bob", false, 1)
	}
}

// A lit flag is never beside a zero, also when what was remembered of the like
// is gone and the snapshot is from before it (FAULTS 29).
func TestLitFlagNeverBesideZero(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	const page = `{feed(first:1){nodes{` + overlayFields + `}}}`
	e.ok(t, "bob", page, nil)
	e.ok(t, "bob", `mutation{like(input:{subjectId:"post:p60"}){changed}}`, nil)
	e.forgetMine(t)
	got := e.ok(t, "bob", page, nil)
	if got.at("feed", "nodes", 0, "viewerHasLiked") != true || got.at("feed", "nodes", 0, "likeCount") != 1.0 {
		t.Error(got.raw)
	}
}

// With Redis away a page is a page: 200, its posts, nulls, one error without an
// address; and all is well as soon as Redis is back.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	server := enginetest.StartRedis(t, enginetest.RedisOptions{AOF: true})
	if !server.Real() {
		t.Skip("stops a real Redis")
	}
	e := edgeOn(t, server.URL(), filepath.Join(t.TempDir(), "feed.db"))
	const page = `{a:feed(first:20){nodes{title ` + overlayFields + `}} post(id:"post:p1"){title likeCount}}`
	e.ok(t, "bob", `mutation{like(input:{subjectId:"post:p60"}){changed}}`, nil)
	e.ok(t, "bob", page, nil)
	check := func(how string) {
		t.Helper()
		got := e.ask(t, "bob", page, nil)
		if got.status != 200 || got.code() != "UNAVAILABLE" || got.at("a", "nodes", 19, "title") == nil ||
			got.at("a", "nodes", 0, "likeCount") != nil || got.at("a", "nodes", 0, "viewerHasLiked") != nil {
			t.Errorf("%s: status %d, %s", how, got.status, got.raw)
		}
		for _, word := range []string{"dial", "sock", "redis", "127.0.0.1", "timeout"} {
			if strings.Contains(strings.ToLower(got.raw), word) {
				t.Errorf("%s: the answer says %q: %s", how, word, got.raw)
			}
		}
		if got := e.ask(t, "bob", `mutation{like(input:{subjectId:"post:p2"}){changed}}`, nil); got.code() != "UNAVAILABLE" {
			t.Errorf("%s: a like got %s", how, got.raw)
		}
	}
	server.Stop()
	check("stalled")
	server.Continue()
	e.ok(t, "bob", page, nil)
	server.Kill()
	check("dead")
	server.Restart()
	got := e.ok(t, "bob", page, nil)
	if got.at("a", "nodes", 0, "viewerHasLiked") != true || got.at("a", "nodes", 0, "likeCount") != 1.0 {
		t.Errorf("after the restart: %s", got.raw)
	}
}
