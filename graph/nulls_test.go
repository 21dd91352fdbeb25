package graph_test

import (
	"strings"
	"testing"
)

// A variable with a default may be given as null by its type and not by its
// place. Validation passes it; it must be refused before anything runs, and not
// panic once for each element of a list.
func TestExplicitNulls(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	null := map[string]any{"x": nil}
	for name, document := range map[string]string{
		"RootInclude": `query($x:Boolean=false){a:post(id:"post:p1"){likeCount} b:feed(first:2)@include(if:$x){nodes{id}}}`,
		"NestedSkip":  `query($x:Boolean=false){feed(first:100){nodes{id @skip(if:$x)}}}`,
		"Fragment":    `query($x:Boolean=false){feed(first:100){...c}} fragment c on PostConnection{nodes{...p@skip(if:$x)}} fragment p on Post{id}`,
		"Mutation":    `mutation($x:Boolean=false){like(input:{subjectId:"post:p1"}){changed subject{likeCount @skip(if:$x)}}}`,
		"Body":        `mutation($x:String="x"){publishPost(input:{title:"t",body:$x}){post{id}}}`,
		"ID":          `query($x:ID="post:p1"){post(id:$x){id}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := e.ask(t, "bob", document, null)
			if a.code() != "GRAPHQL_VALIDATION_FAILED" || a.Data != nil || !strings.Contains(a.raw, "cannot be null") {
				t.Errorf("status %d: %s", a.status, a.raw)
			}
		})
	}
	// Where null may stand it means what the schema says.
	if a := e.ok(t, "", `query($x:Int=5){feed(first:$x){nodes{id}}}`, null); a.at("feed", "nodes", 19) == nil {
		t.Errorf("a null first is the default page: %s", a.raw)
	}
}

// A root field whose argument is none of its type's never reaches its resolver.
// It arrives all the same, or the others would wait for it.
func TestRootFieldThatNeverRuns(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	a := e.ask(t, "bob", `{a:post(id:"post:p1"){likeCount} b:post(id:"post:p2"){likeCount viewerHasLiked} node(id:"post:p3"){... on Post{likeCount}}}`, nil)
	if len(a.Errors) > 0 {
		t.Fatal(a.raw)
	}
	a = e.ask(t, "bob", `{a:post(id:"post:p1"){likeCount} b:feed(first:2147483648){nodes{id}}}`, nil)
	if a.code() != "BAD_USER_INPUT" {
		t.Error(a.raw)
	}
}
