package graph

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/tallyfeed/tallyfeed/auth"
)

// The media types of answers. Clients that know only the second take any status
// but 200 for a broken connection.
const (
	mediaGraphQL = "application/graphql-response+json"
	mediaJSON    = "application/json"
	mediaEvents  = "text/event-stream"
)

// requests is the transport of GraphQL over HTTP: POST with a JSON body, and GET
// for queries. gqlgen's own one echoes bad bodies, reads them without bound and
// takes what stands behind them.
type requests struct{}

// Supports is part of graphql.Transport. Everything is answered here, so that a
// method or a content type that is not taken gets its status.
func (requests) Supports(*http.Request) bool { return true }

// Do is part of graphql.Transport.
func (requests) Do(w http.ResponseWriter, r *http.Request, executor graphql.GraphExecutor) {
	if len(r.TransferEncoding) > 0 {
		// There may have been a length as well, and then what follows on this
		// connection may be somebody else's: net/http takes the chunks and says
		// nothing of it (RFC 9112, section 6.1). Clients that know what they send
		// give a length.
		w.Header().Set("Connection", "close")
	}
	accepts := accepted(r.Header.Values("Accept"))
	if accepts.media == "" && !accepts.events {
		refuse(w, r, http.StatusNotAcceptable, codeBadUserInput, "this endpoint answers "+mediaGraphQL+", "+mediaJSON+" and "+mediaEvents)
		return
	}
	media := accepts.orJSON()
	params, problem := read(w, r)
	if problem == nil && !preflighted(r) {
		problem = bad("this request could have been sent by any page without asking: add the header Apollo-Require-Preflight: true")
	}
	if problem != nil {
		refuse(w, r, problem.status, problem.code, problem.message)
		return
	}
	start := graphql.Now()
	params.ReadTime = graphql.TraceTiming{Start: start, End: start}
	params.Headers = r.Header

	ctx := graphql.StartOperationTrace(r.Context())
	operation, errs := executor.CreateOperationContext(ctx, params)
	if errs != nil {
		response := executor.DispatchError(graphql.WithOperationContext(ctx, operation), errs)
		write(w, media, requestErrorStatus(w.Header(), media, response.Errors), response)
		return
	}
	kind := operation.Operation.Operation
	switch {
	case r.Method == http.MethodGet && kind == ast.Mutation:
		w.Header().Set("Allow", http.MethodPost)
		refuse(w, r, http.StatusMethodNotAllowed, codeBadUserInput, "GET is for queries and subscriptions")
		return
	case kind == ast.Subscription && !accepts.events:
		refuse(w, r, http.StatusNotAcceptable, codeBadUserInput, "a subscription goes over a WebSocket, or is answered with "+mediaEvents)
		return
	}
	responses, ctx := executor.DispatchOperation(ctx, operation)
	if kind == ast.Subscription || accepts.media == "" {
		stream(r.Context(), ctx, w, responses)
		return
	}
	response := responses(ctx)
	if response == nil { // the client has gone away
		return
	}
	if _, signedIn := auth.ViewerFrom(ctx); !signedIn && len(response.Errors) == 0 && namesDocument(r, params) {
		w.Header().Set("Cache-Control", sharedFor)
	}
	write(w, media, http.StatusOK, response)
}

// sharedFor lets caches keep the answer to a persisted query of nobody's: as
// long as a post takes to be seen by another server, at most.
const sharedFor = "public, max-age=1"

// requestErrorStatus is the status of a document that could not be run. Clients
// of application/json want 200 whenever there is a GraphQL error to read; a
// document that is not known yet is no failure to any.
func requestErrorStatus(header http.Header, media string, errs gqlerror.List) int {
	for _, err := range errs {
		switch err.Extensions["code"] {
		case codeRateLimited:
			header.Set("Retry-After", fmt.Sprint(err.Extensions[retryAfterKey]))
			return http.StatusTooManyRequests
		case codeUnauthenticated: // a user who was deleted: the token is good, and no use
			header.Set("WWW-Authenticate", invalidToken)
			return http.StatusUnauthorized
		case codePersistedQueryNotFound:
			return http.StatusOK
		}
	}
	if media == mediaJSON {
		return http.StatusOK
	}
	return http.StatusBadRequest
}

