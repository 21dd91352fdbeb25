package counter

import (
	"context"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/redis/go-redis/v9"
)

// ViewerState is what one viewer did with one subject.
type ViewerState struct {
	Liked, Faved bool
	// Known is false when Redis did not tell; then the flags mean nothing.
	Known bool
	// own are the counts after the viewer's last change, if that was not long ago.
	own Counts
}

// Over lays the viewer's own change over counts that every viewer shares:
// whoever has just liked must not see the count from before it, nor a lit heart
// beside a zero.
func (v ViewerState) Over(counts Counts) Counts {
	if v.own.Version > counts.Version {
		counts = v.own
	}
	return v.AtLeast(counts)
}

// AtLeast makes counts hold what the viewer's flags say, for counts that were
// read a moment before the flags.
func (v ViewerState) AtLeast(counts Counts) Counts {
	if v.Known && v.Liked {
		counts.Like = max(counts.Like, 1)
	}
	if v.Known && v.Faved {
		counts.Fav = max(counts.Fav, 1)
	}
	return counts
}

// Viewer reads what viewer did with subjects, in their order, in one pipeline
// (one more at the viewer's first like through another server). What can't be
// read is not Known, and the first error says why. No SQL once the viewer's
// ordinal, or the lack of one, is cached.
func (r *Reader) Viewer(ctx context.Context, viewer Viewer, subjects []Subject) ([]ViewerState, error) {
	ordinal, has, err := r.ordinals.Lookup(ctx, viewer)
	if err != nil {
		return make([]ViewerState, len(subjects)), err
	}
	ctx, cancel := context.WithTimeout(ctx, r.config.Timeout)
	defer cancel()

	page := newMembership(r, ordinal, subjects)
	pipe := r.redis.reads.Pipeline()
	fields := make([]string, 0, len(subjects)+1)
	for _, s := range subjects {
		fields = append(fields, s.String())
	}
	mine := pipe.HMGet(ctx, mineKey(viewer), append(fields, ordinalField)...)
	if has {
		page.ask(ctx, pipe, true)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error

	if !has {
		values, err := mine.Result()
		if err != nil {
			return page.states, err
		}
		if page.ordinal, has = parseOrdinal(values[len(values)-1]); !has {
			for i := range page.states {
				page.states[i].Known = true // without an ordinal there are no facts
			}
			return page.states, nil
		}
		r.ordinals.Learn(viewer, page.ordinal)
		page.ask(ctx, pipe, false)
		_, _ = pipe.Exec(ctx)
	}
	err = page.read()
	if page.stale() {
		page.ask(ctx, pipe, false)
		_, _ = pipe.Exec(ctx)
		err = page.read()
	}
	page.lay(mine)
	return page.states, err
}

// membership asks which facts of one viewer are set.
type membership struct {
	reader   *Reader
	ordinal  Ordinal
	subjects []Subject
	states   []ViewerState
	// asked holds the commands of one subject and metric, smallest container
	// first; those left out are nil.
	asked    [][metrics]containers
	epochs   map[Tag]*redis.StringCmd
	connects uint64
}

type containers struct {
	few, chunkFew *redis.BoolCmd
	bitmap        *redis.IntCmd
	seen          sighting // why the small ones were left out
}

func newMembership(r *Reader, ordinal Ordinal, subjects []Subject) *membership {
	return &membership{
		reader: r, ordinal: ordinal, subjects: subjects,
		states: make([]ViewerState, len(subjects)),
		asked:  make([][metrics]containers, len(subjects)),
	}
}

// ask queues the commands. The order few, chunk set, bitmap matters: a fact
// moves only that way, so the other order could miss it in both. The epochs
// come last: if one is there after the reads, it was there during them.
func (p *membership) ask(ctx context.Context, pipe redis.Pipeliner, trust bool) {
	p.connects = p.reader.redis.connects.Load()
	p.epochs = make(map[Tag]*redis.StringCmd, len(p.subjects))
	chunk, offset := p.ordinal.chunk(), p.ordinal.offset()
	for i, s := range p.subjects {
		k := keysOf(s)
		for m := range Metric(metrics) {
			c := containers{}
			seen, ok := p.reader.bitmaps.GetIfPresent(chunkOf{s, m, chunk})
			if trust && ok && seen.connects == p.connects {
				c.seen = seen
			} else {
				c.few = pipe.SIsMember(ctx, k.few(m), uint32(p.ordinal))
				c.chunkFew = pipe.SIsMember(ctx, k.chunkFew(m, chunk), offset)
			}
			c.bitmap = pipe.GetBit(ctx, k.bitmap(m, chunk), int64(offset))
			p.asked[i][m] = c
		}
	}
	for _, s := range p.subjects {
		if tag := s.Tag(); p.epochs[tag] == nil {
			p.epochs[tag] = pipe.Get(ctx, epochKey(tag))
		}
	}
}

// read takes the answers; the first error is returned.
func (p *membership) read() error {
	var first error
	for i, s := range p.subjects {
		epoch, err := p.epochs[s.Tag()].Result()
		if err == redis.Nil { //nolint:errorlint // go-redis returns it bare, and this is the hot path
			err = ErrNoEpoch
		}
		var flags [metrics]bool
		for m := range Metric(metrics) {
			if err != nil {
				break
			}
			flags[m], err = p.flag(s, m, p.asked[i][m], epoch)
		}
		p.states[i] = ViewerState{Liked: flags[Like], Faved: flags[Fav], Known: err == nil}
		first = firstOf(first, err)
	}
	return first
}

func (p *membership) flag(s Subject, m Metric, c containers, epoch string) (bool, error) {
	set := false
	for _, cmd := range []*redis.BoolCmd{c.few, c.chunkFew} {
		if cmd == nil {
			continue
		}
		member, err := cmd.Result()
		if err != nil {
			return false, err
		}
		set = set || member
	}
	bit, err := c.bitmap.Result()
	if err != nil {
		return false, err
	}
	if bit == 1 {
		p.reader.bitmaps.Set(chunkOf{s, m, p.ordinal.chunk()}, sighting{connects: p.connects, epoch: epoch})
	}
	return set || bit == 1, nil
}

// stale says whether commands were left out on the word of a sighting that no
// longer holds: there is a new epoch, or a connection to what may be another
// server.
func (p *membership) stale() bool {
	same := p.connects == p.reader.redis.connects.Load()
	for i, s := range p.subjects {
		epoch := p.epochs[s.Tag()].Val()
		for m := range Metric(metrics) {
			c := p.asked[i][m]
			if c.few == nil && (!same || c.seen.epoch != epoch) {
				return true
			}
		}
	}
	return false
}

// lay adds the viewer's own changes. Without them the page lacks only what
// happened within the last fold, so their failure is none of the page's.
func (p *membership) lay(mine *redis.SliceCmd) {
	values, err := mine.Result()
	if err != nil {
		return
	}
	for i := range p.states {
		if text, ok := values[i].(string); ok {
			p.states[i].own, _ = decodeOwn(text)
		}
	}
}

// chunkOf names a bitmap.
type chunkOf struct {
	subject Subject
	metric  Metric
	chunk   uint32
}

// sighting says that a chunk was seen to be a bitmap, so the smaller containers
// hold none of its facts. It is believed for 30 s, on the same connections, in
// the same epoch.
type sighting struct {
	connects uint64
	epoch    string
}

const (
	sightingLife = 30 * time.Second
	maxSightings = 100_000
)

func newSightings() *otter.Cache[chunkOf, sighting] {
	return otter.Must(&otter.Options[chunkOf, sighting]{
		MaximumSize:      maxSightings,
		ExpiryCalculator: otter.ExpiryCreating[chunkOf, sighting](sightingLife),
	})
}
