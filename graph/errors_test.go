package graph_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/feed"
	"github.com/tallyfeed/tallyfeed/graph"
)

// userOf is the id of a user, as a client would take it from an answer.
func userOf(sub string) string {
	return "user:" + base64.RawURLEncoding.EncodeToString([]byte(sub))
}

// What does not exist, or is not the viewer's to see, is null without an error;
// what could never be an id is null with one that names the argument, each at its
// own place: neither costs a client the rest.
func TestNotThere(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	ids := map[string]struct{ reason, id string }{
		"Unknown":       {"No such post.", "post:nothing"},
		"Private":       {"A private post looks as if it did not exist.", "post:secret"},
		"UnknownUser":   {"Nobody of that sub has ever been here.", userOf("nobody")},
		"Empty":         {"Not an id.", ""},
		"NoType":        {"Not an id.", "p1"},
		"UnknownType":   {"A type that has no nodes.", "comment:p1"},
		"UpperType":     {"Ids are compared byte by byte.", "POST:p1"},
		"NoID":          {"A type alone.", "post:"},
		"Star":          {"It would be a pattern in a Redis key.", "post:*"},
		"Question":      {"It would be a pattern in a Redis key.", "post:p?"},
		"Bracket":       {"It would be a pattern in a Redis key.", "post:[p]1"},
		"Colon":         {"It would be another key.", "post:p1:few"},
		"Brace":         {"It would be another hash tag.", "post:{d5}"},
		"OpenBrace":     {"It would be another hash tag.", "post:p{1"},
		"CloseBrace":    {"It would be another hash tag.", "post:p}1"},
		"Newline":       {"It would end a command in a naive client.", "post:p1\r\nFLUSHALL"},
		"NUL":           {"PostgreSQL takes none.", "post:p\x001"},
		"Space":         {"Ids have none.", " post:p1"},
		"Quote":         {"It would end a string in naive SQL.", "post:' OR 1=1 --"},
		"Long":          {"Longer than any id.", "post:" + strings.Repeat("a", 300)},
		"Letters":       {"Letters beyond ASCII are no ids.", "post:pöst"},
		"BadBase64":     {"A user's id that no user has.", "user:!!!"},
		"PaddedBase64":  {"Padding: another text for the same user.", "user:YWRhbQ=="},
		"SpareBits":     {"Another text for the same bytes.", "user:YWRhbR"},
		"EmptyUser":     {"No sub is empty.", "user:"},
		"UserNUL":       {"PostgreSQL takes none, so it must not get there.", userOf("a\x00b")},
		"UserNoUTF8":    {"No sub is like that.", userOf("\xff\xfe")},
		"UserOver128":   {"No sub is longer than 128 characters.", userOf(strings.Repeat("a", 129))},
		"UserVeryLong":  {"Nor reaches the decoder.", "user:" + strings.Repeat("YWRh", 1000)},
		"UserWithQuote": {"A sub may hold anything printable; nobody has this one.", userOf(`' OR 1=1 -- "`)},
	}
	for name, tc := range ids {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := e.ask(t, "bob", `query($id:ID!){node(id:$id){id} post(id:$id){id} nodes(ids:[$id,"post:p1",$id]){id}}`,
				map[string]any{"id": tc.id})
			want := 4 // node, post, and twice nodes
			switch name {
			case "Unknown", "Private":
				want = 0
			case "UnknownUser", "UserNUL", "UserNoUTF8", "UserWithQuote":
				want = 1 // a user's id, which is no post's
			}
			if a.status != http.StatusOK || len(a.Errors) != want {
				t.Errorf("%s\nstatus %d, %d errors, want %d: %s", tc.reason, a.status, len(a.Errors), want, a.raw)
			}
			for _, failure := range a.Errors {
				if failure.Extensions["code"] != "BAD_USER_INPUT" || !strings.HasPrefix(failure.Message, "id") {
					t.Errorf("%s\n%+v", tc.reason, failure)
				}
			}
			if a.at("node") != nil || a.at("post") != nil || a.at("nodes", 0) != nil || a.at("nodes", 2) != nil {
				t.Errorf("%s\nit is there: %s", tc.reason, a.raw)
			}
			if a.at("nodes", 1, "id") != "post:p1" {
				t.Errorf("%s\nit took its neighbour along: %s", tc.reason, a.raw)
			}
		})
	}
}

