package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/validator/rules"
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func schemaWith(t *testing.T, extensions ...*ast.Source) *ast.Schema {
	t.Helper()
	sources := append([]*ast.Source{{Name: "schema.graphqls", Input: read(t, "schema.graphqls")}}, extensions...)
	schema, err := gqlparser.LoadSchema(sources...)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func validate(t *testing.T, schema *ast.Schema, name, text string) *ast.QueryDocument {
	t.Helper()
	document, errs := gqlparser.LoadQueryWithRules(schema, text, rules.NewDefaultRules())
	if errs != nil {
		t.Errorf("%s: %v", name, errs)
	}
	return document
}

// A mobile app's code is generated from these: what the schema no longer has
// must show here, and not in somebody's build.
func TestExampleOperations(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("examples/operations/*.graphql")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	text := ""
	for _, file := range files {
		text += read(t, file) // a fragment may be in another file
	}
	document := validate(t, schemaWith(t), "examples/operations", text)
	if len(document.Operations) < 10 {
		t.Errorf("%d operations", len(document.Operations))
	}
	for _, operation := range document.Operations {
		if operation.Name == "" {
			t.Error("an operation without a name has no class")
		}
	}
}

// The directives of Apollo's code generators, as far as the examples use them.
const cacheDirectives = `
directive @link(url: String!, import: [String!]) repeatable on SCHEMA
directive @typePolicy(keyFields: String!) on OBJECT | INTERFACE
directive @fieldPolicy(forField: String!, keyArgs: String!) repeatable on OBJECT
directive @connection on OBJECT
`

// An extension of a type that is not there, or a key that is no field, would
// leave a cache without keys.
func TestExampleCacheKeys(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"examples/apollo-kotlin/extra.graphqls", "examples/apollo-ios/cache.graphqls"} {
		schema := schemaWith(t, &ast.Source{Name: "directives", Input: cacheDirectives}, &ast.Source{Name: file, Input: read(t, file)})
		keyed := 0
		for _, definition := range schema.Types {
			for _, directive := range definition.Directives {
				switch directive.Name {
				case "typePolicy":
					keyed++
					field := directive.Arguments.ForName("keyFields").Value.Raw
					if definition.Fields.ForName(field) == nil {
						t.Errorf("%s: %s has no field %s", file, definition.Name, field)
					}
				case "fieldPolicy":
					field := definition.Fields.ForName(directive.Arguments.ForName("forField").Value.Raw)
					if field == nil || field.Arguments.ForName(directive.Arguments.ForName("keyArgs").Value.Raw) == nil {
						t.Errorf("%s: %s has no such field or argument", file, definition.Name)
					}
				case "connection":
					if definition.Fields.ForName("edges") == nil || definition.Fields.ForName("pageInfo") == nil {
						t.Errorf("%s: %s is no connection", file, definition.Name)
					}
				}
			}
		}
		if keyed != 2 {
			t.Errorf("%s: %d types have keys, want Post and User", file, keyed)
		}
	}
}

func TestExampleIOSConfiguration(t *testing.T) {
	t.Parallel()
	const folder = "examples/apollo-ios"
	var config struct {
		Input struct{ SchemaSearchPaths, OperationSearchPaths []string }
	}
	if err := json.Unmarshal([]byte(read(t, filepath.Join(folder, "apollo-codegen-config.json"))), &config); err != nil {
		t.Fatal(err)
	}
	if len(config.Input.SchemaSearchPaths) == 0 || len(config.Input.OperationSearchPaths) == 0 {
		t.Fatal("no paths")
	}
	for _, path := range append(config.Input.SchemaSearchPaths, config.Input.OperationSearchPaths...) {
		if found, err := filepath.Glob(filepath.Join(folder, path)); err != nil || len(found) == 0 {
			t.Errorf("%s leads to nothing: %v", path, err)
		}
	}
}

var curlDocument = regexp.MustCompile(`(?m)-d '(\{.*\})'$|'query=(\{.*\})'$|^QUERY='(\{.*\})'$`)

func TestExampleCurl(t *testing.T) {
	t.Parallel()
	schema := schemaWith(t)
	for name, count := range map[string]int{"examples/curl/README.md": 6, "README.md": 2} {
		found := curlDocument.FindAllStringSubmatch(read(t, name), -1)
		if len(found) != count {
			t.Errorf("%s: %d documents, want %d", name, len(found), count)
		}
		for _, match := range found {
			document := match[2] + match[3]
			if match[1] != "" {
				var body struct{ Query string }
				if err := json.NewDecoder(strings.NewReader(match[1])).Decode(&body); err != nil {
					t.Errorf("%s: %v in %s", name, err, match[1])
				}
				document = body.Query
			}
			validate(t, schema, name, document)
		}
	}
}
