package graph_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallyfeed/tallyfeed/archive"
	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/enginetest"
	"github.com/tallyfeed/tallyfeed/graph"
)

// archived does what Kafka and the archiver do: the likes of subs, one a second,
// oldest first.
func (e *edge) archived(t *testing.T, id string, m counter.Metric, at time.Time, subs ...string) {
	t.Helper()
	ordinals := counter.NewSQLOrdinals(e.db)
	for i, sub := range subs {
		given, err := ordinals.Give(t.Context(), []counter.Viewer{counter.Viewer(sub)})
		if err != nil {
			t.Fatal(err)
		}
		event := counter.Event{
			EntityType: counter.TypePost, EntityID: id, Metric: m.String(), Index: int(m), UserID: sub, Ordinal: given[counter.Viewer(sub)],
			Delta: 1, Like: int64(i + 1), Version: fmt.Sprintf("%d-0", at.Add(time.Duration(i)*time.Second).UnixMilli()),
		}
		if refused, err := e.archive.Apply(t.Context(), []counter.Event{event}); err != nil || len(refused) > 0 {
			t.Fatal(refused, err)
		}
	}
}

var longAgo = time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC)

// Who likes a post: newest first, page by page, nobody twice; one statement for
// all posts of a page.
func TestLikers(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	var subs []string
	for i := range 25 {
		subs = append(subs, fmt.Sprintf("fan%02d", i))
	}
	e.archived(t, "p60", counter.Like, longAgo, subs...)
	e.archived(t, "p59", counter.Like, longAgo, subs[:3]...)
	e.archived(t, "p58", counter.Fav, longAgo, subs...)

	const page = `query($n:Int,$a:String){post(id:"post:p60"){likers(first:$n,after:$a){totalCount edges{cursor likedAt node{id name}} nodes{id} pageInfo{hasNextPage hasPreviousPage startCursor endCursor}}}}`
	var got []string
	var after any
	for {
		a := e.ok(t, "", page, map[string]any{"n": 10, "a": after})
		edges, _ := a.at("post", "likers", "edges").([]any)
		for i := range edges {
			sub := subs[24-len(got)]
			if id := a.at("post", "likers", "edges", i, "node", "id"); id != idOf(sub) || a.at("post", "likers", "nodes", i, "id") != id {
				t.Fatalf("%v, want %s (%s)", id, sub, idOf(sub))
			}
			if at := a.at("post", "likers", "edges", i, "likedAt"); at != longAgo.Add(time.Duration(24-len(got))*time.Second).Format(time.RFC3339Nano) {
				t.Errorf("%s liked it at %v", sub, at)
			}
			got = append(got, sub)
		}
		info := func(name string) any { return a.at("post", "likers", "pageInfo", name) }
		if info("hasPreviousPage") != (after != nil) || info("endCursor") != a.at("post", "likers", "edges", len(edges)-1, "cursor") {
			t.Errorf("%s", a.raw)
		}
		if after = info("endCursor"); info("hasNextPage") != true {
			break
		}
	}
	if len(got) != 25 {
		t.Errorf("%d likers in pages of 10", len(got))
	}
	past := e.ok(t, "", page, map[string]any{"n": 10, "a": after})
	if edges, _ := past.at("post", "likers", "edges").([]any); len(edges) != 0 || past.at("post", "likers", "pageInfo", "endCursor") != nil {
		t.Errorf("behind the end: %s", past.raw)
	}
	for name, variables := range map[string]map[string]any{
		"none": {"n": 0}, "many": {"n": 101}, "no cursor": {"a": "hello"}, "another list's": {"a": "AQAGYVRlLybAMTAxOTk"}, "empty": {"a": ""},
	} {
		if a := e.ask(t, "", page, variables); a.code() != "BAD_USER_INPUT" || a.at("post", "likers") != nil {
			t.Errorf("%s: %s", name, a.raw)
		}
	}

	statements := countStatements(e, "FROM reactions")
	a := e.ok(t, "", `{feed(first:20){nodes{id likeCount likers(first:2){totalCount nodes{name}}}}}`, nil)
	if n := statements(); n != 1 {
		t.Errorf("%d statements for the likers of a page", n)
	}
	if nodes, _ := a.at("feed", "nodes", 2, "likers", "nodes").([]any); len(nodes) != 0 {
		t.Errorf("favs are nobody's business: %.600s", a.raw)
	}
	if nodes, _ := a.at("feed", "nodes", 1, "likers", "nodes").([]any); len(nodes) != 2 {
		t.Errorf("%.600s", a.raw)
	}
}

