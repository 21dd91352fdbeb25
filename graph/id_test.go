package graph

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/feed"
)

// FuzzParseUserID: of all texts that could mean a user only the one that userID
// makes is taken, so no user has two ids.
func FuzzParseUserID(f *testing.F) {
	for _, id := range []string{
		userID("alice"), userID("auth0|5f7c 😀"), userID("\xff"), userID("a\x00"), userID(strings.Repeat("é", 128)),
		"user:", "user:YQ==", "user:YR", "user:YWxp\nY2U", "post:1", "USER:YQ", "",
	} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		if sub, ok := parseUserID(id); ok && (userID(sub) != id || sub == "" || utf8.RuneCountInString(sub) > 128) {
			t.Errorf("%q is taken for %q, whose id is %q", id, sub, userID(sub))
		}
		// The other way round, with the text as a sub.
		sub, ok := parseUserID(userID(id))
		if want := id != "" && utf8.RuneCountInString(id) <= 128 && len(id) <= 4*128; want && (!ok || sub != id) {
			t.Errorf("the id of sub %q comes back as %q, %t", id, sub, ok)
		}
	})
}

// FuzzParsePostID: a text is a post's id exactly if counter and feed take it, and
// then nothing in it could be taken for another part of a key.
func FuzzParsePostID(f *testing.F) {
	for _, id := range []string{
		"post:10001", "post:", "post:" + strings.Repeat("a", 64), "post:" + strings.Repeat("a", 65),
		"post:*", "post:a:b", "post:{d5}", "post:a\n", "Post:1", "user:1", "post:ä", "10001",
	} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		own, ok := parsePostID(id)
		subject, err := counter.ParseSubject(id)
		if ok != (err == nil) {
			t.Fatalf("%q: an id %t, a subject %v", id, ok, err)
		}
		if !ok {
			return
		}
		if !feed.ValidID(own) || subject.String() != id || subject.ID() != own || "post:"+own != id || strings.ContainsAny(own, ":{}*?[]\n\x00 ") {
			t.Errorf("%q is taken for post %q, subject %s", id, own, subject)
		}
	})
}
