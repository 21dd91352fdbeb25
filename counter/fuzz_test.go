package counter

import (
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzDecodeEvent: whatever stands in the topic, a record is an event or a bad
// one. What is an event means the same after it was written again.
func FuzzDecodeEvent(f *testing.F) {
	for _, record := range []string{
		`{"entityType":"post","entityId":"10001","metric":"like","idx":0,"userId":"alice","ordinal":7,"delta":1,"like":128,"fav":35,"version":"1796075523591-0","ts":1796075523591}`,
		`{"entityType":"post","entityId":"10001","metric":"fav","idx":1,"userId":"a\u0000\ud800<>","ordinal":4294967295,"delta":-1,"like":-1,"fav":0,"version":"17592186044415-1048575","ts":0}`,
		`{"entityType":"post","entityId":"10001","idx":-1,"version":"1-0","deleted":true}`,
		`{"entityType":"post","entityId":"*","metric":"like","version":"1-0"}`,
		`{"entityType":"post","entityId":"1","version":"01-0","deleted":true}`,
		`{"ENTITYTYPE":"post","entityId":"1","entityId":"2","version":"1-0","deleted":true,"new":{"a":[1e999]}}`,
		`{}{}`, `[]`, `null`, ``, "\xff", `{"version":"0-0"}`,
	} {
		f.Add([]byte(record))
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		event, subject, err := DecodeEvent(record)
		if err != nil {
			if event != (Event{}) || subject != (Subject{}) {
				t.Fatalf("both an error and something: %v, %v, %v", err, event, subject)
			}
			return
		}
		if subject.Type() != event.EntityType || subject.ID() != event.EntityID || !validID(subject.ID()) {
			t.Fatalf("subject %s of %+v", subject, event)
		}
		again, err := json.Marshal(event)
		if err != nil {
			t.Fatalf("%+v: %v", event, err)
		}
		if len(again) > maxEventSize {
			return // a text of foreign fields that is longer in our spelling
		}
		same, sameSubject, err := DecodeEvent(again)
		if err != nil || same != event || sameSubject != subject {
			t.Fatalf("%+v is %+v after it was written again as %s: %v", event, same, again, err)
		}
	})
}

// TestLongestEvent: what the longest user takes in JSON is below the bound, so
// that no event of ours is refused as too long.
func TestLongestEvent(t *testing.T) {
	t.Parallel()
	for reason, user := range map[string]string{
		"Escaped, six bytes each.":      strings.Repeat("<", 128),
		"The widest characters.":        strings.Repeat("😀", 128),
		"Separators, which JSON hides.": strings.Repeat("\u2028", 128),
	} {
		values := [7]string{"post:" + strings.Repeat("a", 64), "like", user, "4294967295", "-1", "4294967295", "4294967295"}
		event, _, err := entry{id: Version(1<<64 - 1).String(), values: values}.event()
		if err != nil {
			t.Fatalf("%s\n%v", reason, err)
		}
		record, err := json.Marshal(event)
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := DecodeEvent(record); err != nil || got != event {
			t.Errorf("%s\n%d bytes come back as %+v, %v", reason, len(record), got, err)
		}
		if len(record) > 2048 {
			t.Errorf("%s\n%d bytes, more than the 2 KiB that maxEventSize speaks of", reason, len(record))
		}
	}
}

// FuzzDecodeSnapshot: 28 bytes are a snapshot and anything else is none, also
// for the shorter layout of a viewer's own changes.
func FuzzDecodeSnapshot(f *testing.F) {
	f.Add("")
	f.Add(strings.Repeat("\x00", snapshotSize))
	f.Add(strings.Repeat("\xff", snapshotSize))
	f.Add(strings.Repeat("\x01", ownSize))
	f.Add(strings.Repeat("\x01", snapshotSize+1))
	f.Fuzz(func(t *testing.T, text string) {
		counts, err := decodeSnapshot(text)
		if (err == nil) != (len(text) == snapshotSize) {
			t.Fatalf("%d bytes: %v", len(text), err)
		}
		if err == nil {
			b := append([]byte(text[:4]), make([]byte, 8)...)
			binary.BigEndian.PutUint32(b[4:], counts.Like)
			binary.BigEndian.PutUint32(b[8:], counts.Fav)
			b = append(b, text[12:20]...)
			b = binary.BigEndian.AppendUint64(b, uint64(counts.Version))
			if string(b) != text {
				t.Fatalf("%x is %+v", text, counts)
			}
		}
		own, ok := decodeOwn(text)
		if ok != (len(text) == ownSize) || ok && encodeOwn(own) != text {
			t.Fatalf("own: %x is %+v, %t", text, own, ok)
		}
	})
}

// FuzzParseVersion: only the form that Redis writes is taken, and comparing two
// versions compares their numbers, in Go and as the scripts do.
func FuzzParseVersion(f *testing.F) {
	for _, id := range []string{
		"1796075523591-0", "0-0", "0-1", "17592186044415-1048575", "17592186044416-0", "1-1048576",
		"01-0", "1-00", "+1-0", "1--0", "1", "1-", "-1", "1-0 ", "1-0-0", "", "18446744073709551616-0",
	} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		v, err := ParseVersion(id)
		if err != nil {
			if v != 0 {
				t.Fatalf("%q: both %v and %v", id, v, err)
			}
			return
		}
		if v.String() != id {
			t.Fatalf("%q is %s", id, v)
		}
		if Version(uint64(v.high())<<32|uint64(v.low())) != v {
			t.Fatalf("%q: the scripts see %d and %d", id, v.high(), v.low())
		}
		if ms := v.Time().UnixMilli(); ms < 0 || ms != int64(v>>sequenceBits) {
			t.Fatalf("%q: %d ms", id, ms)
		}
	})
}

// FuzzParseSubject: a subject is what it was written as, and holds nothing that
// means something in a key.
func FuzzParseSubject(f *testing.F) {
	for _, text := range []string{
		"post:10001", "post:" + strings.Repeat("Z", 64), "post:" + strings.Repeat("Z", 65), "post:", "post", ":1", "",
		"post:a:b", "post:{d5}", "post:*", "post:a?", "post:[a]", "post:a\n", "post:\x00", "post:é", "user:1", "POST:1", " post:1",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSubject(text)
		if err != nil {
			if s != (Subject{}) {
				t.Fatalf("%q: both %s and %v", text, s, err)
			}
			return
		}
		if s.String() != text || !utf8.ValidString(text) || strings.ContainsAny(s.ID(), ":{}*?[]\\ \r\n\x00") || len(s.ID()) > 64 {
			t.Fatalf("%q is taken for %s", text, s)
		}
		for _, key := range allKeys(s) {
			if strings.Count(key, "{") != 1 || strings.Count(key, "}") != 1 || !strings.HasSuffix(key, s.Tag().braced()) {
				t.Fatalf("%q: key %q has not the one hash tag", text, key)
			}
		}
	})
}
