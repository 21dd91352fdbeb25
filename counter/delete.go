package counter

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tallyfeed/tallyfeed/lua"
)

// Tombstones outlive Kafka's retention of 7 days, so no late event finds a
// deleted subject without one.
const tombstoneLife = 8 * 24 * time.Hour

// deleteStep is how many chunks one script run deletes.
const deleteStep = 64

// Delete removes all facts and the snapshot of s and keeps it deleted. It works
// in bounded steps, and goes on where a killed one ended; a second call finds
// nothing left. It needs no epoch.
func (f *Facts) Delete(ctx context.Context, s Subject) error {
	k := keysOf(s)
	var chunks [metrics][]string
	for {
		run := call{
			keys: []string{
				k.gone(), outboxKey(s.Tag()), k.snapshot(),
				k.few(Like), k.n(Like), k.chunks(Like),
				k.few(Fav), k.n(Fav), k.chunks(Fav),
			},
			args: []any{int(tombstoneLife.Seconds()), k.subject},
		}
		for m, numbers := range chunks {
			for _, number := range numbers {
				chunk, err := strconv.ParseUint(number, 10, 32)
				if err != nil {
					return fmt.Errorf("delete %s: %w", s, &MalformedError{Key: k.chunks(Metric(m))})
				}
				run.keys = append(run.keys, k.bitmap(Metric(m), uint32(chunk)), k.chunkFew(Metric(m), uint32(chunk)))
				run.args = append(run.args, m, number)
			}
		}
		left, err := f.redis.run(ctx, lua.Delete, run)[0].Int()
		if err != nil {
			return fmt.Errorf("delete %s: %w", s, err)
		}
		if left == 0 {
			return nil
		}
		if chunks, err = f.someChunks(ctx, k); err != nil {
			return fmt.Errorf("delete %s: %w", s, err)
		}
	}
}

func (f *Facts) someChunks(ctx context.Context, k keys) (chunks [metrics][]string, err error) {
	pipe := f.redis.writes.Pipeline()
	var some [metrics]*redis.StringSliceCmd
	for m := range Metric(metrics) {
		some[m] = pipe.SRandMemberN(ctx, k.chunks(m), deleteStep)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return chunks, err
	}
	for m := range some {
		chunks[m] = some[m].Val()
	}
	return chunks, nil
}
