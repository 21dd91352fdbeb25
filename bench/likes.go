package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tallyfeed/tallyfeed/auth"
)

type likesCommand struct {
	Redis    string        `required:"" help:"An empty Redis."`
	Kafka    string        `required:"" help:"A broker."`
	Database string        `help:"postgres://…; default: SQLite in a temporary folder."`
	Topic    string        `help:"Topic; default: one of its own."`
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

// Run likes at a steady rate over HTTP, and measures from other connections how
// long it takes until somebody else sees a count.
func (c *likesCommand) Run(ctx context.Context) (err error) {
	client, err := openEmpty(ctx, c.Redis)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	program, err := build(ctx, dir)
	if err != nil {
		return err
	}
	posts := filepath.Join(dir, "posts.jsonl")
	if err := writePosts(posts, likePosts); err != nil {
		return err
	}
	if c.Database == "" {
		c.Database = "sqlite:" + filepath.Join(dir, "feed.db")
	}
	if c.Topic == "" {
		c.Topic = fmt.Sprintf("bench-%d", time.Now().UnixNano())
	}
	if err := runOnce(ctx, program, "import", "--database", c.Database, posts); err != nil {
		return err
	}
	server, err := start(ctx, program, "serve", "--listen", "127.0.0.1:0", "--data", dir, "--redis", c.Redis,
		"--kafka", c.Kafka, "--kafka-topic", c.Topic, "--database", c.Database, "--jwt-secret", secret, "--log-level", "warn")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	run := &likeRun{command: c, url: server.url, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: c.Clients + 32}}}
	if err := run.tokens(); err != nil {
		return err
	}
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
	}
	before, err := server.cpu()
	if err != nil {
		return err
	}
	run.drive(limited)
	wg.Wait()
	after, err := server.cpu()
	if err != nil {
		return err
	}
	run.report(c.Time, after-before, writes)
	return run.failure
}

type likeRun struct {
	command *likesCommand
	url     string
	http    *http.Client
	viewers []string

	mu      sync.Mutex
	took    []float64
	fresh   []float64
	failure error
	likes   int
	failed  int
	late    int
	probes  int
}

func (r *likeRun) tokens() error {
	for i := range r.command.Viewers {
		token, err := auth.Mint([]byte(secret), fmt.Sprintf("viewer%d", i), "", "", "", time.Hour)
		if err != nil {
			return err
		}
		r.viewers = append(r.viewers, token)
	}
	return nil
}

func reaction(name, post string) []byte {
	return fmt.Appendf(nil, `{"query":"mutation($s:ID!){%s(input:{subjectId:$s}){changed subject{likeCount}}}","variables":{"s":%q}}`, name, post)
}

// settleIn lets every viewer like once, so that ordinals are given, and waits
// until the consumer group has joined: a fold has followed a like.
func (r *likeRun) settleIn(ctx context.Context) error {
	for _, token := range r.viewers {
		if _, err := ask(ctx, r.http, r.url, token, reaction("like", "post:150")); err != nil {
			return err
		}
	}
	for {
		n, err := r.count(ctx, "post:150")
		if err != nil {
			return err
		}
		if n == len(r.viewers) {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// count is what nobody in particular sees.
func (r *likeRun) count(ctx context.Context, post string) (int, error) {
	text, err := ask(ctx, r.http, r.url, "", fmt.Appendf(nil, `{"query":"{post(id:\"%s\"){likeCount}}"}`, post))
	if err != nil {
		return 0, err
	}
	var reply struct {
		Data struct{ Post struct{ LikeCount int } }
	}
	err = json.Unmarshal([]byte(text), &reply)
	return reply.Data.Post.LikeCount, err
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
				name := "like"
				if random.IntN(3) == 0 {
					name = "unlike"
				}
				body := reaction(name, fmt.Sprintf("post:%d", likePosts+1-rank))
				at := time.Now()
				_, err := ask(ctx, r.http, r.url, r.viewers[random.IntN(len(r.viewers))], body)
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
		token := r.viewers[want%len(r.viewers)]
		if _, err := ask(ctx, r.http, r.url, token, reaction("like", post)); err != nil {
			continue
		}
		want++
		at := time.Now()
		for ctx.Err() == nil {
			if n, err := r.count(ctx, post); err == nil && n >= want {
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
	fmt.Printf("snapshot writes on the hottest post: %.1f a second\n", writes)
	fmt.Printf("CPU of the server: %.2f cores\n", cpu.Seconds()/length.Seconds())
}
