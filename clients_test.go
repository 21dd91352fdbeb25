package main

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What Apollo's clients send, byte for byte, is in testdata/clients: each file
// says which client, which version and which of its sources make it so. Host and
// Content-Length are added here, and a token where a case has one.

// exchange is a request out of testdata/clients and what its client needs to
// read.
type exchange struct {
	file  string
	token bool

	status int    // 200 where 0
	code   string // of the only error; "" for none
	says   string // a piece of the data
	cache  string // Cache-Control; "private, no-store" where empty
}

const (
	// notFound is what Apollo Server answers to a hash that is new to it. No cache
	// may keep it, or the next client would not be believed either.
	notFound = "PERSISTED_QUERY_NOT_FOUND"
	twoPosts = `"nodes":[{`
	aLike    = `"viewerHasLiked":true`
	forAll   = "public, max-age=1"
)

func (e exchange) run(t *testing.T, p *running, token string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "clients", e.file))
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	for strings.HasPrefix(text, "#") { // where it comes from
		_, text, _ = strings.Cut(text, "\n")
	}
	head, body, _ := strings.Cut(text, "\n\n")
	body = strings.TrimSuffix(body, "\n")
	host := strings.TrimPrefix(p.address, "http://")
	head += "\nHost: " + host
	if body != "" {
		head += fmt.Sprintf("\nContent-Length: %d", len(body))
	}
	if e.token {
		head += "\nAuthorization: Bearer " + token
	}
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, strings.ReplaceAll(head, "\n", "\r\n")+"\r\n\r\n"+body); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%s: %v", e.file, err)
	}
	defer func() { _ = response.Body.Close() }()
	e.check(t, response)
}

func (e exchange) check(t *testing.T, response *http.Response) {
	t.Helper()
	var reader io.Reader = response.Body
	if response.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if reader, err = gzip.NewReader(reader); err != nil {
			t.Fatalf("%s: %v", e.file, err)
		}
	}
	body, err := io.ReadAll(reader)
	if err != nil {
		t.Fatalf("%s: %v", e.file, err)
	}
	status, cache := e.status, e.cache
	if status == 0 {
		status = http.StatusOK
	}
	if cache == "" {
		cache = "private, no-store"
	}
	if response.StatusCode != status {
		t.Errorf("%s: status %d, want %d: %s", e.file, response.StatusCode, status, body)
	}
	// Each of them names it, and reads any status of it.
	if media := response.Header.Get("Content-Type"); media != graphqlMedia+"; charset=utf-8" {
		t.Errorf("%s: Content-Type: %s", e.file, media)
	}
	if got := response.Header.Get("Cache-Control"); got != cache {
		t.Errorf("%s: Cache-Control: %s, want %s", e.file, got, cache)
	}
	if vary := strings.Join(response.Header.Values("Vary"), ", "); !strings.Contains(vary, "Accept") || !strings.Contains(vary, "Authorization") {
		t.Errorf("%s: a cache would mix viewers and media: Vary: %s", e.file, vary)
	}
	var a answer
	if err := json.Unmarshal(body, &a); err != nil {
		t.Fatalf("%s: %v in %s", e.file, err, body)
	}
	switch {
	case e.code == "" && len(a.Errors) > 0, e.code != "" && (len(a.Errors) != 1 || a.Errors[0].Extensions.Code != e.code):
		t.Errorf("%s: want code %q: %s", e.file, e.code, body)
	case e.code == notFound && a.Errors[0].Message != "PersistedQueryNotFound":
		t.Errorf("%s: Kotlin and iOS go by the message: %s", e.file, body)
	}
	if !strings.Contains(string(a.Data), e.says) {
		t.Errorf("%s: not a word of %s: %s", e.file, e.says, body)
	}
	if e.code != "" && status != http.StatusOK && a.Data != nil {
		t.Errorf("%s: a refused request has no data: %s", e.file, body)
	}
}

