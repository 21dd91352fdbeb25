package counter

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/tallyfeed/tallyfeed/lua"
)

// foldCall copies the facts of s into its snapshot; version is the newest
// change known to be among them, or 0.
func foldCall(s Subject, version Version) call {
	k := keysOf(s)
	return call{
		keys: []string{
			epochKey(s.Tag()), k.gone(), outboxKey(s.Tag()),
			k.few(Like), k.n(Like), k.few(Fav), k.n(Fav), k.snapshot(),
		},
		args: []any{version.high(), version.low(), ""},
	}
}

// folded reads fold.lua's reply: the counts as they are now.
func folded(cmd *redis.Cmd) (Counts, error) {
	reply, err := status(cmd)
	if err != nil {
		return Counts{}, err
	}
	if len(reply) != 2 {
		return Counts{}, errShape
	}
	text, _ := reply[1].(string)
	return decodeSnapshot(text)
}

// bothSnapshots reads fold.lua's {old, new}; known says whether there was an old.
func bothSnapshots(reply []any) (before, after Counts, known bool, err error) {
	if len(reply) != 2 {
		return Counts{}, Counts{}, false, errShape
	}
	old, _ := reply[0].(string)
	text, _ := reply[1].(string)
	if after, err = decodeSnapshot(text); err != nil {
		return Counts{}, Counts{}, false, err
	}
	before, err = decodeSnapshot(old)
	return before, after, err == nil, nil
}

// foldBatch is how many folds share a pipeline.
const foldBatch = 500

// fold copies the facts of subjects into their snapshots. A subject whose
// script declined counts as done: it is deleted, or waits for a restore or a
// deep recount, each of which folds it.
func (a *Aggregator) fold(ctx context.Context, subjects map[Subject]Version) error {
	calls := make([]call, 0, min(len(subjects), foldBatch))
	folding := make([]Subject, 0, cap(calls))
	flush := func() error {
		limited, cancel := context.WithTimeout(ctx, writeTimeout)
		defer cancel()
		for i, reply := range a.redis.run(limited, lua.Fold, calls...) {
			_, err := folded(reply)
			switch {
			case err == nil, errors.Is(err, ErrGone):
			case isRefusal(err):
				a.log.WarnContext(ctx, "not folded", "subject", folding[i].String(), "err", err)
				tellMalformed(err, folding[i], a.config.OnMalformed)
			default:
				return fmt.Errorf("fold: %w", err)
			}
		}
		calls, folding = calls[:0], folding[:0]
		return nil
	}
	for s, version := range subjects {
		folding = append(folding, s)
		if calls = append(calls, foldCall(s, version)); len(calls) == foldBatch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if len(calls) == 0 {
		return nil
	}
	return flush()
}