// acceptance is what a client takes as an answer.
type acceptance struct {
	media  string // mediaGraphQL or mediaJSON; "" for neither
	events bool   // server-sent events
}

// accepted chooses the media type of the answer: the one with the higher
// q-value (RFC 9110, section 12.5.1), the newer one where it is named and they
// tie. Without an Accept header it is application/json, for clients from before
// the other. Events must be named.
func accepted(headers []string) acceptance {
	if len(headers) == 0 {
		return acceptance{media: mediaJSON}
	}
	var older, newer, events preference
	for _, part := range strings.Split(strings.Join(headers, ","), ",") {
		media, parameters, err := mime.ParseMediaType(strings.TrimSpace(part))
		if err != nil {
			continue
		}
		q := 1.0
		if text, has := parameters["q"]; has {
			if q, err = strconv.ParseFloat(text, 64); err != nil || q < 0 || q > 1 {
				continue
			}
		}
		switch media {
		case mediaGraphQL:
			newer.take(named, q)
		case mediaJSON:
			older.take(named, q)
		case mediaEvents:
			events.take(named, q)
		case "application/*":
			newer.take(byKind, q)
			older.take(byKind, q)
		case "*/*":
			newer.take(byStar, q)
			older.take(byStar, q)
		}
	}
	a := acceptance{events: events.q > 0}
	switch {
	case newer.q == 0 && older.q == 0:
	case newer.q > older.q, newer.q == older.q && newer.how == named:
		a.media = mediaGraphQL
	default:
		a.media = mediaJSON
	}
	return a
}

// orJSON is the media type of what is no event.
func (a acceptance) orJSON() string {
	if a.media == "" {
		return mediaJSON
	}
	return a.media
}

// preference is the q-value of a media type; a range that is more specific
// overrules others.
type preference struct {
	how int
	q   float64
}

const (
	byStar = iota + 1
	byKind
	named
)

func (p *preference) take(how int, q float64) {
	if how > p.how || how == p.how && q > p.q {
		p.how, p.q = how, q
	}
}

// write sends an answer. The data is JSON already: encoding it again would only
// cost.
func write(w http.ResponseWriter, media string, status int, response *graphql.Response) {
	header := w.Header()
	header.Set("Content-Type", media+"; charset=utf-8")
	if header.Get("Cache-Control") == "" {
		header.Set("Cache-Control", "private, no-store") // it may hold a viewer's state
	}
	header.Add("Vary", "Accept, Authorization")
	header.Set("X-Content-Type-Options", "nosniff")

	body := encode(response)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // who has gone away needs no answer
}

// encode writes a response; its data is JSON already.
func encode(response *graphql.Response) []byte {
	body := make([]byte, 0, len(response.Data)+512)
	body = append(body, '{')
	if len(response.Errors) > 0 {
		body = append(body, `"errors":`...)
		body = appendJSON(body, response.Errors)
	}
	if len(response.Data) > 0 {
		if len(body) > 1 {
			body = append(body, ',')
		}
		body = append(body, `"data":`...)
		body = append(body, response.Data...)
	}
	if len(response.Extensions) > 0 {
		body = append(body, `,"extensions":`...)
		body = appendJSON(body, response.Extensions)
	}
	body = append(body, '}')
	return body
}

func appendJSON(body []byte, value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		text = []byte("null") // only what we put there ourselves is encoded
	}
	return append(body, text...)
}

// refuse answers a request that never reached GraphQL, in GraphQL's form.
func refuse(w http.ResponseWriter, r *http.Request, status int, code, message string) {
	write(w, accepted(r.Header.Values("Accept")).orJSON(), status, &graphql.Response{Errors: gqlerror.List{coded(nil, code, message)}})
}
