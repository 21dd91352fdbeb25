package feed

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxIDLength   = 64
	maxSubLength  = 128 // characters
	maxNameLength = 200
	maxTitle      = 300
	maxBody       = 20_000
)

// InvalidError says what is wrong with something that a client gave. Both parts
// are fit for the client's eyes.
type InvalidError struct {
	Field  string // as the API calls it
	Reason string // goes on from the field: "must not be blank"
}

func (e *InvalidError) Error() string { return e.Field + " " + e.Reason }

// ValidID reports whether id can be that of a post: 1 to 64 of the characters
// A–Z, a–z, 0–9, "_" and "-".
func ValidID(id string) bool {
	if len(id) == 0 || len(id) > maxIDLength {
		return false
	}
	for _, c := range []byte(id) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

func validSub(sub string) bool {
	return sub != "" && checkLine("author", sub, maxSubLength) == nil
}

// checkText takes what PostgreSQL takes, which is less than a Go string: no NUL
// and no broken UTF-8. most counts characters.
func checkText(field, text string, most int) error {
	switch {
	case !utf8.ValidString(text):
		return &InvalidError{Field: field, Reason: "must be valid UTF-8"}
	case strings.ContainsRune(text, 0):
		return &InvalidError{Field: field, Reason: "must not contain NUL characters"}
	case len(text) > most && utf8.RuneCountInString(text) > most:
		return &InvalidError{Field: field, Reason: fmt.Sprintf("must not be longer than %d characters", most)}
	}
	return nil
}

// checkLine is checkText for what is shown or compared in one line.
func checkLine(field, text string, most int) error {
	if err := checkText(field, text, most); err != nil {
		return err
	}
	if strings.ContainsFunc(text, unicode.IsControl) {
		return &InvalidError{Field: field, Reason: "must not contain control characters"}
	}
	return nil
}

func checkTitle(title string) error {
	if err := checkText("title", title, maxTitle); err != nil {
		return err
	}
	if strings.TrimSpace(title) == "" {
		return &InvalidError{Field: "title", Reason: "must not be blank"}
	}
	return nil
}

func checkBody(body string) error { return checkText("body", body, maxBody) }

func checkVisibility(v Visibility) error {
	if v != Public && v != Private {
		return &InvalidError{Field: "visibility", Reason: "must be PUBLIC or PRIVATE"}
	}
	return nil
}

func (a Author) check() error {
	if a.Sub == "" {
		return &InvalidError{Field: "author", Reason: "must not be empty"}
	}
	if err := checkLine("author", a.Sub, maxSubLength); err != nil {
		return err
	}
	return checkLine("authorName", a.Name, maxNameLength)
}

func (d Draft) check() error {
	if err := checkTitle(d.Title); err != nil {
		return err
	}
	if err := checkBody(d.Body); err != nil {
		return err
	}
	return checkVisibility(d.Visibility)
}

func (c Changes) check() error {
	if c.Title != nil {
		if err := checkTitle(*c.Title); err != nil {
			return err
		}
	}
	if c.Body != nil {
		if err := checkBody(*c.Body); err != nil {
			return err
		}
	}
	if c.Visibility != nil {
		return checkVisibility(*c.Visibility)
	}
	return nil
}