// The same in mutations: NOT_FOUND for what can't be seen, BAD_USER_INPUT that
// names the argument for what is no id at all.
func TestMutationIDs(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	mutations := map[string]struct{ argument, document string }{
		"like":       {"subjectId", `mutation($id:ID!){like(input:{subjectId:$id}){changed}}`},
		"unlike":     {"subjectId", `mutation($id:ID!){unlike(input:{subjectId:$id}){changed}}`},
		"fav":        {"subjectId", `mutation($id:ID!){fav(input:{subjectId:$id}){changed}}`},
		"unfav":      {"subjectId", `mutation($id:ID!){unfav(input:{subjectId:$id}){changed}}`},
		"updatePost": {"id", `mutation($id:ID!){updatePost(input:{id:$id,title:"Mine now"}){post{id}}}`},
		"deletePost": {"id", `mutation($id:ID!){deletePost(input:{id:$id}){deletedPostId}}`},
	}
	ids := map[string]struct{ reason, id, code string }{
		"Unknown": {"No such post.", "post:nothing", "NOT_FOUND"},
		"Private": {"Another code would tell that it exists.", "post:secret", "NOT_FOUND"},
		"User":    {"A user is a node and can't be liked.", userOf("ada"), "BAD_USER_INPUT"},
		"Empty":   {"Not an id.", "", "BAD_USER_INPUT"},
		"NoType":  {"Not an id.", "p1", "BAD_USER_INPUT"},
		"Star":    {"A pattern must never reach a key.", "post:*", "BAD_USER_INPUT"},
		"Brace":   {"Nor a hash tag.", "post:{d5}", "BAD_USER_INPUT"},
		"Colon":   {"Nor another key.", "post:p1:few", "BAD_USER_INPUT"},
		"Newline": {"Nor a line end.", "post:p1\n", "BAD_USER_INPUT"},
		"Long":    {"Longer than any id.", "post:" + strings.Repeat("a", 65), "BAD_USER_INPUT"},
		"Huge":    {"The answer must not repeat it.", "post:" + strings.Repeat("hush", 3000), "BAD_USER_INPUT"},
	}
	for mutation, m := range mutations {
		for name, tc := range ids {
			t.Run(mutation+"/"+name, func(t *testing.T) {
				t.Parallel()
				variables := map[string]any{"id": tc.id}
				a := e.ask(t, "bob", m.document, variables)
				if a.code() != tc.code || a.status != http.StatusOK || a.Data != nil {
					t.Errorf("%s\nwant %s: status %d, %s", tc.reason, tc.code, a.status, a.raw)
				}
				if tc.code == "BAD_USER_INPUT" && len(a.Errors) == 1 && !strings.HasPrefix(a.Errors[0].Message, m.argument+" ") {
					t.Errorf("%s\nthe message does not name %s: %s", tc.reason, m.argument, a.raw)
				}
				if len(a.raw) > 400 || strings.Contains(a.raw, "hush") {
					t.Errorf("%s\nthe answer repeats the id: %.500s", tc.reason, a.raw)
				}
				if a := e.ask(t, "", m.document, variables); a.code() != "UNAUTHENTICATED" || a.Data != nil {
					t.Errorf("%s\nnobody must learn more than UNAUTHENTICATED: %s", tc.reason, a.raw)
				}
			})
		}
	}
}

