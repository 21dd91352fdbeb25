package main

import (
	"context"
	"sync/atomic"

	"github.com/tallyfeed/tallyfeed/auth"
	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/feed"
)

// system is what one process runs, wired from its parts.
type system struct {
	parts    *parts
	posts    *feed.Feed
	facts    *counter.Facts
	reader   *counter.Reader
	verifier *auth.Verifier
	workers  []func(context.Context) error
	draining atomic.Bool
}

func newSystem(config serveCommand, parts *parts, log logger) *system {
	s := &system{parts: parts}
	ordinals := counter.NewOrdinals(parts.ordinals)
	watch := counter.NewWatch(parts.redis, config.MemoryLimit, log)
	publisher := counter.NewPublisher(parts.redis, parts.kafka, log)
	parts.closeFirst(publisher.Close)

	s.facts = counter.NewFacts(parts.redis, ordinals, log, counter.FactsConfig{
		OutboxLimit: config.OutboxLimit, Full: watch.Full, OnChange: publisher.Offer,
	})
	s.reader = counter.NewReader(parts.redis, ordinals, counter.ReaderConfig{})
	s.posts = feed.New(parts.database, feed.Config{Subjects: subjects{s.facts}, Log: log})

	s.workers = append(s.workers, watch.Run)
	if config.has(roleAPI) {
		s.workers = append(s.workers, publisher.Run)
	}
	if config.has(rolePublish) {
		sweeper := counter.NewSweeper(parts.redis, publisher, log, counter.SweeperConfig{})
		s.workers = append(s.workers, sweeper.Run, s.posts.RunPurges)
	}
	if config.has(roleAggregate) {
		settle := counter.AggregatorConfig{}
		if parts.redisName == "" {
			settle.Settle = -1 // in memory: there is no tail to lose
		}
		aggregator := counter.NewAggregator(parts.redis, parts.kafka, log, settle)
		parts.closeFirst(aggregator.Close)
		s.workers = append(s.workers, aggregator.Run)
	}
	return s
}
