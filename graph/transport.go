package graph

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
)

// maxBody bounds a request.
const maxBody = 256 << 10

// requests is the transport of GraphQL over HTTP: POST with a JSON body, and GET
// for queries. gqlgen's own one echoes bad bodies, reads them without bound and
// takes what stands behind them.
type requests struct{}

// Supports is part of graphql.Transport. Everything is answered here, so that a
// method or a content type that is not taken gets its status.
func (requests) Supports(*http.Request) bool { return true }

// Do is part of graphql.Transport.
func (requests) Do(w http.ResponseWriter, r *http.Request, executor graphql.GraphExecutor) {
	media, ok := accepted(r.Header.Values("Accept"))
	if !ok {
		refuse(w, r, http.StatusNotAcceptable, codeBadUserInput, "this endpoint answers "+mediaGraphQL+" and "+mediaJSON)
		return
	}
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
	if r.Method == http.MethodGet && operation.Operation.Operation != ast.Query {
		w.Header().Set("Allow", http.MethodPost)
		refuse(w, r, http.StatusMethodNotAllowed, codeBadUserInput, "GET is for queries")
		return
	}
	responses, ctx := executor.DispatchOperation(ctx, operation)
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

// problem is a request that never reached GraphQL.
type problem struct {
	status        int
	code, message string
}

func bad(message string) *problem {
	return &problem{status: http.StatusBadRequest, code: codeBadUserInput, message: message}
}

// read takes the parameters out of a request. Its messages never hold what the
// client sent: that may be a password on its way to the wrong place.
func read(w http.ResponseWriter, r *http.Request) (*graphql.RawParams, *problem) {
	switch r.Method {
	case http.MethodGet:
		return readQuery(r)
	case http.MethodPost:
		return readBody(w, r)
	}
	w.Header().Set("Allow", "GET, POST")
	return nil, &problem{status: http.StatusMethodNotAllowed, code: codeBadUserInput, message: "use POST, or GET for queries"}
}

func readQuery(r *http.Request) (*graphql.RawParams, *problem) {
	if len(r.URL.RawQuery) > maxBody {
		return nil, &problem{status: http.StatusRequestURITooLong, code: codeQueryTooLarge, message: "the address is too long"}
	}
	values := r.URL.Query()
	params := &graphql.RawParams{Query: values.Get("query"), OperationName: values.Get("operationName")}
	for name, into := range map[string]*map[string]any{"variables": &params.Variables, "extensions": &params.Extensions} {
		if text := values.Get(name); text != "" && decode([]byte(text), into) != nil {
			return nil, bad(name + " is not a JSON object")
		}
	}
	params.Extensions = withDocumentID(params.Extensions, values.Get(documentIDKey))
	if params.Query == "" && !namesSome(params.Extensions) {
		return nil, bad("query is missing")
	}
	return params, nil
}

// withDocumentID puts the id where every transport has it.
func withDocumentID(extensions map[string]any, id string) map[string]any {
	if id == "" {
		return extensions
	}
	if extensions == nil {
		extensions = map[string]any{}
	}
	extensions[documentIDKey] = id
	return extensions
}

// namesSome says whether there is the name of a document, good or bad.
func namesSome(extensions map[string]any) bool {
	_, named, err := documentName(extensions)
	return named || err != nil
}

func readBody(w http.ResponseWriter, r *http.Request) (*graphql.RawParams, *problem) {
	media, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset := strings.ToLower(parameters["charset"])
	if err != nil || media != mediaJSON || charset != "" && charset != "utf-8" {
		return nil, &problem{status: http.StatusUnsupportedMediaType, code: codeBadUserInput, message: "send application/json in UTF-8"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return nil, &problem{
			status: http.StatusRequestEntityTooLarge, code: codeQueryTooLarge,
			message: "the body is larger than " + strconv.Itoa(maxBody) + " bytes",
		}
	}
	if err != nil {
		return nil, bad("the body broke off")
	}
	var fields struct {
		Query         *string        `json:"query"`
		OperationName *string        `json:"operationName"`
		Variables     map[string]any `json:"variables"`
		Extensions    map[string]any `json:"extensions"`
		DocumentID    string         `json:"documentId"`
	}
	if decode(body, &fields) != nil {
		return nil, bad("the body is not one JSON object with query, variables, operationName and extensions of the right types")
	}
	params := &graphql.RawParams{Variables: fields.Variables, Extensions: withDocumentID(fields.Extensions, fields.DocumentID)}
	if fields.Query != nil {
		params.Query = *fields.Query
	}
	if params.Query == "" && !namesSome(params.Extensions) {
		return nil, bad("query is missing")
	}
	if fields.OperationName != nil {
		params.OperationName = *fields.OperationName
	}
	return params, nil
}

// decode reads exactly one JSON value. Numbers keep all their digits.
func decode(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one value")
	}
	return nil
}

// accepted chooses the media type of the answer: the one with the higher
// q-value (RFC 9110, section 12.5.1), the newer one where it is named and they
// tie. Without an Accept header it is application/json, for clients from before
// the other.
func accepted(headers []string) (string, bool) {
	if len(headers) == 0 {
		return mediaJSON, true
	}
	var older, newer preference
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
		case "application/*":
			newer.take(byKind, q)
			older.take(byKind, q)
		case "*/*":
			newer.take(byStar, q)
			older.take(byStar, q)
		}
	}
	switch {
	case newer.q == 0 && older.q == 0:
		return "", false
	case newer.q > older.q, newer.q == older.q && newer.how == named:
		return mediaGraphQL, true
	}
	return mediaJSON, true
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
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // who has gone away needs no answer
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
	media, ok := accepted(r.Header.Values("Accept"))
	if !ok {
		media = mediaJSON
	}
	write(w, media, status, &graphql.Response{Errors: gqlerror.List{coded(nil, code, message)}})
}