// What is wrong with an argument is said with the argument's name.
func TestBadInput(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	many := make([]string, 101)
	for i := range many {
		many[i] = fmt.Sprintf("post:p%d", i)
	}
	cases := map[string]struct {
		reason, document string
		variables        map[string]any
		argument         string
	}{
		"FirstZero":     {"A page of nothing is a mistake.", `{feed(first:0){nodes{id}}}`, nil, "first"},
		"FirstNegative": {"There is no backwards paging.", `{feed(first:-1){nodes{id}}}`, nil, "first"},
		"FirstLarge":    {"One more than the most.", `{feed(first:101){nodes{id}}}`, nil, "first"},
		"FirstHuge":     {"The largest Int there is.", `{feed(first:2147483647){nodes{id}}}`, nil, "first"},
		"CursorText":    {"Not a cursor.", `{feed(after:"2026-11-01"){nodes{id}}}`, nil, "after"},
		"CursorEmpty":   {"An empty cursor is a client's bug, and not the first page.", `{feed(after:""){nodes{id}}}`, nil, "after"},
		"CursorCut":     {"A cursor that lost its end.", `{feed(after:"AQAGQjp"){nodes{id}}}`, nil, "after"},
		"CursorHuge":    {"Longer than any cursor.", `query($c:String){feed(after:$c){nodes{id}}}`, map[string]any{"c": strings.Repeat("A", 10_000)}, "after"},
		"TooManyIDs":    {"One more than the most.", `query($ids:[ID!]!){nodes(ids:$ids){id}}`, map[string]any{"ids": many}, "ids"},
		"TitleEmpty":    {"A post has a title.", `mutation{publishPost(input:{title:"",body:"b"}){post{id}}}`, nil, "title"},
		"TitleBlank":    {"Nothing to see is no title.", `mutation{publishPost(input:{title:" \t\u00a0",body:"b"}){post{id}}}`, nil, "title"},
		"TitleLong":     {"One character more than the most.", `mutation($t:String!){publishPost(input:{title:$t,body:"b"}){post{id}}}`, map[string]any{"t": strings.Repeat("ä", 301)}, "title"},
		"TitleNUL":      {"PostgreSQL takes none.", `mutation($t:String!){publishPost(input:{title:$t,body:"b"}){post{id}}}`, map[string]any{"t": "a\x00b"}, "title"},
		"BodyLong":      {"One character more than the most.", `mutation($t:String!){publishPost(input:{title:"t",body:$t}){post{id}}}`, map[string]any{"t": strings.Repeat("b", 20_001)}, "body"},
		"UpdateTitle":   {"The same holds for a change.", `mutation{updatePost(input:{id:"post:p1",title:"  "}){post{id}}}`, nil, "title"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := e.ask(t, "ada", tc.document, tc.variables)
			if a.code() != "BAD_USER_INPUT" || a.status != http.StatusOK {
				t.Fatalf("%s\nstatus %d: %.500s", tc.reason, a.status, a.raw)
			}
			if !strings.HasPrefix(a.Errors[0].Message, tc.argument+" ") || len(a.Errors[0].Path) == 0 || len(a.raw) > 400 {
				t.Errorf("%s\nwant a short message that names %s, and the path: %.500s", tc.reason, tc.argument, a.raw)
			}
		})
	}
	t.Run("AtTheLimits", func(t *testing.T) {
		t.Parallel()
		a := e.ok(t, "ada", `query($ids:[ID!]!){one:feed(first:1){nodes{id}} all:feed(first:100){nodes{id}} null:feed(first:null,after:null){nodes{id}} nodes(ids:$ids){id}}`,
			map[string]any{"ids": many[:100]})
		for field, want := range map[string]int{"one": 1, "all": 60, "null": 20} {
			if nodes, _ := a.at(field, "nodes").([]any); len(nodes) != want {
				t.Errorf("%s: %d posts, want %d", field, len(nodes), want)
			}
		}
		if nodes, _ := a.at("nodes").([]any); len(nodes) != 100 {
			t.Errorf("nodes: %d", len(nodes))
		}
	})
}

