package graph_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tallyfeed/tallyfeed/archive"
	"github.com/tallyfeed/tallyfeed/auth"
	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/feed"
	"github.com/tallyfeed/tallyfeed/graph"
)

// noStores answers like an empty system, from nothing: for tests of what stands
// in front of it.
type noStores struct{}

func (noStores) Page(context.Context, int, *feed.Cursor) (*feed.Page, error) {
	return &feed.Page{}, nil
}

func (noStores) Post(context.Context, string, string) (*feed.Post, error) {
	return nil, feed.ErrNoPost
}

func (noStores) Posts(_ context.Context, ids []string, _ string) ([]*feed.Post, error) {
	return make([]*feed.Post, len(ids)), nil
}

func (noStores) Author(context.Context, string) (*feed.Author, error) {
	return nil, feed.ErrNoAuthor
}

func (noStores) Authors(_ context.Context, subs []string) ([]*feed.Author, error) {
	return make([]*feed.Author, len(subs)), nil
}

func (noStores) Publish(_ context.Context, author feed.Author, draft feed.Draft) (*feed.Post, error) {
	return &feed.Post{ID: "1", Author: &author, Title: draft.Title, Body: draft.Body, Visibility: feed.Public}, nil
}

func (noStores) Update(context.Context, string, string, feed.Changes) (*feed.Post, error) {
	return nil, feed.ErrNoPost
}

func (noStores) Delete(context.Context, string, string) error { return feed.ErrNoPost }

func (noStores) Set(context.Context, counter.Viewer, counter.Subject, counter.Metric, bool) (counter.Outcome, error) {
	return counter.Outcome{}, counter.ErrGone
}

// noCounts is a type of its own for the method that is called like it.
type noCounts struct{}

func (noCounts) Counts(_ context.Context, subjects []counter.Subject) ([]counter.Reading, error) {
	return make([]counter.Reading, len(subjects)), nil
}

func (noCounts) ExactCounts(_ context.Context, subjects []counter.Subject) ([]counter.Reading, error) {
	return make([]counter.Reading, len(subjects)), nil
}

func (noCounts) Viewer(_ context.Context, _ counter.Viewer, subjects []counter.Subject) ([]counter.ViewerState, error) {
	return make([]counter.ViewerState, len(subjects)), nil
}

func (noStores) Likers(_ context.Context, queries ...archive.LikersQuery) ([][]archive.Liker, error) {
	return make([][]archive.Liker, len(queries)), nil
}

func (noStores) Leave(context.Context, string) error { return nil }

func (noStores) Left(string) bool { return false }

// noArchive is a type of its own for the same reason.
type noArchive struct{ noStores }

func (noArchive) Counts(context.Context, []counter.Subject) (map[counter.Subject]counter.Totals, error) {
	return nil, nil
}

// noLists is one more.
type noLists struct{}

func (noLists) Page(context.Context, counter.Viewer, counter.Metric, *archive.Mine, int) (archive.Page, error) {
	return archive.Page{}, nil
}

// newTransport is the edge over no stores; it logs to log.
func newTransport(tb testing.TB, log *locked, options graph.Options) http.Handler {
	tb.Helper()
	verifier, err := auth.New(tb.Context(), auth.Config{Secret: secret})
	if err != nil {
		tb.Fatal(err)
	}
	return graph.NewHandler(graph.Services{
		Posts: noStores{}, Facts: noStores{}, Counts: noCounts{}, Archive: noArchive{}, Lists: noLists{}, Users: noStores{}, Verifier: verifier,
		Log: slog.New(slog.NewTextHandler(log, nil)),
	}, options)
}

const (
	newMedia = "application/graphql-response+json"
	oldMedia = "application/json"
)

// httpCase is a request as it goes over the wire and what comes back.
type httpCase struct {
	reason  string
	method  string // POST where empty
	query   url.Values
	body    string
	headers map[string][]string // in place of Content-Type: application/json and Accept: the new media type

	status  int
	code    string // of the only error; "" for none
	says    string // a piece of the answer
	media   string // of the answer; the new one where empty
	silent  string // what the answer must not hold
	allow   string
	request string // WWW-Authenticate
	cache   string // Cache-Control; private, no-store where empty
}

