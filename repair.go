package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tallyfeed/tallyfeed/archive"
	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/database"
	"github.com/tallyfeed/tallyfeed/feed"
)

// The commands of an operator who looks after counts. They need the real
// engines: embedded ones live in the server's process.

// open connects to the Redis of the flags.
func (f *redisFlags) open(e *environment) (*counter.Redis, error) {
	if err := fromFile("redis", &f.Redis, f.RedisFile); err != nil {
		return nil, err
	}
	if f.Redis == "" {
		return nil, errors.New("give --redis: the embedded one lives in the server's process only")
	}
	return counter.OpenRedis(e.ctx, f.Redis)
}

type recountCommand struct {
	redisFlags `embed:""`

	Subjects []string `arg:"" help:"Subjects, e.g. post:10001."`
}

// Run is called by kong.
func (c *recountCommand) Run(e *environment) (err error) {
	var subjects []counter.Subject
	for _, text := range c.Subjects {
		s, err := counter.ParseSubject(text)
		if err != nil {
			return fmt.Errorf("%q: %w", text, err)
		}
		subjects = append(subjects, s)
	}
	redis, err := c.open(e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, redis.Close()) }()
	recounter := counter.NewRecounter(redis, e.logger())
	for _, s := range subjects {
		result, err := recounter.Recount(e.ctx, s)
		if err != nil {
			return err
		}
		was := "no snapshot"
		if result.Known {
			was = fmt.Sprintf("%d likes, %d favs", result.Before.Like, result.Before.Fav)
		}
		verdict := "right"
		if result.Mended() {
			verdict = "mended"
		}
		if _, err := fmt.Fprintf(e.out, "%s: was %s; is %d likes, %d favs: %s\n", s, was, result.After.Like, result.After.Fav, verdict); err != nil {
			return err
		}
	}
	return nil
}

type auditCommand struct {
	stores     `embed:""`
	redisFlags `embed:""`

	Rate  int           `default:"1000" help:"How many subjects a second are looked at."`
	Grace time.Duration `default:"20s" help:"How long a snapshot may lag behind its facts. Default: ${default}." placeholder:"DURATION"`
}

// Run is called by kong.
func (c *auditCommand) Run(e *environment) (err error) {
	if err := c.stores.resolve(); err != nil {
		return err
	}
	if c.Rate < 1 {
		return errors.New("--rate must be at least 1")
	}
	redis, err := c.open(e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, redis.Close()) }()
	db, err := database.Open(e.ctx, c.address())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	log := e.logger()
	auditor := counter.NewAuditor(redis, postSubjects{feed.New(db, feed.Config{})}, counter.NewRecounter(redis, log), log,
		counter.AuditConfig{Rate: c.Rate, Grace: c.Grace})
	drift, err := auditor.Round(e.ctx, nil)
	if _, writeErr := fmt.Fprintf(e.out, "%d looked at, %d differed, %d mended\n", drift.Looked, drift.Differed, drift.Mended); writeErr != nil {
		return errors.Join(err, writeErr)
	}
	if err == nil && drift.Mended < drift.Differed {
		err = fmt.Errorf("%d are not mended yet: others recount them, or they change too fast", drift.Differed-drift.Mended)
	}
	return err
}

type compensateCommand struct {
	stores     `embed:""`
	redisFlags `embed:""`
	kafkaFlags `embed:""`

	All    bool `help:"Compare every subject. Default: those touched since the last run."`
	DryRun bool `help:"Only say what would be done. What waits in the outbox and in Kafka is archived all the same."`
	JSON   bool `name:"json" help:"Print the report as JSON."`
}

// Run is called by kong.
func (c *compensateCommand) Run(e *environment) (err error) {
	if err := errors.Join(c.stores.resolve(), fromFile("kafka-password", &c.KafkaPassword, c.KafkaPasswordFile)); err != nil {
		return err
	}
	if len(c.Kafka) == 0 {
		return errors.New("give --kafka: the embedded one lives in the server's process only")
	}
	kafka, err := c.kafkaConfig()
	if err != nil {
		return err
	}
	redis, err := c.open(e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, redis.Close()) }()
	db, err := database.Open(e.ctx, c.address())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	log, store := e.logger(), archive.NewStore(db)
	publisher := counter.NewPublisher(redis, kafka, log)
	defer func() { err = errors.Join(err, publisher.Close()) }()
	facts := counter.NewFacts(redis, counter.NewOrdinals(counter.NewSQLOrdinals(db)), log, counter.FactsConfig{})
	tail := counter.NewTail(redis, store, counter.NewCatchUp(kafka, groupFor(archive.Group, c.KafkaTopic), store), publisher, facts, log, counter.TailConfig{})
	compensator := counter.NewCompensator(redis, store, postSubjects{feed.New(db, feed.Config{})}, tail, log)
	report, err := compensator.Compensate(e.ctx, counter.CompensateOptions{All: c.All, DryRun: c.DryRun})
	if c.JSON {
		return errors.Join(err, json.NewEncoder(e.out).Encode(report))
	}
	_, writeErr := fmt.Fprintf(e.out, "%d subjects and %d facts compared: %d put back into the facts, %d rows and %d counts of the archive mended\n",
		report.Subjects, report.Facts, report.PutBack, report.Mended, report.CountsMended)
	return errors.Join(err, writeErr)
}

type deadLettersCommand struct {
	kafkaFlags `embed:""`

	Resend bool `help:"Send those in again that were not yet. What is no event still comes back as a new dead letter."`
}

// shown is how much of a record's value is printed.
const shown = 200

// Run is called by kong.
func (c *deadLettersCommand) Run(e *environment) error {
	if err := fromFile("kafka-password", &c.KafkaPassword, c.KafkaPasswordFile); err != nil {
		return err
	}
	if len(c.Kafka) == 0 {
		return errors.New("give --kafka: the embedded one lives in the server's process only")
	}
	config, err := c.kafkaConfig()
	if err != nil {
		return err
	}
	if c.Resend {
		n, err := config.ResendDeadLetters(e.ctx)
		_, writeErr := fmt.Fprintf(e.out, "%d sent in again\n", n)
		return errors.Join(err, writeErr)
	}
	n := 0
	err = config.DeadLetters(e.ctx, func(d counter.DeadLetter) error {
		n++
		state := "waiting"
		if d.Resent {
			state = "resent"
		}
		value := d.Value
		if len(value) > shown {
			value = value[:shown]
		}
		_, err := fmt.Fprintf(e.out, "%d/%d %s, from %s %s/%s: %s: key %s value %s\n", d.Partition, d.Offset, state,
			d.Topic, d.OriginPart, d.OriginOffset, d.Reason, strconv.Quote(string(d.Key)), strconv.Quote(string(value)))
		return err
	})
	_, writeErr := fmt.Fprintf(e.out, "%d dead letters\n", n)
	return errors.Join(err, writeErr)
}
