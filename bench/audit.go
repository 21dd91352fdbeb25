package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tallyfeed/tallyfeed/counter"
)

type auditCommand struct {
	Redis string        `required:"" help:"An empty Redis."`
	Posts int           `default:"2000" help:"How many posts; every tenth has 600 likes, the rest 5."`
	Rate  int           `default:"100" help:"How many subjects a second are looked at."`
	Time  time.Duration `default:"20s" help:"Length of the run."`
}

// Run audits at a steady rate and prints what that takes of one core, here and
// in Redis.
func (c *auditCommand) Run(ctx context.Context) (err error) {
	client, err := openEmpty(ctx, c.Redis)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	r, err := counter.OpenRedis(ctx, c.Redis)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := r.DeclareEpoch(ctx); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ordinals := counter.NewOrdinals(numbered{})
	facts := counter.NewFacts(r, ordinals, log, counter.FactsConfig{OutboxLimit: 1 << 30, Remember: time.Second})
	reader := counter.NewReader(r, ordinals, counter.ReaderConfig{Timeout: 5 * time.Second})
	var all numberedSubjects
	for i := range c.Posts {
		s, err := counter.NewSubject(counter.TypePost, strconv.Itoa(i))
		if err != nil {
			return err
		}
		all = append(all, s)
		likes := 5
		if i%10 == 0 {
			likes = 600
		}
		for v := range likes {
			if _, err := facts.Set(ctx, counter.Viewer(strconv.Itoa(v*1000)), s, counter.Like, true); err != nil {
				return err
			}
		}
		if _, err := reader.Counts(ctx, all[i:]); err != nil {
			return err
		}
	}
	auditor := counter.NewAuditor(r, all, counter.NewRecounter(r, log), log, counter.AuditConfig{Rate: c.Rate})
	limited, cancel := context.WithTimeout(ctx, c.Time)
	defer cancel()
	redisBefore, ownBefore, began := redisCPU(ctx, client), ownCPU(), time.Now()
	var drift counter.Drift
	for limited.Err() == nil {
		found, err := auditor.Round(limited, nil)
		drift.Looked += found.Looked
		drift.Differed += found.Differed
		if err != nil && limited.Err() == nil {
			return err
		}
	}
	took := time.Since(began).Seconds()
	fmt.Printf("%d subjects looked at in %.0f s (%.0f a second), %d differed\n", drift.Looked, took, float64(drift.Looked)/took, drift.Differed)
	fmt.Printf("auditor %.1f %% of a core, redis %.1f %% of a core\n", 100*(ownCPU()-ownBefore)/took, 100*(redisCPU(ctx, client)-redisBefore)/took)
	return nil
}

// numberedSubjects lists subjects whose ids are their places.
type numberedSubjects []counter.Subject

// After is part of counter.SubjectSource.
func (n numberedSubjects) After(_ context.Context, subject string, most int) ([]counter.Subject, error) {
	from := 0
	if _, id, found := strings.Cut(subject, ":"); found {
		at, err := strconv.Atoi(id)
		if err != nil {
			return nil, err
		}
		from = at + 1
	}
	return n[from:min(from+most, len(n))], nil
}

// ownCPU is in seconds.
func ownCPU() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

// redisCPU is in seconds.
func redisCPU(ctx context.Context, client *redis.Client) float64 {
	total := 0.0
	for line := range strings.Lines(client.Info(ctx, "cpu").Val()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			seconds, _ := strconv.ParseFloat(value, 64)
			total += seconds
		}
	}
	return total
}
