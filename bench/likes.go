package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

type likesCommand struct {
	Redis    string        `required:"" help:"An empty Redis."`
	Kafka    string        `required:"" help:"A broker."`
	Database string        `help:"postgres://…; default: SQLite in a temporary folder."`
	Topic    string        `help:"Topic; default: one of its own."`
	Inside   bool          `help:"Call the parts in this process instead of a server over HTTP."`
	Rate     int           `default:"1000" help:"Likes a second."`
	Clients  int           `default:"50" help:"Connections."`
	Viewers  int           `default:"2000" help:"Viewers that like."`
	Time     time.Duration `default:"30s" help:"Length of the run."`
}

const (
	likePosts  = 200
	hotPost    = "post:200" // rank 1 of the likes
	probePosts = 20         // liked by the probe only
)

// Run likes at a steady rate, and measures from other connections how long it
// takes until somebody else sees a count.
func (c *likesCommand) Run(ctx context.Context) (err error) {
	client, err := openEmpty(ctx, c.Redis)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	if c.Topic == "" {
		c.Topic = fmt.Sprintf("bench-%d", time.Now().UnixNano())
	}
	var on target
	if c.Inside {
		on, err = newInside(ctx, c)
	} else {
		on, err = newServed(ctx, c)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, on.close()) }()

	run := &likeRun{command: c, on: on}
	if err := run.settleIn(ctx); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, c.Time)
	defer cancel()
	var writes float64
	var wg sync.WaitGroup
	wg.Go(func() { writes = watchSnapshot(limited, client, hotPost) })
	for i := range 4 {
		wg.Go(func() { run.probe(limited, fmt.Sprintf("post:%d", 1+i)) })
		wg.Go(func() { run.probeRow(limited, fmt.Sprintf("post:%d", 11+i)) })
	}
	before, err := on.cpu()
	if err != nil {
		return err
	}
	run.drive(limited)
	wg.Wait()
	after, err := on.cpu()
	if err != nil {
		return err
	}
	run.report(c.Time, after-before, writes)
	return run.failure
}

type likeRun struct {
	command *likesCommand
	on      target

	mu      sync.Mutex
	took    []float64
	fresh   []float64
	rows    []float64
	failure error
	likes   int
	failed  int
	late    int
	probes  int
}

// settleIn lets every viewer like once, so that ordinals are given, and waits
// until the consumer group has joined: a fold has followed a like.
func (r *likeRun) settleIn(ctx context.Context) error {
	for viewer := range r.command.Viewers {
		if err := r.on.react(ctx, viewer, "post:150", true); err != nil {
			return err
		}
	}
	for {
		n, err := r.on.count(ctx, "post:150")
		if err != nil {
			return err
		}
		if n == r.command.Viewers {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// drive sends likes and unlikes at the rate, each client its share.
func (r *likeRun) drive(ctx context.Context) {
	every := time.Duration(r.command.Clients) * time.Second / time.Duration(r.command.Rate)
	var wg sync.WaitGroup
	for i := range r.command.Clients {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(3, uint64(i)))
			next := time.Now().Add(time.Duration(random.Int64N(int64(every))))
			for ctx.Err() == nil {
				time.Sleep(time.Until(next))
				// Rank 1/r: math.Exp of a uniform logarithm.
				rank := int(math.Exp(random.Float64() * math.Log(likePosts-probePosts)))
				post := fmt.Sprintf("post:%d", likePosts+1-rank)
				at := time.Now()
				err := r.on.react(context.WithoutCancel(ctx), random.IntN(r.command.Viewers), post, random.IntN(3) > 0)
				if ctx.Err() != nil {
					return
				}
				r.mu.Lock()
				r.likes++
				r.took = append(r.took, time.Since(at).Seconds()*1000)
				if time.Since(next) > every {
					r.late++
				}
				if err != nil {
					r.failed++
					r.failure = err
				}
				r.mu.Unlock()
				next = next.Add(every)
			}
		})
	}
	wg.Wait()
}

// probe likes a post that only it touches, and looks with other eyes until the
// count has moved.
func (r *likeRun) probe(ctx context.Context, post string) {
	want := 0
	for ctx.Err() == nil {
		if err := r.on.react(ctx, want%r.command.Viewers, post, true); err != nil {
			continue
		}
		want++
		at := time.Now()
		for ctx.Err() == nil {
			if n, err := r.on.count(ctx, post); err == nil && n >= want {
				r.mu.Lock()
				r.fresh = append(r.fresh, time.Since(at).Seconds()*1000)
				r.probes++
				r.mu.Unlock()
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// probeRow likes a post that only it touches, and looks until SQL has the row.
func (r *likeRun) probeRow(ctx context.Context, post string) {
	for viewer := 0; ctx.Err() == nil && viewer < r.command.Viewers; viewer++ {
		at := time.Now()
		if err := r.on.react(ctx, viewer, post, true); err != nil {
			continue
		}
		for ctx.Err() == nil {
			if there, err := r.on.archived(ctx, viewer, post); err == nil && there {
				r.mu.Lock()
				r.rows = append(r.rows, time.Since(at).Seconds()*1000)
				r.mu.Unlock()
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// watchSnapshot counts how often a snapshot changes, a second.
func watchSnapshot(ctx context.Context, client *redis.Client, post string) float64 {
	key := "cnt:v1:" + post + tagOf(post)
	began, changes, last := time.Now(), 0, ""
	for ctx.Err() == nil {
		text, err := client.Get(ctx, key).Result()
		if err == nil && text != last {
			changes++
			last = text
		}
		time.Sleep(2 * time.Millisecond)
	}
	return float64(changes) / time.Since(began).Seconds()
}

func (r *likeRun) report(length, cpu time.Duration, writes float64) {
	fmt.Printf("%d likes and unlikes in %s (%.0f a second), %d failed, %d more than an interval late\n",
		r.likes, length, float64(r.likes)/length.Seconds(), r.failed, r.late)
	fmt.Printf("answered after        p50 %.2f ms, p99 %.2f ms\n", quantile(r.took, 0.5), quantile(r.took, 0.99))
	fmt.Printf("seen by others after  p50 %.0f ms, p99 %.0f ms, of %d\n", quantile(r.fresh, 0.5), quantile(r.fresh, 0.99), r.probes)
	if !r.command.Inside {
		fmt.Printf("a row in SQL after    p50 %.0f ms, p99 %.0f ms, of %d\n", quantile(r.rows, 0.5), quantile(r.rows, 0.99), len(r.rows))
	}
	fmt.Printf("snapshot writes on the hottest post: %.1f a second\n", writes)
	fmt.Printf("CPU of the process that serves: %.2f cores\n", cpu.Seconds()/length.Seconds())
}
