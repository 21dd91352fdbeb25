package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/uptrace/bun"

	"github.com/tallyfeed/tallyfeed/archive"
	"github.com/tallyfeed/tallyfeed/database"
	"github.com/tallyfeed/tallyfeed/feed"
	"github.com/tallyfeed/tallyfeed/leaving"
)

type deleteUserCommand struct {
	stores `embed:""`

	Sub string `required:"" help:"The user's sub, as tokens have it." placeholder:"SUB"`
	Yes bool   `help:"Do it. Without this flag it only says what would be deleted."`
}

// Run is called by kong.
func (c *deleteUserCommand) Run(e *environment) error {
	return c.withDatabase(e, func(db *bun.DB) error {
		posts := feed.New(db, feed.Config{})
		if !c.Yes {
			lines := &lineCounter{}
			if err := leaving.Export(e.ctx, db, posts, archive.NewStore(db), c.Sub, lines); err != nil {
				return err
			}
			_, err := fmt.Fprintf(e.out, "the user, and %d posts, likes and favs, would be deleted for good: say --yes\n", lines.n-1)
			return err
		}
		if err := leaving.New(db, e.logger()).Leave(e.ctx, c.Sub); err != nil {
			return err
		}
		_, err := fmt.Fprintln(e.out, "deleted: no token of theirs is taken from now on; a server with the role archive removes what is left within some minutes")
		return err
	})
}

type lineCounter struct{ n int }

// Write is part of io.Writer: an export writes a line at a time.
func (c *lineCounter) Write(p []byte) (int, error) {
	c.n++
	return len(p), nil
}

type exportCommand struct {
	stores `embed:""`

	Sub string `required:"" help:"The user's sub, as tokens have it." placeholder:"SUB"`
}

// Run is called by kong.
func (c *exportCommand) Run(e *environment) error {
	return c.withDatabase(e, func(db *bun.DB) error {
		return leaving.Export(e.ctx, db, feed.New(db, feed.Config{}), archive.NewStore(db), c.Sub, e.out)
	})
}

// withDatabase opens the database, brings it up to date, and closes it behind f.
func (s *stores) withDatabase(e *environment, f func(*bun.DB) error) (err error) {
	if err := s.resolve(); err != nil {
		return err
	}
	if s.Database == "" {
		if err := os.MkdirAll(s.Data, 0o700); err != nil {
			return err
		}
	}
	db, err := database.Open(e.ctx, s.address())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := database.Migrate(e.ctx, db); err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	return f(db)
}
