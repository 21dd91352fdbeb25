package counter

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"golang.org/x/sync/errgroup"
)

// LiveChange is what a subject's counts have become, exactly and as of Version.
type LiveChange struct {
	Subject Subject
	Counts  Counts
	// Deleted says that the subject is no more; then there are no counts.
	Deleted bool
}

// Live tells listeners of changes as they happen. One Live reads the topic for a
// whole process, however many listen; it joins no group, since every process
// must see all of it, and begins where the topic ends.
type Live struct {
	kafka KafkaConfig
	log   *slog.Logger

	mu        sync.Mutex
	listeners map[Subject]map[*Listener]struct{}
	dirty     map[Subject]LiveChange // newest, not passed on yet
	passed    map[Subject]passed     // what was passed on last
	woken     chan struct{}
}

// passed is what listeners of a subject have heard last, and when.
type passed struct {
	version Version
	at      time.Time
}

const (
	// liveEvery is how often at most a listener hears of one subject.
	liveEvery = 250 * time.Millisecond
	// livePause is what a partition that can't be read is left alone for.
	livePause = time.Second
	// liveLook is how often new partitions are looked for.
	liveLook = 30 * time.Second
)

// NewLive reads nothing before Run does.
func NewLive(config KafkaConfig, log *slog.Logger) *Live {
	return &Live{
		kafka: config, log: log, woken: make(chan struct{}, 1),
		listeners: map[Subject]map[*Listener]struct{}{}, dirty: map[Subject]LiveChange{}, passed: map[Subject]passed{},
	}
}

// Listener hears of some subjects. What it does not take in time is replaced by
// what is newer, so a slow one holds no more than a value for each subject.
type Listener struct {
	live     *Live
	subjects []Subject
	changed  chan struct{}

	mu      sync.Mutex
	pending map[Subject]LiveChange
}

// Listen begins to tell a Listener of subjects. It must be closed.
func (l *Live) Listen(subjects []Subject) *Listener {
	listener := &Listener{live: l, subjects: subjects, changed: make(chan struct{}, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range subjects {
		if l.listeners[s] == nil {
			l.listeners[s] = map[*Listener]struct{}{}
		}
		l.listeners[s][listener] = struct{}{}
	}
	return listener
}

// Close ends it. A second call does nothing.
func (l *Listener) Close() {
	l.live.mu.Lock()
	defer l.live.mu.Unlock()
	for _, s := range l.subjects {
		delete(l.live.listeners[s], l)
		if len(l.live.listeners[s]) == 0 {
			delete(l.live.listeners, s)
			delete(l.live.passed, s)
		}
	}
}

// Changed receives when there is something to take.
func (l *Listener) Changed() <-chan struct{} { return l.changed }

// Take returns the newest change of each subject since the last call.
func (l *Listener) Take() []LiveChange {
	l.mu.Lock()
	defer l.mu.Unlock()
	changes := make([]LiveChange, 0, len(l.pending))
	for _, change := range l.pending {
		changes = append(changes, change)
	}
	l.pending = nil
	return changes
}

func (l *Listener) tell(change LiveChange) {
	l.mu.Lock()
	if l.pending == nil {
		l.pending = make(map[Subject]LiveChange, 1)
	}
	l.pending[change.Subject] = change
	l.mu.Unlock()
	select {
	case l.changed <- struct{}{}:
	default: // it has not taken the last one yet
	}
}

// Listening is how many subjects somebody listens to.
func (l *Live) Listening() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.listeners)
}

// see takes an event that a listener waits for.
func (l *Live) see(record []byte) {
	if l.Listening() == 0 {
		return
	}
	event, subject, err := DecodeEvent(record)
	if err != nil {
		return // the aggregator's to report
	}
	version, _ := ParseVersion(event.Version) // DecodeEvent has checked it
	change := LiveChange{Subject: subject, Deleted: event.Deleted, Counts: Counts{
		Like: saturate(event.Like), Fav: saturate(event.Fav), Version: version,
	}}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listeners[subject] == nil || max(l.dirty[subject].Counts.Version, l.passed[subject].version) >= version {
		return // what is sent again, or late, is older than what was heard
	}
	l.dirty[subject] = change
	select {
	case l.woken <- struct{}{}:
	default:
	}
}

// pass tells listeners of what is due, and returns how long until more is; 0 when
// nothing waits.
func (l *Live) pass(now time.Time) (next time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s, change := range l.dirty {
		if wait := l.passed[s].at.Add(liveEvery).Sub(now); wait > 0 {
			if next == 0 || wait < next {
				next = wait
			}
			continue
		}
		delete(l.dirty, s)
		if len(l.listeners[s]) == 0 {
			continue
		}
		l.passed[s] = passed{version: change.Counts.Version, at: now}
		for listener := range l.listeners[s] {
			listener.tell(change)
		}
	}
	return next
}

// Run reads the topic until ctx ends. While Kafka is away nobody hears anything;
// then it goes on where it was.
func (l *Live) Run(ctx context.Context) error {
	var readers errgroup.Group
	readers.Go(func() error { l.passAll(ctx); return nil })
	client, done := l.kafka.client() // one for all: each has connections and goroutines of its own
	defer done()
	known := map[int]bool{}
	for ctx.Err() == nil {
		spans, err := l.kafka.ends(ctx, client)
		if err != nil {
			if ctx.Err() == nil {
				l.log.WarnContext(ctx, "live counts stand still, trying again", "err", err)
			}
			wait(ctx, livePause)
			continue
		}
		for partition, end := range spans {
			if !known[partition] {
				known[partition] = true
				readers.Go(func() error { l.read(ctx, client, partition, end); return nil })
			}
		}
		wait(ctx, liveLook)
	}
	return readers.Wait()
}

func (l *Live) passAll(ctx context.Context) {
	for {
		var due <-chan time.Time
		if next := l.pass(time.Now()); next > 0 {
			due = time.After(next)
		}
		select {
		case <-ctx.Done():
			return
		case <-due:
		case <-l.woken:
		}
	}
}

func (l *Live) read(ctx context.Context, client *kafka.Client, partition int, at int64) {
	see := func(record []byte) error { l.see(record); return nil }
	for ctx.Err() == nil {
		next, err := l.kafka.fetch(ctx, client, partition, at, see)
		at = next
		if err == nil || ctx.Err() != nil {
			continue
		}
		l.log.WarnContext(ctx, "live counts stand still, trying again", "partition", partition, "err", err)
		wait(ctx, livePause)
		if errors.Is(err, kafka.OffsetOutOfRange) { // retention has passed it, or the topic was made anew
			if ends, err := l.kafka.ends(ctx, client); err == nil {
				at = ends[partition]
			}
		}
	}
}
