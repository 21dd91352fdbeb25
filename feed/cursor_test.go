package feed_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tallyfeed/tallyfeed/feed"
)

func TestParseCursorRefuses(t *testing.T) {
	t.Parallel()
	good := (&feed.Post{ID: "10001", PublishedAt: time.Unix(1, 0)}).Cursor()
	encode := base64.RawURLEncoding.EncodeToString
	head := "\x01\x00\x00\x00\x00\x00\x00\x00\x01"
	cases := map[string]struct{ reason, cursor string }{
		"Empty":      {"It is not the beginning: that is no cursor at all.", ""},
		"Padding":    {"One place has one spelling.", good + "="},
		"LineBreak":  {"The decoder would pass over it.", good[:4] + "\n" + good[4:]},
		"SpareBits":  {"The decoder would pass over them.", encode([]byte(head + "ab"))[:14] + "h"},
		"Standard":   {"Only the URL alphabet is meant.", "+" + good[1:]},
		"Version":    {"Another version means something else.", encode([]byte("\x02" + head[1:] + "10001"))},
		"NoID":       {"A post has an id.", encode([]byte(head))},
		"BadID":      {"The id reaches a query.", encode([]byte(head + "a'b"))},
		"LongID":     {"Ids have 64 characters.", encode([]byte(head + strings.Repeat("x", 65)))},
		"Short":      {"The time is eight bytes.", encode([]byte(head[:8]))},
		"Enormous":   {"It is refused before it is decoded.", strings.Repeat("A", 1<<20)},
		"OtherThing": {"A post's id is not its place.", "post:10001"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c, err := feed.ParseCursor(tc.cursor); !errors.Is(err, feed.ErrBadCursor) {
				t.Errorf("%s\n%+v, %v", tc.reason, c, err)
			}
		})
	}
}

func FuzzParseCursor(f *testing.F) {
	f.Add((&feed.Post{ID: "10001", PublishedAt: time.Unix(1_790_000_000, 5000)}).Cursor())
	f.Add((&feed.Post{ID: strings.Repeat("x", 64), PublishedAt: time.Time{}}).Cursor())
	f.Add("AQ")
	f.Fuzz(func(t *testing.T, s string) {
		c, err := feed.ParseCursor(s)
		if err == nil && c.String() != s {
			t.Errorf("%q is read as %q", s, c)
		}
	})
}

// FuzzCursor goes the other way: each post's cursor is read as its place.
func FuzzCursor(f *testing.F) {
	f.Add("10001", int64(1_790_000_000_000_005))
	f.Add("-", int64(-1))
	f.Fuzz(func(t *testing.T, id string, micros int64) {
		if !feed.ValidID(id) {
			t.Skip()
		}
		s := (&feed.Post{ID: id, PublishedAt: time.UnixMicro(micros)}).Cursor()
		c, err := feed.ParseCursor(s)
		if err != nil || c.String() != s {
			t.Errorf("cursor %q of post %s at %d: %v", s, id, micros, err)
		}
	})
}