// A private post is its author's alone, whichever way it is asked for.
func TestPrivate(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	const ask = `{post(id:"post:secret"){title visibility likeCount} node(id:"post:secret"){id} nodes(ids:["post:secret","post:p1"]){id}
		feed(first:100){nodes{id}}}`
	a := e.ok(t, "ada", ask, nil)
	if a.at("post", "title") != "Mine" || a.at("post", "visibility") != "PRIVATE" || a.at("node", "id") != "post:secret" || a.at("nodes", 0, "id") != "post:secret" {
		t.Errorf("its author does not see it: %s", a.raw)
	}
	if strings.Contains(fmt.Sprint(a.at("feed")), "secret") {
		t.Error("it is in its author's feed")
	}
	like := `mutation{like(input:{subjectId:"post:secret"}){changed subject{likeCount viewerHasLiked}}}`
	if a := e.ok(t, "ada", like, nil); a.at("like", "changed") != true || a.at("like", "subject", "likeCount") != 1.0 {
		t.Errorf("its author can't like it: %s", a.raw)
	}
	for _, sub := range []string{"bob", ""} {
		// It was just read for its author, so it is in the cache.
		if a := e.ok(t, sub, ask, nil); a.at("post") != nil || a.at("node") != nil || a.at("nodes", 0) != nil || a.at("nodes", 1) == nil || strings.Contains(a.raw, "secret") {
			t.Errorf("%q sees it: %s", sub, a.raw)
		}
	}
	if a := e.ask(t, "bob", like, nil); a.code() != "NOT_FOUND" {
		t.Errorf("bob's like: %s", a.raw)
	}

	// What is made private is gone for others from their next request on, and
	// comes back with its counts.
	e.ok(t, "bob", `mutation{like(input:{subjectId:"post:p60"}){changed}}`, nil)
	e.ok(t, "ada", `mutation{updatePost(input:{id:"post:p60",visibility:PRIVATE}){post{visibility}}}`, nil)
	a = e.ok(t, "bob", `{post(id:"post:p60"){id} feed(first:1){nodes{id}}}`, nil)
	if a.at("post") != nil || a.at("feed", "nodes", 0, "id") != "post:p59" {
		t.Errorf("bob, after it was made private: %s", a.raw)
	}
	if a := e.ask(t, "bob", `mutation{unlike(input:{subjectId:"post:p60"}){changed}}`, nil); a.code() != "NOT_FOUND" {
		t.Errorf("bob's unlike: %s", a.raw)
	}
	e.ok(t, "ada", `mutation{updatePost(input:{id:"post:p60",visibility:PUBLIC}){post{visibility}}}`, nil)
	a = e.ok(t, "bob", `{feed(first:1){nodes{id likeCount viewerHasLiked}}}`, nil)
	if a.at("feed", "nodes", 0, "id") != "post:p60" || a.at("feed", "nodes", 0, "likeCount") != 1.0 || a.at("feed", "nodes", 0, "viewerHasLiked") != true {
		t.Errorf("bob, after it was made public: %s", a.raw)
	}
}

