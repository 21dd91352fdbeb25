package counter

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
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

func (t Tag) String() string { return t.braced()[1:3] }

// Tag is the slot that all keys of s share: CRC-32 of type:id. It goes step by
// step, since crc32.ChecksumIEEE would want a copy of it on the heap, many times
// a page.
func (s Subject) Tag() Tag {
	crc := checksum(^uint32(0), s.kind)
	crc = checksum(crc, ":")
	return Tag(^checksum(crc, s.id))
}

func checksum(crc uint32, text string) uint32 {
	for i := range len(text) {
		crc = crc32.IEEETable[byte(crc)^text[i]] ^ crc>>8
	}
	return crc
}

// tagged holds what begins with name for each tag.
func tagged(name string) (all [tags]string) {
	for t := range all {
		all[t] = fmt.Sprintf("%s{%02x}", name, t)
	}
	return all
}

var braces, outboxes, epochs, sweeps = tagged(""), tagged("out"), tagged("epoch"), tagged("sweep")

// braced is the tag as it ends every key, e.g. "{d5}".
func (t Tag) braced() string { return braces[t] }

func outboxKey(t Tag) string { return outboxes[t] }
func epochKey(t Tag) string  { return epochs[t] }
func sweepKey(t Tag) string  { return sweeps[t] }

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
