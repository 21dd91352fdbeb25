package graph

import (
	"encoding/json"
	"strconv"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
)

// MaxCost is what an operation may cost: more than two pages of 100 posts with
// all their fields.
const MaxCost = 5000

// costOf adds up what an operation asks for. A field costs 1; below a field
// with the argument first, or with a list of ids, everything costs that many
// times as much. It looks at each fragment once: the same variables hold for all
// its uses.
func costOf(operation *graphql.OperationContext) int {
	c := pricing{variables: operation.Variables}
	return c.set(operation.Operation.SelectionSet)
}

type pricing struct {
	variables map[string]any
	fragments map[string]int
}

func (p *pricing) set(set ast.SelectionSet) int {
	sum := 0
	for _, selection := range set {
		switch s := selection.(type) {
		case *ast.Field:
			sum += 1 + p.times(s)*p.set(s.SelectionSet)
		case *ast.InlineFragment:
			sum += p.set(s.SelectionSet)
		case *ast.FragmentSpread:
			sum += p.fragment(s)
		}
		sum = min(sum, countless)
	}
	return sum
}

func (p *pricing) fragment(spread *ast.FragmentSpread) int {
	if known, ok := p.fragments[spread.Name]; ok {
		return known
	}
	if p.fragments == nil {
		p.fragments = map[string]int{}
	}
	cost := p.set(spread.Definition.SelectionSet)
	p.fragments[spread.Name] = cost
	return cost
}

// times is how many objects a field may bring. What its resolver would refuse
// counts as the most it takes.
func (p *pricing) times(field *ast.Field) int {
	if field.Definition == nil || len(field.Definition.Arguments) == 0 || len(field.SelectionSet) == 0 {
		return 1
	}
	for _, argument := range field.Definition.Arguments {
		switch argument.Name {
		case "first":
			value := argument.DefaultValue
			if given := field.Arguments.ForName("first"); given != nil {
				value = given.Value
			}
			return p.number(value, maxPage)
		case "ids":
			if given := field.Arguments.ForName("ids"); given != nil {
				return p.length(given.Value, maxNodes)
			}
		}
	}
	return 1
}

func (p *pricing) number(value *ast.Value, most int) int {
	if value == nil {
		return most
	}
	var text string
	if value.Kind != ast.Variable {
		text = value.Raw
	} else {
		switch given := p.variables[value.Raw].(type) {
		case json.Number:
			text = given.String()
		case int64:
			text = strconv.FormatInt(given, 10)
		case int:
			text = strconv.Itoa(given)
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most {
		return most
	}
	return n
}

func (p *pricing) length(value *ast.Value, most int) int {
	n := 1 // one value stands for a list of one
	switch value.Kind {
	case ast.ListValue:
		n = len(value.Children)
	case ast.Variable:
		if list, ok := p.variables[value.Raw].([]any); ok {
			n = len(list)
		}
	}
	return min(n, most)
}