func TestApolloClients(t *testing.T) {
	t.Parallel()
	p := hostileServer(t)
	for _, tc := range []struct {
		name, reason string
		steps        []exchange
	}{
		{"Web", "A hash that nobody knows, by POST and by GET; both; and the hash again.", []exchange{
			{file: "web-apq-hash.http", code: notFound},
			{file: "web-apq-get.http", code: notFound},
			{file: "web-apq-whole.http", says: twoPosts},
			{file: "web-apq-hash.http", says: twoPosts},
			{file: "web-apq-get.http", says: twoPosts, cache: forAll},
			{file: "web-apq-get.http", token: true, says: `"viewerHasLiked":false`}, // no shared cache may hold it
		}},
		{"WebPlain", "Without persisted queries.", []exchange{
			{file: "web-query.http", says: twoPosts},
			{file: "web-get.http", says: twoPosts},
			{file: "web-mutation.http", code: "UNAUTHENTICATED", says: "null"},
			{file: "web-mutation.http", token: true, says: aLike},
		}},
		{"Kotlin", "Hashes by GET, documents by POST, mutations always by POST.", []exchange{
			{file: "kotlin-apq-hash.http", code: notFound},
			{file: "kotlin-apq-whole.http", says: twoPosts},
			{file: "kotlin-apq-hash.http", says: twoPosts, cache: forAll},
			{file: "kotlin-apq-hash.http", token: true, says: twoPosts},
			{file: "kotlin-mutation-hash.http", token: true, code: notFound},
			{file: "kotlin-mutation.http", token: true, says: aLike},
			{file: "kotlin-mutation-hash.http", token: true, says: aLike},
			{file: "kotlin-query.http", says: twoPosts},
		}},
		{"IOS", "It names multipart first with every request, and wants none.", []exchange{
			{file: "ios-apq-hash.http", code: notFound},
			{file: "ios-apq-get.http", code: notFound},
			{file: "ios-apq-whole.http", says: twoPosts},
			{file: "ios-apq-hash.http", says: twoPosts},
			{file: "ios-apq-get.http", says: twoPosts, cache: forAll},
			{file: "ios-query.http", says: twoPosts},
			{file: "ios-mutation.http", token: true, says: aLike},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for i, step := range tc.steps {
				step.run(t, p, p.token)
				if t.Failed() {
					t.Fatalf("%s\nstep %d", tc.reason, i+1)
				}
			}
		})
	}
}

// With a list of trusted documents, each client's ids are known from the start,
// and nothing else is run.
func TestTrustedDocuments(t *testing.T) {
	t.Parallel()
	manifest := filepath.Join("testdata", "clients", "manifest.json")
	manifest, err := filepath.Abs(manifest) // the server runs elsewhere
	if err != nil {
		t.Fatal(err)
	}
	p := hostileServer(t, "--trusted-documents", manifest, "--trusted-only")
	for _, step := range []exchange{
		{file: "web-apq-hash.http", says: twoPosts},
		{file: "web-apq-get.http", says: twoPosts, cache: forAll},
		{file: "web-apq-whole.http", says: twoPosts},
		{file: "web-query.http", says: twoPosts}, // by its text
		{file: "web-mutation.http", token: true, says: aLike},
		{file: "kotlin-apq-hash.http", says: twoPosts, cache: forAll},
		{file: "kotlin-apq-hash.http", token: true, says: twoPosts},
		{file: "kotlin-mutation-hash.http", token: true, says: aLike},
		{file: "ios-apq-get.http", says: twoPosts, cache: forAll},
		{file: "ios-apq-hash.http", says: twoPosts},
		{file: "ios-mutation.http", token: true, says: aLike},
		{file: "document-id.http", says: twoPosts},
		{file: "document-id-get.http", says: twoPosts, cache: forAll},
	} {
		step.run(t, p, p.token)
	}
	const notInList = "PERSISTED_QUERY_NOT_IN_LIST"
	hash := strings.Repeat("0", 64)
	attack := map[string]hostile{
		"Free":       {reason: "A document of one's own.", body: plainBody, status: 400, code: notInList},
		"Unknown":    {reason: "An id that is not on the list; a client that hears of not found would send the document.", body: `{"extensions":{"persistedQuery":{"version":1,"sha256Hash":"` + hash + `"}}}`, status: 400, code: notInList},
		"Automatic":  {reason: "Nothing can be put on the list.", body: `{"query":"{viewer{id}}","extensions":{"persistedQuery":{"version":1,"sha256Hash":"31e2018e8c9c2e87f6f7ebbb0ce2e2b7ccbfa1c4bd17a8a2d5c1b8e1f3b1b3c3"}}}`, status: 400, code: notInList},
		"DocumentID": {reason: "By the other name.", body: `{"documentId":"sha256:` + hash + `"}`, status: 400, code: notInList},
		"Both":       {reason: "The id of one and the text of another.", body: `{"query":"{viewer{id}}","documentId":"sha256:` + trustedID(t, manifest) + `"}`, status: 400, code: "BAD_USER_INPUT"},
		"Nothing":    {reason: "Neither.", body: `{"variables":{}}`, status: 400, code: "BAD_USER_INPUT"},
		"Typename":   {reason: "Not even this.", body: jsonBody("{__typename}"), status: 400, code: notInList},
	}
	for name, tc := range attack {
		t.Run(name, func(t *testing.T) { tc.check(t, p) })
	}
}

