package archive_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/uptrace/bun"

	"github.com/tallyfeed/tallyfeed/archive"
	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/enginetest"
)

// posts lists subjects for a compensation of all.
type posts []counter.Subject

// After is part of counter.SubjectSource.
func (p posts) After(_ context.Context, subject string, n int) ([]counter.Subject, error) {
	for i, s := range p {
		if s.String() > subject {
			return p[i:min(i+n, len(p))], nil
		}
	}
	return nil, nil
}

func (s *system) compensate(options counter.CompensateOptions) counter.Compensation {
	s.t.Helper()
	done, err := s.compensator().Compensate(s.t.Context(), options)
	if err != nil {
		s.t.Fatal(err)
	}
	return done
}

func (s *system) compensator() *counter.Compensator {
	all := posts{post(s.t, "1"), post(s.t, "2"), post(s.t, "3"), post(s.t, "4")}
	return counter.NewCompensator(s.redis, s.store, all, s.tail(), quiet)
}

// liked is a system whose archive has all there is: post 1 in bitmaps and chunk
// sets, post 2 in a small set, post 3 only in the past.
func liked(t *testing.T, db *bun.DB) *system {
	t.Helper()
	s := newSystem(t, db, enginetest.RedisOptions{})
	s.setAll(upTo(700), "1", counter.Like, true)
	s.setAll(upTo(20), "2", counter.Like, true)
	s.setAll(upTo(10), "2", counter.Fav, true)
	s.setAll(upTo(5), "3", counter.Like, true)
	s.setAll(upTo(5), "3", counter.Like, false)
	s.published()
	if done := s.compensate(counter.CompensateOptions{}); done.Subjects != 3 || done.Mended+done.PutBack+done.CountsMended != 0 {
		t.Errorf("with nothing wrong, and all in Kafka only: %+v", done)
	}
	_, stop := archiving(t, db, s.kafka, s.group) // commits, so that nothing comes again
	eventually(t, 60*time.Second, "an archiver that has caught up", func() bool {
		lag, err := counter.NewCatchUp(s.kafka, s.group, s.store).Lag(t.Context())
		return err == nil && lag == 0
	})
	stop()
	return s
}

// What is wrong in the archive is mended from the facts, in every container, and
// a dry run says the same and changes nothing.
func TestCompensate(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		damage []string
		want   counter.Compensation // without Subjects and Facts
	}{
		"Nothing":     {"All is well.", nil, counter.Compensation{}},
		"RowFlipped":  {"A like that is a fact, said to be taken back.", []string{"UPDATE reactions SET active = FALSE WHERE subject = 'post:2' AND metric = 0 AND ordinal = 420"}, counter.Compensation{Mended: 1}},
		"RowsMissing": {"Rows that are not there, of a bitmap and of a chunk's set.", []string{"DELETE FROM reactions WHERE subject = 'post:1' AND ordinal IN (60, 120, 39960)"}, counter.Compensation{Mended: 3}},
		"RowsTooMany": {"Rows without a fact, in a chunk that has one and in one that has none.", []string{"INSERT INTO reactions VALUES ('post:1', 0, 61, TRUE, 5), ('post:2', 1, 70000, TRUE, 5)"}, counter.Compensation{Mended: 2}},
		"Revived":     {"A like that was taken back.", []string{"UPDATE reactions SET active = TRUE WHERE subject = 'post:3' AND ordinal = 60"}, counter.Compensation{Mended: 1}},
		"Counts":      {"Counts that are wrong, also where no row is.", []string{"UPDATE subject_counts SET likes = likes + 1, favs = 7 WHERE subject <> 'post:2'"}, counter.Compensation{CountsMended: 2}},
		"CountsGone":  {"A subject that the archive has lost altogether.", []string{"DELETE FROM reactions WHERE subject = 'post:2'", "DELETE FROM subject_counts WHERE subject = 'post:2'"}, counter.Compensation{Mended: 30, CountsMended: 1}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := liked(t, openSpread(t, sqlite(t), 700, 60))
			for _, statement := range tc.damage {
				execute(t, s.db, statement)
			}
			damaged := rows(t, s.db)
			if done := s.compensate(counter.CompensateOptions{}); done.Subjects != 0 {
				t.Errorf("%s\nwithout a change since, %d subjects were compared", tc.reason, done.Subjects)
			}
			dry := s.compensate(counter.CompensateOptions{All: true, DryRun: true})
			if rows(t, s.db) != damaged {
				t.Errorf("%s\na dry run has changed the archive", tc.reason)
			}
			done := s.compensate(counter.CompensateOptions{All: true})
			if done != dry {
				t.Errorf("%s\ndone %+v, the dry run said %+v", tc.reason, done, dry)
			}
			if done.Subjects != 4 || done.Facts != 700+20+10 {
				t.Errorf("%s\ncompared %d subjects, %d facts", tc.reason, done.Subjects, done.Facts)
			}
			if done.Subjects, done.Facts = 0, 0; done != tc.want {
				t.Errorf("%s\ndone %+v, want %+v", tc.reason, done, tc.want)
			}
			if again := s.compensate(counter.CompensateOptions{All: true}); again.Mended+again.CountsMended+again.PutBack != 0 {
				t.Errorf("%s\na second run finds %+v", tc.reason, again)
			}
			if active(t, s.db) != 730 {
				t.Errorf("%s\n%d active rows", tc.reason, active(t, s.db))
			}
		})
	}
}

