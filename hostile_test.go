package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// hushText stands for a password that went to the wrong place. It is sent wherever
// a hostile request has room for it, and must come back in no answer and no log.
const hushText = "hunter2"

// hostile is a request of somebody who wishes us no good, or of a client that is
// broken, and what becomes of it.
type hostile struct {
	reason  string
	method  string // POST where empty
	path    string // /graphql where empty
	headers http.Header
	body    string
	raw     string // the whole of it as it goes over the wire, in place of the above

	status int
	code   string // of the first error; "" for none
	says   string // a piece of the answer
	allow  string // the header Allow
	// foreign: net/http refuses it before it is ours: no JSON, and perhaps no answer
	// to who still writes.
	foreign bool
	within  time.Duration // 250 ms where 0
	tries   int           // how many times it is measured at most, 3 where 0
}

const jsonMedia, graphqlMedia = "application/json", "application/graphql-response+json"

// jsonHeaders are those of a usual POST, and more of them as name and value.
func jsonHeaders(more ...string) http.Header {
	h := http.Header{"Content-Type": {jsonMedia}, "Accept": {graphqlMedia}}
	for i := 0; i+1 < len(more); i += 2 {
		h.Add(more[i], more[i+1])
	}
	return h
}

// contentHeaders are those of a POST of another kind.
func contentHeaders(values ...string) http.Header {
	return http.Header{"Content-Type": values, "Accept": {graphqlMedia}}
}

// jsonBody is the usual body with a document.
func jsonBody(document string) string {
	body, err := json.Marshal(map[string]string{"query": document})
	if err != nil {
		panic(err) // a string can be encoded
	}
	return string(body)
}

// anID asks for the post with an id, as it stands in the JSON.
func anID(id string) string {
	return `{"query":"query($id:ID!){post(id:$id){id}}","variables":{"id":` + id + `}}`
}

// aPage asks for a number of posts, as it stands in the JSON.
func aPage(first string) string {
	return `{"query":"query($n:Int){feed(first:$n){nodes{id}}}","variables":{"n":` + first + `}}`
}

// overWire is a POST with other framing: the lines after Host, and what follows.
func overWire(lines, body string) string {
	return "POST /graphql HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAccept: application/graphql-response+json\r\n" +
		lines + "\r\n" + body
}

const plainBody = `{"query":"{viewer{id}}"}`

// reply is what came back.
type reply struct {
	status int
	header http.Header
	body   []byte
	took   time.Duration
}

