package counter

import (
	"context"
	"fmt"
	"strconv"

	"github.com/tallyfeed/tallyfeed/lua"
)

// promote moves a full container. Somebody else may do so at the same time.
func (f *Facts) promote(ctx context.Context, p permit, s Subject, m Metric, chunk uint32, container string) error {
	k := keysOf(s)
	run := call{
		keys: []string{p.key, k.gone(), k.chunkFew(m, chunk), k.bitmap(m, chunk)},
		args: []any{"chunk"},
	}
	if container == "few" {
		members, err := f.redis.writes.SMembers(ctx, k.few(m)).Result()
		if err != nil {
			return fmt.Errorf("promote: %w", err)
		}
		run = call{
			keys: []string{p.key, k.gone(), k.few(m), k.n(m), k.chunks(m)},
			args: []any{"few"},
		}
		named := map[uint32]bool{}
		for _, member := range members {
			ordinal, err := strconv.ParseUint(member, 10, 32)
			if err != nil {
				return &MalformedError{Key: k.few(m)}
			}
			if c := Ordinal(ordinal).chunk(); !named[c] {
				named[c] = true
				run.keys = append(run.keys, k.chunkFew(m, c))
				run.args = append(run.args, c)
			}
		}
	}
	word, err := f.redis.run(ctx, lua.Promote, run)[0].Text()
	switch {
	case err != nil:
		return fmt.Errorf("promote: %w", overloadedIfFull(err))
	case word == "gone":
		return ErrGone
	case word == "no epoch":
		return ErrNoEpoch
	case word == "ok", word == "declined": // toggle.lua asks again if need be
		return nil
	}
	return fmt.Errorf("%w: %q", errShape, word)
}