// Only what is given changes, and only its author may.
func TestUpdate(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	for _, document := range []string{
		`mutation{updatePost(input:{id:"post:p1",title:"Taken"}){post{id}}}`,
		`mutation{updatePost(input:{id:"post:p1"}){post{id}}}`,
		`mutation{deletePost(input:{id:"post:p1"}){deletedPostId}}`,
	} {
		if a := e.ask(t, "bob", document, nil); a.code() != "FORBIDDEN" || a.Data != nil {
			t.Errorf("%s by somebody else: %s", document, a.raw)
		}
	}
	cases := []struct{ reason, input, title, body, visibility string }{
		{"Nothing given.", ``, "Post 1", "Body 1", "PUBLIC"},
		{"Null is as good as absent.", `,title:null,body:null,visibility:null`, "Post 1", "Body 1", "PUBLIC"},
		{"The title alone.", `,title:"New"`, "New", "Body 1", "PUBLIC"},
		{"The body alone, and empty.", `,body:""`, "New", "", "PUBLIC"},
		{"The visibility alone.", `,visibility:PRIVATE`, "New", "", "PRIVATE"},
		{"All.", `,title:"T",body:"B",visibility:PUBLIC`, "T", "B", "PUBLIC"},
	}
	e.ok(t, "bob", `mutation{like(input:{subjectId:"post:p1"}){changed}}`, nil)
	for _, tc := range cases {
		const fields = `{title body visibility publishedAt author{name} likeCount viewerHasLiked}`
		a := e.ok(t, "ada", `mutation{updatePost(input:{id:"post:p1",clientMutationId:"c"`+tc.input+`}){clientMutationId post`+fields+`}}`, nil)
		after := e.ok(t, "ada", `{post(id:"post:p1")`+fields+`}`, nil)
		for _, post := range []any{a.at("updatePost", "post"), after.at("post")} {
			got, _ := post.(map[string]any)
			if got["title"] != tc.title || got["body"] != tc.body || got["visibility"] != tc.visibility || got["publishedAt"] != "2026-11-01T08:01:00Z" {
				t.Errorf("%s\n%v", tc.reason, got)
			}
			if got["likeCount"] == nil || got["viewerHasLiked"] != false {
				t.Errorf("%s\nthe overlay of the answer: %v", tc.reason, got)
			}
		}
		if a.at("updatePost", "clientMutationId") != "c" {
			t.Errorf("%s\n%s", tc.reason, a.raw)
		}
	}
}

// Published: at once in the feed of this server. Deleted: gone for good, and all
// that was counted with it.
func TestPublishAndDelete(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	e.ok(t, "bob", `{feed(first:3){nodes{id}}}`, nil) // in the cache
	a := e.ok(t, "bob", `mutation{publishPost(input:{title:"First!",body:"",clientMutationId:"x"}){clientMutationId
		post{id title body visibility publishedAt author{id} likeCount favCount viewerHasLiked viewerHasFaved}}}`, nil)
	id, _ := a.at("publishPost", "post", "id").(string)
	if a.at("publishPost", "post", "visibility") != "PUBLIC" || a.at("publishPost", "post", "author", "id") != userOf("bob") ||
		a.at("publishPost", "clientMutationId") != "x" || a.at("publishPost", "post", "likeCount") != 0.0 || a.at("publishPost", "post", "viewerHasLiked") != false {
		t.Errorf("published: %s", a.raw)
	}
	at, err := time.Parse(time.RFC3339, fmt.Sprint(a.at("publishPost", "post", "publishedAt")))
	if err != nil || time.Since(at).Abs() > time.Minute {
		t.Errorf("publishedAt %v, %v", at, err)
	}
	variables := map[string]any{"id": id}
	for _, sub := range []string{"bob", "eve", ""} {
		a := e.ok(t, sub, `query($id:ID!){post(id:$id){id} feed(first:1){nodes{id}}}`, variables)
		if a.at("post", "id") != id || a.at("feed", "nodes", 0, "id") != id {
			t.Errorf("%q does not see it at once: %s", sub, a.raw)
		}
	}
	hidden := e.ok(t, "bob", `mutation{publishPost(input:{title:"Mine",body:"b",visibility:PRIVATE}){post{id}}}`, nil)
	if a := e.ok(t, "bob", `{feed(first:1){nodes{id}}}`, nil); a.at("feed", "nodes", 0, "id") == hidden.at("publishPost", "post", "id") {
		t.Error("a private post is in the feed")
	}

	const like = `mutation($id:ID!){like(input:{subjectId:$id}){changed}}`
	const drop = `mutation($id:ID!){deletePost(input:{id:$id,clientMutationId:"d"}){deletedPostId clientMutationId}}`
	e.ok(t, "eve", like, variables)
	if a := e.ask(t, "eve", drop, variables); a.code() != "FORBIDDEN" {
		t.Errorf("eve deletes it: %s", a.raw)
	}
	if a := e.ok(t, "bob", drop, variables); a.at("deletePost", "deletedPostId") != id || a.at("deletePost", "clientMutationId") != "d" {
		t.Errorf("deleted: %s", a.raw)
	}
	for name, document := range map[string]string{
		"like": like, "unlike": `mutation($id:ID!){unlike(input:{subjectId:$id}){changed}}`, "second delete": drop,
		"update": `mutation($id:ID!){updatePost(input:{id:$id,title:"t"}){post{id}}}`,
	} {
		for _, sub := range []string{"bob", "eve"} {
			if a := e.ask(t, sub, document, variables); a.code() != "NOT_FOUND" {
				t.Errorf("%s after the delete by %s: %s", name, sub, a.raw)
			}
		}
	}
	a = e.ok(t, "bob", `query($id:ID!){post(id:$id){id} node(id:$id){id} nodes(ids:[$id]){id} feed(first:1){nodes{id}}}`, variables)
	if a.at("post") != nil || a.at("node") != nil || a.at("nodes", 0) != nil || a.at("feed", "nodes", 0, "id") != "post:p60" {
		t.Errorf("it is still there: %s", a.raw)
	}
}

