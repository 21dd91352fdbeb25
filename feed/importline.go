package feed

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"
)

var errLineTooLong = fmt.Errorf("longer than %d bytes", maxLine)

// lineReader gives the lines of r without their ends, holding one at a time.
type lineReader struct {
	r      *bufio.Reader
	number int // of the line that next returned last
	line   []byte
}

// next returns the next line, trimmed of white space, valid until the call after
// it; io.EOF after the last one; errLineTooLong for a line that it skipped. Any
// other error is one of the reader.
func (l *lineReader) next() ([]byte, error) {
	l.line, l.number = l.line[:0], l.number+1
	tooLong := false
	for {
		part, err := l.r.ReadSlice('\n')
		if tooLong = tooLong || len(l.line)+len(part) > maxLine; !tooLong {
			l.line = append(l.line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && (tooLong || len(l.line) > 0):
			// The last line without an end; the next call finds the end itself.
		case err != nil:
			return nil, err
		}
		if tooLong {
			return nil, errLineTooLong
		}
		line := l.line
		if l.number == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff")) // some editors put it there
		}
		return bytes.TrimSpace(line), nil
	}
}

// importLine is one line of an import, and what it means once it is checked.
type importLine struct {
	ID          string     `json:"id"`
	Author      string     `json:"author"`
	AuthorName  string     `json:"authorName"`
	Title       string     `json:"title"`
	Body        *string    `json:"body"` // may be empty, not left out
	PublishedAt string     `json:"publishedAt"`
	Visibility  Visibility `json:"visibility"`

	number    int
	published time.Time
}

// parseLine returns a line that can go in, or an error that says why not, fit
// for who wrote the file.
func parseLine(text []byte) (importLine, error) {
	// encoding/json would quietly put replacement characters in.
	if !utf8.Valid(text) {
		return importLine{}, errors.New("not valid UTF-8")
	}
	var line importLine
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&line); err != nil {
		return importLine{}, fmt.Errorf("not a post in JSON: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return importLine{}, errors.New("more than one JSON value in the line")
	}

	for _, field := range []struct {
		name  string
		given bool
	}{
		{"id", line.ID != ""},
		{"author", line.Author != ""},
		{"title", line.Title != ""},
		{"body", line.Body != nil},
		{"publishedAt", line.PublishedAt != ""},
	} {
		if !field.given {
			return importLine{}, &InvalidError{Field: field.name, Reason: "is missing"}
		}
	}
	if !ValidID(line.ID) {
		return importLine{}, &InvalidError{Field: "id", Reason: "must be 1 to 64 of A-Z, a-z, 0-9, _ and -"}
	}
	if err := (Author{Sub: line.Author, Name: line.AuthorName}).check(); err != nil {
		return importLine{}, err
	}
	if line.Visibility == "" {
		line.Visibility = Public
	}
	if err := (Draft{Title: line.Title, Body: *line.Body, Visibility: line.Visibility}).check(); err != nil {
		return importLine{}, err
	}
	published, err := time.Parse(time.RFC3339, line.PublishedAt)
	if err != nil {
		return importLine{}, &InvalidError{Field: "publishedAt", Reason: "must be a time like 2026-11-02T08:15:00Z"}
	}
	// An offset can carry a valid time out of the years that can be written.
	line.published = published.UTC()
	if year := line.published.Year(); year < 1 || year > 9999 {
		return importLine{}, &InvalidError{Field: "publishedAt", Reason: "must be in the years 1 to 9999"}
	}
	return line, nil
}

func (l *importLine) row() postRow {
	return postRow{
		ID:          l.ID,
		AuthorSub:   l.Author,
		Title:       l.Title,
		Body:        *l.Body,
		PublishedAt: l.published.UnixMicro(),
		Visibility:  l.Visibility,
	}
}
