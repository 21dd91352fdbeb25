package counter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// Event says what happened to a subject. The fold needs the subject only; all
// else is for other consumers.
type Event struct {
	EntityType string  `json:"entityType"`
	EntityID   string  `json:"entityId"`
	Metric     string  `json:"metric,omitempty"`
	Index      int     `json:"idx"`
	UserID     string  `json:"userId,omitempty"`
	Ordinal    Ordinal `json:"ordinal"`
	// Delta is 1 when the fact was set, -1 when it was cleared.
	Delta int `json:"delta"`
	// Like and Fav are the counts after the change.
	Like    int64  `json:"like"`
	Fav     int64  `json:"fav"`
	Version string `json:"version"`
	// Millis is the time in the version.
	Millis int64 `json:"ts"`
	// Deleted says that the subject is no more; then there is no metric and no
	// user.
	Deleted bool `json:"deleted,omitempty"`
}

// maxEventSize bounds what a record may hold. The longest valid event is below
// 2 KiB: a user of 128 characters may take six bytes for each in JSON.
const maxEventSize = 4 << 10

// ErrBadEvent says that a record is no event; the text says why.
var ErrBadEvent = errors.New("not an event")

// DecodeEvent reads one record. It refuses, with ErrBadEvent, what is no JSON
// object, has something behind it, names no valid subject, metric or version.
// Unknown fields are skipped, so that a newer writer does not stop an older
// reader.
func DecodeEvent(record []byte) (Event, Subject, error) {
	bad := func(reason string) (Event, Subject, error) {
		return Event{}, Subject{}, fmt.Errorf("%w: %s", ErrBadEvent, reason)
	}
	if len(record) > maxEventSize {
		return bad("larger than 4 KiB")
	}
	if !utf8.Valid(record) {
		return bad("not UTF-8")
	}
	var e Event
	decoder := json.NewDecoder(bytes.NewReader(record))
	if err := decoder.Decode(&e); err != nil {
		return bad("not JSON of the right shape")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return bad("more than one value")
	}
	subject, err := NewSubject(e.EntityType, e.EntityID)
	if err != nil {
		return bad("no valid subject")
	}
	version, err := ParseVersion(e.Version)
	if err != nil || version == 0 {
		return bad("no valid version")
	}
	if e.Deleted {
		return e, subject, nil
	}
	if m, ok := parseMetric(e.Metric); !ok || int(m) != e.Index {
		return bad("no valid metric")
	}
	if e.Delta != 1 && e.Delta != -1 {
		return bad("delta is neither 1 nor -1")
	}
	if n := utf8.RuneCountInString(e.UserID); n < 1 || n > 128 {
		return bad("no valid user")
	}
	return e, subject, nil
}

// entryFields are the names in the outbox, in the order in which the scripts
// write them: subject, metric, user, ordinal, delta, like, fav.
var entryFields = [7]string{"s", "m", "u", "o", "d", "l", "f"}

// entry is one change in the outbox: its id and the values of entryFields.
type entry struct {
	id     string
	values [7]string
}

// event reads an entry back. It fails only if something else than our scripts
// wrote the stream.
func (e entry) event() (Event, Subject, error) {
	subject, err := ParseSubject(e.values[0])
	if err != nil {
		return Event{}, Subject{}, err
	}
	version, err := ParseVersion(e.id)
	if err != nil {
		return Event{}, Subject{}, err
	}
	event := Event{
		EntityType: subject.kind, EntityID: subject.id,
		Version: e.id, Millis: version.Time().UnixMilli(),
	}
	if e.values[1] == "" {
		event.Index, event.Deleted = -1, true
		return event, subject, nil
	}
	metric, ok := parseMetric(e.values[1])
	if !ok {
		return Event{}, Subject{}, fmt.Errorf("unknown metric %q", e.values[1])
	}
	ordinal, err1 := strconv.ParseUint(e.values[3], 10, 32)
	delta, err2 := strconv.Atoi(e.values[4])
	like, err3 := strconv.ParseInt(e.values[5], 10, 64)
	fav, err4 := strconv.ParseInt(e.values[6], 10, 64)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return Event{}, Subject{}, fmt.Errorf("entry %s: %w", e.id, err)
	}
	event.Metric, event.Index = metric.String(), int(metric)
	event.UserID, event.Ordinal, event.Delta = e.values[2], Ordinal(ordinal), delta
	event.Like, event.Fav = like, fav
	return event, subject, nil
}
