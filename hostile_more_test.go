package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tallyfeed/tallyfeed/auth"
)

// What two readers of a request could read in two ways, what is repeated, and what
// holds a connection.
func TestHostileReadings(t *testing.T) {
	t.Parallel()
	const failed = "GRAPHQL_VALIDATION_FAILED"
	preflight := jsonHeaders("Apollo-Require-Preflight", "true")
	const whole = "/graphql?query=%7Bviewer%7Bid%7D%7D"
	p := hostileServer(t, "--introspection", "off")
	attack(t, p, map[string]hostile{
		// Two readers, two requests: what a proxy checks must be what is run.
		"KeyTwice":       {reason: "encoding/json takes the last one, others the first.", body: `{"query":"{viewer{id}}","query":"{__typename}"}`, status: 400, code: "BAD_USER_INPUT"},
		"KeyInCapitals":  {reason: "encoding/json takes any case; it is another name to all others.", body: `{"query":"{viewer{id}}","Query":"{__typename}"}`, status: 200, says: `"viewer"`},
		"KeyOnlyCapital": {reason: "So this has no query.", body: `{"QUERY":"{viewer{id}}"}`, status: 400, code: "BAD_USER_INPUT"},
		"AddressTwice":   {reason: "The same in an address.", method: "GET", path: whole + "&query=%7B__typename%7D", headers: preflight, status: 400, code: "BAD_USER_INPUT"},
		"AddressEscape":  {reason: "A piece that can't be read must not be passed over: the query would run without its variables.", method: "GET", path: whole + "&variables=%zz", headers: preflight, status: 400, code: "BAD_USER_INPUT"},
		"AddressSemi":    {reason: "The same with a semicolon, which parts pieces for some.", method: "GET", path: whole + "&variables=a;b", headers: preflight, status: 400, code: "BAD_USER_INPUT"},
		"Gzip":           {reason: "We take no coding (RFC 9110, section 8.4: 415).", headers: jsonHeaders("Content-Encoding", "gzip"), body: gzipped(plainBody), status: 415, code: "BAD_USER_INPUT"},
		"GzipLie":        {reason: "A proxy that reads the coding sees nothing in it.", headers: jsonHeaders("Content-Encoding", "gzip"), body: plainBody, status: 415, code: "BAD_USER_INPUT"},

		// Before answers were compressed, net/http was told of a body that is too
		// large, and hung up; now it reads on before it answers, for as long as the
		// client likes, up to 15 s.
		"ChunksEndless": {reason: "It never ends; we do.", raw: overWire("Transfer-Encoding: chunked\r\n", strings.Repeat("1000\r\n"+strings.Repeat(" ", 0x1000)+"\r\n", 100)), status: 413, code: "QUERY_TOO_LARGE"},
		"Upgrade":       {reason: "HTTP/2 in the clear is not spoken, and need not be: some clients offer it to everybody.", raw: overWire("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"+fmt.Sprintf("Content-Length: %d\r\n", len(plainBody)), plainBody), status: 200},

		// Values are not repeated, as everywhere else.
		"EnumVariable": {reason: "A value that is none of the enum.", body: `{"query":"mutation($v:Visibility){publishPost(input:{title:\"t\",body:\"b\",visibility:$v}){post{id}}}","variables":{"v":"hunter2"}}`, status: 400, code: failed},
		"IntLiteral":   {reason: "A text for a number.", body: jsonBody(`{feed(first:"hunter2"){nodes{id}}}`), status: 400, code: failed},
		"IntDefault":   {reason: "The same in a default.", body: jsonBody(`query($n:Int="hunter2"){feed(first:$n){nodes{id}}}`), status: 400, code: failed},
		"LiteralHuge":  {reason: "10,000 digits for a number.", body: jsonBody("{feed(first:" + strings.Repeat("9", 10_000) + "){nodes{id}}}"), status: 400, code: failed},
	})
	// Suggestions are off with introspection.
	for _, document := range []string{`{feed(frist:3){nodes{id}}}`, `mutation{publishPost(input:{titel:"a"}){post{id}}}`} {
		if got := (hostile{body: jsonBody(document)}).send(t, p); strings.Contains(string(got.body), "Did you mean") {
			t.Errorf("a guess is mended: %s: %s", document, got.body)
		}
	}

	// A request with both a length and chunks is where smuggling begins. net/http
	// takes the chunks, as it may, and keeps the connection, as it may not (RFC
	// 9112, section 6.1): what follows may be somebody else's.
	t.Run("Smuggled", func(t *testing.T) {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(p.address, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		smuggled := overWire("Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(plainBody), plainBody)) +
			overWire(fmt.Sprintf("Content-Length: %d\r\n", len(plainBody)), plainBody)
		if _, err := conn.Write([]byte(smuggled)); err != nil {
			t.Fatal(err)
		}
		reader := bufio.NewReader(conn)
		for n := 0; ; n++ {
			response, err := http.ReadResponse(reader, nil)
			if err != nil {
				return
			}
			if n > 0 {
				t.Fatal("what follows is answered as well")
			}
			_, _ = io.Copy(io.Discard, response.Body) // what is cut off ends the next read
			_ = response.Body.Close()
		}
	})
}

// Several changes at once, in one fragment, are several.
func TestHostileHidden(t *testing.T) {
	t.Parallel()
	const secret = "0123456789abcdef0123456789abcdef"
	p := hostileServer(t, "--jwt-secret", secret, "--rate-mutations", "3")
	five := times(5, func(i int) string { return fmt.Sprintf(`a%d:like(input:{subjectId:"post:10200"}){changed} `, i) })
	for name, document := range map[string]string{
		"plain":    "mutation{" + five + "}",
		"fragment": "mutation{...f} fragment f on Mutation{" + five + "}",
		"inline":   "mutation{...{" + five + "}}",
	} {
		token, err := auth.Mint([]byte(secret), name, "", "", "", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		got := hostile{body: jsonBody(document), headers: jsonHeaders("Authorization", "Bearer "+token)}.send(t, p)
		if got.status != http.StatusTooManyRequests {
			t.Errorf("three a minute are taken, and five at once pass: %s: %d %s", document, got.status, got.body)
		}
	}
}