// The same on PostgreSQL, where a statement's types are looked at.
func TestCompensateOnPostgres(t *testing.T) {
	t.Parallel()
	s := liked(t, openWith(t, enginetest.Postgres(t), 700))
	execute(t, s.db, "UPDATE reactions SET active = NOT active WHERE ordinal < 4")
	execute(t, s.db, "UPDATE subject_counts SET likes = 0")
	done := s.compensate(counter.CompensateOptions{All: true})
	if done.Mended != 4+4+4+4 || done.CountsMended != 2 { // post 3 has no likes anyway
		t.Errorf("%+v", done)
	}
}

// Rows that Redis has forgotten go back into the facts: their versions are above
// all that Redis has given. The archive must not lose them too (FAULTS 49).
func TestCompensatePutsBack(t *testing.T) {
	t.Parallel()
	s := liked(t, openSpread(t, sqlite(t), 700, 60))
	before := s.held()
	ctx := t.Context()
	tag := post(t, "2").Tag()
	out := fmt.Sprintf("out{%s}", tag)
	last := s.direct.XInfoStream(ctx, out).Val().LastGeneratedID
	s.set(30, "2", counter.Like, true)
	s.set(0, "2", counter.Fav, false)
	want := s.held()
	s.published()
	if _, err := counter.NewCatchUp(s.kafka, s.group, s.store).Run(ctx); err != nil {
		t.Fatal(err)
	}
	// What only these two changes made goes.
	s.direct.SRem(ctx, fmt.Sprintf("bm:like:post:2:few{%s}", tag), 30*60)
	s.direct.SAdd(ctx, fmt.Sprintf("bm:fav:post:2:few{%s}", tag), 0)
	s.direct.Del(ctx, out)
	s.direct.XAdd(ctx, &redis.XAddArgs{Stream: out, ID: last, Values: []string{"x", ""}})
	s.direct.XDel(ctx, out, last)
	same(t, s.held(), before)

	if dry := s.compensate(counter.CompensateOptions{DryRun: true}); dry.PutBack != 2 {
		t.Errorf("the dry run says %+v", dry)
	}
	same(t, s.held(), before)
	if done := s.compensate(counter.CompensateOptions{}); done.PutBack != 2 || done.Mended+done.CountsMended != 0 {
		t.Errorf("done %+v", done)
	}
	same(t, s.held(), want)
	s.countsAre(want, "2")
}

// changing is a ledger under which something happens right before it is compared.
type changing struct {
	*archive.Store
	happen func()
}

// Touched is part of counter.Ledger.
func (c changing) Touched(ctx context.Context, tag counter.Tag, above counter.Version, after string, n int) ([]counter.Totals, error) {
	page, err := c.Store.Touched(ctx, tag, above, after, n)
	if len(page) > 0 {
		c.happen()
	}
	return page, err
}

// What is on its way to the archive is no difference: it is waited for.
func TestCompensateWaits(t *testing.T) {
	t.Parallel()
	s := liked(t, openSpread(t, sqlite(t), 700, 60))
	next := 20
	ledger := changing{s.store, func() {
		s.set(next, "2", counter.Like, true)
		s.set(next-20, "2", counter.Like, false)
		next++
	}}
	done, err := counter.NewCompensator(s.redis, ledger, posts{}, s.tail(), quiet).Compensate(t.Context(), counter.CompensateOptions{All: true})
	if err != nil || done.Mended+done.CountsMended+done.PutBack != 0 || next == 20 {
		t.Errorf("after %d changes: %+v, %v", next-20, done, err)
	}
}

// Three compensations at once (FAULTS 41), while likes go on and an archiver is
// at work: nothing that is right is touched, and all that is wrong is mended.
func TestCompensateTogether(t *testing.T) {
	t.Parallel()
	s := liked(t, openSpread(t, sqlite(t), 700, 60))
	archiving(t, s.db, s.kafka, s.group)
	execute(t, s.db, "UPDATE reactions SET active = FALSE WHERE subject = 'post:1' AND ordinal BETWEEN 600 AND 1200")
	stop := make(chan struct{})
	var liking, working sync.WaitGroup
	liking.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				if _, err := s.facts.Set(t.Context(), viewer(i%50), post(t, fmt.Sprint(1+i%4)), counter.Metric(i%2), i%3 > 0); err != nil {
					t.Errorf("like: %v", err)
					return
				}
				time.Sleep(time.Millisecond) // some hundreds a second
			}
		}
	})
	for range 3 {
		working.Go(func() {
			done, err := s.compensator().Compensate(t.Context(), counter.CompensateOptions{All: true})
			if err != nil || done.PutBack > 0 {
				t.Errorf("%+v, %v", done, err)
			}
		})
	}
	working.Wait()
	close(stop)
	liking.Wait()
	s.published()
	if _, err := counter.NewCatchUp(s.kafka, s.group, s.store).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	facts, n := s.held(), 0
	for _, all := range facts {
		n += len(all)
	}
	if got := active(t, s.db); got != n {
		t.Errorf("%d active rows, %d facts", got, n)
	}
	if done := s.compensate(counter.CompensateOptions{All: true}); done.Mended+done.CountsMended+done.PutBack != 0 {
		t.Errorf("afterwards: %+v", done)
	}
}