// Who may see who likes a post is the operator's to say.
func TestLikersPolicy(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	e.archived(t, "p60", counter.Like, longAgo, "eve")
	for policy, sees := range map[graph.LikersPolicy]map[string]bool{
		"":                 {"": true, "bob": true, "ada": true},
		graph.LikersPublic: {"": true, "bob": true, "ada": true},
		graph.LikersAuthor: {"": false, "bob": false, "ada": true},
		graph.LikersOff:    {"": false, "bob": false, "ada": false},
	} {
		e.handler = graph.NewHandler(e.services, graph.Options{Likers: policy})
		for sub, want := range sees {
			a := e.ok(t, sub, `{post(id:"post:p60"){likers{nodes{id}}}}`, nil)
			if seen := a.at("post", "likers") != nil; seen != want {
				t.Errorf("%q as %q: %s", policy, sub, a.raw)
			}
		}
	}
}

// What a viewer likes: right at once after a like and an unlike, whatever the
// archive knows; posts that are gone or not the viewer's to see are left out and
// the page is full; nobody else sees any of it.
func TestReactedPosts(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	for i := range 30 {
		e.archived(t, fmt.Sprintf("p%d", i+1), counter.Fav, longAgo.Add(time.Duration(i)*time.Minute), "bob")
	}
	e.archived(t, "secret", counter.Fav, longAgo.Add(time.Hour), "bob") // private since, and not bob's
	// The facts say the same: an own change is laid over by what they say.
	for i := range 30 {
		e.fact(t, "bob", fmt.Sprintf("p%d", i+1), counter.Fav, true)
	}
	e.forgetMine(t)
	e.ok(t, "ada", `mutation{deletePost(input:{id:"post:p28"}){deletedPostId}}`, nil)

	const list = `query($n:Int,$a:String){viewer{favedPosts(first:$n,after:$a){totalCount edges{cursor reactedAt node{id favCount viewerHasFaved}} nodes{id} pageInfo{hasNextPage hasPreviousPage endCursor}}}}`
	ids := func(a answer) (all []string) {
		nodes, _ := a.at("viewer", "favedPosts", "nodes").([]any)
		for i := range nodes {
			id, _ := a.at("viewer", "favedPosts", "nodes", i, "id").(string)
			all = append(all, strings.TrimPrefix(id, "post:p"))
			if a.at("viewer", "favedPosts", "edges", i, "node", "viewerHasFaved") != true {
				t.Errorf("in the list, and the flag is out: %.300s", a.raw)
			}
		}
		return all
	}
	expect := func(what string, a answer, total int, want string) {
		t.Helper()
		if got := strings.Join(ids(a), " "); got != want || a.at("viewer", "favedPosts", "totalCount") != float64(total) {
			t.Errorf("%s: %v: %s, want %d: %s", what, a.at("viewer", "favedPosts", "totalCount"), got, total, want)
		}
	}
	first := e.ok(t, "bob", list, map[string]any{"n": 5})
	expect("the archive's", first, 29, "30 29 27 26 25")
	second := e.ok(t, "bob", list, map[string]any{"n": 5, "a": first.at("viewer", "favedPosts", "pageInfo", "endCursor")})
	expect("the next page", second, 29, "24 23 22 21 20")

	e.ok(t, "bob", `mutation{fav(input:{subjectId:"post:p40"}){changed} unfav(input:{subjectId:"post:p29"}){changed}}`, nil)
	expect("after a fav and an unfav", e.ok(t, "bob", list, map[string]any{"n": 5}), 29, "40 30 27 26 25")
	expect("the page after the same cursor", e.ok(t, "bob", list, map[string]any{"n": 5, "a": first.at("viewer", "favedPosts", "pageInfo", "endCursor")}), 29, "24 23 22 21 20")
	e.ok(t, "bob", `mutation{unfav(input:{subjectId:"post:p40"}){changed} fav(input:{subjectId:"post:p29"}){changed} like(input:{subjectId:"post:p27"}){changed}}`, nil)
	expect("taken back; a like moves no fav", e.ok(t, "bob", list, map[string]any{"n": 5}), 29, "30 29 27 26 25")
	all := e.ok(t, "bob", list, map[string]any{"n": 100})
	if got := ids(all); len(got) != 29 || all.at("viewer", "favedPosts", "pageInfo", "hasNextPage") != false {
		t.Errorf("%d in all: %v", len(got), got)
	}
	liked := e.ok(t, "bob", `{viewer{likedPosts{totalCount nodes{id}}}}`, nil)
	if liked.at("viewer", "likedPosts", "totalCount") != 1.0 || liked.at("viewer", "likedPosts", "nodes", 0, "id") != "post:p27" {
		t.Errorf("%s", liked.raw)
	}

	for what, a := range map[string]answer{
		"bob, as eve sees him": e.ok(t, "eve", `query($i:ID!){node(id:$i){...on User{likedPosts{totalCount} favedPosts{totalCount}}}}`, map[string]any{"i": idOf("bob")}),
		"as nobody does":       e.ok(t, "", `query($i:ID!){node(id:$i){...on User{likedPosts{totalCount} favedPosts{totalCount}}}}`, map[string]any{"i": idOf("bob")}),
	} {
		if a.at("node") == nil || a.at("node", "likedPosts") != nil || a.at("node", "favedPosts") != nil {
			t.Errorf("%s: %s", what, a.raw)
		}
	}
	if a := e.ok(t, "nobody-yet", `{viewer{likedPosts{totalCount nodes{id} pageInfo{endCursor}}}}`, nil); a.at("viewer", "likedPosts", "totalCount") != 0.0 {
		t.Errorf("who never liked anything: %s", a.raw)
	}
}