func (tc hostile) send(t *testing.T, p *running) reply {
	t.Helper()
	if tc.raw != "" {
		return tc.sendRaw(t, p)
	}
	method, path := tc.method, tc.path
	if method == "" {
		method = http.MethodPost
	}
	if path == "" {
		path = "/graphql"
	}
	r, err := http.NewRequestWithContext(t.Context(), method, p.address+path, strings.NewReader(tc.body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = tc.headers
	if r.Header == nil {
		r.Header = jsonHeaders()
	}
	began := time.Now()
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatalf("%s\nno answer: %v", tc.reason, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s\n%v", tc.reason, err)
	}
	return reply{response.StatusCode, response.Header, body, time.Since(began)}
}

// sendRaw writes without looking whether anybody reads: a server may answer and
// hang up before it has seen everything.
func (tc hostile) sendRaw(t *testing.T, p *running) reply {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(p.address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = io.WriteString(conn, tc.raw)
	}()
	defer func() { _ = conn.Close(); <-written }()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		if tc.foreign {
			return reply{status: tc.status, took: time.Since(began)} // hung up on
		}
		t.Fatalf("%s\nno answer: %v", tc.reason, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil && !tc.foreign {
		t.Fatalf("%s\n%v", tc.reason, err)
	}
	return reply{response.StatusCode, response.Header, body, time.Since(began)}
}

func (tc hostile) check(t *testing.T, p *running) {
	t.Helper()
	within, tries := tc.within, tc.tries
	if within == 0 {
		within = 250 * time.Millisecond
	}
	if tries == 0 {
		tries = 3
	}
	// The best of several: a machine with other work is late now and then.
	best := time.Hour
	var got reply
	for range tries {
		got = tc.send(t, p)
		best = min(best, got.took)
		if best <= within {
			break
		}
	}
	if best > within {
		t.Errorf("%s\n%s at best, want %s", tc.reason, best, within)
	}
	if got.status != tc.status {
		t.Errorf("%s\nstatus %d, want %d: %.300s", tc.reason, got.status, tc.status, got.body)
	}
	if bytes.Contains(got.body, []byte(hushText)) || strings.Contains(fmt.Sprint(got.header), hushText) {
		t.Errorf("%s\nit repeats what was sent: %.300s", tc.reason, got.body)
	}
	if tc.code != "" && len(got.body) > 4<<10 {
		t.Errorf("%s\nan answer of %d bytes: %.300s", tc.reason, len(got.body), got.body)
	}
	if tc.foreign {
		return
	}
	if allow := got.header.Get("Allow"); allow != tc.allow {
		t.Errorf("%s\nAllow: %q, want %q", tc.reason, allow, tc.allow)
	}
	if got.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%s\na browser may guess what this is: %v", tc.reason, got.header)
	}
	if tc.method == http.MethodHead {
		return // which has no body
	}
	if media := got.header.Get("Content-Type"); media != jsonMedia+"; charset=utf-8" && media != graphqlMedia+"; charset=utf-8" {
		t.Errorf("%s\nContent-Type: %s", tc.reason, media)
	}
	var a answer
	if err := json.Unmarshal(got.body, &a); err != nil {
		t.Fatalf("%s\n%v in %.300s", tc.reason, err, got.body)
	}
	code := ""
	if len(a.Errors) > 0 {
		code = a.Errors[0].Extensions.Code
		if code == "" {
			code = "none: " + a.Errors[0].Message
		}
	}
	if code != tc.code {
		t.Errorf("%s\ncode %q, want %q: %.300s", tc.reason, code, tc.code, got.body)
	}
	if !bytes.Contains(got.body, []byte(tc.says)) {
		t.Errorf("%s\nnot a word of %q: %.300s", tc.reason, tc.says, got.body)
	}
	if tc.status >= 400 && a.Data != nil {
		t.Errorf("%s\na refused request has no data: %.300s", tc.reason, got.body)
	}
}

// attack sends all of them, one after another so that the times are theirs, and
// sees that the server is none the worse for it.
func attack(t *testing.T, p *running, cases map[string]hostile) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { tc.check(t, p) })
	}
	var page struct{ Feed struct{ Nodes []post } }
	p.ask(t, "", `{feed(first:3){nodes{id likeCount}}}`, nil, &page)
	if len(page.Feed.Nodes) != 3 || page.Feed.Nodes[0].LikeCount == nil {
		t.Errorf("a plain query afterwards: %v", page.Feed.Nodes)
	}
	log := p.log.String()
	for _, word := range []string{"panic", "goroutine", "internal error", hushText} {
		if strings.Contains(log, word) {
			t.Errorf("the log has %q: %s", word, log)
		}
	}
}

// hostileServer is one with embedded parts.
func hostileServer(t *testing.T, args ...string) *running {
	t.Helper()
	args = append([]string{"serve", "--listen", "127.0.0.1:0", "--data", t.TempDir()}, args...)
	return serving(t, nil, args...)
}

func gzipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text) // into memory
	_ = w.Close()
	return b.String()
}

