package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallyfeed/tallyfeed/archive"
	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/database"
)

type archiveCommand struct {
	Database string `help:"An empty postgres://… database; default: SQLite in a temporary folder."`
	Events   int    `default:"400000" help:"How many events are archived."`
	Posts    int    `default:"20000" help:"On how many posts, spread as 1/rank."`
	Viewers  int    `default:"100000" help:"Of how many viewers."`
	Batch    int    `default:"4000" help:"How many share a transaction."`
}

// Run archives events as fast as the store takes them: a catching up.
func (c *archiveCommand) Run(ctx context.Context) (err error) {
	db, done, err := openArchive(ctx, c.Database, c.Viewers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	store := archive.NewStore(db)
	memory := watchMemory(ctx)
	began, took := time.Now(), []float64{}
	for at := 0; at < c.Events; at += c.Batch {
		events := make([]counter.Event, min(c.Batch, c.Events-at))
		for i := range events {
			events[i] = c.event(at + i)
		}
		step := time.Now()
		refused, err := store.Apply(ctx, events)
		if err != nil {
			return err
		}
		if len(refused) > 0 {
			return fmt.Errorf("%d events were refused", len(refused))
		}
		took = append(took, time.Since(step).Seconds()*1000)
	}
	whole := time.Since(began).Seconds()
	rows, err := db.NewSelect().Table("reactions").Count(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d events to %d rows in %.1f s: %.0f events a second; batches of %d in p50 %.0f ms, p99 %.0f ms; at most %d MB of heap\n",
		engineOf(db), c.Events, rows, whole, float64(c.Events)/whole, c.Batch, quantile(took, 0.5), quantile(took, 0.99), memory()>>20)
	return nil
}

func (c *archiveCommand) event(i int) counter.Event {
	random := rand.New(rand.NewPCG(9, uint64(i)))
	viewer := random.IntN(c.Viewers)
	e := counter.Event{
		EntityType: counter.TypePost, EntityID: strconv.Itoa(int(math.Exp(random.Float64() * math.Log(float64(c.Posts))))),
		Metric: counter.Like.String(), Index: int(counter.Like), UserID: strconv.Itoa(viewer), Ordinal: counter.Ordinal(viewer),
		Delta: 1, Like: int64(i), Version: fmt.Sprintf("%d-0", 1_796_000_000_000+i),
	}
	if random.IntN(4) == 0 {
		e.Delta = -1
	}
	return e
}

// openArchive opens a store with viewers whose subs are their ordinals.
func openArchive(ctx context.Context, address string, viewers int) (db *bun.DB, done func() error, err error) {
	dir := ""
	if address == "" {
		if dir, err = os.MkdirTemp("", "bench"); err != nil {
			return nil, nil, err
		}
		address = "sqlite:" + filepath.Join(dir, "archive.db")
	}
	if db, err = database.Open(ctx, address); err != nil {
		return nil, nil, err
	}
	done = func() error { return errors.Join(db.Close(), os.RemoveAll(dir)) }
	if err := database.Migrate(ctx, db); err != nil {
		return nil, nil, errors.Join(err, done())
	}
	ordinals := counter.NewSQLOrdinals(db)
	if used, err := ordinals.Any(ctx); err != nil || used {
		return nil, nil, errors.Join(err, errors.New("this database is not empty"), done())
	}
	for from := 0; from < viewers; from += 5000 {
		var some []counter.Viewer
		for i := from; i < min(from+5000, viewers); i++ {
			some = append(some, counter.Viewer(strconv.Itoa(i)))
		}
		if _, err := ordinals.Give(ctx, some); err != nil {
			return nil, nil, errors.Join(err, done())
		}
	}
	return db, done, nil
}

func engineOf(db *bun.DB) string {
	if db.Dialect().Name().String() == "pg" {
		return "PostgreSQL"
	}
	return "SQLite"
}

// watchMemory samples the heap in use until its result is asked for: the most
// there was.
func watchMemory(ctx context.Context) (most func() uint64) {
	ctx, end := context.WithCancel(ctx)
	var high atomic.Uint64
	go func() {
		for ctx.Err() == nil {
			var stats runtime.MemStats
			runtime.ReadMemStats(&stats)
			high.Store(max(high.Load(), stats.HeapInuse))
			time.Sleep(50 * time.Millisecond)
		}
	}()
	return func() uint64 { end(); return high.Load() }
}
