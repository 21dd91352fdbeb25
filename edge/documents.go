package edge

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strconv"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/redis/go-redis/v9"
)

// Documents keeps automatic persisted queries: documents that clients name by
// their SHA-256. In Redis there are as many places as slots says and no more, and
// a document has one place: who comes later takes it, and the one that was there
// is sent in once more by the next client that has it. So the store is bounded
// whatever is put in, and a lost document costs one request.
type Documents struct {
	shared *Shared
	near   *otter.Cache[string, string]
}

const (
	slots        = 4096
	documentLife = 7 * 24 * time.Hour
	// maxNear bounds what a process keeps of them: documents have at most 16 KiB.
	maxNear = 1000
)

// NewDocuments returns the store.
func NewDocuments(shared *Shared) *Documents {
	return &Documents{shared: shared, near: otter.Must(&otter.Options[string, string]{MaximumSize: maxNear})}
}

// Find returns the document with this hash, in hex. It is not found while Redis
// is away, unless this process has seen it.
func (d *Documents) Find(ctx context.Context, hash string) (string, bool) {
	if document, ok := d.near.GetIfPresent(hash); ok {
		return document, true
	}
	var document string
	d.shared.ask(ctx, "persisted queries are", func(ctx context.Context) (err error) {
		document, err = d.shared.redis.Get(ctx, slotOf(hash)).Result()
		if errors.Is(err, redis.Nil) {
			return nil
		}
		return err
	})
	if document == "" || Hash(document) != hash {
		return "", false
	}
	d.near.Set(hash, document)
	return document, true
}

// Keep stores a document under its hash. Keeping it again does nothing.
func (d *Documents) Keep(ctx context.Context, hash, document string) {
	if _, ok := d.near.GetIfPresent(hash); ok {
		return
	}
	d.near.Set(hash, document)
	d.shared.ask(ctx, "persisted queries are", func(ctx context.Context) error {
		return d.shared.redis.Set(ctx, slotOf(hash), document, documentLife).Err()
	})
}

// Hash is the SHA-256 of a document in hex.
func Hash(document string) string {
	sum := sha256.Sum256([]byte(document))
	return hex.EncodeToString(sum[:])
}

// slotOf is the key of a hash's place. The slot is of the hash's hash, since a
// client chooses what it asks for.
func slotOf(hash string) string {
	sum := sha256.Sum256([]byte(hash))
	return "apq:" + strconv.Itoa(int(binary.BigEndian.Uint16(sum[:])%slots))
}
