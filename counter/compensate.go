package counter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
)

// Ledger is an Archive whose rows can be compared and mended.
type Ledger interface {
	Archive
	// Touched is Subjects with a version above the given one.
	Touched(ctx context.Context, tag Tag, above Version, after string, n int) ([]Totals, error)
	// Counts returns what is known of subjects.
	Counts(ctx context.Context, subjects []Subject) (map[Subject]Totals, error)
	// Chunks returns in which chunks of ordinals there are rows.
	Chunks(ctx context.Context, s Subject, m Metric) ([]uint32, error)
	// Rows returns all rows, set or not, from one ordinal to another.
	Rows(ctx context.Context, s Subject, m Metric, from, to Ordinal) ([]Reaction, error)
	// Mend writes rows over those that are not newer.
	Mend(ctx context.Context, rows []Reaction) error
	// MendCounts does so with counts.
	MendCounts(ctx context.Context, totals Totals) error
	// Marks returns how far the last compensation has looked.
	Marks(ctx context.Context) (map[Tag]Version, error)
	// SetMark says how far this one has.
	SetMark(ctx context.Context, tag Tag, version Version) error
}

// Compensator compares archive and facts, and mends what differs: what Redis has
// lost goes back into the facts, all else is mended from the facts. Any number
// may run; they do the same.
type Compensator struct {
	redis  *Redis
	ledger Ledger
	source SubjectSource
	tail   *Tail
	log    *slog.Logger
}

// NewCompensator compares ledger with the facts. source lists what can be liked;
// tail puts back.
func NewCompensator(r *Redis, ledger Ledger, source SubjectSource, tail *Tail, log *slog.Logger) *Compensator {
	return &Compensator{redis: r, ledger: ledger, source: source, tail: tail, log: log}
}

// CompensateOptions says what a compensation does.
type CompensateOptions struct {
	// All compares every subject there is; else those touched since the last run.
	All bool
	// DryRun only counts what would be done.
	DryRun bool
}

// Compensation is what one has found.
type Compensation struct {
	Subjects     int `json:"subjects"`
	Facts        int `json:"facts"`
	PutBack      int `json:"putBack"`
	Mended       int `json:"mended"`
	CountsMended int `json:"countsMended"`
}

// compensateBatch is how many subjects share a catching up.
const compensateBatch = 200

// Compensate compares once. Its memory is bounded by a chunk of 32,768 viewers,
// whatever the size of a subject or of the whole. Also after an error the report
// says what was done.
func (c *Compensator) Compensate(ctx context.Context, options CompensateOptions) (Compensation, error) {
	run := compensating{Compensator: c, options: options}
	if err := run.all(ctx); err != nil {
		return run.report, fmt.Errorf("compensate: %w", err)
	}
	return run.report, nil
}

type compensating struct {
	*Compensator
	options CompensateOptions
	report  Compensation
}

func (c *compensating) all(ctx context.Context) error {
	// What is archived by now is compared, and what comes later next time.
	if err := c.tail.bringUp(ctx, allTags()); err != nil {
		return err
	}
	upTo, err := c.ledger.TagVersions(ctx)
	if err != nil {
		return err
	}
	marks, err := c.ledger.Marks(ctx)
	if err != nil {
		return err
	}
	for _, tag := range allTags() {
		if err := c.tag(ctx, tag, marks[tag]); err != nil {
			return fmt.Errorf("part %s: %w", tag, err)
		}
		if c.options.DryRun || upTo[tag] <= marks[tag] {
			continue
		}
		if err := c.ledger.SetMark(ctx, tag, upTo[tag]); err != nil {
			return err
		}
	}
	if c.options.All {
		return c.unknown(ctx)
	}
	return nil
}

func (c *compensating) tag(ctx context.Context, tag Tag, mark Version) error {
	if c.options.All {
		mark = 0
	}
	after := ""
	for {
		page, err := c.ledger.Touched(ctx, tag, mark, after, compensateBatch)
		if err != nil || len(page) == 0 {
			return err
		}
		subjects := make([]Subject, len(page))
		for i, totals := range page {
			subjects[i] = totals.Subject
		}
		after = page[len(page)-1].Subject.String()
		if err := c.subjects(ctx, subjects); err != nil {
			return err
		}
	}
}

// unknown compares the subjects that the archive knows nothing of.
func (c *compensating) unknown(ctx context.Context) error {
	after := ""
	for {
		page, err := c.source.After(ctx, after, compensateBatch)
		if err != nil || len(page) == 0 {
			return err
		}
		after = page[len(page)-1].String()
		known, err := c.ledger.Counts(ctx, page)
		if err != nil {
			return err
		}
		var subjects []Subject
		for _, s := range page {
			if _, ok := known[s]; !ok {
				subjects = append(subjects, s)
			}
		}
		if err := c.subjects(ctx, subjects); err != nil {
			return err
		}
	}
}

// subjects compares some subjects; what differs is looked at again when the
// archive has caught up with the facts that were read.
func (c *compensating) subjects(ctx context.Context, subjects []Subject) error {
	var suspects []suspicion
	lost := map[Tag]Version{}
	for _, s := range subjects {
		found, err := c.compare(ctx, s, lost)
		switch {
		case errors.Is(err, ErrGone):
			continue
		case err != nil:
			return fmt.Errorf("compare %s: %w", s, err)
		}
		c.report.Subjects++
		suspects = append(suspects, found...)
	}
	if len(suspects) > 0 {
		if err := c.tail.bringUp(ctx, tagsOf(subjects)); err != nil {
			return err
		}
	}
	for _, suspect := range suspects {
		if err := c.again(ctx, suspect); err != nil {
			return fmt.Errorf("mend %s: %w", suspect.subject, err)
		}
	}
	for tag, floor := range lost {
		if c.options.DryRun {
			continue
		}
		n, err := c.tail.putBack(ctx, []Tag{tag}, map[Tag]Version{tag: floor})
		c.report.PutBack += n
		if err != nil {
			return fmt.Errorf("put back: %w", err)
		}
	}
	return nil
}
