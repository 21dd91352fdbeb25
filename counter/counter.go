// Package counter keeps who likes what and how many do. It owns every counting
// key in Redis and the topic that carries changes.
//
//	Facts       one viewer's like or fav of one subject: the truth (facts.go)
//	Publisher   takes what Facts changed to Kafka (publish.go); what a dead
//	            process left in the outbox, Sweeper sends (sweep.go)
//	Aggregator  gathers changed subjects from Kafka and folds them (aggregate.go)
//	Restorer    writes the facts of an emptied Redis from the archive (restore.go);
//	            Tail puts back what Redis lost last (tail.go), Compensator
//	            compares all (compensate.go)
//	Reader      the counts of a page, and what its viewer did (read.go, viewer.go)
//
// Counts are copied from the facts and never added up, so a duplicate, a
// replay or a late event can't corrupt one.
package counter

import (
	"errors"
	"fmt"
)

var (
	// ErrGone says that the subject was deleted.
	ErrGone = errors.New("subject was deleted")
	// ErrNoEpoch says that this Redis is not known to hold all facts: it was
	// emptied, and nothing has restored it. See Epoch.
	ErrNoEpoch = errors.New("this Redis is not known to hold all facts")
	// ErrOverloaded says that the outbox or Redis's memory is at its limit. The
	// fact was not changed.
	ErrOverloaded = errors.New("too many changes wait for Kafka")
)

// MalformedError says that the value of a key is not what it must be. Nothing
// was changed; a deep recount of the subject mends it.
type MalformedError struct{ Key string }

func (e *MalformedError) Error() string { return fmt.Sprintf("malformed value in %s", e.Key) }
