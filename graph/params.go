package graph

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/99designs/gqlgen/graphql"
)

// maxBody bounds a request.
const maxBody = 256 << 10

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
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, bad("the address can't be read")
	}
	for _, name := range []string{"query", "operationName", "variables", "extensions", documentIDKey} {
		if len(values[name]) > 1 {
			return nil, bad(name + " is there twice")
		}
	}
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
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return nil, &problem{status: http.StatusUnsupportedMediaType, code: codeBadUserInput, message: "send the body without a Content-Encoding"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		w.Header().Set("Connection", "close") // what is left of it is not read
		return nil, &problem{
			status: http.StatusRequestEntityTooLarge, code: codeQueryTooLarge,
			message: "the body is larger than " + strconv.Itoa(maxBody) + " bytes",
		}
	}
	if err != nil {
		return nil, bad("the body broke off")
	}
	params, id := &graphql.RawParams{}, ""
	fields := fieldsOf(params)
	fields[documentIDKey] = &id
	if decodeFields(body, fields) != nil {
		return nil, bad("the body is not one JSON object with query, variables, operationName and extensions, each once and of the right type")
	}
	params.Extensions = withDocumentID(params.Extensions, id)
	if params.Query == "" && !namesSome(params.Extensions) {
		return nil, bad("query is missing")
	}
	return params, nil
}

// fieldsOf are what a request may hold, by name.
func fieldsOf(params *graphql.RawParams) map[string]any {
	return map[string]any{
		"query": &params.Query, "operationName": &params.OperationName,
		"variables": &params.Variables, "extensions": &params.Extensions,
	}
}

// decodeFields reads one JSON object. It is stricter than encoding/json, which
// takes "QUERY" for "query" and the last of several: what a proxy has checked
// must be what is run. Other fields are skipped.
func decodeFields(text []byte, fields map[string]any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if opening, err := decoder.Token(); err != nil || opening != json.Delim('{') {
		return errors.New("not an object")
	}
	var skipped json.RawMessage
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string) // keys are
		field, known := fields[name]
		switch {
		case !known:
			field = &skipped
		case field == nil:
			return errors.New(name + " twice")
		default:
			fields[name] = nil
		}
		if err := decoder.Decode(field); err != nil {
			return err
		}
	}
	if _, err := decoder.Token(); err != nil { // the closing brace
		return err
	}
	return ended(decoder)
}

// decode reads exactly one JSON value. Numbers keep all their digits.
func decode(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	return ended(decoder)
}

func ended(decoder *json.Decoder) error {
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one value")
	}
	return nil
}
