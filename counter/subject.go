package counter

import (
	"errors"
	"fmt"
	"strings"
)

// Types of subjects. Another type is added here and gets keys, events and
// snapshots of its own without further ado.
const TypePost = "post"

var types = map[string]bool{TypePost: true}

// ErrBadSubject says that a text is no subject.
var ErrBadSubject = errors.New("not a subject: want type:id, the type known, the id of 1 to 64 letters, digits, - and _")

// Subject is what can be liked. Only ParseSubject and NewSubject make one, so
// what reaches a key has been checked.
type Subject struct{ kind, id string }

// NewSubject returns ErrBadSubject for an unknown type, or an id that does not
// match [A-Za-z0-9_-]{1,64}.
func NewSubject(kind, id string) (Subject, error) {
	if !types[kind] || !validID(id) {
		return Subject{}, ErrBadSubject
	}
	return Subject{kind: kind, id: id}, nil
}

// ParseSubject takes the form type:id. Errors are those of NewSubject.
func ParseSubject(text string) (Subject, error) {
	kind, id, found := strings.Cut(text, ":")
	if !found {
		return Subject{}, ErrBadSubject
	}
	return NewSubject(kind, id)
}

// Type is the part before the colon, e.g. "post".
func (s Subject) Type() string { return s.kind }

// ID is the part behind the colon, e.g. "10001".
func (s Subject) ID() string { return s.id }

func (s Subject) String() string { return s.kind + ":" + s.id }

func validID(id string) bool {
	if len(id) < 1 || len(id) > 64 {
		return false
	}
	for i := range len(id) {
		c := id[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}

// Metric is a kind of fact.
type Metric int

// The metrics that have facts. Their numbers stand in scripts and events.
const (
	Like Metric = iota
	Fav
	metrics = 2
)

func (m Metric) String() string {
	switch m {
	case Like:
		return "like"
	case Fav:
		return "fav"
	}
	return fmt.Sprintf("metric(%d)", int(m))
}

func parseMetric(name string) (Metric, bool) {
	switch name {
	case "like":
		return Like, true
	case "fav":
		return Fav, true
	}
	return 0, false
}

// Viewer is the sub of whoever asks, 1 to 128 characters.
type Viewer string

// Ordinal is a viewer's dense number. Facts are kept by it.
type Ordinal uint32

// A chunk is what one bitmap covers.
const chunkSize = 32768

func (o Ordinal) chunk() uint32  { return uint32(o) / chunkSize }
func (o Ordinal) offset() uint32 { return uint32(o) % chunkSize }
