package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// What a document may ask for, each limit from both sides. See graph's guard.

// times joins n pieces.
func times(n int, piece func(i int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(piece(i))
	}
	return b.String()
}

// doubling is a document in which every fragment spreads the next one twice: 1 KB
// that stands for millions of fields.
func doubling(levels int) string {
	return "{feed{nodes{...f0}}}" + times(levels, func(i int) string {
		return fmt.Sprintf(" fragment f%d on Post{...f%d ...f%[2]d}", i, i+1)
	}) + fmt.Sprintf(" fragment f%d on Post{id}", levels)
}

// fields are 52 fields for each of n pages, by way of fragments.
func fields(n int) string {
	return "{" + times(n, func(i int) string { return fmt.Sprintf("a%d:feed(first:1){nodes{...g}} ", i) }) + "} " +
		"fragment g on Post{" + times(5, func(int) string { return "...f " }) + "} " +
		"fragment f on Post{id title body publishedAt visibility likeCount favCount countsAsOf viewerHasLiked viewerHasFaved}"
}

func TestHostileDocuments(t *testing.T) {
	t.Parallel()
	nodes := func(selection string) string { return "{feed(first:1){nodes{" + selection + "}}}" }
	aliases := func(n int) string { return nodes(times(n, func(i int) string { return fmt.Sprintf("a%d:id ", i) })) }
	roots := func(n int) string {
		return "{" + times(n, func(i int) string { return fmt.Sprintf("a%d:viewer{id} ", i) }) + "}"
	}
	directives := func(n int) string { return nodes(times(n, func(int) string { return "id @include(if:true) " })) }
	fragments := func(n int) string {
		return nodes(times(n, func(i int) string { return fmt.Sprintf("...f%d ", i) })) +
			times(n, func(i int) string { return fmt.Sprintf(" fragment f%d on Post{id}", i) })
	}
	spreads := func(n int) string {
		return nodes(times(n, func(int) string { return "...f " })) + " fragment f on Post{id}"
	}
	selections := func(n int) string { return nodes(times(n, func(int) string { return "id " })) }
	deep := func(n int) string {
		return "{__schema{queryType{fields{type{" + times(n-5, func(int) string { return "ofType{" }) + "name" + strings.Repeat("}", n)
	}
	sized := func(n int) string {
		const query = "{viewer{id}}#"
		return query + strings.Repeat("x", n-len(query))
	}
	tokens := func(n int) string { return "{viewer{" + strings.Repeat("id ", n-5) + "}}" }
	const everything = "id title body publishedAt visibility author{id name} likeCount favCount countsAsOf viewerHasLiked viewerHasFaved"
	pages := func(n int) string {
		return "{" + times(n, func(i int) string { return fmt.Sprintf("a%d:feed(first:100){edges{node{%s}}} ", i, everything) }) + "}"
	}
	ids := `["post:10001"` + strings.Repeat(`,"post:10001"`, 99) + "]"
	lookups := func(n int) string {
		return "{" + times(n, func(i int) string { return fmt.Sprintf("a%d:nodes(ids:%s){id ... on Post{%s}} ", i, ids, everything) }) + "}"
	}

	cases := map[string]hostile{}
	for name, tc := range map[string]struct {
		reason      string
		within, too string // a document within the limit, and one that is too large
		limit       string
	}{
		"Bytes":      {"A document is held for longer than its request.", sized(16 << 10), sized(16<<10 + 1), "16384"},
		"Tokens":     {"Parsing is linear in them.", "", tokens(2001), "2000"},
		"Depth":      {"Whoever walks it calls itself.", deep(15), deep(17), "15"},
		"Fields":     {"What is spread often is little text.", fields(9), fields(10), "500"},
		"Aliases":    {"The same work under many names.", aliases(40), aliases(41), "40"},
		"Roots":      {"Each may ask for a page.", roots(10), roots(11), "10"},
		"Directives": {"Each is looked at for each field.", directives(40), directives(41), "40"},
		"Fragments":  {"Validation looks at each with each.", fragments(40), fragments(41), "40"},
		"Spreads":    {"Each may double what is behind it.", spreads(100), spreads(101), "100"},
		"Selections": {"Validation is quadratic in one selection set.", selections(120), selections(121), "120"},
		"Cost":       {"A page of 100 with all there is may be asked for, ten of them not.", pages(1), pages(10), "5000"},
		"CostOfIDs":  {"So may 100 posts by their ids.", lookups(1), lookups(6), "5000"},
		"CostHidden": {"Fragments hide no cost.", "", "{...f} fragment f on Query" + pages(10), "5000"},
		"Unknown":    {"Limits come before validation: this is no field of ours.", "", nodes(strings.Repeat("nonsense ", 121)), "120"},
	} {
		over := hostile{reason: tc.reason, body: jsonBody(tc.too), status: http.StatusBadRequest, code: "QUERY_TOO_LARGE", says: tc.limit}
		cases[name] = over
		// A client from before the newer type takes any status but 200 for a broken
		// connection.
		over.headers, over.status = http.Header{"Content-Type": {jsonMedia}, "Accept": {jsonMedia}}, http.StatusOK
		cases[name+"Old"] = over
		over.method, over.body, over.headers, over.status = http.MethodGet, "", jsonHeaders("Apollo-Require-Preflight", "true"), http.StatusBadRequest
		if over.path = "/graphql?query=" + url.QueryEscape(tc.too); len(over.path) < 30<<10 {
			cases[name+"Get"] = over
		}
		if tc.within != "" {
			cases[name+"Within"] = hostile{reason: "Within: " + tc.reason, body: jsonBody(tc.within), status: http.StatusOK, within: time.Second}
		}
	}
	// The cost of variables is that of their values.
	cases["CostOfVariable"] = hostile{
		reason: "The number comes in a variable.", status: http.StatusBadRequest, code: "QUERY_TOO_LARGE", says: "5000",
		body: `{"query":"query($n:Int){` + times(10, func(i int) string { return fmt.Sprintf("a%d:feed(first:$n){edges{node{%s}}} ", i, everything) }) + `}","variables":{"n":100}}`,
	}
	// Two that fit into a postcard and once cost seconds. The best of five on a
	// quiet machine; up to thirty, since this one may have other work.
	const blink = 5 * time.Millisecond
	cases["BombFragments"] = hostile{reason: "A kilobyte that stands for four million fields.", body: jsonBody(doubling(22)), status: http.StatusBadRequest, code: "QUERY_TOO_LARGE", within: blink, tries: 30}
	cases["BombTypenames"] = hostile{reason: "Each is compared with each other one.", body: jsonBody("{" + strings.Repeat("__typename ", 4900) + "}"), status: http.StatusBadRequest, code: "QUERY_TOO_LARGE", within: blink, tries: 30}
	cases["BombSmall"] = hostile{reason: "The same with fewer tokens than are too many.", body: jsonBody("{" + strings.Repeat("__typename ", 1400) + "}"), status: http.StatusBadRequest, code: "QUERY_TOO_LARGE", within: blink, tries: 30}
	cases["BombInline"] = hostile{
		reason: "The same by inline fragments.", status: http.StatusBadRequest, code: "QUERY_TOO_LARGE", within: blink, tries: 30,
		body: jsonBody("{feed{nodes{" + strings.Repeat("...{"+strings.Repeat("...{id title} ", 15)+"} ", 20) + "}}}"),
	}
	cases["BombUnused"] = hostile{
		reason: "Fragments that nobody spreads are validated all the same.", status: http.StatusBadRequest, within: blink, tries: 30, code: "QUERY_TOO_LARGE",
		body: jsonBody("{viewer{id}} " + strings.TrimPrefix(doubling(22), "{feed{nodes{...f0}}}")),
	}
	attack(t, hostileServer(t, "--introspection", "on"), cases)
}

