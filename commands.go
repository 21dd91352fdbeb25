package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/uptrace/bun"

	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/feed"
)

type importCommand struct {
	stores `embed:""`

	File string `arg:"" help:"JSONL, a post a line: id, author, title, body, publishedAt, and visibility and authorName if wanted. - is the standard input."`
}

// Run is called by kong.
func (c *importCommand) Run(e *environment) error {
	input := e.in
	if c.File != "-" {
		file, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		input = file
	}
	return c.withDatabase(e, func(db *bun.DB) error { return importPosts(e, db, input) })
}

func importPosts(e *environment, db *bun.DB, input io.Reader) error {
	report, err := feed.New(db, feed.Config{}).Import(e.ctx, input)
	var said strings.Builder
	for _, line := range report.Errors {
		fmt.Fprintln(&said, line)
	}
	if more := report.Bad - len(report.Errors); more > 0 {
		fmt.Fprintf(&said, "and %d more bad lines\n", more)
	}
	_, sayErr := io.WriteString(e.logs, said.String())
	_, writeErr := fmt.Fprintf(e.out, "%d added, %d there already, %d bad\n", report.Added, report.Unchanged, report.Bad)
	if err = errors.Join(err, sayErr, writeErr); err != nil {
		return err
	}
	if report.Bad > 0 {
		err = fmt.Errorf("%d lines were not imported", report.Bad)
	}
	return err
}

type epochCommand struct {
	redisFlags `embed:""`
}

// Run is called by kong.
func (c *epochCommand) Run(e *environment) (err error) {
	redis, err := c.open(e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, redis.Close()) }()
	status, err := redis.Epoch(e.ctx)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(e.out, "%d of %d parts are known to hold all facts\n", status.Present, status.Tags); err != nil {
		return err
	}
	if !status.Complete() {
		return counter.ErrNoEpoch
	}
	return nil
}
