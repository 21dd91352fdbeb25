package feed

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
)

// ErrBadCursor is returned by ParseCursor for a string that no Post.Cursor gave.
var ErrBadCursor = errors.New("not a cursor of this feed")

const (
	// cursorVersion is the first byte of a cursor, so that another layout can
	// come beside the ones that clients hold.
	cursorVersion = 1
	cursorHead    = 1 + 8 // version, microseconds
)

// Cursor is a place in the feed: just after the post it was taken from, even
// when that post has been deleted since. The zero Cursor is before all posts.
type Cursor struct {
	published int64 // microseconds since 1970
	id        string
}

// ParseCursor reads what Post.Cursor wrote, and nothing else: of all strings
// that could mean the same place only that one is taken. Else it is ErrBadCursor.
func ParseCursor(s string) (Cursor, error) {
	if len(s) > base64.RawURLEncoding.EncodedLen(cursorHead+maxIDLength) {
		return Cursor{}, ErrBadCursor
	}
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(raw) < cursorHead || raw[0] != cursorVersion {
		return Cursor{}, ErrBadCursor
	}
	c := Cursor{
		published: int64(binary.BigEndian.Uint64(raw[1:cursorHead])),
		id:        string(raw[cursorHead:]),
	}
	// The decoder passes over line breaks and over spare bits at the end.
	if !ValidID(c.id) || c.String() != s {
		return Cursor{}, ErrBadCursor
	}
	return c, nil
}

// String is the opaque form of c that clients get: base64url, at most 98
// characters.
func (c Cursor) String() string {
	var room [cursorHead + maxIDLength]byte
	raw := append(room[:0], cursorVersion)
	raw = binary.BigEndian.AppendUint64(raw, uint64(c.published))
	raw = append(raw, c.id...)
	return base64.RawURLEncoding.EncodeToString(raw)
}

// Cursor is the place just after p, for the next page to start at.
func (p *Post) Cursor() string {
	return Cursor{published: p.PublishedAt.UnixMicro(), id: p.ID}.String()
}
