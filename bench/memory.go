package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tallyfeed/tallyfeed/counter"
)

type memoryCommand struct {
	Redis   string `required:"" help:"An empty Redis."`
	Posts   int    `default:"20000" help:"How many posts; the one of rank r gets posts/r likes."`
	Viewers int    `default:"1000000" help:"How many viewers like at random."`
}

// numbered gives viewer "17" the ordinal 17.
type numbered struct{}

func (numbered) Find(ctx context.Context, viewers []counter.Viewer) (map[counter.Viewer]counter.Ordinal, error) {
	return numbered{}.Give(ctx, viewers)
}

func (numbered) Give(_ context.Context, viewers []counter.Viewer) (map[counter.Viewer]counter.Ordinal, error) {
	given := map[counter.Viewer]counter.Ordinal{}
	for _, v := range viewers {
		n, err := strconv.ParseUint(string(v), 10, 32)
		if err != nil {
			return nil, err
		}
		given[v] = counter.Ordinal(n)
	}
	return given, nil
}

func (numbered) Any(context.Context) (bool, error) { return false, nil }

// Run likes through the scripts, as the server does. Each figure is taken after
// the connections that made it are closed: their buffers are not the likes'.
func (c *memoryCommand) Run(ctx context.Context) (err error) {
	client, err := openEmpty(ctx, c.Redis)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	before, err := usedMemory(ctx, client)
	if err != nil {
		return err
	}
	likes, err := c.like(ctx, time.Second)
	if err != nil {
		return err
	}
	// What waits for Kafka does not stay, and neither does mine.
	for t := range 256 {
		if err := client.XTrimMaxLen(ctx, fmt.Sprintf("out{%02x}", t), 0).Err(); err != nil {
			return err
		}
	}
	facts, err := usedMemory(ctx, client)
	if err != nil {
		return err
	}
	if err := c.snapshots(ctx); err != nil {
		return err
	}
	snapshots, err := usedMemory(ctx, client)
	if err != nil {
		return err
	}
	if _, err := c.like(ctx, time.Hour); err != nil { // changes nothing but mine
		return err
	}
	mine, err := usedMemory(ctx, client)
	if err != nil {
		return err
	}
	per := func(from, to int64) float64 { return float64(to-from) / float64(likes) }
	fmt.Printf("%d likes of %d viewers on %d posts\n", likes, c.Viewers, c.Posts)
	fmt.Printf("facts       %6.1f bytes a like\n", per(before, facts))
	fmt.Printf("snapshots   %6.1f more\n", per(facts, snapshots))
	fmt.Printf("mine        %6.1f more, for a minute after the like\n", per(snapshots, mine))
	return nil
}

// like makes the same likes each time it is called.
func (c *memoryCommand) like(ctx context.Context, remember time.Duration) (changed int, err error) {
	r, err := counter.OpenRedis(ctx, c.Redis)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := r.DeclareEpoch(ctx); err != nil {
		return 0, err
	}
	facts := counter.NewFacts(r, counter.NewOrdinals(numbered{}), slog.New(slog.NewTextHandler(os.Stderr, nil)), counter.FactsConfig{
		Remember: remember, OutboxLimit: 1 << 30,
	})
	const writers = 16
	ranks := make(chan int)
	go func() {
		defer close(ranks)
		for rank := 1; rank <= c.Posts; rank++ {
			ranks <- rank
		}
	}()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for rank := range ranks {
				n, failed := c.likePost(ctx, facts, rank)
				mu.Lock()
				changed += n
				err = errors.Join(err, failed)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return changed, err
}

func (c *memoryCommand) likePost(ctx context.Context, facts *counter.Facts, rank int) (changed int, err error) {
	s, err := counter.NewSubject(counter.TypePost, strconv.Itoa(10_000+rank))
	if err != nil {
		return 0, err
	}
	random := rand.New(rand.NewPCG(7, uint64(rank)))
	for range c.Posts / rank {
		viewer := counter.Viewer(strconv.Itoa(random.IntN(c.Viewers)))
		outcome, err := facts.Set(ctx, viewer, s, counter.Like, true)
		if err != nil {
			return changed, err
		}
		if outcome.Changed {
			changed++
		}
	}
	return changed, nil
}

func (c *memoryCommand) snapshots(ctx context.Context) (err error) {
	r, err := counter.OpenRedis(ctx, c.Redis)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	reader := counter.NewReader(r, counter.NewOrdinals(numbered{}), counter.ReaderConfig{Timeout: 5 * time.Second})
	for rank := 1; rank <= c.Posts; rank += 100 {
		var subjects []counter.Subject
		for i := rank; i < rank+100 && i <= c.Posts; i++ {
			s, err := counter.NewSubject(counter.TypePost, strconv.Itoa(10_000+i))
			if err != nil {
				return err
			}
			subjects = append(subjects, s)
		}
		if _, err := reader.Counts(ctx, subjects); err != nil {
			return err
		}
	}
	return nil
}

// usedMemory waits until it falls no more: expired keys go, the table of keys
// shrinks, and buffers of closed connections are given back.
func usedMemory(ctx context.Context, client *redis.Client) (int64, error) {
	last, same := int64(math.MaxInt64), 0
	for same < 20 {
		info, err := client.Info(ctx, "memory").Result()
		if err != nil {
			return 0, err
		}
		used, err := memoryOf(info)
		if err != nil {
			return 0, err
		}
		if used < last-4096 {
			last, same = used, 0
		} else {
			same++
		}
		time.Sleep(100 * time.Millisecond)
	}
	return last, nil
}

func memoryOf(info string) (int64, error) {
	for line := range strings.Lines(info) {
		if value, found := strings.CutPrefix(line, "used_memory:"); found {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, errors.New("INFO has no used_memory")
}
