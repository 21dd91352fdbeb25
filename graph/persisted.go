package graph

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator"

	"github.com/tallyfeed/tallyfeed/edge"
)

// Documents keeps automatic persisted queries.
type Documents interface {
	Find(ctx context.Context, hash string) (document string, ok bool)
	Keep(ctx context.Context, hash, document string)
}

// Trusted is a list of documents that were known beforehand.
type Trusted interface {
	Find(id string) (document string, ok bool)
	Holds(document string) bool
}

// CheckDocument says why a document could not be run here.
func CheckDocument(document string) error {
	parsed, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: document}, maxTokens)
	if err != nil {
		return err
	}
	if err := measure(parsed); err != nil {
		return err
	}
	if errs := validator.ValidateWithRules(NewExecutableSchema(Config{}).Schema(), parsed, nil); len(errs) > 0 {
		return errs
	}
	return nil
}

// persisted finds the documents of requests that only name them.
//
// Automatic persisted queries follow Apollo's protocol: a client sends the
// document's SHA-256; if that is not known, it sends both, and from then on the
// hash does (https://www.apollographql.com/docs/apollo-server/performance/apq).
// Trusted documents come by the same extension, or as documentId.
type persisted struct {
	documents Documents
	trusted   Trusted
	only      bool
}

var _ interface {
	graphql.HandlerExtension
	graphql.OperationParameterMutator
} = persisted{}

// ExtensionName is part of graphql.HandlerExtension.
func (persisted) ExtensionName() string { return "PersistedDocuments" }

// Validate is part of graphql.HandlerExtension.
func (persisted) Validate(graphql.ExecutableSchema) error { return nil }

// documentIDKey is where the transport puts a documentId among the extensions.
const documentIDKey = "documentId"

// MutateOperationParameters fills the document in.
func (p persisted) MutateOperationParameters(ctx context.Context, request *graphql.RawParams) *gqlerror.Error {
	id, named, err := documentName(request.Extensions)
	if err != nil {
		return err
	}
	if !named {
		switch {
		case request.Query == "":
			return coded(nil, codeBadUserInput, "query is missing")
		case p.only && !p.trusted.Holds(request.Query):
			return notTrusted()
		}
		return nil
	}
	if p.trusted != nil {
		if document, ok := p.trusted.Find(id); ok {
			if request.Query != "" && request.Query != document {
				return coded(nil, codeBadUserInput, "the query is not the trusted document of this id")
			}
			request.Query = document
			return nil
		}
	}
	if p.only {
		if p.trusted.Holds(request.Query) {
			return nil // by its text: a client whose hash is of another form
		}
		return notTrusted()
	}
	return p.automatic(ctx, id, request)
}

func (p persisted) automatic(ctx context.Context, hash string, request *graphql.RawParams) *gqlerror.Error {
	switch {
	case p.documents == nil || !isHash(hash):
		return coded(nil, codeBadUserInput, "there is no document of this id")
	case request.Query == "":
		document, ok := p.documents.Find(ctx, hash)
		if !ok {
			return coded(nil, codePersistedQueryNotFound, "PersistedQueryNotFound") // Apollo's clients look for this text
		}
		request.Query = document
	case len(request.Query) > maxDocument:
		// The guard says so.
	case edge.Hash(request.Query) != hash:
		return coded(nil, codeBadUserInput, "the query is not what sha256Hash says")
	}
	return nil
}

// keeping stores automatic persisted queries once they are known to be good, and
// paid for: it comes last.
type keeping struct{ documents Documents }

var _ interface {
	graphql.HandlerExtension
	graphql.OperationContextMutator
} = keeping{}

// ExtensionName is part of graphql.HandlerExtension.
func (keeping) ExtensionName() string { return "KeepDocuments" }

// Validate is part of graphql.HandlerExtension.
func (keeping) Validate(graphql.ExecutableSchema) error { return nil }

// MutateOperationContext keeps the document of a request that gave its hash too.
func (k keeping) MutateOperationContext(ctx context.Context, operation *graphql.OperationContext) *gqlerror.Error {
	if len(operation.Extensions) == 0 {
		return nil
	}
	if hash, named, err := documentName(operation.Extensions); err == nil && named && edge.Hash(operation.RawQuery) == hash {
		k.documents.Keep(ctx, hash, operation.RawQuery)
	}
	return nil
}

// documentName reads the id that a request names its document by.
func documentName(extensions map[string]any) (id string, named bool, problem *gqlerror.Error) {
	if id, ok := extensions[documentIDKey].(string); ok {
		// The hash form of https://github.com/graphql/graphql-over-http, persisted documents.
		return strings.TrimPrefix(id, "sha256:"), true, nil
	}
	value, has := extensions["persistedQuery"]
	if !has || value == nil {
		return "", false, nil
	}
	fields, _ := value.(map[string]any)
	if !isOne(fields["version"]) {
		return "", false, coded(nil, codeBadUserInput, "persistedQuery.version must be 1")
	}
	id, _ = fields["sha256Hash"].(string)
	if id == "" || len(id) > maxDocumentID {
		return "", false, coded(nil, codeBadUserInput, "persistedQuery.sha256Hash must be a document's SHA-256 in hex, or the id of a trusted document")
	}
	return id, true, nil
}

// maxDocumentID bounds the ids that manifests may give.
const maxDocumentID = 256

func isOne(value any) bool {
	switch n := value.(type) {
	case json.Number:
		return n == "1"
	case float64: // over WebSocket
		return n == 1
	}
	return false
}

func isHash(id string) bool {
	return len(id) == 64 && strings.Trim(id, "0123456789abcdef") == ""
}

func notTrusted() *gqlerror.Error {
	return coded(nil, codePersistedQueryNotInList, "only documents of the trusted list are taken here, and this is none")
}

// namesDocument says whether a request's address stands for a document for ever,
// so its answer may be kept.
func namesDocument(r *http.Request, params *graphql.RawParams) bool {
	if r.Method != http.MethodGet {
		return false
	}
	_, named, err := documentName(params.Extensions)
	return named && err == nil
}

func init() {
	// What never ran is a request error.
	for _, code := range []string{codeQueryTooLarge, codePersistedQueryNotInList, codePersistedQueryNotFound, codeRateLimited, codeBadUserInput, codeUnauthenticated} {
		errcode.RegisterErrorType(code, errcode.KindProtocol)
	}
}