func TestTransport(t *testing.T) {
	t.Parallel()
	var log locked
	handler := newTransport(t, &log, graph.Options{Introspection: true})

	query := func(document string) string {
		body, err := json.Marshal(map[string]any{"query": document})
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	accept := func(values ...string) map[string][]string {
		return map[string][]string{"Content-Type": {oldMedia}, "Accept": values}
	}
	content := func(values ...string) map[string][]string {
		return map[string][]string{"Content-Type": values, "Accept": {newMedia}}
	}
	authorization := func(values ...string) map[string][]string {
		return map[string][]string{"Content-Type": {oldMedia}, "Accept": {newMedia}, "Authorization": values}
	}
	mint := func(sub string, life time.Duration) string {
		token, err := auth.Mint(secret, sub, "Bob", "", "", life)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	good := mint("bob", time.Hour)
	// Signed with another key.
	forged, err := auth.Mint(bytes.Repeat([]byte("x"), 32), "bob", "", "", "", time.Hour)
	if err != nil {
		t.Fatal(err)
	}

	cases := map[string]httpCase{
		// Methods.
		"Post":            {reason: "The usual way.", body: `{"query":"{viewer{id}}"}`, status: 200, says: `{"data":{"viewer":null}}`},
		"Get":             {reason: "Queries may be cached by their address.", method: "GET", query: url.Values{"query": {"query($n:Int){feed(first:$n){nodes{id}}}"}, "variables": {`{"n":3}`}}, status: 200, says: `{"data":{"feed":{"nodes":[]}}}`},
		"GetOperation":    {reason: "The operation is chosen by name.", method: "GET", query: url.Values{"query": {"query a{viewer{id}} query b{b:viewer{id}}"}, "operationName": {"b"}}, status: 200, says: `{"data":{"b":null}}`},
		"GetMutation":     {reason: "A link must not change anything.", method: "GET", query: url.Values{"query": {`mutation{deletePost(input:{id:"post:1"}){deletedPostId}}`}}, status: 405, code: "BAD_USER_INPUT", allow: "POST"},
		"GetOfTwo":        {reason: "The operation that was chosen decides, and it is the mutation.", method: "GET", query: url.Values{"query": {`query a{viewer{id}} mutation b{like(input:{subjectId:"post:1"}){changed}}`}, "operationName": {"b"}}, status: 405, code: "BAD_USER_INPUT", allow: "POST"},
		"GetNothing":      {reason: "No query.", method: "GET", status: 400, code: "BAD_USER_INPUT", says: "query is missing"},
		"GetBadVariables": {reason: "Not echoed.", method: "GET", query: url.Values{"query": {"{viewer{id}}"}, "variables": {`{"password":"hunter2"`}}, status: 400, code: "BAD_USER_INPUT", says: "variables", silent: "hunter2"},
		"GetVariableList": {reason: "Variables are an object.", method: "GET", query: url.Values{"query": {"{viewer{id}}"}, "variables": {`[1]`}}, status: 400, code: "BAD_USER_INPUT", says: "variables"},
		"GetLong":         {reason: "The body's limit holds for addresses.", method: "GET", query: url.Values{"query": {"{viewer{id}}"}, "variables": {strings.Repeat(" ", 300<<10)}}, status: 414, code: "QUERY_TOO_LARGE"},
		"Put":             {reason: "Not a method of GraphQL.", method: "PUT", body: `{"query":"{viewer{id}}"}`, status: 405, code: "BAD_USER_INPUT", allow: "GET, POST"},
		"Delete":          {reason: "Not a method of GraphQL.", method: "DELETE", status: 405, code: "BAD_USER_INPUT", allow: "GET, POST"},
		"Head":            {reason: "Not a method of GraphQL.", method: "HEAD", status: 405, code: "BAD_USER_INPUT", allow: "GET, POST"},

		// Content types. What a form on another site can send is refused.
		"NoType":    {reason: "A form may leave it out.", headers: content(), body: `{"query":"{viewer{id}}"}`, status: 415, code: "BAD_USER_INPUT"},
		"TextPlain": {reason: "A form may send it without asking first.", headers: content("text/plain"), body: `{"query":"{viewer{id}}"}`, status: 415, code: "BAD_USER_INPUT"},
		"Form":      {reason: "A form's own.", headers: content("application/x-www-form-urlencoded"), body: `query={viewer{id}}`, status: 415, code: "BAD_USER_INPUT"},
		"Multipart": {reason: "A form's own, and the way of uploads.", headers: content("multipart/form-data; boundary=x"), body: "--x\r\n", status: 415, code: "BAD_USER_INPUT"},
		"GraphQL":   {reason: "An old habit that is no standard.", headers: content("application/graphql"), body: `{viewer{id}}`, status: 415, code: "BAD_USER_INPUT"},
		"Nonsense":  {reason: "No media type.", headers: content(";;;"), body: `{"query":"{viewer{id}}"}`, status: 415, code: "BAD_USER_INPUT"},
		"UTF8":      {reason: "JSON's own charset may be named.", headers: content(`application/json; charset="UTF-8"`), body: `{"query":"{viewer{id}}"}`, status: 200},
		"Latin1":    {reason: "JSON is UTF-8.", headers: content("application/json; charset=iso-8859-1"), body: `{"query":"{viewer{id}}"}`, status: 415, code: "BAD_USER_INPUT"},

		// Bodies.
		"BadJSON":         {reason: "It may be a password that went to the wrong place.", body: `{"query":"{viewer{id}}","password":"hunter2"`, status: 400, code: "BAD_USER_INPUT", silent: "hunter2"},
		"NotJSON":         {reason: "Nor is this echoed.", body: `password=hunter2`, status: 400, code: "BAD_USER_INPUT", silent: "hunter2"},
		"Trailing":        {reason: "Two readers could see two requests in it.", body: `{"query":"{viewer{id}}"}{"query":"hunter2"}`, status: 400, code: "BAD_USER_INPUT", silent: "hunter2"},
		"TrailingSpace":   {reason: "White space is nothing.", body: " {\"query\":\"{viewer{id}}\"}\r\n\t ", status: 200},
		"Empty":           {reason: "No request.", body: ``, status: 400, code: "BAD_USER_INPUT"},
		"Null":            {reason: "No query.", body: `null`, status: 400, code: "BAD_USER_INPUT", says: "not one JSON object"},
		"NoQuery":         {reason: "No query.", body: `{"variables":{}}`, status: 400, code: "BAD_USER_INPUT", says: "query is missing"},
		"QueryNull":       {reason: "No query.", body: `{"query":null}`, status: 400, code: "BAD_USER_INPUT", says: "query is missing"},
		"QueryEmpty":      {reason: "No query.", body: `{"query":""}`, status: 400, code: "BAD_USER_INPUT", says: "query is missing"},
		"QueryNumber":     {reason: "A query is text.", body: `{"query":1}`, status: 400, code: "BAD_USER_INPUT"},
		"Batch":           {reason: "A batch would multiply every limit.", body: `[{"query":"{viewer{id}}"}]`, status: 400, code: "BAD_USER_INPUT"},
		"VariablesList":   {reason: "Variables are an object.", body: `{"query":"{viewer{id}}","variables":[]}`, status: 400, code: "BAD_USER_INPUT"},
		"VariablesText":   {reason: "Variables are an object.", body: `{"query":"{viewer{id}}","variables":"{}"}`, status: 400, code: "BAD_USER_INPUT"},
		"VariablesNull":   {reason: "Clients send null for none.", body: `{"query":"{viewer{id}}","variables":null,"operationName":null,"extensions":null}`, status: 200},
		"ExtensionsList":  {reason: "Extensions are an object.", body: `{"query":"{viewer{id}}","extensions":[]}`, status: 400, code: "BAD_USER_INPUT"},
		"OperationNumber": {reason: "A name is text.", body: `{"query":"{viewer{id}}","operationName":1}`, status: 400, code: "BAD_USER_INPUT"},
		"UnknownFields":   {reason: "Clients send more than the standard knows.", body: `{"query":"{viewer{id}}","id":"x","extra":[1]}`, status: 200},
		"BadUTF8":         {reason: "Decoded as JSON does.", body: "{\"query\":\"{viewer{id}} #\xff\"}", status: 200},

		// Limits.
		"Body":       {reason: "A body is read into memory.", body: `{"query":"{viewer{id}}","variables":{"a":"` + strings.Repeat("hush", 70<<10) + `"}}`, status: 413, code: "QUERY_TOO_LARGE", says: "262144", silent: "hush"},
		"Document":   {reason: "A document is parsed and kept.", body: query("{viewer{id}} #" + strings.Repeat("hush", 5<<10)), status: 400, code: "QUERY_TOO_LARGE", says: "16384", silent: "hush"},
		"Tokens":     {reason: "Validation is quadratic in them.", body: query("{viewer{" + strings.Repeat("id ", 2001) + "}}"), status: 400, code: "QUERY_TOO_LARGE", says: "2000"},
		"Roots":      {reason: "Every root field may ask for a page.", body: query("{" + manyRoots(11) + "}"), status: 400, code: "QUERY_TOO_LARGE", says: "10"},
		"RootsAtMax": {reason: "Ten are taken.", body: query("{" + manyRoots(10) + "}"), status: 200},
		"RootsHidden": {
			reason: "Fragments hide no root fields.",
			body:   query("{...f} fragment f on Query{" + manyRoots(6) + " ...g} fragment g on Query{...{b:viewer{id} c:viewer{id} d:viewer{id} e:viewer{id} f:viewer{id}}}"),
			status: 400, code: "QUERY_TOO_LARGE",
		},
		"RootsOfMutation": {reason: "Every one may be a write.", body: query("mutation{" + manyLikes(11) + "}"), status: 400, code: "QUERY_TOO_LARGE", says: "10"},

		// Documents.
		"Syntax":        {reason: "Apollo's code.", body: query(`{feed(`), status: 400, code: "GRAPHQL_PARSE_FAILED"},
		"Unknown":       {reason: "Apollo's code.", body: query(`{nonsense}`), status: 400, code: "GRAPHQL_VALIDATION_FAILED"},
		"NoOperation":   {reason: "A fragment alone is nothing to run.", body: query(`fragment f on Post{id}`), status: 400, code: "GRAPHQL_VALIDATION_FAILED"},
		"Comment":       {reason: "Nothing to run.", body: query(`# nothing`), status: 400, code: "GRAPHQL_VALIDATION_FAILED"},
		"Subscription":  {reason: "There are none.", body: query(`subscription{viewer{id}}`), status: 400, code: "GRAPHQL_VALIDATION_FAILED"},
		"WhichOne":      {reason: "Two operations and no name.", body: query(`query a{viewer{id}} query b{viewer{id}}`), status: 400, code: "GRAPHQL_VALIDATION_FAILED"},
		"NoSuch":        {reason: "No operation of this name.", body: `{"query":"query a{viewer{id}}","operationName":"b"}`, status: 400, code: "GRAPHQL_VALIDATION_FAILED"},
		"Introspection": {reason: "It is on here.", body: query(`{__schema{queryType{name}}}`), status: 200, says: `"Query"`},
		"Cycle":         {reason: "It would never end.", body: query(`{feed{...f}} fragment f on PostConnection{nodes{id} ...f}`), status: 400, code: "GRAPHQL_VALIDATION_FAILED"},

		// Variables.
		"Missing":     {reason: "A variable that must be there.", body: query(`query($id:ID!){post(id:$id){id}}`), status: 400, code: "GRAPHQL_VALIDATION_FAILED", says: "id"},
		"NullForMust": {reason: "Null is not there.", body: `{"query":"query($id:ID!){post(id:$id){id}}","variables":{"id":null}}`, status: 400, code: "GRAPHQL_VALIDATION_FAILED"},
		"WrongKind":   {reason: "An object for an id.", body: `{"query":"query($id:ID!){post(id:$id){id}}","variables":{"id":{"password":"hunter2"}}}`, status: 400, code: "GRAPHQL_VALIDATION_FAILED", silent: "hunter2"},
		"IntID":       {reason: "An id may be sent as a number; it is no id of ours.", body: `{"query":"query($id:ID!){post(id:$id){id}}","variables":{"id":10001}}`, status: 200, code: "BAD_USER_INPUT", says: "id is not a post's id"},
		"BigID":       {reason: "A number with more digits than a double has.", body: `{"query":"query($id:ID!){post(id:$id){id}}","variables":{"id":123456789012345678901234567890}}`, status: 200, code: "BAD_USER_INPUT", says: "id is not a post's id"},
		"BigInt":      {reason: "An Int has 32 bits.", body: `{"query":"query($n:Int){feed(first:$n){nodes{id}}}","variables":{"n":2147483648}}`, status: 200, code: "BAD_USER_INPUT", says: "first"},
		"HugeInt":     {reason: "More digits than any integer has.", body: `{"query":"query($n:Int){feed(first:$n){nodes{id}}}","variables":{"n":` + strings.Repeat("9", 400) + `}}`, status: 400, code: "GRAPHQL_VALIDATION_FAILED"},
		"Exponent":    {reason: "A float is no Int.", body: `{"query":"query($n:Int){feed(first:$n){nodes{id}}}","variables":{"n":1e3}}`, status: 400, code: "GRAPHQL_VALIDATION_FAILED"},
		"TextInt":     {reason: "A text that is no number where an Int is wanted.", body: `{"query":"query($n:Int){feed(first:$n){nodes{id}}}","variables":{"n":"hunter2"}}`, status: 400, code: "GRAPHQL_VALIDATION_FAILED", silent: "hunter2"},
		"LongLiteral": {reason: "More digits than any integer has.", body: query(`{feed(first:` + strings.Repeat("9", 400) + `){nodes{id}}}`), status: 400, code: "GRAPHQL_VALIDATION_FAILED"},
		"LiteralInt":  {reason: "An Int has 32 bits in a document too.", body: query(`{feed(first:99999999999){nodes{id}}}`), status: 200, code: "BAD_USER_INPUT", says: "first"},
		"Enum":        {reason: "Not a value of the enum.", body: `{"query":"mutation($v:Visibility){publishPost(input:{title:\"t\",body:\"b\",visibility:$v}){post{id}}}","variables":{"v":"SECRET"}}`, status: 400, code: "GRAPHQL_VALIDATION_FAILED"},
		"UnknownKey":  {reason: "A typing error in an input must not be passed over.", body: `{"query":"mutation($i:ReactionInput!){like(input:$i){changed}}","variables":{"i":{"subjectId":"post:1","subject":"x"}}}`, status: 400, code: "GRAPHQL_VALIDATION_FAILED"},
		"Deep":        {reason: "Deeper than the decoder goes.", body: `{"query":"{viewer{id}}","variables":{"a":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}}`, status: 400, code: "BAD_USER_INPUT"},
		"DeepTaken":   {reason: "Deep, and nobody asks for it.", body: `{"query":"{viewer{id}}","variables":{"a":` + strings.Repeat("[", 5_000) + strings.Repeat("]", 5_000) + `}}`, status: 200},
		"DeepInput":   {reason: "Deep where an input is wanted.", body: `{"query":"mutation($i:ReactionInput!){like(input:$i){changed}}","variables":{"i":` + strings.Repeat(`{"subjectId":`, 5_000) + "1" + strings.Repeat("}", 5_000) + `}}`, status: 400, code: "GRAPHQL_VALIDATION_FAILED"},
		"Unused":      {reason: "Variables nobody declared are passed over.", body: `{"query":"{viewer{id}}","variables":{"x":1}}`, status: 200},

		// Media types of the answer. A request error is 200 for clients that know
		// only the old one.
		"AcceptNone":      {reason: "A client from before the new type.", headers: map[string][]string{"Content-Type": {oldMedia}}, body: `{"query":"{viewer{id}}"}`, status: 200, media: oldMedia},
		"AcceptAny":       {reason: "What curl sends.", headers: accept("*/*"), body: `{"query":"{viewer{id}}"}`, status: 200, media: oldMedia},
		"AcceptOld":       {reason: "Asked for.", headers: accept(oldMedia), body: query(`{nonsense}`), status: 200, code: "GRAPHQL_VALIDATION_FAILED", media: oldMedia},
		"AcceptOldLimit":  {reason: "A limit is a request error too.", headers: accept(oldMedia), body: query("{" + manyRoots(11) + "}"), status: 200, code: "QUERY_TOO_LARGE", media: oldMedia},
		"AcceptOldBad":    {reason: "What is not GraphQL keeps its status.", headers: accept(oldMedia), body: `{`, status: 400, code: "BAD_USER_INPUT", media: oldMedia},
		"AcceptApollo":    {reason: "Apollo Client's.", headers: accept("application/graphql-response+json,application/json;q=0.9"), body: query(`{nonsense}`), status: 400, code: "GRAPHQL_VALIDATION_FAILED"},
		"AcceptIOS":       {reason: "Apollo iOS sends this with every request.", headers: accept("multipart/mixed;deferSpec=20220824,application/graphql-response+json,application/json"), body: `{"query":"{viewer{id}}"}`, status: 200},
		"AcceptTie":       {reason: "The newer one where they tie.", headers: accept("application/json, application/graphql-response+json"), body: `{"query":"{viewer{id}}"}`, status: 200},
		"AcceptLines":     {reason: "Several headers are one list.", headers: accept("application/json;q=0.5", "application/graphql-response+json;q=0.8"), body: `{"query":"{viewer{id}}"}`, status: 200},
		"AcceptQ":         {reason: "The higher q-value wins.", headers: accept("application/graphql-response+json;q=0.1, application/json;q=0.2"), body: `{"query":"{viewer{id}}"}`, status: 200, media: oldMedia},
		"AcceptQZero":     {reason: "0 is no.", headers: accept("application/graphql-response+json;q=0, application/json;q=0.1"), body: `{"query":"{viewer{id}}"}`, status: 200, media: oldMedia},
		"AcceptAnyButOld": {reason: "What is named is not what the star means.", headers: accept("application/json;q=0, */*"), body: `{"query":"{viewer{id}}"}`, status: 200},
		"AcceptBrowser":   {reason: "A browser's address bar.", headers: accept("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"), method: "GET", query: url.Values{"query": {"{viewer{id}}"}}, status: 200, media: oldMedia},
		"AcceptHTML":      {reason: "Nothing we have.", headers: accept("text/html"), body: `{"query":"{viewer{id}}"}`, status: 406, code: "BAD_USER_INPUT", media: oldMedia},
		"AcceptOnlyZero":  {reason: "All refused.", headers: accept("*/*;q=0"), body: `{"query":"{viewer{id}}"}`, status: 406, code: "BAD_USER_INPUT", media: oldMedia},

		// Tokens.
		"Token":         {reason: "Good.", headers: authorization("Bearer " + good), body: `{"query":"{viewer{name}}"}`, status: 200, says: `{"data":{"viewer":{"name":"Bob"}}}`},
		"TokenLower":    {reason: "The scheme has no case.", headers: authorization("bearer " + good), body: `{"query":"{viewer{name}}"}`, status: 200, says: `"Bob"`},
		"TokenForged":   {reason: "Never taken for nobody.", headers: authorization("Bearer " + forged), body: `{"query":"{viewer{id}}"}`, status: 401, code: "UNAUTHENTICATED", request: `Bearer error="invalid_token"`},
		"TokenNonsense": {reason: "Never taken for nobody, and not echoed.", headers: authorization("Bearer hunter2"), body: `{"query":"{viewer{id}}"}`, status: 401, code: "UNAUTHENTICATED", request: `Bearer error="invalid_token"`, silent: "hunter2"},
		"TokenEmpty":    {reason: "The playground's empty header tab.", headers: authorization("Bearer "), body: `{"query":"{viewer{id}}"}`, status: 401, code: "UNAUTHENTICATED", request: `Bearer error="invalid_token"`},
		"TokenBasic":    {reason: "Another scheme.", headers: authorization("Basic aHVudGVyMg=="), body: `{"query":"{viewer{id}}"}`, status: 401, code: "UNAUTHENTICATED", request: `Bearer error="invalid_token"`, silent: "aHVudGVyMg"},
		"TokenTwice":    {reason: "Two readers could see two people.", headers: authorization("Bearer "+good, "Bearer "+good), body: `{"query":"{viewer{id}}"}`, status: 401, code: "UNAUTHENTICATED", request: `Bearer error="invalid_token"`},
		"TokenExpired":  {reason: "The client must learn so, and not see hearts go out.", headers: authorization("Bearer " + expired), body: `{"query":"{viewer{id}}"}`, status: 401, code: "UNAUTHENTICATED", says: "expired", request: `Bearer error="invalid_token"`},
		"TokenOnGet":    {reason: "The same for a GET.", method: "GET", headers: authorization("Bearer " + forged), query: url.Values{"query": {"{viewer{id}}"}}, status: 401, code: "UNAUTHENTICATED", request: `Bearer error="invalid_token"`},
		"TokenFirst":    {reason: "Who has no good token learns nothing about the request.", headers: authorization("Bearer " + forged), body: `{`, status: 401, code: "UNAUTHENTICATED", request: `Bearer error="invalid_token"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := tc.serve(t, handler)
			tc.check(t, w)
		})
	}
	t.Cleanup(func() {
		if strings.Contains(log.String(), "internal error") {
			t.Errorf("a fault of ours: %s", &log)
		}
	})
}

// expired was minted with secret and ended in 2001.
const expired = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJib2IiLCJleHAiOjEwMDAwMDAwMDB9.WFeuw9UtoFz1fPlDC7F73JNPMgyiHHaM0-9k0pgG26M"

func manyRoots(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "a%d:viewer{id} ", i)
	}
	return b.String()
}

func manyLikes(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `a%d:like(input:{subjectId:"post:1"}){changed} `, i)
	}
	return b.String()
}

func (tc httpCase) serve(tb testing.TB, handler http.Handler) *httptest.ResponseRecorder {
	tb.Helper()
	method := tc.method
	if method == "" {
		method = http.MethodPost
	}
	r := httptest.NewRequestWithContext(tb.Context(), method, "/graphql?"+tc.query.Encode(), strings.NewReader(tc.body))
	r.Header = http.Header{"Content-Type": {oldMedia}, "Accept": {newMedia}}
	if tc.headers != nil {
		r.Header = tc.headers
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

func (tc httpCase) check(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	body, header := w.Body.String(), w.Header()
	if w.Code != tc.status {
		t.Errorf("%s\nstatus %d, want %d: %.500s", tc.reason, w.Code, tc.status, body)
	}
	media := tc.media
	if media == "" {
		media = newMedia
	}
	if got := header.Get("Content-Type"); got != media+"; charset=utf-8" {
		t.Errorf("%s\nContent-Type %s, want %s", tc.reason, got, media)
	}
	cache := tc.cache
	if cache == "" {
		cache = "private, no-store"
	}
	for name, want := range map[string]string{
		"Cache-Control": cache, "X-Content-Type-Options": "nosniff", "Vary": "Accept, Authorization",
		"Allow": tc.allow, "WWW-Authenticate": tc.request,
	} {
		if got := header.Get(name); got != want {
			t.Errorf("%s\n%s: %q, want %q", tc.reason, name, got, want)
		}
	}
	var a answer
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Fatalf("%s\n%v in %.500s", tc.reason, err, body)
	}
	if tc.code == "" && len(a.Errors) > 0 || tc.code != "" && a.code() != tc.code {
		t.Errorf("%s\nwant code %q: %.500s", tc.reason, tc.code, body)
	}
	if tc.status >= 400 && strings.Contains(body, `"data"`) {
		t.Errorf("%s\na request error has no data: %.500s", tc.reason, body)
	}
	if !strings.Contains(body, tc.says) {
		t.Errorf("%s\nwant %q in it: %.500s", tc.reason, tc.says, body)
	}
	if tc.silent != "" && strings.Contains(body, tc.silent) {
		t.Errorf("%s\nit repeats what was sent: %.500s", tc.reason, body)
	}
	if len(body) > 4<<10 {
		t.Errorf("%s\nan answer of %d bytes", tc.reason, len(body))
	}
}

// Without introspection, errors help nobody to guess the schema.
func TestIntrospectionOff(t *testing.T) {
	t.Parallel()
	var log locked
	handler := newTransport(t, &log, graph.Options{})
	for name, tc := range map[string]httpCase{
		"Schema":     {reason: "The schema is not for clients.", body: `{"query":"{__schema{queryType{name}}}"}`, status: 400, code: "GRAPHQL_VALIDATION_FAILED", silent: `"Query"`},
		"Suggestion": {reason: "A guess must not be mended.", body: `{"query":"{fead{nodes{id}}}"}`, status: 400, code: "GRAPHQL_VALIDATION_FAILED", silent: "Did you mean"},
		"Typename":   {reason: "Clients' caches live on it.", body: `{"query":"{__typename}"}`, status: 200, says: `"Query"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := tc.serve(t, handler)
			tc.check(t, w)
		})
	}
}

// A client that goes away while its answer is made leaves nothing behind, and
// no panic.
func TestClientGone(t *testing.T) {
	t.Parallel()
	var log locked
	handler := newTransport(t, &log, graph.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/graphql", strings.NewReader(`{"query":"{feed{nodes{id}}}"}`))
	r.Header.Set("Content-Type", oldMedia)
	handler.ServeHTTP(httptest.NewRecorder(), r)
	if strings.Contains(log.String(), "panic") {
		t.Errorf("%s", &log)
	}
}

// FuzzTransport sends any body: nothing panics, nothing is a fault of ours, and
// what is no JSON is never repeated.
func FuzzTransport(f *testing.F) {
	for _, body := range []string{
		`{"query":"{feed(first:3){nodes{id likeCount} pageInfo{endCursor}}}"}`,
		`{"query":"query($id:ID!){node(id:$id){id ... on User{name}}}","variables":{"id":"user:YWRh"}}`,
		`{"query":"mutation($i:ReactionInput!){like(input:$i){changed}}","variables":{"i":{"subjectId":"post:1"}}}`,
		`{"query":"query a{viewer{id}} fragment f on Post{...f}","operationName":"a","extensions":{"x":[1e400]}}`,
		`{"query":"subscription{a}"}`, `{"query":"{__schema{types{name}}}"}`, `[{}]`, `{`, `null`, ``, "\xff", `{"query":"{a(b:$c)}"}`,
	} {
		f.Add([]byte(body))
	}
	var log locked
	handler := newTransport(f, &log, graph.Options{Introspection: true})
	send := func(tb testing.TB, body []byte) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(tb.Context(), http.MethodPost, "/graphql", bytes.NewReader(body))
		r.Header = http.Header{"Content-Type": {oldMedia}, "Accept": {newMedia}}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	malformed := send(f, []byte(`{`)).Body.String()
	f.Fuzz(func(t *testing.T, body []byte) {
		w := send(t, body)
		got := w.Body.String()
		if w.Code >= 500 || strings.Contains(got, "INTERNAL_SERVER_ERROR") {
			t.Fatalf("status %d: %s", w.Code, got)
		}
		if !json.Valid(w.Body.Bytes()) {
			t.Fatalf("not JSON: %s", got)
		}
		if !json.Valid(body) && len(body) <= 256<<10 && (w.Code != http.StatusBadRequest || got != malformed) {
			t.Fatalf("status %d for what is no JSON: %s", w.Code, got)
		}
	})
}
