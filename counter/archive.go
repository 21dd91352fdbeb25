package counter

import "context"

// Totals are counts as the archive knows them.
type Totals struct {
	Subject   Subject
	Like, Fav int64
	// Version is the change that left them.
	Version Version
}

// Counts is what a page shows of it.
func (t Totals) Counts() Counts {
	return Counts{Like: saturate(t.Like), Fav: saturate(t.Fav), Version: t.Version}
}

// Reaction is one viewer's like or fav of one subject, as the archive knows it.
type Reaction struct {
	Subject Subject
	Metric  Metric
	Ordinal Ordinal
	Active  bool
	Version Version
	// Viewer is told by Since only.
	Viewer Viewer
}

// Archive is the second copy of the facts, as a restore needs it. Package
// archive has one.
type Archive interface {
	// Apply takes events, however often and in any order. It returns by their
	// places those that can't be taken.
	Apply(ctx context.Context, events []Event) (map[int]error, error)
	// TagVersions returns the highest version ever seen of each tag.
	TagVersions(ctx context.Context) (map[Tag]Version, error)
	// Subjects returns up to n subjects of a tag behind the given one, in the
	// order of their names; from the start for "".
	Subjects(ctx context.Context, tag Tag, after string, n int) ([]Totals, error)
	// Active calls see with every fact of subjects that is set, in the order of
	// subject, metric and ordinal, and stops at its first error.
	Active(ctx context.Context, subjects []Subject, see func(Reaction) error) error
	// Since calls see with every row of a tag, set or not, whose version is above
	// the given one and whose viewer is known, and stops at its first error.
	Since(ctx context.Context, tag Tag, above Version, see func(Reaction) error) error
}