// fact sets one, past the edge.
func (e *edge) fact(t *testing.T, sub, id string, m counter.Metric, want bool) {
	t.Helper()
	s, err := counter.NewSubject(counter.TypePost, id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.facts.Set(t.Context(), counter.Viewer(sub), s, m, want); err != nil {
		t.Fatal(err)
	}
}

// With Redis away, counts are those that the archive had last, and say so; flags
// are null, and there is one error. What the archive does not know is null.
func TestCountsFromArchive(t *testing.T) {
	t.Parallel()
	server := enginetest.StartRedis(t, enginetest.RedisOptions{})
	if !server.Real() {
		t.Skip("kills a real Redis")
	}
	e := edgeOn(t, server.URL(), t.TempDir()+"/feed.db")
	e.archived(t, "p60", counter.Like, longAgo, "eve", "joe")
	e.ok(t, "bob", `{feed(first:3){nodes{id likeCount}}}`, nil)
	server.Kill()
	a := e.ask(t, "bob", `{feed(first:3){nodes{id title likeCount favCount countsAsOf exactLikeCount viewerHasLiked}}}`, nil)
	if a.status != http.StatusOK || a.code() != "UNAVAILABLE" || a.at("feed", "nodes", 2, "title") != "Post 58" {
		t.Fatalf("status %d: %s", a.status, a.raw)
	}
	for i, want := range []map[string]any{
		{"likeCount": 2.0, "favCount": 0.0, "countsAsOf": longAgo.Add(time.Second).Format(time.RFC3339Nano), "exactLikeCount": nil, "viewerHasLiked": nil},
		{"likeCount": nil, "favCount": nil, "countsAsOf": nil, "exactLikeCount": nil, "viewerHasLiked": nil},
	} {
		for name, value := range want {
			if got := a.at("feed", "nodes", i, name); got != value {
				t.Errorf("node %d: %s is %v, want %v", i, name, got, value)
			}
		}
	}
}

// Somebody who leaves is nobody from the answer on, with a token that is still
// good; nobody leaves by a slip, or is made to.
func TestDeleteUser(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	remove := func(sub, id string) answer {
		return e.ask(t, sub, `mutation($i:ID!){deleteUser(input:{id:$i,clientMutationId:"c"}){deletedUserId clientMutationId}}`, map[string]any{"i": id})
	}
	for what, tc := range map[string]struct{ sub, id, code string }{
		"nobody": {"", idOf("bob"), "UNAUTHENTICATED"}, "another": {"eve", idOf("bob"), "FORBIDDEN"}, "a post": {"bob", "post:p1", "BAD_USER_INPUT"},
	} {
		if a := remove(tc.sub, tc.id); a.code() != tc.code {
			t.Errorf("%s: %s", what, a.raw)
		}
	}
	e.ok(t, "bob", `{viewer{id}}`, nil)
	if a := remove("bob", idOf("bob")); len(a.Errors) > 0 || a.at("deleteUser", "deletedUserId") != idOf("bob") || a.at("deleteUser", "clientMutationId") != "c" {
		t.Fatalf("%s", a.raw)
	}
	for _, document := range []string{`{viewer{id}}`, `{feed{nodes{id}}}`, `mutation{like(input:{subjectId:"post:p1"}){changed}}`} {
		if a := e.ask(t, "bob", document, nil); a.code() != "UNAUTHENTICATED" || a.Data != nil {
			t.Errorf("%s: %d %s", document, a.status, a.raw)
		}
	}
	e.ok(t, "eve", `{viewer{id}}`, nil)
}

// idOf is the id of a user in this API.
func idOf(sub string) string { return "user:" + base64.RawURLEncoding.EncodeToString([]byte(sub)) }

// countStatements counts the archive's statements that hold a text.
func countStatements(e *edge, text string) func() int {
	var n atomic.Int32
	hooked := e.db.WithQueryHook(queryHook(func(query string) {
		if strings.Contains(query, text) {
			n.Add(1)
		}
	}))
	e.with(func(s *graph.Services) { s.Archive = archive.NewStore(hooked) })
	return func() int { return int(n.Load()) }
}

type queryHook func(query string)

// BeforeQuery is part of bun.QueryHook.
func (h queryHook) BeforeQuery(ctx context.Context, event *bun.QueryEvent) context.Context {
	h(event.Query)
	return ctx
}

// AfterQuery is part of bun.QueryHook.
func (queryHook) AfterQuery(context.Context, *bun.QueryEvent) {}
