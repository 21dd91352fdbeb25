package feed

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/uptrace/bun"
)

// Publish adds a post by author and returns it. A name that the author has
// brought replaces the one kept; "" leaves that. Calling it twice publishes two
// posts. A draft or author that can't be taken is an *InvalidError.
func (f *Feed) Publish(ctx context.Context, author Author, draft Draft) (*Post, error) {
	if draft.Visibility == "" {
		draft.Visibility = Public
	}
	if err := author.check(); err != nil {
		return nil, err
	}
	if err := draft.check(); err != nil {
		return nil, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("make an id: %w", err)
	}
	row := &postRow{
		ID:          id.String(),
		AuthorSub:   author.Sub,
		Title:       draft.Title,
		Body:        draft.Body,
		PublishedAt: f.config.Now().UnixMicro(),
		Visibility:  draft.Visibility,
	}

	// On every path: a commit whose answer was lost may have happened.
	defer func() {
		f.authors.cache.Invalidate(author.Sub)
		f.changed(row.ID)
	}()
	err = f.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		const upsert = `INSERT INTO users (sub, name) VALUES (?, ?) ON CONFLICT (sub) DO UPDATE
			SET name = CASE WHEN excluded.name <> '' THEN excluded.name ELSE users.name END RETURNING name`
		if err := tx.NewRaw(upsert, author.Sub, author.Name).Scan(ctx, &row.AuthorName); err != nil {
			return fmt.Errorf("keep the author: %w", err)
		}
		_, err := tx.NewInsert().Model(row).Exec(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("publish post %s: %w", row.ID, err)
	}
	return row.post(), nil
}

// Update changes what changes names of the post id and returns it as it is then.
// Only its author may: ErrForbidden for who can only read it, ErrNoPost for who
// can't. Values that can't be taken are an *InvalidError. Repeating it is safe.
func (f *Feed) Update(ctx context.Context, sub, id string, changes Changes) (*Post, error) {
	if !ValidID(id) || !validSub(sub) {
		return nil, ErrNoPost
	}
	if err := changes.check(); err != nil {
		return nil, err
	}

	query := f.db.NewUpdate().Model((*postRow)(nil)).Where("id = ? AND author_sub = ?", id, sub)
	some := false
	if changes.Title != nil {
		query, some = query.Set("title = ?", *changes.Title), true
	}
	if changes.Body != nil {
		query, some = query.Set("body = ?", *changes.Body), true
	}
	if changes.Visibility != nil {
		query, some = query.Set("visibility = ?", *changes.Visibility), true
	}
	if some {
		// On every path: a commit whose answer was lost may have happened.
		defer f.changed(id)
		if _, err := query.Exec(ctx); err != nil {
			return nil, fmt.Errorf("update post %s: %w", id, err)
		}
	}
	return f.ofAuthor(ctx, f.db, sub, id)
}

// ofAuthor reads a post past the cache for its author to change.
func (f *Feed) ofAuthor(ctx context.Context, db bun.IDB, sub, id string) (*Post, error) {
	var row postRow
	err := selectPosts(db, &row).Where("p.id = ?", id).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrNoPost
	}
	if err != nil {
		return nil, fmt.Errorf("read post %s: %w", id, err)
	}
	post := row.post()
	switch {
	case !post.VisibleTo(sub):
		return nil, ErrNoPost
	case post.Author.Sub != sub:
		return nil, ErrForbidden
	}
	return post, nil
}

// Delete removes the post id for good. Only its author may, with the errors of
// Update; a second call is ErrNoPost. Once the post is gone from the store and
// its tombstone stands, what was counted about it is deleted too. A failure of
// that is logged and not returned: the post is gone, and RunPurges goes on.
func (f *Feed) Delete(ctx context.Context, sub, id string) error {
	if !ValidID(id) || !validSub(sub) {
		return ErrNoPost
	}
	if err := f.bury(ctx, sub, id); err != nil {
		return err
	}
	if f.config.Subjects != nil {
		if err := f.purge(ctx, id); err != nil {
			f.config.Log.WarnContext(ctx, "purge left for later", "post", id, "err", err)
		}
	}
	return nil
}

// bury replaces a post by its tombstone and a pending purge, in one transaction.
func (f *Feed) bury(ctx context.Context, sub, id string) error {
	// On every path: a commit whose answer was lost may have happened.
	defer f.changed(id)
	now := f.config.Now().UnixMicro()
	return f.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		result, err := tx.ExecContext(ctx, "DELETE FROM posts WHERE id = ? AND author_sub = ?", id, sub)
		if err != nil {
			return fmt.Errorf("delete post %s: %w", id, err)
		}
		n, err := result.RowsAffected()
		if err != nil {
			return fmt.Errorf("delete post %s: %w", id, err)
		}
		if n == 0 {
			if _, err := f.ofAuthor(ctx, tx, sub, id); err != nil {
				return err
			}
			return ErrNoPost
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO deleted_posts (id, deleted_at) VALUES (?, ?)", id, now); err != nil {
			return fmt.Errorf("set the tombstone of post %s: %w", id, err)
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO purges (subject, requested_at) VALUES (?, ?)", subjectPrefix+id, now)
		if err != nil {
			return fmt.Errorf("ask for the purge of post %s: %w", id, err)
		}
		return nil
	})
}
