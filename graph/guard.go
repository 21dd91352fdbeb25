package graph

import (
	"context"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/parser"
)

// What a document may hold. Validation is quadratic in the fields of one
// selection set, fragments double what they hold with every level, and every
// root field may ask for a page: so all of it is counted before anything else is
// done with a document. An introspection query of GraphiQL's has 184 tokens, 13
// levels and 103 fields.
const (
	maxDocument   = 16 << 10 // bytes
	maxTokens     = 2000
	maxDepth      = 15
	maxFields     = 500 // of all operations, fragments written out
	maxSelections = 120 // fields of one selection set, fragments written out
	maxRoots      = 10
	maxAliases    = 40
	maxDirectives = 40
	maxFragments  = 40
	maxSpreads    = 100
)

// guard refuses documents that are too large. What is in passed has been
// measured, and validated, before.
type guard struct {
	passed graphql.Cache[*ast.QueryDocument]
}

var _ interface {
	graphql.HandlerExtension
	graphql.OperationParameterMutator
} = guard{}

// ExtensionName is part of graphql.HandlerExtension.
func (guard) ExtensionName() string { return "Guard" }

// Validate is part of graphql.HandlerExtension.
func (guard) Validate(graphql.ExecutableSchema) error { return nil }

// MutateOperationParameters runs before the document is parsed and validated.
func (g guard) MutateOperationParameters(ctx context.Context, request *graphql.RawParams) *gqlerror.Error {
	if n := len(request.Query); n > maxDocument {
		return tooLarge("the document has %d bytes, at most %d are taken", n, maxDocument)
	}
	if _, ok := g.passed.Get(ctx, request.Query); ok {
		return nil
	}
	document, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: request.Query}, maxTokens)
	if err != nil {
		return nil //nolint:nilerr // the executor parses it too, and says what is wrong
	}
	return measure(document)
}

// measure says which limit a document exceeds, nil for none. It looks at each
// fragment once, so it costs as much as the document is long.
func measure(document *ast.QueryDocument) *gqlerror.Error {
	if n := len(document.Fragments); n > maxFragments {
		return tooLarge("the document has %d fragments, at most %d are taken", n, maxFragments)
	}
	m := &measurement{document: document}
	fields := 0
	for _, operation := range document.Operations {
		m.directives += len(operation.Directives)
		for _, variable := range operation.VariableDefinitions {
			m.directives += len(variable.Directives)
		}
		all := m.extent(operation.SelectionSet)
		if all.flat > maxRoots {
			return tooLarge("the operation has %d root fields, at most %d are taken", all.flat, maxRoots)
		}
		if all.depth > maxDepth {
			return tooLarge("the operation is %d levels deep, at most %d are taken", all.depth, maxDepth)
		}
		fields = min(fields+all.fields, countless)
	}
	for _, fragment := range document.Fragments {
		m.fragment(fragment.Name) // also those that nothing uses are validated
		m.directives += len(fragment.Directives)
	}
	for _, limit := range []struct {
		what    string
		n, most int
	}{
		{"fields", fields, maxFields},
		{"fields in one selection set", m.widest, maxSelections},
		{"aliases", m.aliases, maxAliases},
		{"directives", m.directives, maxDirectives},
		{"fragment spreads", m.spreads, maxSpreads},
	} {
		switch {
		case limit.n >= countless:
			return tooLarge("the document has more than %d %s, at most %d are taken", countless-1, limit.what, limit.most)
		case limit.n > limit.most:
			return tooLarge("the document has %d %s, at most %d are taken", limit.n, limit.what, limit.most)
		}
	}
	return nil
}

// countless is where counting stops: doubling fragments would overflow.
const countless = 1_000_000

// extent is how much a selection set asks for, with its fragments written out.
type extent struct {
	fields int // all of them, at every level
	flat   int // those of the set itself
	depth  int
}

type measurement struct {
	document  *ast.QueryDocument
	fragments map[string]extent

	// Of the document as it is written.
	aliases, directives, spreads, widest int
}

func (m *measurement) extent(set ast.SelectionSet) (all extent) {
	for _, selection := range set {
		var part extent
		switch s := selection.(type) {
		case *ast.Field:
			if s.Alias != s.Name {
				m.aliases++
			}
			m.directives += len(s.Directives)
			inner := m.extent(s.SelectionSet)
			part = extent{fields: 1 + inner.fields, flat: 1, depth: 1 + inner.depth}
		case *ast.InlineFragment:
			m.directives += len(s.Directives)
			part = m.extent(s.SelectionSet)
		case *ast.FragmentSpread:
			m.spreads++
			m.directives += len(s.Directives)
			part = m.fragment(s.Name)
		}
		all.fields = min(all.fields+part.fields, countless)
		all.flat = min(all.flat+part.flat, countless)
		all.depth = max(all.depth, part.depth)
	}
	m.widest = max(m.widest, all.flat)
	return all
}

// fragment measures each fragment once. One that holds itself counts nothing
// there: validation refuses it.
func (m *measurement) fragment(name string) extent {
	if known, ok := m.fragments[name]; ok {
		return known
	}
	definition := m.document.Fragments.ForName(name)
	if definition == nil {
		return extent{}
	}
	if m.fragments == nil {
		m.fragments = make(map[string]extent, len(m.document.Fragments))
	}
	m.fragments[name] = extent{}
	all := m.extent(definition.SelectionSet)
	m.fragments[name] = all
	return all
}
