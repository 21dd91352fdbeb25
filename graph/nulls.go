package graph

import (
	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// noNulls refuses a variable with a default that is given as null and stands
// where null may not (https://spec.graphql.org/October2021/#sec-All-Variable-Usages-are-Allowed):
// validation passes it, and gqlgen panics in @skip and @include and takes it for
// "" elsewhere.
func noNulls(operation *graphql.OperationContext, set ast.SelectionSet, seen map[string]bool) *gqlerror.Error {
	for _, selection := range set {
		var directives ast.DirectiveList
		var arguments ast.ArgumentList
		var inner ast.SelectionSet
		switch s := selection.(type) {
		case *ast.Field:
			directives, arguments, inner = s.Directives, s.Arguments, s.SelectionSet
		case *ast.InlineFragment:
			directives, inner = s.Directives, s.SelectionSet
		case *ast.FragmentSpread:
			directives = s.Directives
			if !seen[s.Name] {
				seen[s.Name], inner = true, s.Definition.SelectionSet
			}
		}
		for _, directive := range directives {
			if err := noNullIn(operation, directive.Arguments); err != nil {
				return err
			}
		}
		if err := noNullIn(operation, arguments); err != nil {
			return err
		}
		if err := noNulls(operation, inner, seen); err != nil {
			return err
		}
	}
	return nil
}

func noNullIn(operation *graphql.OperationContext, arguments ast.ArgumentList) *gqlerror.Error {
	for _, argument := range arguments {
		if err := noNull(operation, argument.Value); err != nil {
			return err
		}
	}
	return nil
}

func noNull(operation *graphql.OperationContext, value *ast.Value) *gqlerror.Error {
	if value.Kind == ast.Variable {
		given, has := operation.Variables[value.Raw]
		if has && given == nil && value.ExpectedType != nil && value.ExpectedType.NonNull {
			return coded(ast.Path{ast.PathName("variable"), ast.PathName(value.Raw)}, errcode.ValidationFailed, "cannot be null")
		}
		return nil
	}
	for _, child := range value.Children {
		if err := noNull(operation, child.Value); err != nil {
			return err
		}
	}
	return nil
}
