package counter

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// EpochStatus says for how many tags Redis is known to hold all facts.
type EpochStatus struct{ Present, Tags int }

// Complete says whether likes of every subject are taken.
func (s EpochStatus) Complete() bool { return s.Present == s.Tags }

// Epoch counts the epochs.
func (r *Redis) Epoch(ctx context.Context) (EpochStatus, error) {
	missing, err := r.missingEpochs(ctx)
	if err != nil {
		return EpochStatus{}, err
	}
	return EpochStatus{Tags: tags, Present: tags - len(missing)}, nil
}

// missingEpochs returns the tags that lack theirs.
func (r *Redis) missingEpochs(ctx context.Context) ([]Tag, error) {
	pipe := r.reads.Pipeline()
	cmds := make([]*redis.IntCmd, tags)
	for t := range cmds {
		cmds[t] = pipe.Exists(ctx, epochKey(Tag(t)))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("read epochs: %w", err)
	}
	var missing []Tag
	for t, cmd := range cmds {
		if cmd.Val() == 0 {
			missing = append(missing, Tag(t))
		}
	}
	return missing, nil
}

// DeclareEpoch says that this Redis holds all facts there are, for every tag
// that lacks an epoch. It is for a new system. What tags have already is left
// alone.
func (r *Redis) DeclareEpoch(ctx context.Context) error {
	value := rand.Text() // another one each time: readers forget what they saw before
	pipe := r.writes.Pipeline()
	for t := range tags {
		pipe.SetNX(ctx, epochKey(Tag(t)), value, 0)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("write epochs: %w", err)
	}
	return nil
}

// Found declares the epoch of a new system: one that has never given an
// ordinal, so there is no fact that this Redis could lack. Elsewhere it returns
// ErrNoEpoch where tags lack theirs, and nil where none does.
func (r *Redis) Found(ctx context.Context, store OrdinalStore) error {
	status, err := r.Epoch(ctx)
	if err != nil || status.Complete() {
		return err
	}
	used, err := store.Any(ctx)
	if err != nil {
		return fmt.Errorf("look for ordinals: %w", err)
	}
	if used {
		return fmt.Errorf("%w: %d of %d parts lack their epoch", ErrNoEpoch, status.Tags-status.Present, status.Tags)
	}
	return r.DeclareEpoch(ctx)
}

// isRefusal holds for what a script answers when it declines, as opposed to not
// being reached.
func isRefusal(err error) bool {
	var malformed *MalformedError
	return errors.Is(err, ErrGone) || errors.Is(err, ErrNoEpoch) || errors.As(err, &malformed)
}
