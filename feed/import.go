package feed

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect"
)

const (
	maxLine       = 1 << 20 // bytes
	maxLineErrors = 100

	// A batch is one transaction. It ends by number or by size, so that neither
	// many short posts nor long ones make a statement that is hard to swallow.
	importBatch      = 500
	importBatchBytes = 2 << 20

	// importLock is the key of PostgreSQL's advisory lock that lets one batch in
	// at a time. Any number does that nobody else uses in this database.
	importLock = 7_255_913_002
)

// ImportReport says what became of each line. Blank lines don't count.
type ImportReport struct {
	Added     int // new posts
	Unchanged int // posts whose id was there already
	Bad       int // lines that were refused
	Errors    []LineError
}

// LineError is a line that was refused. A report keeps the first 100.
type LineError struct {
	Line   int // from 1
	Reason string
}

func (e LineError) String() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

// Import adds posts from r, one JSON object a line:
//
//	{"id":"10001","author":"alice","authorName":"Alice Example","title":"…","body":"…","publishedAt":"2026-11-02T08:15:00Z","visibility":"PUBLIC"}
//
// authorName and visibility may be left out; an author who has a name keeps it.
// A line that can't be taken is reported and the rest goes in. So is the id of a
// deleted post, which never comes back. An id that is there already stays as it
// is, so a second run changes nothing, nor undoes what the author has edited.
//
// The error is one of r or of the store; the report then says how far it came,
// and another run takes up from there.
func (f *Feed) Import(ctx context.Context, r io.Reader) (report ImportReport, err error) {
	defer func() {
		// A line of a deleted post is found out later than one that can't be read.
		slices.SortFunc(report.Errors, func(a, b LineError) int { return a.Line - b.Line })
		// The loads that are under way may have missed a batch.
		f.changed()
		f.posts.cache.InvalidateAll()
		f.authors.cache.InvalidateAll()
	}()

	var (
		batch []importLine
		size  int
	)
	lines := lineReader{r: bufio.NewReaderSize(r, 64<<10)}
	for {
		text, err := lines.next()
		if err != nil && !errors.Is(err, errLineTooLong) {
			if flushErr := f.importBatch(ctx, batch, &report); flushErr != nil {
				return report, flushErr
			}
			if errors.Is(err, io.EOF) {
				return report, nil
			}
			return report, fmt.Errorf("read line %d: %w", lines.number, err)
		}
		if err == nil && len(text) == 0 {
			continue
		}
		var line importLine
		if err == nil {
			line, err = parseLine(text)
		}
		if err != nil {
			report.refuse(lines.number, err.Error())
			continue
		}
		line.number = lines.number
		batch = append(batch, line)
		size += len(text)
		if len(batch) == importBatch || size >= importBatchBytes {
			if err := f.importBatch(ctx, batch, &report); err != nil {
				return report, err
			}
			batch, size = batch[:0], 0
		}
	}
}

func (r *ImportReport) refuse(line int, reason string) {
	r.Bad++
	if len(r.Errors) < maxLineErrors {
		r.Errors = append(r.Errors, LineError{Line: line, Reason: reason})
	}
}

// importBatch puts lines in and adds what became of them to report, unless it
// fails.
func (f *Feed) importBatch(ctx context.Context, lines []importLine, report *ImportReport) error {
	if len(lines) == 0 {
		return nil
	}
	result := *report
	result.Errors = slices.Clone(report.Errors)
	err := f.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		fresh, err := sortOut(ctx, tx, lines, &result)
		if err != nil || len(fresh) == 0 {
			return err
		}
		return insertLines(ctx, tx, fresh)
	})
	if err != nil {
		return fmt.Errorf("import lines %d to %d: %w", lines[0].number, lines[len(lines)-1].number, err)
	}
	*report = result
	return nil
}

// sortOut returns the lines whose posts are new and adds the others to report.
func sortOut(ctx context.Context, tx bun.Tx, lines []importLine, report *ImportReport) ([]importLine, error) {
	// With the lock nobody else gives ids of his own choice, and then the order
	// of the two questions leaves no gap: a post that was not there when the
	// first was asked can't have been deleted by the time of the second. SQLite's
	// transactions take turns anyway.
	if tx.Dialect().Name() == dialect.PG {
		if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock(?)", importLock); err != nil {
			return nil, fmt.Errorf("take the lock: %w", err)
		}
	}
	ids := make([]string, len(lines))
	for i, line := range lines {
		ids[i] = line.ID
	}
	there, err := whichOf(ctx, tx, "SELECT id FROM posts WHERE id IN (?)", ids)
	if err != nil {
		return nil, fmt.Errorf("look for posts: %w", err)
	}
	gone, err := whichOf(ctx, tx, "SELECT id FROM deleted_posts WHERE id IN (?)", ids)
	if err != nil {
		return nil, fmt.Errorf("look for tombstones: %w", err)
	}

	fresh := make([]importLine, 0, len(lines))
	for _, line := range lines {
		switch {
		case gone[line.ID]:
			report.refuse(line.number, fmt.Sprintf("id %s was deleted and can't come back", line.ID))
		case there[line.ID]:
			report.Unchanged++
		default:
			there[line.ID] = true // for the next line of the same id
			report.Added++
			fresh = append(fresh, line)
		}
	}
	return fresh, nil
}

func whichOf(ctx context.Context, tx bun.Tx, query string, ids []string) (map[string]bool, error) {
	var found []string
	if err := tx.NewRaw(query, bun.List(ids)).Scan(ctx, &found); err != nil {
		return nil, err
	}
	set := make(map[string]bool, len(found))
	for _, id := range found {
		set[id] = true
	}
	return set, nil
}

func insertLines(ctx context.Context, tx bun.Tx, lines []importLine) error {
	type user struct {
		bun.BaseModel `bun:"table:users"`

		Sub  string `bun:"sub,pk"`
		Name string `bun:"name"`
	}
	names := make(map[string]string)
	rows := make([]postRow, len(lines))
	for i, line := range lines {
		if names[line.Author] == "" {
			names[line.Author] = line.AuthorName
		}
		rows[i] = line.row()
	}
	users := make([]user, 0, len(names))
	for sub, name := range names {
		users = append(users, user{Sub: sub, Name: name})
	}
	// All who write several users do so in one order, or two could each wait for
	// the other.
	slices.SortFunc(users, func(a, b user) int { return strings.Compare(a.Sub, b.Sub) })

	_, err := tx.NewInsert().Model(&users).
		On("CONFLICT (sub) DO UPDATE").Set("name = excluded.name").
		Where(`"user"."name" = '' AND excluded.name <> ''`).
		Exec(ctx)
	if err != nil {
		return fmt.Errorf("add %d authors: %w", len(users), err)
	}
	if _, err := tx.NewInsert().Model(&rows).Exec(ctx); err != nil {
		return fmt.Errorf("add %d posts: %w", len(rows), err)
	}
	return nil
}