// Several mutations in one request run in order, and one that fails takes only
// its own field with it where that may be null; here none may, so the rest is
// done and not told.
func TestMutationsInOrder(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	a := e.ask(t, "bob", `mutation{a:like(input:{subjectId:"post:p1"}){changed} b:like(input:{subjectId:"post:none"}){changed} c:like(input:{subjectId:"post:p2"}){changed}}`, nil)
	if a.code() != "NOT_FOUND" || len(a.Errors) != 1 || fmt.Sprint(a.Errors[0].Path) != "[b]" || a.Data != nil {
		t.Errorf("%s", a.raw)
	}
	if a := e.ok(t, "bob", `{post(id:"post:p1"){viewerHasLiked}}`, nil); a.at("post", "viewerHasLiked") != true {
		t.Errorf("the like before the failure: %s", a.raw)
	}
}

func TestUsers(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	a := e.ok(t, "ada", `query($ada:ID!){viewer{id name} node(id:$ada){id ... on User{name}} nodes(ids:[$ada,"post:p1",$ada]){id}}`, map[string]any{"ada": userOf("ada")})
	if a.at("viewer", "id") != userOf("ada") || a.at("viewer", "name") != "Ada" {
		t.Errorf("a token without a name, and an import that knows it: %s", a.raw)
	}
	if a.at("node", "name") != "Ada" || a.at("nodes", 0, "id") != userOf("ada") || a.at("nodes", 1, "id") != "post:p1" || a.at("nodes", 2, "id") != userOf("ada") {
		t.Errorf("the user as a node: %s", a.raw)
	}
	if a := e.ok(t, "", `{viewer{id}}`, nil); a.at("viewer") != nil {
		t.Errorf("nobody is somebody: %s", a.raw)
	}
	// A sub is any string: it comes back through the id.
	const odd = "auth0|5f7c8ec7c33c6c004bbafe82 Ünï/*?[{}]:😀"
	a = e.ok(t, odd, `{viewer{id name}}`, nil)
	if a.at("viewer", "id") != userOf(odd) || a.at("viewer", "name") != "" {
		t.Errorf("an odd sub: %s", a.raw)
	}
	e.ok(t, odd, `mutation{like(input:{subjectId:"post:p1"}){changed}}`, nil)
	if a := e.ok(t, odd, `{post(id:"post:p1"){viewerHasLiked}}`, nil); a.at("post", "viewerHasLiked") != true {
		t.Errorf("an odd sub's like: %s", a.raw)
	}
	e.ok(t, odd, `mutation{publishPost(input:{title:"t",body:"b"}){post{id}}}`, nil)
	if a := e.ok(t, "", `query($id:ID!){node(id:$id){id}}`, map[string]any{"id": userOf(odd)}); a.at("node", "id") != userOf(odd) {
		t.Errorf("an odd sub as a node: %s", a.raw)
	}
}

