package feed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// subjectPrefix makes the subject of a post out of its id.
	subjectPrefix = "post:"

	// purgeBatch is how many pending purges are read at once.
	purgeBatch = 100
)

// RunPurges finishes, until ctx ends, the purges that a process has left
// behind: it died, or the counting side was down. It returns nil when it is told
// to stop; what it was at is finished by the next process. With Config.Subjects
// nil it only waits. Any number may run at once.
func (f *Feed) RunPurges(ctx context.Context) error {
	tick := time.NewTicker(f.config.PurgeEvery)
	defer tick.Stop()

	for {
		if _, err := f.Purge(ctx); err != nil && ctx.Err() == nil {
			f.config.Log.ErrorContext(ctx, "purge deleted posts", "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// Purge goes once through all pending purges of posts and returns how many it
// finished. One that fails does not hold up the others: its error is in the one
// returned, and its row stays for the next call.
func (f *Feed) Purge(ctx context.Context) (int, error) {
	if f.config.Subjects == nil {
		return 0, nil
	}
	before := f.config.Now().Add(-2 * f.config.PurgeTimeout).UnixMicro()
	done, last := 0, subjectPrefix
	var failed []error
	for {
		var subjects []string
		err := f.db.NewRaw(`SELECT subject FROM purges WHERE subject > ? AND subject LIKE ? AND requested_at <= ?
			ORDER BY subject LIMIT ?`, last, subjectPrefix+"%", before, purgeBatch).Scan(ctx, &subjects)
		if err != nil {
			return done, errors.Join(append(failed, fmt.Errorf("read pending purges: %w", err))...)
		}
		for _, subject := range subjects {
			last = subject
			if err := f.purge(ctx, strings.TrimPrefix(subject, subjectPrefix)); err != nil {
				// The first few say it all when everything fails.
				if len(failed) < 3 {
					failed = append(failed, err)
				}
				if ctx.Err() != nil {
					return done, errors.Join(failed...)
				}
				continue
			}
			done++
		}
		if len(subjects) < purgeBatch {
			return done, errors.Join(failed...)
		}
	}
}

// purge deletes what is counted about a post and then its pending row. A stop
// between the two costs a second, harmless, deletion.
func (f *Feed) purge(ctx context.Context, id string) error {
	// The client that deleted the post may hang up now; the purge goes on.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.config.PurgeTimeout)
	defer cancel()
	if err := f.config.Subjects.Delete(ctx, id); err != nil {
		return fmt.Errorf("purge post %s: %w", id, err)
	}
	if _, err := f.db.ExecContext(ctx, "DELETE FROM purges WHERE subject = ?", subjectPrefix+id); err != nil {
		return fmt.Errorf("mark post %s as purged: %w", id, err)
	}
	return nil
}