// trustedID is the first id of a manifest.
func trustedID(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct{ Operations []struct{ ID string } }
	if err := json.Unmarshal(text, &manifest); err != nil || len(manifest.Operations) == 0 {
		t.Fatal(err, manifest)
	}
	return manifest.Operations[0].ID
}

// Hashes that are none, and documents that are not theirs.
func TestHostileHashes(t *testing.T) {
	t.Parallel()
	named := func(version, hash, more string) string {
		return `{"extensions":{"persistedQuery":{"version":` + version + `,"sha256Hash":` + hash + `}}` + more + `}`
	}
	const bad = "BAD_USER_INPUT"
	other := `"` + strings.Repeat("0", 64) + `"`
	whole := `,"query":"{viewer{id}}"`
	const right = `"d13eb1f1a4b8dfbd21b4b1b0d4f3ed9bc4c2f4dd3ac1a6e7e5c93b4b3dd01d6a"` // of nothing here
	attack(t, hostileServer(t), map[string]hostile{
		"Unknown":      {reason: "A hash that nobody sent before: no failure.", body: named("1", right, ""), status: 200, code: notFound},
		"Mismatch":     {reason: "A document under another's hash would be run by whoever asks for that.", body: named("1", other, whole), status: 400, code: bad},
		"Unkept":       {reason: "And it was not kept.", body: named("1", other, ""), status: 200, code: notFound},
		"Version":      {reason: "A version to come.", body: named("2", other, ""), status: 400, code: bad},
		"VersionText":  {reason: "A version is a number.", body: named(`"1"`, other, ""), status: 400, code: bad},
		"Upper":        {reason: "One hash, one spelling: else one document takes many places.", body: named("1", `"`+strings.Repeat("A", 64)+`"`, ""), status: 400, code: bad},
		"Short":        {reason: "No hash.", body: named("1", `"hunter2"`, ""), status: 400, code: bad},
		"Key":          {reason: "A name of a key.", body: named("1", `"apq:*"`, ""), status: 400, code: bad},
		"Number":       {reason: "A hash is text.", body: named("1", "7", ""), status: 400, code: bad},
		"Null":         {reason: "None.", body: named("1", "null", ""), status: 400, code: bad},
		"List":         {reason: "An extension is an object.", body: `{"extensions":{"persistedQuery":["hunter2"]}}`, status: 400, code: bad},
		"Empty":        {reason: "An empty document is none.", body: named("1", other, `,"query":""`), status: 200, code: notFound},
		"Large":        {reason: "Too large to be kept, whatever its hash.", body: named("1", other, `,"query":"{viewer{id}} #`+strings.Repeat("x", 17<<10)+`"`), status: 400, code: "QUERY_TOO_LARGE"},
		"DocumentID":   {reason: "No id of ours.", body: `{"documentId":"` + strings.Repeat(hushText, 1000) + `"}`, status: 400, code: bad},
		"GetMutation":  {reason: "A mutation by its hash is a mutation.", method: "GET", path: "/graphql?extensions=%7B%7D&query=mutation%7Blike(input:%7BsubjectId:%22post:1%22%7D)%7Bchanged%7D%7D", headers: jsonHeaders(), status: 405, code: bad, allow: "POST"},
		"GetExtension": {reason: "Extensions are an object.", method: "GET", path: "/graphql?extensions=%5B" + hushText + "%5D", headers: jsonHeaders(), status: 400, code: bad},
	})
}
