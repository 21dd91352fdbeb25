package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"golang.org/x/sync/errgroup"
)

type subscriptionsCommand struct {
	Redis         string        `required:"" help:"An empty Redis."`
	Kafka         string        `required:"" help:"A broker."`
	Subscriptions int           `default:"5000" help:"Connections with one subscription each, on a page of 20 posts."`
	Rate          int           `default:"200" help:"Likes a second of one post that all subscribe to."`
	Time          time.Duration `default:"60s" help:"Length of the run."`
}

// watched is how many of the subscriptions tell when they heard of each like.
const watched = 200

// Run opens subscriptions, and likes one post at a steady rate.
func (c *subscriptionsCommand) Run(ctx context.Context) (err error) {
	client, err := openEmpty(ctx, c.Redis)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	likes := int(c.Time.Seconds() * float64(c.Rate))
	server, err := newServed(ctx, &likesCommand{Redis: c.Redis, Kafka: c.Kafka, Topic: fmt.Sprintf("bench-%d", time.Now().UnixNano()), Clients: 64, Viewers: likes})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.close()) }()
	before, err := server.memory()
	if err != nil {
		return err
	}
	run := &subscriptionsRun{server: server, sent: make([]time.Time, likes+1)}
	connected, end := context.WithCancel(ctx)
	defer end()
	var clients sync.WaitGroup
	var opening errgroup.Group
	opening.SetLimit(64)
	for i := range c.Subscriptions {
		opening.Go(func() error {
			conn, err := run.open(connected)
			if err != nil {
				return err
			}
			clients.Go(func() { run.read(connected, conn, i < watched) })
			return nil
		})
	}
	if err := opening.Wait(); err != nil {
		return err
	}
	for run.messages.Load() < int64(c.Subscriptions) { // the counts of now
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	time.Sleep(3 * time.Second) // each reads once more after a second
	idle, err := server.memory()
	if err != nil {
		return err
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", server.cmd.Process.Pid))
	if err != nil {
		return err
	}
	fmt.Printf("%d subscriptions: %.1f KB each (%.0f MB, of %.0f before), %d file descriptors\n",
		c.Subscriptions, float64(idle-before)/1024/float64(c.Subscriptions), float64(idle)/(1<<20), float64(before)/(1<<20), len(files))

	used, err := server.cpu()
	if err != nil {
		return err
	}
	began, counted := time.Now(), run.messages.Load()
	if err := run.like(ctx, c.Rate, likes); err != nil {
		return err
	}
	took := time.Since(began)
	time.Sleep(2 * time.Second) // the last are on their way
	now, err := server.cpu()
	if err != nil {
		return err
	}
	busy, err := server.memory()
	if err != nil {
		return err
	}
	n := run.messages.Load() - counted
	run.mu.Lock()
	defer run.mu.Unlock()
	fmt.Printf("%d likes in %s: %d messages (%.0f a second), %.0f %% of a core, %.1f KB a subscription\n",
		likes, took.Round(time.Millisecond), n, float64(n)/took.Seconds(), 100*(now-used).Seconds()/took.Seconds(),
		float64(busy-before)/1024/float64(c.Subscriptions))
	fmt.Printf("like to message, ms: p50 %.0f, p99 %.0f, of %d\n", quantile(run.latencies, 0.5), quantile(run.latencies, 0.99), len(run.latencies))
	end()
	clients.Wait()
	return nil
}

type subscriptionsRun struct {
	server   *served
	messages atomic.Int64

	mu        sync.Mutex
	sent      []time.Time // by the count that a like made
	latencies []float64
}

func (r *subscriptionsRun) open(ctx context.Context) (*websocket.Conn, error) {
	conn, response, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(r.server.url, "http")+"/graphql", &websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}})
	if err != nil {
		return nil, err
	}
	if response.Body != nil {
		_ = response.Body.Close()
	}
	ids := make([]string, 0, 20)
	for i := 200; i > 180; i-- {
		ids = append(ids, "post:"+strconv.Itoa(i))
	}
	messages := []map[string]any{
		{"type": "connection_init"},
		{"id": "1", "type": "subscribe", "payload": map[string]any{
			"query":     "subscription($ids:[ID!]!){countsChanged(ids:$ids){id likeCount favCount version}}",
			"variables": map[string]any{"ids": ids},
		}},
	}
	for _, m := range messages {
		if err := wsjson.Write(ctx, conn, m); err != nil {
			return nil, errors.Join(err, conn.CloseNow())
		}
	}
	return conn, nil
}

// read counts messages, and for some connections notes when each like was heard
// of.
func (r *subscriptionsRun) read(ctx context.Context, conn *websocket.Conn, noting bool) {
	defer func() { _ = conn.CloseNow() }()
	heard := 0
	for {
		var m struct {
			Type    string
			Payload struct {
				Data struct {
					CountsChanged struct {
						ID        string
						LikeCount int
					}
				}
			}
		}
		if !noting {
			if _, _, err := conn.Read(ctx); err != nil {
				return
			}
			r.messages.Add(1)
			continue
		}
		if err := wsjson.Read(ctx, conn, &m); err != nil {
			return
		}
		r.messages.Add(1)
		change := m.Payload.Data.CountsChanged
		if m.Type != "next" || change.ID != hotPost {
			continue
		}
		now := time.Now()
		r.mu.Lock()
		for ; heard < change.LikeCount; heard++ {
			if at := r.sent[heard+1]; !at.IsZero() {
				r.latencies = append(r.latencies, now.Sub(at).Seconds()*1000)
			}
		}
		r.mu.Unlock()
	}
}

// like lets one viewer after the other like the post, at a steady rate. Each is
// sent before it is counted, so the n-th to be sent made the count n at the
// earliest.
func (r *subscriptionsRun) like(ctx context.Context, rate, likes int) error {
	var sending errgroup.Group
	sending.SetLimit(64)
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for i := range likes {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		r.mu.Lock()
		r.sent[i+1] = time.Now()
		r.mu.Unlock()
		sending.Go(func() error { return r.server.react(ctx, i, hotPost, true) })
	}
	return sending.Wait()
}

// memory is what the process holds in memory, in bytes.
func (p *process) memory() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return kb << 10, err
		}
	}
	return 0, errors.New("no VmRSS")
}
