package graph

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"github.com/tallyfeed/tallyfeed/counter"
)

// Ids of this API are type:id. Posts have the id that counter knows as their
// subject; a user has the base64url of the sub, which may hold anything.
const userPrefix = "user:"

func userID(sub string) string {
	return userPrefix + base64.RawURLEncoding.EncodeToString([]byte(sub))
}

// parseUserID takes what userID made and nothing else.
func parseUserID(id string) (sub string, ok bool) {
	text, ok := strings.CutPrefix(id, userPrefix)
	if !ok || len(text) > 700 {
		return "", false
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) == 0 || utf8.RuneCount(raw) > 128 {
		return "", false
	}
	// The decoder passes over line breaks and over spare bits at the end.
	if sub = string(raw); userID(sub) != id {
		return "", false
	}
	return sub, true
}

// parsePostID returns a post's own id.
func parsePostID(id string) (string, bool) {
	s, err := counter.ParseSubject(id)
	if err != nil || s.Type() != counter.TypePost {
		return "", false
	}
	return s.ID(), true
}
