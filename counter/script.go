package counter

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tallyfeed/tallyfeed/lua"
)

// onceCmd is a command that no client sends twice: the cluster client asks
// again after a lost reply whatever MaxRetries says.
type onceCmd struct{ *redis.Cmd }

// NoRetry is part of redis.Cmder.
func (onceCmd) NoRetry() bool { return true }

// call is one run of a script: its keys, all of one slot, and its arguments.
type call struct {
	keys []string
	args []any
}

func (c call) command(ctx context.Context, name, script string) onceCmd {
	words := make([]any, 0, 3+len(c.keys)+len(c.args))
	words = append(words, name, script, len(c.keys))
	for _, key := range c.keys {
		words = append(words, key)
	}
	cmd := redis.NewCmd(ctx, append(words, c.args...)...)
	cmd.SetFirstKeyPos(3)
	return onceCmd{cmd}
}

// How often, and after how long, a call is sent again that Redis refused
// without running it.
const (
	refusals     = 4
	refusalPause = 20 * time.Millisecond
)

// run runs a script once for each call, in one pipeline, and returns their
// replies in the order of the calls. Only what Redis surely did not run is sent
// again: an unknown script (after a restart or a failover) with its text, and
// what a slot on its way refuses, after a short pause. A cluster answers
// TRYAGAIN to every script that names absent keys while their slot moves.
func (r *Redis) run(ctx context.Context, script *lua.Script, calls ...call) []*redis.Cmd {
	replies := make([]*redis.Cmd, len(calls))
	pending := make([]int, len(calls))
	for i := range calls {
		pending[i] = i
	}
	name, text := "evalsha", script.Hash
	for attempt := 0; ; attempt++ {
		cmds := make([]redis.Cmder, len(pending))
		for at, i := range pending {
			cmd := calls[i].command(ctx, name, text)
			replies[i], cmds[at] = cmd.Cmd, cmd
		}
		r.send(ctx, cmds)

		var refused []int
		known, lost := true, false
		for _, i := range pending {
			err := replies[i].Err()
			lost = lost || isNetwork(err)
			if redis.HasErrorPrefix(err, "NOSCRIPT") {
				known = false
			}
			if surelyNotRun(err) {
				refused = append(refused, i)
			}
		}
		if lost {
			r.lookAgain(ctx)
		}
		if len(refused) == 0 || attempt == refusals {
			return replies
		}
		pending = refused
		if !known {
			name, text = "eval", script.Text
			continue
		}
		select {
		case <-ctx.Done():
			return replies
		case <-time.After(refusalPause << attempt):
		}
	}
}

// send runs commands in one round trip; each holds its own error afterwards.
func (r *Redis) send(ctx context.Context, cmds []redis.Cmder) {
	if len(cmds) == 1 {
		_ = r.writes.Process(ctx, cmds[0])
		return
	}
	pipe := r.writes.Pipeline()
	for _, cmd := range cmds {
		_ = pipe.Process(ctx, cmd)
	}
	_, _ = pipe.Exec(ctx)
}

// lookAgain makes the cluster client ask who serves which slot. It does so by
// itself only where it may send a command again.
func (r *Redis) lookAgain(ctx context.Context) {
	if cluster, ok := r.writes.(*redis.ClusterClient); ok {
		cluster.ReloadState(ctx)
	}
}

// isNetwork holds for what is no answer of Redis's.
func isNetwork(err error) bool {
	var answer redis.Error
	return err != nil && !errors.As(err, &answer)
}

// surelyNotRun holds for what Redis answers before it runs a script, and for a
// server that could not be dialled.
func surelyNotRun(err error) bool {
	if err == nil {
		return false
	}
	var operation *net.OpError
	if errors.As(err, &operation) && operation.Op == "dial" {
		return true
	}
	for _, prefix := range []string{"NOSCRIPT", "TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY", "MOVED", "ASK"} {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return false
}

// errShape says that a script answered something its contract does not know:
// scripts and wrappers come from one binary, so this is a programming error.
var errShape = errors.New("unexpected reply of a script")

// status takes apart a reply of the form {status, …}. Its second value is what
// follows "ok"; every other status is an error.
func status(cmd *redis.Cmd) ([]any, error) {
	reply, err := cmd.Slice()
	if err != nil {
		return nil, overloadedIfFull(err)
	}
	if len(reply) == 0 {
		return nil, errShape
	}
	word, _ := reply[0].(string)
	switch word {
	case "ok":
		return reply[1:], nil
	case "gone":
		return nil, ErrGone
	case "no epoch":
		return nil, ErrNoEpoch
	case "full":
		return nil, ErrOverloaded
	case "promote":
		if len(reply) == 2 {
			container, _ := reply[1].(string)
			return nil, &fullError{container: container}
		}
	case "malformed":
		if len(reply) == 2 {
			key, _ := reply[1].(string)
			return nil, &MalformedError{Key: key}
		}
	}
	return nil, fmt.Errorf("%w: %q", errShape, word)
}

// fullError is toggle.lua's wish for a promotion.
type fullError struct{ container string }

func (e *fullError) Error() string { return "container " + e.container + " is full" }

// overloadedIfFull turns Redis's own refusal for want of memory into ours. It
// refuses the first write of a script, so nothing was changed.
func overloadedIfFull(err error) error {
	if strings.HasPrefix(err.Error(), "OOM") || strings.Contains(err.Error(), "OOM command not allowed") {
		return fmt.Errorf("%w: %w", ErrOverloaded, err)
	}
	return err
}
