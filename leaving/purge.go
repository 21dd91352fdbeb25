package leaving

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallyfeed/tallyfeed/archive"
	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/feed"
)

// Posts is what is asked of feed.
type Posts interface {
	ByAuthor(ctx context.Context, sub, after string, n int) ([]*feed.Post, error)
	Delete(ctx context.Context, sub, id string) error
}

// Facts is what is asked of counter.
type Facts interface {
	Set(ctx context.Context, viewer counter.Viewer, s counter.Subject, m counter.Metric, want bool) (counter.Outcome, error)
}

// Archive is what is asked of archive.
type Archive interface {
	All(ctx context.Context, ordinal counter.Ordinal, m counter.Metric, after *archive.Mine, n int) ([]archive.Mine, error)
	DeleteOrdinal(ctx context.Context, ordinal counter.Ordinal) error
}

// PurgerConfig has a usable zero value but for CatchUp.
type PurgerConfig struct {
	// CatchUp returns when the archive holds all that has happened before the call.
	CatchUp func(ctx context.Context) error
	// Grace is for how long after a user has left requests of theirs may still be
	// under way somewhere. 0 means 15 s: the servers look every 2 s, and a request
	// takes 5 s at most.
	Grace time.Duration
	// Every is how often it looks. 0 means 5 s.
	Every time.Duration
}

// Purger deletes what users who have left leave behind: posts, likes, favs, the
// archive's rows and the name. Any number may run; each step may be done twice.
type Purger struct {
	db      *bun.DB
	posts   Posts
	facts   Facts
	archive Archive
	config  PurgerConfig
	log     *slog.Logger
	// seen is when this process first saw a purge, by its own clock: others' may be
	// wrong.
	seen map[string]time.Time
}

// NewPurger expects the tables to be there.
func NewPurger(db *bun.DB, posts Posts, facts Facts, rows Archive, log *slog.Logger, config PurgerConfig) *Purger {
	if config.Grace == 0 {
		config.Grace = 15 * time.Second
	}
	if config.Every == 0 {
		config.Every = 5 * time.Second
	}
	return &Purger{db: db, posts: posts, facts: facts, archive: rows, config: config, log: log, seen: map[string]time.Time{}}
}

// Run purges until ctx ends. What it was at is gone on with by the next process.
func (p *Purger) Run(ctx context.Context) error {
	tick := time.NewTicker(p.config.Every)
	defer tick.Stop()
	for {
		if err := p.Purge(ctx); err != nil && ctx.Err() == nil {
			p.log.WarnContext(ctx, "a user is not deleted yet, trying again", "in", p.config.Every, "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// purgeBatch is how many users, posts or reactions are read at once.
const purgeBatch = 200

// Purge goes once through all users that are due. One that fails holds up no
// other.
func (p *Purger) Purge(ctx context.Context) error {
	var rows []struct{ Hash, Sub string }
	err := p.db.NewRaw("SELECT hash, sub FROM user_purges ORDER BY requested_at, hash LIMIT ?", purgeBatch).Scan(ctx, &rows)
	if err != nil {
		return fmt.Errorf("read who is to be deleted: %w", err)
	}
	var failed []error
	for _, row := range rows {
		first, ok := p.seen[row.Hash]
		if !ok {
			p.seen[row.Hash] = time.Now()
			first = time.Now()
		}
		if time.Since(first) < p.config.Grace {
			continue
		}
		if err := p.purge(ctx, row.Hash, row.Sub); err != nil {
			failed = append(failed, err)
			continue
		}
		delete(p.seen, row.Hash)
		p.log.InfoContext(ctx, "a user was deleted", "hash", row.Hash)
	}
	return errors.Join(failed...)
}

func (p *Purger) purge(ctx context.Context, hash, sub string) error {
	if err := p.deletePosts(ctx, sub); err != nil {
		return err
	}
	var ordinal sql.NullInt64
	err := p.db.NewRaw("SELECT ordinal FROM users WHERE sub = ?", sub).Scan(ctx, &ordinal)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("look up the user: %w", err)
	}
	if ordinal.Valid {
		if err := p.withdraw(ctx, counter.Viewer(sub), counter.Ordinal(ordinal.Int64)); err != nil {
			return err
		}
	}
	// From here on, late events of theirs are passed over.
	if _, err := p.db.ExecContext(ctx, "UPDATE deleted_users SET purged = TRUE WHERE hash = ?", hash); err != nil {
		return fmt.Errorf("close the archive to the user: %w", err)
	}
	if ordinal.Valid {
		if err := p.archive.DeleteOrdinal(ctx, counter.Ordinal(ordinal.Int64)); err != nil {
			return err
		}
	}
	// The ordinal goes with the row and is never given again: the next one to give
	// is kept elsewhere.
	if _, err := p.db.ExecContext(ctx, "DELETE FROM users WHERE sub = ?", sub); err != nil {
		return fmt.Errorf("forget the user: %w", err)
	}
	if _, err := p.db.ExecContext(ctx, "DELETE FROM user_purges WHERE hash = ?", hash); err != nil {
		return fmt.Errorf("forget the purge: %w", err)
	}
	return nil
}

func (p *Purger) deletePosts(ctx context.Context, sub string) error {
	for {
		posts, err := p.posts.ByAuthor(ctx, sub, "", purgeBatch)
		if err != nil {
			return err
		}
		for _, post := range posts {
			if err := p.posts.Delete(ctx, sub, post.ID); err != nil && !errors.Is(err, feed.ErrNoPost) {
				return err
			}
		}
		if len(posts) < purgeBatch {
			return nil
		}
	}
}

// rounds bounds how often withdraw looks again. Once is enough where nothing
// comes late.
const rounds = 10

// withdraw takes back every like and fav, as the user could have: so counts and
// archive follow by themselves. The archive says which there are, once it has
// caught up.
func (p *Purger) withdraw(ctx context.Context, viewer counter.Viewer, ordinal counter.Ordinal) error {
	for range rounds {
		if err := p.config.CatchUp(ctx); err != nil {
			return fmt.Errorf("wait for the archive: %w", err)
		}
		found := 0
		for _, m := range []counter.Metric{counter.Like, counter.Fav} {
			n, err := p.withdrawAll(ctx, viewer, ordinal, m)
			if err != nil {
				return err
			}
			found += n
		}
		if found == 0 {
			return nil
		}
	}
	return errors.New("the user's reactions do not end")
}

func (p *Purger) withdrawAll(ctx context.Context, viewer counter.Viewer, ordinal counter.Ordinal, m counter.Metric) (found int, err error) {
	var after *archive.Mine
	for {
		rows, err := p.archive.All(ctx, ordinal, m, after, purgeBatch)
		if err != nil {
			return found, err
		}
		for _, row := range rows {
			outcome, err := p.facts.Set(ctx, viewer, row.Subject, m, false)
			switch {
			case errors.Is(err, counter.ErrGone): // a deleted post has taken its facts along
			case err != nil:
				return found, err
			case outcome.Changed:
				found++
			}
		}
		if len(rows) < purgeBatch {
			return found, nil
		}
		after = &rows[len(rows)-1]
	}
}
