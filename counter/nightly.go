package counter

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/tallyfeed/tallyfeed/lua"
)

// Nightly is a time of the day.
type Nightly struct {
	Hour, Minute int
	Zone         *time.Location
}

// After is the next such time behind now. On a day whose clocks skip it, it is
// as much later as they skip.
func (n Nightly) After(now time.Time) time.Time {
	now = now.In(n.Zone)
	for day := 0; ; day++ {
		at := time.Date(now.Year(), now.Month(), now.Day()+day, n.Hour, n.Minute, 0, 0, n.Zone)
		if at.After(now) {
			return at
		}
	}
}

const (
	compensateLease = "lease:compensate"
	// compensateDone holds the date of the night that is done.
	compensateDone    = "done:compensate"
	compensateHeld    = 15 * time.Second
	compensateRetry   = time.Minute
	compensateGiveUp  = 6 * time.Hour
	compensateDoneFor = 20 * time.Hour
)

// Run compensates what was touched, each night, until ctx ends. Of several
// processes one does it; if that dies another goes on within a minute.
func (c *Compensator) Run(ctx context.Context, at Nightly) error {
	for ctx.Err() == nil {
		next := at.After(time.Now())
		wait(ctx, time.Until(next))
		for ctx.Err() == nil && time.Since(next) < compensateGiveUp {
			done, err := c.night(ctx, next.Format(time.DateOnly))
			if done || ctx.Err() != nil {
				break
			}
			if err != nil {
				c.log.WarnContext(ctx, "not compensated, trying again", "in", compensateRetry, "err", err)
			}
			wait(ctx, compensateRetry)
		}
	}
	return nil
}

// night does the work of one night unless it is done, or somebody is at it.
func (c *Compensator) night(ctx context.Context, date string) (done bool, err error) {
	if was, err := c.redis.writes.Get(ctx, compensateDone).Result(); err == nil && was == date {
		return true, nil
	}
	token := rand.Text()
	lease := call{keys: []string{compensateLease}, args: []any{token, compensateHeld.Milliseconds()}}
	held, err := c.redis.run(ctx, lua.Lease, lease)[0].Int()
	if err != nil || held == 0 {
		return false, err
	}
	working, end := context.WithCancel(ctx)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		for working.Err() == nil {
			wait(working, compensateHeld/4)
			if held, err := c.redis.run(working, lua.Renew, lease)[0].Int(); err == nil && held == 0 {
				end() // somebody else is at it
			}
		}
	}()
	began := time.Now()
	report, err := c.Compensate(working, CompensateOptions{})
	end()
	<-kept
	if err == nil {
		c.log.InfoContext(ctx, "compensated", "subjects", report.Subjects, "facts", report.Facts, "put back", report.PutBack,
			"mended", report.Mended, "counts mended", report.CountsMended, "took", time.Since(began).Round(time.Millisecond))
		err = c.redis.writes.Set(ctx, compensateDone, date, compensateDoneFor).Err()
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	c.redis.run(last, lua.Release, call{keys: lease.keys, args: []any{token}})
	return err == nil, err
}
