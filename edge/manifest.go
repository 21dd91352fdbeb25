package edge

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Manifest is a list of trusted documents, by their ids.
type Manifest struct {
	documents map[string]string
	bodies    map[string]bool
}

// maxManifest bounds what is read: 2,000 documents of the largest size.
const maxManifest = 32 << 20

// ReadManifest reads what Apollo's tools write (generate-persisted-query-manifest,
// and the code generators of Apollo Kotlin and Apollo iOS):
//
//	{"format": "apollo-persisted-query-manifest", "version": 1,
//	 "operations": [{"id": "…", "name": "Feed", "type": "query", "body": "query Feed { … }"}]}
func ReadManifest(r io.Reader) (*Manifest, error) {
	var file struct {
		Format     string `json:"format"`
		Version    int    `json:"version"`
		Operations []struct {
			ID   string `json:"id"`
			Name string `json:"name"`
			Body string `json:"body"`
		} `json:"operations"`
	}
	text, err := io.ReadAll(io.LimitReader(r, maxManifest+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxManifest {
		return nil, fmt.Errorf("larger than %d MiB", maxManifest>>20)
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("not JSON of the right shape: %w", err)
	}
	const format = "apollo-persisted-query-manifest"
	if file.Format != format || file.Version != 1 {
		return nil, fmt.Errorf("format %q, version %d; known is %q, version 1", file.Format, file.Version, format)
	}
	if len(file.Operations) == 0 {
		return nil, errors.New("it has no operations")
	}
	m := &Manifest{documents: map[string]string{}, bodies: map[string]bool{}}
	for i, operation := range file.Operations {
		if operation.ID == "" || operation.Body == "" {
			return nil, fmt.Errorf("operation %d (%q) has no id or no body", i+1, operation.Name)
		}
		if body, has := m.documents[operation.ID]; has && body != operation.Body {
			return nil, fmt.Errorf("operation %d (%q) has the id of another one", i+1, operation.Name)
		}
		m.documents[operation.ID] = operation.Body
		m.bodies[operation.Body] = true
	}
	return m, nil
}

// Find returns the document with this id. A nil Manifest has none.
func (m *Manifest) Find(id string) (string, bool) {
	if m == nil {
		return "", false
	}
	body, ok := m.documents[id]
	return body, ok
}

// Holds says whether a document is one of the list, as it is written there.
func (m *Manifest) Holds(document string) bool { return m != nil && m.bodies[document] }

// Each calls f for every document until it returns an error, and returns that.
func (m *Manifest) Each(f func(id, document string) error) error {
	if m == nil {
		return nil
	}
	for id, document := range m.documents {
		if err := f(id, document); err != nil {
			return err
		}
	}
	return nil
}