// keys is a JSON object with n keys of few bytes.
func keys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"%x":0`, i)
	}
	return "{" + strings.TrimPrefix(b.String(), ",") + "}"
}

func TestHostileRequests(t *testing.T) {
	t.Parallel()
	const chunked = "Transfer-Encoding: chunked\r\n"
	length := func(n int) string { return fmt.Sprintf("Content-Length: %d\r\n", n) }
	chunk := fmt.Sprintf("%x\r\n%s\r\n", len(plainBody), plainBody)
	get := func(query string) string { return "/graphql?" + query }
	preflight := jsonHeaders("Apollo-Require-Preflight", "true")
	secrets := `{"query":"{viewer{id}}","password":"` + hushText + `"`

	attack(t, hostileServer(t, "--introspection", "on"), map[string]hostile{
		// Methods and media types.
		"GetMutation":  {reason: "A link must change nothing.", method: "GET", path: get("query=" + url.QueryEscape(`mutation{publishPost(input:{title:"hunter2",body:""}){post{id}}}`)), headers: preflight, status: 405, code: "BAD_USER_INPUT", allow: "POST"},
		"Put":          {reason: "No method of ours.", method: "PUT", body: plainBody, status: 405, code: "BAD_USER_INPUT", allow: "GET, POST"},
		"Delete":       {reason: "No method of ours.", method: "DELETE", status: 405, code: "BAD_USER_INPUT", allow: "GET, POST"},
		"Patch":        {reason: "No method of ours.", method: "PATCH", body: plainBody, status: 405, code: "BAD_USER_INPUT", allow: "GET, POST"},
		"Head":         {reason: "No method of ours.", method: "HEAD", headers: preflight, status: 405, allow: "GET, POST"},
		"Trace":        {reason: "It would send back the token.", method: "TRACE", headers: jsonHeaders("X-Secret", hushText), status: 405, code: "BAD_USER_INPUT", allow: "GET, POST"},
		"LowerCase":    {reason: "Methods have case.", raw: strings.Replace(overWire(length(len(plainBody)), plainBody), "POST", "post", 1), status: 405, code: "BAD_USER_INPUT", allow: "GET, POST"},
		"Invented":     {reason: "Nobody's method.", method: "GRAPHQL", body: plainBody, status: 405, code: "BAD_USER_INPUT", allow: "GET, POST"},
		"AcceptHTML":   {reason: "We have no pages here.", headers: http.Header{"Content-Type": {jsonMedia}, "Accept": {"text/html"}}, body: plainBody, status: 406, code: "BAD_USER_INPUT"},
		"AcceptZero":   {reason: "All that we have is refused.", headers: http.Header{"Content-Type": {jsonMedia}, "Accept": {"*/*;q=0"}}, body: plainBody, status: 406, code: "BAD_USER_INPUT"},
		"AcceptBroken": {reason: "As much nonsense as a header holds.", headers: http.Header{"Content-Type": {jsonMedia}, "Accept": {strings.Repeat(",;q=,/", 3000)}}, body: plainBody, status: 406, code: "BAD_USER_INPUT"},
		"Charset":      {reason: "JSON is UTF-8.", headers: contentHeaders("application/json; charset=utf-16"), body: plainBody, status: 415, code: "BAD_USER_INPUT"},
		"XML":          {reason: "Entities and other surprises.", headers: contentHeaders("application/xml"), body: "<query>" + hushText + "</query>", status: 415, code: "BAD_USER_INPUT"},
		"JSONLike":     {reason: "Not quite what was agreed on.", headers: contentHeaders("application/json-patch+json"), body: plainBody, status: 415, code: "BAD_USER_INPUT"},

		// Bodies. They are never repeated: a password may have gone to the wrong place.
		"Broken":        {reason: "JSON that ends too early.", body: secrets, status: 400, code: "BAD_USER_INPUT"},
		"NotJSON":       {reason: "A form.", body: "password=" + hushText, status: 400, code: "BAD_USER_INPUT"},
		"Empty":         {reason: "No body.", status: 400, code: "BAD_USER_INPUT"},
		"Trailing":      {reason: "Two readers could see two requests in it.", body: plainBody + hushText, status: 400, code: "BAD_USER_INPUT"},
		"TwoValues":     {reason: "The same with two that are whole.", body: plainBody + plainBody, status: 400, code: "BAD_USER_INPUT"},
		"Batch":         {reason: "A batch would multiply every limit.", body: "[" + plainBody + "," + plainBody + "]", status: 400, code: "BAD_USER_INPUT"},
		"BOM":           {reason: "JSON that is sent has none (RFC 8259, section 8.1).", body: "\ufeff" + plainBody, status: 400, code: "BAD_USER_INPUT"},
		"UTF16":         {reason: "JSON is UTF-8.", body: "{\x00\"\x00q\x00", status: 400, code: "BAD_USER_INPUT"},
		"NULs":          {reason: "White space it is not.", body: plainBody + "\x00\x00", status: 400, code: "BAD_USER_INPUT"},
		"NaN":           {reason: "JSON has no such number.", body: aPage("NaN"), status: 400, code: "BAD_USER_INPUT"},
		"QueryObject":   {reason: "A document is text.", body: `{"query":{"password":"hunter2"}}`, status: 400, code: "BAD_USER_INPUT"},
		"QueryNumber":   {reason: "A document is text.", body: `{"query":1e400}`, status: 400, code: "BAD_USER_INPUT"},
		"Large":         {reason: "A body is held in memory.", body: `{"query":"{viewer{id}}","variables":{"a":"` + strings.Repeat(hushText, 40<<10) + `"}}`, status: 413, code: "QUERY_TOO_LARGE", says: "262144"},
		"LargeBlank":    {reason: "White space is held as well.", body: strings.Repeat(" ", 300<<10) + plainBody, status: 413, code: "QUERY_TOO_LARGE"},
		"LargeDocument": {reason: "A document is held for longer.", body: jsonBody("{viewer{id}} #" + strings.Repeat(hushText, 3<<10)), status: 400, code: "QUERY_TOO_LARGE", says: "16384"},

		// Framing, over the wire.
		"TwoLengths":     {reason: "Two readers see two ends, and the rest becomes a request of somebody else's.", raw: overWire(length(len(plainBody))+length(3), plainBody), status: 400, foreign: true},
		"LengthList":     {reason: "The same on one line.", raw: overWire("Content-Length: 24, 3\r\n", plainBody), status: 400, foreign: true},
		"LengthSigned":   {reason: "Some read +24.", raw: overWire("Content-Length: +24\r\n", plainBody), status: 400, foreign: true},
		"LengthNegative": {reason: "A length is none.", raw: overWire("Content-Length: -1\r\n", plainBody), status: 400, foreign: true},
		"LengthHuge":     {reason: "More than 64 bits.", raw: overWire("Content-Length: 99999999999999999999\r\n", plainBody), status: 400, foreign: true},
		"LengthLie":      {reason: "A petabyte is announced, and no room made for it.", raw: overWire("Content-Length: 1125899906842624\r\n", strings.Repeat("x", 300<<10)), status: 413, code: "QUERY_TOO_LARGE"},
		"SameLengths":    {reason: "Twice the same is one (RFC 9110, section 8.6).", raw: overWire(length(len(plainBody))+length(len(plainBody)), plainBody), status: 200},
		"CodingSpaced":   {reason: "A space before the colon hides it from some.", raw: overWire("Transfer-Encoding : chunked\r\n"+length(len(plainBody)), plainBody), status: 400, foreign: true},
		"CodingUnknown":  {reason: "Who does not know the coding does not know the end. 501 is what RFC 9112 asks for.", raw: overWire("Transfer-Encoding: xchunked\r\n", plainBody), status: 501, foreign: true},
		"CodingTwice":    {reason: "Chunks in chunks.", raw: overWire("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n"), status: 501, foreign: true},
		"Chunks":         {reason: "Chunks are fine.", raw: overWire(chunked, chunk+"0\r\n\r\n"), status: 200},
		"ChunkGarbage":   {reason: "A size that is none.", raw: overWire(chunked, "zz\r\n"+hushText+"\r\n0\r\n\r\n"), status: 400, code: "BAD_USER_INPUT"},
		"ChunkLines":     {reason: "Lines end with CR LF, or two readers part them differently.", raw: overWire(chunked, strings.ReplaceAll(chunk+"0\r\n\r\n", "\r\n", "\n")), status: 400, code: "BAD_USER_INPUT"},
		"ChunkHuge":      {reason: "A size of more than 64 bits.", raw: overWire(chunked, "fffffffffffffffff\r\n"+hushText), status: 400, code: "BAD_USER_INPUT"},
		"ChunkShort":     {reason: "The chunk is longer than it says.", raw: overWire(chunked, "3\r\n"+plainBody+"\r\n0\r\n\r\n"), status: 400, code: "BAD_USER_INPUT"},
		"ChunksTiny":     {reason: "A byte a chunk: more framing than body.", raw: overWire(chunked, strings.Repeat("1;"+strings.Repeat("x", 60)+"\r\n \r\n", 10_000)), status: 400, code: "BAD_USER_INPUT"},
		"HeaderNUL":      {reason: "A line that others end there.", raw: overWire("X: a\x00b\r\n"+length(len(plainBody)), plainBody), status: 400, foreign: true},
		"HeaderFolded":   {reason: "A line that others go on with.", raw: overWire("X: a\r\n b\r\n"+length(len(plainBody)), plainBody), status: 200},
		"Expect":         {reason: "An expectation that nobody can meet.", raw: overWire("Expect: "+hushText+"\r\n"+length(len(plainBody)), plainBody), status: 417, foreign: true},
		"NoHost":         {reason: "HTTP/1.1 has one.", raw: "POST /graphql HTTP/1.1\r\n" + length(len(plainBody)) + "\r\n" + plainBody, status: 400, foreign: true},
		"TwoHosts":       {reason: "Which?", raw: overWire("Host: y\r\n"+length(len(plainBody)), plainBody), status: 400, foreign: true},
		"HugeHeader":     {reason: "A header is held in memory.", raw: overWire("X: "+strings.Repeat(hushText, 20_000)+"\r\n"+length(len(plainBody)), plainBody), status: 431, foreign: true},
		"ManyHeaders":    {reason: "So are many.", raw: overWire(strings.Repeat("X: y\r\n", 20_000)+length(len(plainBody)), plainBody), status: 431, foreign: true},
		"LongAddress":    {reason: "An address is part of the header.", raw: "GET /graphql?query=" + strings.Repeat("x", 300<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n", status: 431, foreign: true},
		"BrokenAddress":  {reason: "No address.", raw: "GET /graphql?%zz%  HTTP/1.1\r\nHost: x\r\n\r\n", status: 400, foreign: true},

		// Variables.
		"Deep":        {reason: "The decoder calls itself for each level.", body: anID(strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)), status: 400, code: "BAD_USER_INPUT"},
		"DeepObjects": {reason: "Deep where an object is wanted.", body: `{"query":"mutation($i:ReactionInput!){like(input:$i){changed}}","variables":{"i":` + strings.Repeat(`{"subjectId":`, 9_000) + `"hunter2"` + strings.Repeat("}", 9_000) + `}}`, status: 400, code: "GRAPHQL_VALIDATION_FAILED"},
		"DeepUnused":  {reason: "Deep where nobody looks.", body: `{"query":"{viewer{id}}","extensions":{"a":` + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000) + `}}`, status: 200},
		"ManyKeys":    {reason: "100,000 of them are too large a body.", body: `{"query":"{viewer{id}}","variables":` + keys(100_000) + `}`, status: 413, code: "QUERY_TOO_LARGE"},
		"ManyKeysFit": {reason: "As many as fit cost little.", body: `{"query":"{viewer{id}}","variables":` + keys(25_000) + `}`, status: 200},
		"List":        {reason: "Variables are an object.", body: `{"query":"{viewer{id}}","variables":["hunter2"]}`, status: 400, code: "BAD_USER_INPUT"},
		"Secret":      {reason: "A password where an id is wanted.", body: anID(`{"password":"hunter2"}`), status: 400, code: "GRAPHQL_VALIDATION_FAILED"},
		"Int33":       {reason: "An Int has 32 bits.", body: aPage("2147483648"), status: 200, code: "BAD_USER_INPUT"},
		"IntMin":      {reason: "Below zero too.", body: aPage("-2147483649"), status: 200, code: "BAD_USER_INPUT"},
		"Int65":       {reason: "More than 64 bits.", body: aPage("18446744073709551616"), status: 400, code: "GRAPHQL_VALIDATION_FAILED"},
		"IntHuge":     {reason: "More digits than anybody needs.", body: aPage(strings.Repeat("9", 100_000)), status: 400, code: "GRAPHQL_VALIDATION_FAILED"},
		"Exponent":    {reason: "A float is no Int, and a short one can be long.", body: aPage("1e999999999"), status: 400, code: "GRAPHQL_VALIDATION_FAILED"},
		"LiteralInt":  {reason: "The same in a document.", body: jsonBody("{feed(first:99999999999){nodes{id}}}"), status: 200, code: "BAD_USER_INPUT"},
		"LiteralDeep": {reason: "A value in a document may be deep as well.", body: jsonBody("{post(id:" + strings.Repeat("[", 900) + strings.Repeat("]", 900) + "){id}}"), status: 400, code: "GRAPHQL_VALIDATION_FAILED"},
		"PageAll":     {reason: "All there is, please.", body: aPage("1000000"), status: 200, code: "BAD_USER_INPUT"},
		"PageNone":    {reason: "A page has posts.", body: aPage("0"), status: 200, code: "BAD_USER_INPUT"},
		"Cursor":      {reason: "A cursor that is none.", body: jsonBody(`{feed(after:"` + strings.Repeat(hushText, 1000) + `"){nodes{id}}}`), status: 200, code: "BAD_USER_INPUT"},

		// Ids.
		"IDHuge":     {reason: "A megabyte.", body: anID(`"post:` + strings.Repeat("a", 1<<20) + `"`), status: 413, code: "QUERY_TOO_LARGE"},
		"IDLong":     {reason: "As long as a body lets it be.", body: anID(`"post:` + strings.Repeat(hushText, 35_000) + `"`), status: 200, code: "BAD_USER_INPUT"},
		"IDNUL":      {reason: "PostgreSQL takes none, and C ends there.", body: anID(`"post:a\u0000b"`), status: 200, code: "BAD_USER_INPUT"},
		"IDStar":     {reason: "A pattern in Redis.", body: anID(`"post:*"`), status: 200, code: "BAD_USER_INPUT"},
		"IDColon":    {reason: "It parts the names of keys.", body: anID(`"post:a:b"`), status: 200, code: "BAD_USER_INPUT"},
		"IDBraces":   {reason: "A hash tag of one's own.", body: anID(`"post:{a}"`), status: 200, code: "BAD_USER_INPUT"},
		"IDLines":    {reason: "Redis' protocol has lines.", body: anID(`"post:a\r\nFLUSHALL\r\n"`), status: 200, code: "BAD_USER_INPUT"},
		"IDSQL":      {reason: "The oldest of all.", body: anID(`"post:' OR 1=1 --"`), status: 200, code: "BAD_USER_INPUT"},
		"IDSpace":    {reason: "Some trim it.", body: anID(`"post:10001 "`), status: 200, code: "BAD_USER_INPUT"},
		"IDEmpty":    {reason: "No id.", body: anID(`""`), status: 200, code: "BAD_USER_INPUT"},
		"IDNumber":   {reason: "A number is no id of ours.", body: anID("10001"), status: 200, code: "BAD_USER_INPUT"},
		"IDUser":     {reason: "A user is no post.", body: anID(`"user:YWxpY2U"`), status: 200, code: "BAD_USER_INPUT"},
		"IDUnicode":  {reason: "Look-alikes and directions.", body: anID(`"post:\u202e\u0430"`), status: 200, code: "BAD_USER_INPUT"},
		"IDSurrogat": {reason: "Half a character is none.", body: anID(`"post:\ud800"`), status: 200, code: "BAD_USER_INPUT"},
		"IDLiteral":  {reason: "Half a character in a document.", body: jsonBody(`{post(id:"post:\ud800"){id}}`), status: 200, code: "BAD_USER_INPUT"},
		"IDsMany":    {reason: "101 at once.", body: jsonBody(`{nodes(ids:["` + strings.Repeat(`post:a","`, 100) + `post:a"]){id}}`), status: 200, code: "BAD_USER_INPUT"},

		// Text that is no text.
		"BodyUTF8":     {reason: "Nothing is made of it but replacement characters.", body: anID("\"post:\xff\xfe\""), status: 200, code: "BAD_USER_INPUT"},
		"BodyOverlong": {reason: "A slash in disguise.", body: anID("\"post:\xc0\xaf\""), status: 200, code: "BAD_USER_INPUT"},
		"DocumentUTF8": {reason: "Outside of a string too.", body: "{\"query\":\"{viewer{id\xff}}\"}", status: 400, code: "GRAPHQL_PARSE_FAILED"},
		"DocumentNUL":  {reason: "C ends there.", body: `{"query":"{viewer{id}}\u0000"}`, status: 400, code: "GRAPHQL_PARSE_FAILED"},
		"AddressUTF8":  {reason: "In an address.", method: "GET", path: get("query=%7Bviewer%7Bid%ff%7D%7D"), headers: preflight, status: 400, code: "GRAPHQL_PARSE_FAILED"},
		"AddressNUL":   {reason: "In an address.", method: "GET", path: get("query=%7Bviewer%7Bid%7D%7D%00"), headers: preflight, status: 400, code: "GRAPHQL_PARSE_FAILED"},
		"AddressVars":  {reason: "Variables that are none are not repeated.", method: "GET", path: get("query=%7Bviewer%7Bid%7D%7D&variables=" + hushText), headers: preflight, status: 400, code: "BAD_USER_INPUT"},

		// Documents.
		"Syntax":       {reason: "Apollo's code.", body: jsonBody(`{viewer(a:"hunter2"`), status: 400, code: "GRAPHQL_PARSE_FAILED"},
		"Unterminated": {reason: "A string that does not end.", body: jsonBody(`{viewer(a:"hunter2`), status: 400, code: "GRAPHQL_PARSE_FAILED"},
		"Cycle":        {reason: "It would never end.", body: jsonBody(`{feed{...f}} fragment f on PostConnection{nodes{id} ...f}`), status: 400, code: "GRAPHQL_VALIDATION_FAILED"},
		"CycleOfTwo":   {reason: "By way of another.", body: jsonBody(`{feed{...f}} fragment f on PostConnection{...g} fragment g on PostConnection{...f}`), status: 400, code: "GRAPHQL_VALIDATION_FAILED"},
		"Defer":        {reason: "We send no parts: it is passed over, and the answer is whole.", headers: http.Header{"Content-Type": {jsonMedia}, "Accept": {"multipart/mixed;deferSpec=20220824,application/graphql-response+json,application/json"}}, body: jsonBody(`{feed(first:1){...@defer{nodes{id}}}}`), status: 200, says: `{"data":{"feed":{"nodes":[{"id":`},
		"Subscription": {reason: "There are none over HTTP.", body: jsonBody(`subscription{viewer{id}}`), status: 400, code: "GRAPHQL_VALIDATION_FAILED"},
	})
}

// Without introspection nobody learns the schema by asking or by guessing.
func TestHostileGuesses(t *testing.T) {
	t.Parallel()
	const failed = "GRAPHQL_VALIDATION_FAILED"
	p := hostileServer(t, "--introspection", "off")
	attack(t, p, map[string]hostile{
		"Schema":     {reason: "The schema.", body: jsonBody(`{__schema{types{name}}}`), status: 400, code: failed},
		"Type":       {reason: "A type.", body: jsonBody(`{__type(name:"Post"){fields{name}}}`), status: 400, code: failed},
		"Aliased":    {reason: "Under another name.", body: jsonBody(`{a:__schema{queryType{name}}}`), status: 400, code: failed},
		"Hidden":     {reason: "In a fragment.", body: jsonBody(`{...f} fragment f on Query{...{__type(name:"Post"){name}}}`), status: 400, code: failed},
		"InMutation": {reason: "In a mutation.", body: jsonBody(`mutation{__schema{queryType{name}}}`), status: 400, code: failed},
		"Included":   {reason: "By a variable.", body: `{"query":"query($a:Boolean!){__schema @include(if:$a){queryType{name}}}","variables":{"a":true}}`, status: 400, code: failed},
		"Typename":   {reason: "Clients' caches live on it.", body: jsonBody(`{__typename}`), status: 200, says: `"Query"`},
	})
	for document, name := range map[string]string{
		`{fed{nodes{id}}}`:                "feed",
		`{feed{nodes{likeCoun}}}`:         "likeCount",
		`{feed{nodes{... on Pots{id}}}}`:  "Post",
		`query($v:Visibilty){viewer{id}}`: "Visibility",
	} {
		got := hostile{body: jsonBody(document)}.send(t, p)
		if got.status != http.StatusBadRequest || bytes.Contains(got.body, []byte("Did you mean")) || bytes.Contains(got.body, []byte(`\"`+name+`\"`)) {
			t.Errorf("a guess is mended: %s: %d %s", document, got.status, got.body)
		}
	}
}
