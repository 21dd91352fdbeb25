package counter

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// allTags is every tag there is.
func allTags() []Tag {
	all := make([]Tag, tags)
	for t := range all {
		all[t] = Tag(t)
	}
	return all
}

func tagsOf(subjects []Subject) []Tag {
	var seen [tags]bool
	var found []Tag
	for _, s := range subjects {
		if t := s.Tag(); !seen[t] {
			seen[t] = true
			found = append(found, t)
		}
	}
	return found
}

// newest is the last version that each tag's outbox has given; tags whose outbox
// never was are left out.
func (r *Redis) newest(ctx context.Context, wanted []Tag) (map[Tag]Version, error) {
	pipe := r.reads.Pipeline()
	cmds := make([]*redis.XInfoStreamCmd, len(wanted))
	for i, t := range wanted {
		cmds[i] = pipe.XInfoStream(ctx, outboxKey(t))
	}
	_, _ = pipe.Exec(ctx) // an outbox that never was is an error of its own
	newest := make(map[Tag]Version, len(cmds))
	for i, cmd := range cmds {
		info, err := cmd.Result()
		if err != nil && strings.Contains(err.Error(), "no such key") {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read last ids: %w", err)
		}
		if newest[wanted[i]], err = ParseVersion(info.LastGeneratedID); err != nil {
			return nil, fmt.Errorf("last id of %s: %w", outboxKey(wanted[i]), err)
		}
	}
	return newest, nil
}

// factsBatch is how many facts share a pipeline.
const factsBatch = 500

// factsOf says for each of rows whether its fact is set. It asks the containers
// in the order in which a fact moves through them.
func (r *Redis) factsOf(ctx context.Context, rows []Reaction) ([]bool, error) {
	facts := make([]bool, 0, len(rows))
	for len(rows) > 0 {
		some := rows[:min(factsBatch, len(rows))]
		rows = rows[len(some):]
		pipe := r.reads.Pipeline()
		cmds := make([]containers, len(some))
		for i, row := range some {
			k, chunk, offset := keysOf(row.Subject), row.Ordinal.chunk(), row.Ordinal.offset()
			cmds[i] = containers{
				few:      pipe.SIsMember(ctx, k.few(row.Metric), uint32(row.Ordinal)),
				chunkFew: pipe.SIsMember(ctx, k.chunkFew(row.Metric, chunk), offset),
				bitmap:   pipe.GetBit(ctx, k.bitmap(row.Metric, chunk), int64(offset)),
			}
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return nil, fmt.Errorf("read facts: %w", err)
		}
		for _, c := range cmds {
			facts = append(facts, c.few.Val() || c.chunkFew.Val() || c.bitmap.Val() == 1)
		}
	}
	return facts, nil
}
