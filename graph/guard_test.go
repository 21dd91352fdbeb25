package graph_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"

	"github.com/tallyfeed/tallyfeed/graph"
)

// doubling fragments ask for 2^levels fields in some fifty bytes a level.
func doubling(levels int) string {
	var b strings.Builder
	b.WriteString("{...f0}")
	for i := range levels {
		fmt.Fprintf(&b, " fragment f%d on Query{...f%d ...f%d}", i, i+1, i+1)
	}
	fmt.Fprintf(&b, " fragment f%d on Query{__typename}", levels)
	return b.String()
}

func times(n int, text string) string { return strings.Repeat(text, n) }

func numbered(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// Each limit holds at its edge, and says which it is and what was sent.
func TestGuard(t *testing.T) {
	t.Parallel()
	var log locked
	handler := newTransport(t, &log, graph.Options{Introspection: true})
	post := func(inner string) string { return `{post(id:"post:1"){` + inner + `}}` }
	for name, tc := range map[string]struct {
		reason    string
		good, bad string // good may be ""
		says      string
	}{
		"Bytes":      {"A document is parsed as a whole.", "{__typename}" + times(16<<10-12, " "), "{__typename}" + times(16<<10-11, " "), "16385 bytes, at most 16384"},
		"Tokens":     {"The parser's own bound.", "", "{viewer{" + times(1999, "id ") + "}}", "more than 2000 tokens"},
		"Depth":      {"Nesting is recursion.", "", "{__schema{types{" + times(13, "fields{type{") + "name" + times(13, "}}") + "}}}", "levels deep, at most 15"},
		"Fields":     {"Fragments are written out.", "", "{" + numbered(10, "r%d:post(id:\"post:1\"){...a}") + "} fragment a on Post{" + times(50, "id ") + "}", "510 fields, at most 500"},
		"Selections": {"Validation compares the fields of a set in pairs.", post(times(120, "id ")), post(times(121, "id ")), "121 fields in one selection set, at most 120"},
		"Merged":     {"Fragments share a set with what is around them.", "", post(times(3, "...on Post{"+times(41, "id ")+"}")), "123 fields in one selection set"},
		"Roots":      {"Every root may ask for a page.", "{" + times(10, "__typename ") + "}", "{" + times(11, "__typename ") + "}", "11 root fields, at most 10"},
		"RootsSpread": {
			"Also through a fragment.", "", "{...r __typename} fragment r on Query{" + times(10, "__typename ") + "}", "11 root fields",
		},
		"Aliases":    {"Each is another value in the answer.", post(numbered(40, "a%d:id ")), post(numbered(41, "a%d:id ")), "41 aliases, at most 40"},
		"Directives": {"Each is looked at for every object.", post(times(40, "title@include(if:true) ")), post(times(41, "title@include(if:true) ")), "41 directives, at most 40"},
		"DirectivesOfOperation": {
			"They may stand anywhere.", "", "query" + times(41, "@a") + "{__typename}", "41 directives",
		},
		"Fragments": {"Each is validated.", "", "{__typename}" + numbered(41, "fragment f%d on Query{__typename}"), "41 fragments, at most 40"},
		"Spreads":   {"Each is followed.", post(times(100, "...p ")) + "fragment p on Post{id}", post(times(101, "...p ")) + "fragment p on Post{id}", "101 fragment spreads, at most 100"},
		"Doubling":  {"The classic.", "", doubling(22), "root fields, at most 10"},
		"DoublingBelow": {
			"The same where it is not a root.", "",
			"{viewer{...f0}}" + strings.ReplaceAll(strings.TrimPrefix(doubling(22), "{...f0}"), "Query", "User"), "fields, at most 500",
		},
		"TwoOperations": {"Those that do not run are validated too.", "", "query a{viewer{...u}} query b{viewer{...u}} query c{viewer{...u}} query d{viewer{...u}} query e{viewer{...u}} fragment u on User{" + times(110, "id ") + "}", "555 fields"},
		"Cost":          {"Seven pages of a hundred.", "{" + numbered(6, "f%d:feed(first:100){nodes{id title body likeCount favCount author{name}}}") + "}", "{" + numbered(7, "f%d:feed(first:100){nodes{id title body likeCount favCount author{name}}}") + "}", "costs 5607, at most 5000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.good != "" {
				w := httpCase{body: quoted(tc.good)}.serve(t, handler)
				if w.Code != http.StatusOK || strings.Contains(w.Body.String(), "QUERY_TOO_LARGE") {
					t.Errorf("%s\nat the limit: %d %.300s", tc.reason, w.Code, w.Body)
				}
			}
			c := httpCase{reason: tc.reason, body: quoted(tc.bad), status: http.StatusBadRequest, code: "QUERY_TOO_LARGE", says: tc.says}
			c.check(t, c.serve(t, handler))
		})
	}
}

// What costs seconds elsewhere is refused before it costs anything.
func BenchmarkGuard(b *testing.B) {
	var log locked
	handler := newTransport(b, &log, graph.Options{})
	for name, document := range map[string]string{
		"doubling": doubling(22), "typenames": "{" + times(4900, "__typename ")[:16<<10-2] + "}", "whole": "{viewer{id}}",
	} {
		c := httpCase{body: quoted(document)}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.serve(b, handler)
			}
		})
	}
}

// FuzzGuard: what passes is as small as the limits say when its fragments are
// written out in full, which the guard itself must not do.
func FuzzGuard(f *testing.F) {
	for _, document := range []string{
		"{feed{nodes{id}}}", doubling(3), doubling(22), "{...a} fragment a on Query{...a}", "fragment a on Query{...b} fragment b on Query{...a} {...a}",
		"query a{viewer{id}} query b@x{...on Query{viewer{a:id}}}", "{a(b:{c:[$d]})@e(f:1){g}}", "subscription{x}", "{", "{a{b{c{d{e{f{g{h{i{j{k{l{m{n{o{p}}}}}}}}}}}}}}}}",
	} {
		f.Add(document)
	}
	f.Fuzz(func(t *testing.T, document string) {
		if err := graph.CheckDocument(document); err != nil {
			return
		}
		parsed, err := parser.ParseQuery(&ast.Source{Input: document})
		if err != nil {
			t.Fatalf("passed, and can't be parsed: %v", err)
		}
		fields := 0
		for _, operation := range parsed.Operations {
			n, depth := writtenOut(parsed, operation.SelectionSet, 1000)
			fields += n
			if depth > 15 {
				t.Errorf("%d levels deep", depth)
			}
		}
		if fields > 500 {
			t.Errorf("%d fields", fields)
		}
	})
}

// writtenOut counts fields and levels the slow way, up to most.
func writtenOut(document *ast.QueryDocument, set ast.SelectionSet, most int) (fields, depth int) {
	for _, selection := range set {
		if fields > most {
			return fields, depth
		}
		var n, d int
		switch s := selection.(type) {
		case *ast.Field:
			n, d = writtenOut(document, s.SelectionSet, most)
			n, d = n+1, d+1
		case *ast.InlineFragment:
			n, d = writtenOut(document, s.SelectionSet, most)
		case *ast.FragmentSpread:
			n, d = writtenOut(document, document.Fragments.ForName(s.Name).SelectionSet, most)
		}
		fields, depth = fields+n, max(depth, d)
	}
	return fields, depth
}

func quoted(document string) string {
	body, err := json.Marshal(map[string]string{"query": document})
	if err != nil {
		panic(err) // a string always can
	}
	return string(body)
}