// Pages end where the feed does, whatever their size; nothing comes twice and
// nothing is left out.
func TestPaging(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	for _, size := range []int{1, 7, 20, 59, 60, 61, 100} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			var after any
			seen := 0
			for page := 0; ; page++ {
				a := e.ok(t, "", `query($n:Int,$after:String){feed(first:$n,after:$after){edges{cursor node{id}} nodes{id} pageInfo{hasNextPage hasPreviousPage startCursor endCursor}}}`,
					map[string]any{"n": size, "after": after})
				edges, _ := a.at("feed", "edges").([]any)
				for i := range edges {
					if want := fmt.Sprintf("post:p%d", 60-seen); a.at("feed", "edges", i, "node", "id") != want || a.at("feed", "nodes", i, "id") != want {
						t.Fatalf("page %d: %v, want %s", page, a.at("feed", "edges", i), want)
					}
					seen++
				}
				info := func(name string) any { return a.at("feed", "pageInfo", name) }
				if info("hasNextPage") != (seen < 60) || info("hasPreviousPage") != (page > 0) ||
					info("startCursor") != a.at("feed", "edges", 0, "cursor") || info("endCursor") != a.at("feed", "edges", len(edges)-1, "cursor") {
					t.Fatalf("page %d, %d seen: %v", page, seen, a.at("feed", "pageInfo"))
				}
				after = info("endCursor")
				if info("hasNextPage") == false {
					break
				}
			}
			if seen != 60 {
				t.Errorf("%d posts, want 60", seen)
			}
			a := e.ok(t, "", `query($after:String){feed(after:$after){edges{cursor} nodes{id} pageInfo{hasNextPage hasPreviousPage startCursor endCursor}}}`, map[string]any{"after": after})
			if want := `{"data":{"feed":{"edges":[],"nodes":[],"pageInfo":{"hasNextPage":false,"hasPreviousPage":true,"startCursor":null,"endCursor":null}}}}`; a.raw != want {
				t.Errorf("behind the last post: %s", a.raw)
			}
		})
	}
}

func TestCountsAsOf(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	before := time.Now().Add(-time.Second)
	stamp := func(a answer, path ...any) time.Time {
		t.Helper()
		at, err := time.Parse(time.RFC3339, fmt.Sprint(a.at(path...)))
		if err != nil || at.Before(before) || at.After(time.Now().Add(time.Second)) {
			t.Fatalf("countsAsOf: %v, %v in %s", at, err, a.raw)
		}
		return at
	}
	fresh := stamp(e.ok(t, "", `{post(id:"post:p1"){countsAsOf}}`, nil), "post", "countsAsOf")
	liked := stamp(e.ok(t, "bob", `mutation{like(input:{subjectId:"post:p1"}){subject{countsAsOf}}}`, nil), "like", "subject", "countsAsOf")
	own := stamp(e.ok(t, "bob", `{post(id:"post:p1"){countsAsOf}}`, nil), "post", "countsAsOf")
	if liked.Before(fresh) || !own.Equal(liked) {
		t.Errorf("counted anew %v, liked %v, own page %v", fresh, liked, own)
	}
	if other := stamp(e.ok(t, "eve", `{post(id:"post:p1"){countsAsOf}}`, nil), "post", "countsAsOf"); !other.Equal(fresh) {
		t.Errorf("another viewer, before the fold: %v, want %v", other, fresh)
	}
}

// Embedded under these names, since each has a method called as its type is.
type (
	posts  = graph.Posts
	counts = graph.Counts
)

// brokenPosts has a fault of ours in it.
type brokenPosts struct {
	posts
	fault func()
}

func (b brokenPosts) Page(context.Context, int, *feed.Cursor) (*feed.Page, error) {
	b.fault()
	return nil, errors.New("not reached")
}

// brokenCounts panics where the loaders call it.
type brokenCounts struct{ counts }

