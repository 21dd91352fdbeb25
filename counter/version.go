package counter

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// Version orders the changes of a subject. It is the id that the outbox stream
// gave a change, packed: 44 bits of milliseconds, 20 of sequence. It is an
// order and no clock: after a failover it may run ahead of time. 0 is none.
type Version uint64

const (
	sequenceBits = 20
	maxSequence  = 1<<sequenceBits - 1
	maxMillis    = 1<<44 - 1
)

var errBadVersion = errors.New("not a version: want milliseconds-sequence, of at most 44 and 20 bits")

// ParseVersion takes a stream id in its canonical form, e.g. 1796075523591-0.
func ParseVersion(id string) (Version, error) {
	left, right, found := strings.Cut(id, "-")
	ms, err1 := strconv.ParseUint(left, 10, 64)
	sequence, err2 := strconv.ParseUint(right, 10, 64)
	if !found || err1 != nil || err2 != nil || ms > maxMillis || sequence > maxSequence {
		return 0, errBadVersion
	}
	v := Version(ms<<sequenceBits | sequence)
	if v.String() != id {
		return 0, errBadVersion
	}
	return v, nil
}

func (v Version) String() string {
	return strconv.FormatUint(uint64(v)>>sequenceBits, 10) + "-" + strconv.FormatUint(uint64(v)&maxSequence, 10)
}

// Time is when Redis gave the version, by its own clock.
func (v Version) Time() time.Time { return time.UnixMilli(int64(v >> sequenceBits)).UTC() }

// Scripts compare versions as two numbers, since Lua's are doubles.
func (v Version) high() uint32 { return uint32(v >> 32) }
func (v Version) low() uint32  { return uint32(v) }
