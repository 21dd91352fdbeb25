package counter

import (
	"slices"
	"strings"
	"testing"
)

// allKeys are the keys of a subject and of its tag.
func allKeys(s Subject) []string {
	k := keysOf(s)
	all := []string{k.gone(), k.snapshot(), outboxKey(s.Tag()), epochKey(s.Tag()), sweepKey(s.Tag())}
	for m := range Metric(metrics) {
		all = append(all, k.few(m), k.n(m), k.chunks(m), k.chunkFew(m, 0), k.bitmap(m, 0), k.chunkFew(m, 131071), k.bitmap(m, 131071))
	}
	return all
}

// The names are a contract with whoever looks into Redis, with restores and with
// older servers beside newer ones.
func TestKeys(t *testing.T) {
	t.Parallel()
	subject, err := NewSubject(TypePost, "10001")
	if err != nil {
		t.Fatal(err)
	}
	k := keysOf(subject)
	for got, want := range map[string]string{
		k.bitmap(Like, 0):        "bm:like:post:10001:0{d5}", // the design's example
		k.bitmap(Fav, 152):       "bm:fav:post:10001:152{d5}",
		k.chunkFew(Like, 3):      "bm:like:post:10001:3:few{d5}",
		k.few(Like):              "bm:like:post:10001:few{d5}",
		k.few(Fav):               "bm:fav:post:10001:few{d5}",
		k.n(Like):                "bm:like:post:10001:n{d5}",
		k.chunks(Like):           "bm:like:post:10001:chunks{d5}",
		k.snapshot():             "cnt:v1:post:10001{d5}",
		k.gone():                 "gone:post:10001{d5}",
		outboxKey(subject.Tag()): "out{d5}",
		epochKey(subject.Tag()):  "epoch{d5}",
		outboxKey(0):             "out{00}",
		mineKey("alice"):         "mine:2bd806c97f0e00af1a1fc3328fa763a9",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A viewer's chunk and offset at the borders.
func TestOrdinalPlace(t *testing.T) {
	t.Parallel()
	for ordinal, want := range map[Ordinal][2]uint32{
		0: {0, 0}, 32767: {0, 32767}, 32768: {1, 0}, 5_000_000: {152, 19264}, 1<<32 - 1: {131071, 32767},
	} {
		if got := [2]uint32{ordinal.chunk(), ordinal.offset()}; got != want {
			t.Errorf("ordinal %d: %v, want %v", ordinal, got, want)
		}
	}
}

// Every key of a subject is on one slot of a cluster, and no two are the same,
// also of subjects whose ids look like parts of keys.
func TestKeysShareTheTag(t *testing.T) {
	t.Parallel()
	used := map[Tag]bool{}
	owner := map[string]string{}
	for _, id := range []string{"10001", "1", "few", "n", "chunks", "0", "v1", "post", "-", "_", strings.Repeat("a", 64)} {
		subject, err := NewSubject(TypePost, id)
		if err != nil {
			t.Fatal(err)
		}
		used[subject.Tag()] = true
		keys := allKeys(subject)
		for _, key := range keys {
			if tag, ok := hashTag(key); !ok || tag != subject.Tag().String() {
				t.Errorf("%s: a cluster hashes %q, want %s", key, tag, subject.Tag())
			}
			shared := strings.HasPrefix(key, "out{") || strings.HasPrefix(key, "epoch{") || strings.HasPrefix(key, "sweep{")
			if other, taken := owner[key]; taken && !shared {
				t.Errorf("%s is of both %s and %s", key, other, id)
			}
			owner[key] = id
		}
		slices.Sort(keys)
		if len(slices.Compact(keys)) != len(allKeys(subject)) {
			t.Errorf("%s: some keys are the same", id)
		}
	}
	if len(used) < 8 {
		t.Errorf("11 subjects share %d tags", len(used))
	}
	// A sub must not choose a slot, nor show up in a key.
	if _, ok := hashTag(mineKey("{d5}alice")); ok || strings.Contains(mineKey("{d5}alice"), "alice") {
		t.Errorf("%s", mineKey("{d5}alice"))
	}
}

// hashTag is what a Redis Cluster hashes of a key: what stands between the first
// opening brace and the next closing one.
func hashTag(key string) (string, bool) {
	_, rest, found := strings.Cut(key, "{")
	tag, _, closed := strings.Cut(rest, "}")
	return tag, found && closed && tag != ""
}