// What any page can make a browser send is refused, unless a header is there
// that a page may not add (Apollo Server's rule).
func TestCrossSite(t *testing.T) {
	t.Parallel()
	const query = "/graphql?query=%7Bviewer%7Bid%7D%7D"
	const refused = "BAD_USER_INPUT"
	get := func(more ...string) http.Header {
		h := jsonHeaders(more...)
		h.Del("Content-Type")
		return h
	}
	attack(t, hostileServer(t), map[string]hostile{
		"Get":            {reason: "An image's address.", method: "GET", path: query, headers: get(), status: 400, code: refused},
		"GetSimpleType":  {reason: "A type that a page may name.", method: "GET", path: query, headers: get("Content-Type", "text/plain"), status: 400, code: refused},
		"GetBadType":     {reason: "A browser sends what it can't read as it is.", method: "GET", path: query, headers: get("Content-Type", ";;"), status: 400, code: refused},
		"GetEmptyHeader": {reason: "An empty header is none.", method: "GET", path: query, headers: get("Apollo-Require-Preflight", ""), status: 400, code: refused},
		"GetOtherHeader": {reason: "A header that is let pass without asking.", method: "GET", path: query, headers: get("Accept-Language", "x"), status: 400, code: refused},
		"GetPreflight":   {reason: "Apollo Kotlin's and iOS'.", method: "GET", path: query, headers: get("Apollo-Require-Preflight", "true"), status: 200},
		"GetOperation":   {reason: "Apollo Server takes this one as well.", method: "GET", path: query, headers: get("X-Apollo-Operation-Name", "Q"), status: 200},
		"GetGraphQL":     {reason: "The name that belongs to no vendor.", method: "GET", path: query, headers: get("GraphQL-Require-Preflight", "1"), status: 200},
		"GetJSON":        {reason: "Apollo Client web's: a page may not name this type without asking.", method: "GET", path: query, headers: jsonHeaders(), status: 200},
		"NoType":         {reason: "A form of scripts: a body of no type.", headers: contentHeaders(), body: plainBody, status: 415, code: refused},
		"TextPlain":      {reason: "A form's.", headers: contentHeaders("text/plain"), body: plainBody, status: 415, code: refused},
		"TextCharset":    {reason: "The same with a parameter.", headers: contentHeaders("text/plain;charset=UTF-8"), body: plainBody, status: 415, code: refused},
		"Form":           {reason: "A form's own.", headers: contentHeaders("application/x-www-form-urlencoded"), body: "query={viewer{id}}&password=" + hushText, status: 415, code: refused},
		"Multipart":      {reason: "A form's own, and the way of uploads.", headers: contentHeaders("multipart/form-data; boundary=x"), body: "--x\r\nContent-Disposition: form-data; name=\"operations\"\r\n\r\n" + plainBody + "\r\n--x--\r\n", status: 415, code: refused},
		"Capitals":       {reason: "Types have no case.", headers: contentHeaders("Text/Plain"), body: plainBody, status: 415, code: refused},
		"TypeTwice":      {reason: "Which?", headers: contentHeaders("text/plain", "application/json"), body: plainBody, status: 415, code: refused},
		"TypeList":       {reason: "CVE-2022-41919: a browser takes the first.", headers: contentHeaders("text/plain; a=application/json"), body: plainBody, status: 415, code: refused},
		"FormPreflight": {reason: "With the header it is no form, and still of no type of ours.", headers: func() http.Header {
			h := contentHeaders("application/x-www-form-urlencoded")
			h.Set("Apollo-Require-Preflight", "true")
			return h
		}(), body: "query={viewer{id}}", status: 415, code: refused},
		"JSON":            {reason: "What a page may not send without asking.", body: plainBody, status: 200},
		"JSONOtherOrigin": {reason: "An origin that nobody allowed is answered by the browser: it sees no header that lets it read.", headers: jsonHeaders("Origin", "https://evil.example"), body: plainBody, status: 200},
	})
}
