package counter

import (
	"encoding/binary"
	"errors"
)

// Counts is how many like and fav a subject. They saturate at 2^32-1.
type Counts struct {
	Like, Fav uint32
	// Version is the newest change that the counts contain, or was drawn when
	// they were counted anew.
	Version Version
}

// snapshotSize is the length of cnt:v1: five uint32 (view, like, fav, comment,
// share) and a uint64, all big-endian. fold.lua writes it.
const snapshotSize = 28

var errBadSnapshot = errors.New("not a snapshot: want 28 bytes")

// decodeSnapshot refuses any other length; every text of 28 bytes is one.
func decodeSnapshot(text string) (Counts, error) {
	if len(text) != snapshotSize {
		return Counts{}, errBadSnapshot
	}
	b := []byte(text)
	return Counts{
		Like:    binary.BigEndian.Uint32(b[4:]),
		Fav:     binary.BigEndian.Uint32(b[8:]),
		Version: Version(binary.BigEndian.Uint64(b[20:])),
	}, nil
}

// ownSize is the length of a field of mine: like, fav and version.
const ownSize = 16

func encodeOwn(c Counts) string {
	b := make([]byte, 0, ownSize)
	b = binary.BigEndian.AppendUint32(b, c.Like)
	b = binary.BigEndian.AppendUint32(b, c.Fav)
	b = binary.BigEndian.AppendUint64(b, uint64(c.Version))
	return string(b)
}

func decodeOwn(text string) (Counts, bool) {
	if len(text) != ownSize {
		return Counts{}, false
	}
	b := []byte(text)
	return Counts{
		Like:    binary.BigEndian.Uint32(b),
		Fav:     binary.BigEndian.Uint32(b[4:]),
		Version: Version(binary.BigEndian.Uint64(b[8:])),
	}, true
}

// saturate brings a population into a slot.
func saturate(population int64) uint32 {
	return uint32(min(max(population, 0), 1<<32-1))
}