func (brokenCounts) Counts(context.Context, []counter.Subject) ([]counter.Reading, error) {
	panic("counts of 10.0.0.1")
}

var errorID = regexp.MustCompile(`^internal error ([A-Z0-9]{20,})$`)

// A fault of ours is an id for the client and all the rest for the log.
func TestPanic(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		change func(*graph.Services)
		broken string // what can't be had
	}{
		"Resolver": {
			"A panic in what a resolver calls.",
			func(s *graph.Services) {
				s.Posts = brokenPosts{posts: s.Posts, fault: func() { panic("dial tcp 10.0.0.1:5432: password hunter2") }}
			},
			`{feed{nodes{id}}}`,
		},
		"NilPointer": {
			"A panic of the runtime.",
			func(s *graph.Services) {
				s.Posts = brokenPosts{posts: s.Posts, fault: func() { var p *feed.Post; _ = p.Title }}
			},
			`{feed{nodes{id}}}`,
		},
		"Loader": {
			"A panic in a batch, which runs in a goroutine of the loader's: it must neither end the process nor look like null without a cause.",
			func(s *graph.Services) { s.Counts = brokenCounts{s.Counts} },
			`{post(id:"post:p1"){likeCount} feed(first:5){nodes{likeCount favCount}}}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEdge(t).with(tc.change)
			a := e.ask(t, "bob", tc.broken, nil)
			if a.code() != "INTERNAL_SERVER_ERROR" || a.status != http.StatusOK {
				t.Fatalf("%s\nstatus %d: %s", tc.reason, a.status, a.raw)
			}
			found := errorID.FindStringSubmatch(a.Errors[0].Message)
			if found == nil || !strings.Contains(e.log.String(), found[1]) {
				t.Errorf("%s\nno id that is in the log: %s\n%s", tc.reason, a.raw, e.log)
			}
			if log := e.log.String(); !strings.Contains(log, "panic") || !strings.Contains(log, "errors_test.go") {
				t.Errorf("%s\nthe log does not say what it was, and where: %s", tc.reason, log)
			}
			for _, word := range []string{"10.0.0.1", "hunter2", "goroutine", ".go:", "runtime", "panic"} {
				if strings.Contains(a.raw, word) {
					t.Errorf("%s\nthe client reads %q: %s", tc.reason, word, a.raw)
				}
			}
			// The next request is served.
			if a := e.ok(t, "bob", `{post(id:"post:p2"){title}}`, nil); a.at("post", "title") != "Post 2" {
				t.Errorf("%s\nafterwards: %s", tc.reason, a.raw)
			}
		})
	}
}

// With SQL away each field that needs it says so, without a word of SQL's.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	if err := e.db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, document := range []string{
		`{feed{nodes{id likeCount}}}`,
		`{post(id:"post:p1"){id likeCount}}`,
		`{node(id:"post:p1"){id}}`,
		`{nodes(ids:["post:p1","post:p2"]){id}}`,
		`{node(id:"` + userOf("ada") + `"){id}}`,
		`mutation{like(input:{subjectId:"post:p1"}){changed}}`,
		`mutation{publishPost(input:{title:"t",body:"b"}){post{id}}}`,
		`mutation{updatePost(input:{id:"post:p1",title:"t"}){post{id}}}`,
		`mutation{deletePost(input:{id:"post:p1"}){deletedPostId}}`,
	} {
		a := e.ask(t, "ada", document, nil)
		if a.code() != "UNAVAILABLE" || a.status != http.StatusOK {
			t.Errorf("%s: status %d, %s", document, a.status, a.raw)
		}
		for _, word := range []string{"sql", "closed", "posts p", "SELECT", "INSERT"} {
			if strings.Contains(a.raw, word) {
				t.Errorf("%s: the client reads %q: %s", document, word, a.raw)
			}
		}
	}
	if !strings.Contains(e.log.String(), "sql: database is closed") {
		t.Errorf("the log does not say why: %s", e.log)
	}
}
