package counter

import (
	"context"
	"strconv"

	"github.com/tallyfeed/tallyfeed/lua"
)

// ordinalField is the field of mine that holds the viewer's ordinal; no subject
// has this name.
const ordinalField = "#"

// maxMine is how many own changes are remembered at most.
const maxMine = 4096

// remember writes what the viewer's next pages must include.
func (f *Facts) remember(ctx context.Context, viewer Viewer, s Subject, ordinal Ordinal, counts Counts) error {
	return f.redis.run(ctx, lua.Mine, call{
		keys: []string{mineKey(viewer)},
		args: []any{s.String(), encodeOwn(counts), uint32(ordinal), int(f.config.Remember.Seconds()), maxMine},
	})[0].Err()
}

// parseOrdinal reads the ordinal in a reply of mine.
func parseOrdinal(field any) (Ordinal, bool) {
	text, ok := field.(string)
	if !ok {
		return 0, false
	}
	ordinal, err := strconv.ParseUint(text, 10, 32)
	return Ordinal(ordinal), err == nil
}
