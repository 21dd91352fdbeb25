package counter

import (
	"context"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/tallyfeed/tallyfeed/lua"
)

// suspicion is a part of a subject that differed, with the facts as they were at
// their version.
type suspicion struct {
	subject Subject
	metric  Metric
	chunk   uint32
	facts   map[Ordinal]bool
	version Version
	// counts is set where the counts differed: then there are no facts.
	counts *Totals
}

// compare reads rows, then the facts of the same chunk. A row whose version the
// outbox has not come to, although that was asked for later, is of a change that
// Redis has lost: its tag and how far Redis is go to lost. All other differences
// are returned: the archive may only be late.
func (c *compensating) compare(ctx context.Context, s Subject, lost map[Tag]Version) ([]suspicion, error) {
	known, err := c.ledger.Counts(ctx, []Subject{s})
	if err != nil {
		return nil, err
	}
	var suspects []suspicion
	now := Totals{Subject: s}
	for m := range Metric(metrics) {
		chunks, err := c.chunks(ctx, s, m)
		if err != nil {
			return nil, err
		}
		for _, chunk := range chunks {
			rows, err := c.rows(ctx, s, m, chunk)
			if err != nil {
				return nil, err
			}
			part, err := c.redis.chunk(ctx, s, m, chunk)
			if err != nil {
				return nil, err
			}
			if m == Like {
				now.Like = part.population
			} else {
				now.Fav = part.population
			}
			// The oldest: the counts are those of the last change up to it, or later.
			if now.Version == 0 || part.version < now.Version {
				now.Version = part.version
			}
			c.report.Facts += len(part.facts)
			differs := false
			for o, row := range rows {
				if row.Active == part.facts[o] {
					continue
				}
				if row.Version <= part.version {
					differs = true
					continue
				}
				if floor, ok := lost[s.Tag()]; !ok || part.version < floor {
					lost[s.Tag()] = part.version
				}
				if c.options.DryRun {
					c.report.PutBack++
				}
			}
			for o := range part.facts {
				_, has := rows[o]
				differs = differs || !has
			}
			if differs {
				suspects = append(suspects, suspicion{subject: s, metric: m, chunk: chunk, facts: part.facts, version: part.version})
			}
		}
	}
	was := known[s]
	if was.Version <= now.Version && (was.Like != now.Like || was.Fav != now.Fav) {
		suspects = append(suspects, suspicion{subject: s, version: now.Version, counts: &now})
	}
	return suspects, nil
}

// again reads the rows of what differed once more. The archive has caught up
// past the version of the facts: a row that is not newer and still differs is
// wrong.
func (c *compensating) again(ctx context.Context, suspect suspicion) error {
	if suspect.counts != nil {
		known, err := c.ledger.Counts(ctx, []Subject{suspect.subject})
		if err != nil {
			return err
		}
		was := known[suspect.subject]
		if was.Version > suspect.version || was.Like == suspect.counts.Like && was.Fav == suspect.counts.Fav {
			return nil
		}
		c.report.CountsMended++
		if c.options.DryRun {
			return nil
		}
		return c.ledger.MendCounts(ctx, *suspect.counts)
	}
	rows, err := c.rows(ctx, suspect.subject, suspect.metric, suspect.chunk)
	if err != nil {
		return err
	}
	var wrong []Reaction
	mend := func(o Ordinal, active bool) {
		wrong = append(wrong, Reaction{Subject: suspect.subject, Metric: suspect.metric, Ordinal: o, Active: active, Version: suspect.version})
	}
	for o, row := range rows {
		if row.Version <= suspect.version && row.Active != suspect.facts[o] {
			mend(o, suspect.facts[o])
		}
	}
	for o := range suspect.facts {
		if _, has := rows[o]; !has {
			mend(o, true)
		}
	}
	c.report.Mended += len(wrong)
	if len(wrong) == 0 || c.options.DryRun {
		return nil
	}
	c.log.WarnContext(ctx, "archive mended from the facts", "subject", suspect.subject.String(), "metric", suspect.metric.String(), "rows", len(wrong))
	return c.ledger.Mend(ctx, wrong)
}

func (c *compensating) rows(ctx context.Context, s Subject, m Metric, chunk uint32) (map[Ordinal]Reaction, error) {
	from := Ordinal(chunk) * chunkSize
	found, err := c.ledger.Rows(ctx, s, m, from, from+chunkSize-1)
	if err != nil {
		return nil, err
	}
	rows := make(map[Ordinal]Reaction, len(found))
	for _, row := range found {
		rows[row.Ordinal] = row
	}
	return rows, nil
}

// chunks returns all chunks in which there are rows or facts; chunk 0 always, for
// the population.
func (c *compensating) chunks(ctx context.Context, s Subject, m Metric) ([]uint32, error) {
	all, err := c.ledger.Chunks(ctx, s, m)
	if err != nil {
		return nil, err
	}
	all = append(all, 0)
	k := keysOf(s)
	pipe := c.redis.reads.Pipeline()
	few, chunks := pipe.SMembers(ctx, k.few(m)), pipe.SMembers(ctx, k.chunks(m))
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	for _, member := range few.Val() {
		o, err := strconv.ParseUint(member, 10, 32)
		if err != nil {
			return nil, &MalformedError{Key: k.few(m)}
		}
		all = append(all, Ordinal(o).chunk())
	}
	for _, member := range chunks.Val() {
		chunk, err := strconv.ParseUint(member, 10, 32)
		if err != nil {
			return nil, &MalformedError{Key: k.chunks(m)}
		}
		all = append(all, uint32(chunk))
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// chunkFacts is what chunk.lua reads.
type chunkFacts struct {
	facts      map[Ordinal]bool
	population int64
	version    Version
}

// chunk reads the facts of one chunk. Errors: those of a script that refuses.
func (r *Redis) chunk(ctx context.Context, s Subject, m Metric, chunk uint32) (chunkFacts, error) {
	k := keysOf(s)
	reply, err := status(r.run(ctx, lua.Chunk, call{keys: []string{
		epochKey(s.Tag()), k.gone(), outboxKey(s.Tag()), k.few(m), k.n(m), k.chunkFew(m, chunk), k.bitmap(m, chunk),
	}})[0])
	if err != nil {
		return chunkFacts{}, err
	}
	if len(reply) != 5 {
		return chunkFacts{}, errShape
	}
	id, _ := reply[0].(string)
	part := chunkFacts{facts: map[Ordinal]bool{}}
	if part.version, err = ParseVersion(id); err != nil {
		return chunkFacts{}, err
	}
	part.population, _ = reply[1].(int64)
	first := Ordinal(chunk) * chunkSize
	few, err := redis.NewCmdResult(reply[2], nil).Uint64Slice()
	if err != nil {
		return chunkFacts{}, &MalformedError{Key: k.few(m)}
	}
	for _, o := range few {
		if Ordinal(o).chunk() == chunk {
			part.facts[Ordinal(o)] = true
		}
	}
	offsets, err := redis.NewCmdResult(reply[3], nil).Uint64Slice()
	if err != nil {
		return chunkFacts{}, &MalformedError{Key: k.chunkFew(m, chunk)}
	}
	for _, offset := range offsets {
		part.facts[first+Ordinal(offset)] = true
	}
	bits, _ := reply[4].(string)
	for i := range 8 * len(bits) {
		if bits[i/8]&(0x80>>(i%8)) != 0 {
			part.facts[first+Ordinal(i)] = true
		}
	}
	return part, nil
}
