package counter

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/crc32"
	"strconv"
)

// Tag spreads subjects over a cluster: all keys of a subject carry it as their
// hash tag, so every script touches one slot. There are 256, which makes the
// outbox a bounded set of streams.
type Tag uint8

// Tags is how many there are.
const Tags = 256

const tags = Tags

const hexDigits = "0123456789abcdef"

func (t Tag) String() string { return string([]byte{hexDigits[t>>4], hexDigits[t&15]}) }

// Tag is the slot that all keys of s share.
func (s Subject) Tag() Tag { return Tag(crc32.ChecksumIEEE([]byte(s.kind + ":" + s.id))) }

// braced is the tag as it ends every key, e.g. "{d5}".
func (t Tag) braced() string { return "{" + t.String() + "}" }

func outboxKey(t Tag) string { return "out" + t.braced() }
func epochKey(t Tag) string  { return "epoch" + t.braced() }
func sweepKey(t Tag) string  { return "sweep" + t.braced() }

// mineKey is hashed, since a sub is any string and must neither choose a slot
// nor show up in a key.
func mineKey(v Viewer) string {
	sum := sha256.Sum256([]byte(v))
	return "mine:" + hex.EncodeToString(sum[:16])
}

// keys names what is kept of one subject.
type keys struct {
	subject string // type:id
	end     string // the hash tag in braces
}

func keysOf(s Subject) keys { return keys{subject: s.String(), end: s.Tag().braced()} }

func (k keys) gone() string     { return "gone:" + k.subject + k.end }
func (k keys) snapshot() string { return "cnt:v1:" + k.subject + k.end }

func (k keys) few(m Metric) string { return "bm:" + m.String() + ":" + k.subject + ":few" + k.end }
func (k keys) n(m Metric) string   { return "bm:" + m.String() + ":" + k.subject + ":n" + k.end }
func (k keys) chunks(m Metric) string {
	return "bm:" + m.String() + ":" + k.subject + ":chunks" + k.end
}

func (k keys) chunkFew(m Metric, chunk uint32) string {
	return "bm:" + m.String() + ":" + k.subject + ":" + strconv.FormatUint(uint64(chunk), 10) + ":few" + k.end
}

func (k keys) bitmap(m Metric, chunk uint32) string {
	return "bm:" + m.String() + ":" + k.subject + ":" + strconv.FormatUint(uint64(chunk), 10) + k.end
}

// SnapshotKey is where the counts of s are, for tests that damage them.
func SnapshotKey(s Subject) string { return keysOf(s).snapshot() }
