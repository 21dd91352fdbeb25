package edge_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tallyfeed/tallyfeed/edge"
	"github.com/tallyfeed/tallyfeed/enginetest"
)

// However many documents are put in, Redis holds a bounded number; what is
// handed out is what the hash says, whoever else has its place.
func TestDocumentsAreBounded(t *testing.T) {
	t.Parallel()
	url := enginetest.Redis(t)
	writer, reader := edge.NewDocuments(sharedOn(t, url)), edge.NewDocuments(sharedOn(t, url))
	const many = 6000
	found := 0
	for i := range many {
		document := fmt.Sprintf("{a%d}", i)
		writer.Keep(t.Context(), edge.Hash(document), document)
	}
	for i := range many {
		document := fmt.Sprintf("{a%d}", i)
		got, ok := reader.Find(t.Context(), edge.Hash(document))
		if ok && got != document {
			t.Fatalf("%s for the hash of %s", got, document)
		}
		if ok {
			found++
		}
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	size, err := client.DBSize(t.Context()).Result()
	if err != nil || size > 4096 {
		t.Errorf("%d keys, %v", size, err)
	}
	if found < 2000 || found > 4096 {
		t.Errorf("%d of %d are found", found, many)
	}
}

// A place that somebody has written nonsense to holds no document.
func TestDocumentTampered(t *testing.T) {
	t.Parallel()
	url := enginetest.Redis(t)
	writer := edge.NewDocuments(sharedOn(t, url))
	const document = "{viewer{id}}"
	writer.Keep(t.Context(), edge.Hash(document), document)
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	keys, err := client.Keys(t.Context(), "apq:*").Result()
	if err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	if err := client.Set(t.Context(), keys[0], "mutation{deleteAll}", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if got, ok := edge.NewDocuments(sharedOn(t, url)).Find(t.Context(), edge.Hash(document)); ok {
		t.Errorf("found %s", got)
	}
}

func TestReadManifest(t *testing.T) {
	t.Parallel()
	const head = `{"format":"apollo-persisted-query-manifest","version":1,"operations":[`
	for name, tc := range map[string]struct{ reason, text, says string }{
		"Good":    {"As the tools write it.", head + `{"id":"1","name":"A","type":"query","body":"{a}"},{"id":"2","body":"{b}","more":[1]}]}`, ""},
		"Twice":   {"The same operation in two files.", head + `{"id":"1","body":"{a}"},{"id":"1","body":"{a}"}]}`, ""},
		"Clash":   {"One id for two.", head + `{"id":"1","body":"{a}"},{"id":"1","name":"B","body":"{b}"}]}`, "the id of another"},
		"NoID":    {"It could not be asked for.", head + `{"name":"A","body":"{a}"}]}`, `operation 1 ("A")`},
		"NoBody":  {"There is nothing to run.", head + `{"id":"1"}]}`, "no id or no body"},
		"Empty":   {"A list of nothing is a mistake.", head + `]}`, "no operations"},
		"Format":  {"Another tool's.", `{"format":"other","version":1}`, `format "other"`},
		"Version": {"Of the future.", strings.Replace(head, "1", "2", 1) + `{"id":"1","body":"{a}"}]}`, "version 2"},
		"NotJSON": {"The wrong file.", `query A{a}`, "not JSON"},
		"Nothing": {"An empty file.", ``, "not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := edge.ReadManifest(strings.NewReader(tc.text))
			if (tc.says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Fatalf("%s\n%v, want %q", tc.reason, err, tc.says)
			}
			if err != nil {
				return
			}
			if body, ok := m.Find("1"); !ok || body != "{a}" || !m.Holds("{a}") || m.Holds("{c}") {
				t.Errorf("%s\n%q, %t", tc.reason, body, ok)
			}
		})
	}
}
