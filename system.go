package main

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/tallyfeed/tallyfeed/archive"
	"github.com/tallyfeed/tallyfeed/auth"
	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/feed"
	"github.com/tallyfeed/tallyfeed/graph"
	"github.com/tallyfeed/tallyfeed/leaving"
)

// system is what one process runs, wired from its parts.
type system struct {
	parts    *parts
	posts    *feed.Feed
	facts    *counter.Facts
	reader   *counter.Reader
	store    *archive.Store
	leavers  *leaving.Leavers
	live     *counter.Live     // nil without the role api
	restorer *counter.Restorer // nil where the process does not restore
	verifier *auth.Verifier
	edge     *graph.Handler // nil without the role api
	workers  []func(context.Context) error
	draining atomic.Bool
}

func newSystem(config serveCommand, parts *parts, log logger) *system {
	s := &system{parts: parts}
	ordinals := counter.NewOrdinals(parts.ordinals)
	watch := counter.NewWatch(parts.redis, config.MemoryLimit, log)
	publisher := counter.NewPublisher(parts.redis, parts.kafka, log)
	parts.closeFirst(publisher.Close)

	recounter := counter.NewRecounter(parts.redis, log)
	s.facts = counter.NewFacts(parts.redis, ordinals, log, counter.FactsConfig{
		OutboxLimit: config.OutboxLimit, Full: watch.Full, OnChange: publisher.Offer, OnMalformed: recounter.Offer,
	})
	s.reader = counter.NewReader(parts.redis, ordinals, counter.ReaderConfig{OnMalformed: recounter.Offer})
	s.posts = feed.New(parts.database, feed.Config{Subjects: subjects{s.facts}, Log: log})

	s.workers = append(s.workers, watch.Run, recounter.Run)
	if config.has(roleAPI) {
		s.workers = append(s.workers, publisher.Run)
	}
	if config.has(rolePublish) {
		sweeper := counter.NewSweeper(parts.redis, publisher, log, counter.SweeperConfig{})
		s.workers = append(s.workers, sweeper.Run, s.posts.RunPurges)
	}
	if config.has(roleAggregate) {
		aggregation := counter.AggregatorConfig{OnMalformed: recounter.Offer, Group: groupFor(counter.AggregatorGroup, config.KafkaTopic)}
		if parts.redisName == "" {
			aggregation.Settle = -1 // in memory: there is no tail to lose
		}
		aggregator := counter.NewAggregator(parts.redis, parts.kafka, log, aggregation)
		parts.closeFirst(aggregator.Close)
		s.workers = append(s.workers, aggregator.Run)
	}
	s.store, s.leavers = archive.NewStore(parts.database), leaving.New(parts.database, log)
	archiveGroup := groupFor(archive.Group, config.KafkaTopic)
	catchUp := counter.NewCatchUp(parts.kafka, archiveGroup, s.store)
	if config.has(roleAPI) {
		s.live = counter.NewLive(parts.kafka, log)
		s.workers = append(s.workers, s.leavers.Run, s.live.Run)
	}
	if config.has(roleArchive) {
		purger := leaving.NewPurger(parts.database, s.posts, s.facts, s.store, log, leaving.PurgerConfig{CatchUp: func(ctx context.Context) error {
			if err := publisher.DrainAll(ctx); err != nil {
				return err
			}
			_, err := catchUp.Run(ctx)
			return err
		}})
		s.workers = append(s.workers, purger.Run)
		archiver := archive.NewArchiver(s.store, parts.kafka, log, archive.ArchiverConfig{Group: archiveGroup})
		parts.closeFirst(archiver.Close)
		tail := counter.NewTail(parts.redis, s.store, catchUp, publisher, s.facts, log, counter.TailConfig{})
		s.workers = append(s.workers, archiver.Run, tail.Run)
		if at, _ := config.nightly(); at.Zone != nil { // check has looked at it
			compensator := counter.NewCompensator(parts.redis, s.store, postSubjects{s.posts}, tail, log)
			s.workers = append(s.workers, func(ctx context.Context) error { return compensator.Run(ctx, at) })
		}
	}
	if config.has(roleArchive) || parts.redisName == "" { // nobody else could restore an embedded Redis
		s.restorer = counter.NewRestorer(parts.redis, s.store, parts.ordinals, catchUp, publisher, log, counter.RestorerConfig{})
		s.workers = append(s.workers, s.restorer.Run)
	}
	if config.has(roleAudit) {
		auditor := counter.NewAuditor(parts.redis, postSubjects{s.posts}, recounter, log, counter.AuditConfig{Rate: config.AuditRate})
		s.workers = append(s.workers, auditor.Run)
	}
	return s
}

// postSubjects lists all posts for the audit.
type postSubjects struct{ posts *feed.Feed }

// After is part of counter.SubjectSource.
func (p postSubjects) After(ctx context.Context, subject string, n int) ([]counter.Subject, error) {
	_, id, _ := strings.Cut(subject, ":")
	ids, err := p.posts.IDs(ctx, id, n)
	if err != nil {
		return nil, err
	}
	subjects := make([]counter.Subject, len(ids))
	for i, id := range ids {
		if subjects[i], err = counter.NewSubject(counter.TypePost, id); err != nil {
			return nil, err
		}
	}
	return subjects, nil
}

// groupFor names a consumer group. Two systems on one Kafka have a topic each and
// need groups of their own: in a shared one, each start and stop of the one would
// make the other pause.
func groupFor(group, topic string) string {
	if topic == defaultTopic {
		return group
	}
	return group + "-" + topic
}
