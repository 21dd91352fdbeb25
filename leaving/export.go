package leaving

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallyfeed/tallyfeed/archive"
	"github.com/tallyfeed/tallyfeed/counter"
)

// ErrUnknown says that there is nothing of a user.
var ErrUnknown = errors.New("nothing is known of this user")

// line is one of an export; what it is says type.
type line struct {
	Type        string     `json:"type"` // user, post, like, fav
	Sub         string     `json:"sub,omitempty"`
	Name        string     `json:"name,omitempty"`
	ID          string     `json:"id,omitempty"` // of a post, or of what is liked
	Title       string     `json:"title,omitempty"`
	Body        *string    `json:"body,omitempty"`
	PublishedAt *time.Time `json:"publishedAt,omitempty"`
	Visibility  string     `json:"visibility,omitempty"`
	At          *time.Time `json:"at,omitempty"`
}

// Export writes all that is kept of a user as JSONL: a line for the user, one for
// each post, and one for each like and fav, as far as the archive knows them
// (some seconds back). It needs no more memory for more lines. ErrUnknown where
// there is nothing.
func Export(ctx context.Context, db *bun.DB, posts Posts, rows Archive, sub string, w io.Writer) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	var user struct {
		Name    string
		Ordinal sql.NullInt64
	}
	err := db.NewRaw("SELECT name, ordinal FROM users WHERE sub = ?", sub).Scan(ctx, &user)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrUnknown
	}
	if err != nil {
		return fmt.Errorf("read the user: %w", err)
	}
	if err := out.Encode(line{Type: "user", Sub: sub, Name: user.Name}); err != nil {
		return err
	}
	if err := exportPosts(ctx, posts, sub, out); err != nil {
		return err
	}
	if !user.Ordinal.Valid {
		return nil
	}
	for _, m := range []counter.Metric{counter.Like, counter.Fav} {
		if err := exportReactions(ctx, rows, counter.Ordinal(user.Ordinal.Int64), m, out); err != nil {
			return err
		}
	}
	return nil
}

func exportPosts(ctx context.Context, posts Posts, sub string, out *json.Encoder) error {
	after := ""
	for {
		page, err := posts.ByAuthor(ctx, sub, after, purgeBatch)
		if err != nil {
			return err
		}
		for _, post := range page {
			after = post.ID
			err := out.Encode(line{
				Type: "post", ID: counter.TypePost + ":" + post.ID, Title: post.Title, Body: &post.Body,
				PublishedAt: &post.PublishedAt, Visibility: string(post.Visibility),
			})
			if err != nil {
				return err
			}
		}
		if len(page) < purgeBatch {
			return nil
		}
	}
}

func exportReactions(ctx context.Context, rows Archive, ordinal counter.Ordinal, m counter.Metric, out *json.Encoder) error {
	var after *archive.Mine
	for {
		page, err := rows.All(ctx, ordinal, m, after, purgeBatch)
		if err != nil {
			return err
		}
		for _, row := range page {
			at := row.Version.Time()
			if err := out.Encode(line{Type: m.String(), ID: row.Subject.String(), At: &at}); err != nil {
				return err
			}
		}
		if len(page) < purgeBatch {
			return nil
		}
		after = &page[len(page)-1]
	}
}
