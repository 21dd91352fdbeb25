package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/tallyfeed/tallyfeed/archive"
	"github.com/tallyfeed/tallyfeed/counter"
)

type restoreCommand struct {
	Redis    string `required:"" help:"An empty Redis."`
	Kafka    string `required:"" help:"A broker; the topic is one of its own, and empty."`
	Database string `help:"An empty postgres://… database; default: SQLite in a temporary folder."`
	Facts    int    `default:"1000000" help:"How many facts are restored."`
	Posts    int    `default:"50000" help:"Of how many posts, spread as 1/rank; one has a tenth of all."`
	Viewers  int    `default:"200000" help:"Of how many viewers."`
}

// Run fills an archive and restores an empty Redis from it.
func (c *restoreCommand) Run(ctx context.Context) (err error) {
	client, err := openEmpty(ctx, c.Redis)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	db, done, err := openArchive(ctx, c.Database, c.Viewers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	store := archive.NewStore(db)
	facts, err := c.fill(ctx, store)
	if err != nil {
		return err
	}
	kafka := counter.KafkaConfig{Brokers: []string{c.Kafka}, Topic: fmt.Sprintf("bench-%d", time.Now().UnixNano()), Partitions: 8, Replication: 1}
	if err := kafka.EnsureTopics(ctx); err != nil {
		return err
	}
	r, err := counter.OpenRedis(ctx, c.Redis)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	publisher := counter.NewPublisher(r, kafka, log)
	defer func() { err = errors.Join(err, publisher.Close()) }()
	restorer := counter.NewRestorer(r, store, counter.NewSQLOrdinals(db), counter.NewCatchUp(kafka, kafka.Topic, store), publisher, log, counter.RestorerConfig{})

	runtime.GC() // what the filling took is none of the restore's
	memory, cpu, redis, began := watchMemory(ctx), ownCPU(), redisCPU(ctx, client), time.Now()
	restored, err := restorer.Restore(ctx)
	if err != nil {
		return err
	}
	took := time.Since(began).Seconds()
	if int(restored.Facts) != facts {
		return fmt.Errorf("%d facts were restored of %d", restored.Facts, facts)
	}
	fmt.Printf("%s: %d facts of %d subjects in %.1f s: %.0f facts a second; this process %.1f s of CPU and at most %d MB of heap, Redis %.1f s of CPU\n",
		engineOf(db), restored.Facts, restored.Subjects, took, float64(facts)/took, ownCPU()-cpu, memory()>>20, redisCPU(ctx, client)-redis)
	return nil
}

// fill archives facts, each once, and returns how many.
func (c *restoreCommand) fill(ctx context.Context, store *archive.Store) (int, error) {
	random := rand.New(rand.NewPCG(9, 9))
	seen := make(map[uint64]bool, c.Facts)
	var events []counter.Event
	flush := func() error {
		_, err := store.Apply(ctx, events)
		events = events[:0]
		return err
	}
	for i := 0; len(seen) < c.Facts; i++ {
		post, viewer := 0, random.IntN(c.Viewers)
		if i%10 > 0 {
			post = int(math.Exp(random.Float64() * math.Log(float64(c.Posts))))
		}
		key := uint64(post)<<32 | uint64(viewer)
		if seen[key] {
			continue
		}
		seen[key] = true
		events = append(events, counter.Event{
			EntityType: counter.TypePost, EntityID: strconv.Itoa(post), Metric: counter.Like.String(), Index: int(counter.Like),
			UserID: strconv.Itoa(viewer), Ordinal: counter.Ordinal(viewer), Delta: 1, Like: 1, Version: fmt.Sprintf("%d-0", 1_796_000_000_000+i),
		})
		if len(events) == 4000 {
			if err := flush(); err != nil {
				return 0, err
			}
		}
	}
	return len(seen), flush()
}
