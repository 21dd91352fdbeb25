// Package embedded holds the engines that `go run .` starts inside the process
// where no real ones are named: they make the first try easy and are not meant
// for more than one process.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// RedisPart is a Redis in the process's memory. What it holds goes with it.
type RedisPart struct {
	server *miniredis.Miniredis
	end    context.CancelFunc
	ticker sync.WaitGroup
}

// clockTick is how often its keys grow older: the error of an expiry.
const clockTick = 100 * time.Millisecond

// Redis starts one on a free port of the loopback interface. It runs until
// Close; ctx ending stops the clock by which its keys expire.
func Redis(ctx context.Context) (*RedisPart, error) {
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("start the embedded redis: %w", err)
	}
	ctx, end := context.WithCancel(ctx)
	p := &RedisPart{server: server, end: end}
	p.ticker.Go(func() { p.age(ctx) })
	return p, nil
}

// age lets time pass for the keys: miniredis expires none by itself.
func (p *RedisPart) age(ctx context.Context) {
	ticker := time.NewTicker(clockTick)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			p.server.FastForward(now.Sub(last))
			last = now
		}
	}
}

// URL is how to reach it.
func (p *RedisPart) URL() string { return "redis://" + p.server.Addr() }

// Close stops it. A second call is an error.
func (p *RedisPart) Close() error {
	if p.server == nil {
		return errors.New("embedded redis is closed already")
	}
	p.end()
	p.ticker.Wait()
	p.server.Close()
	p.server = nil
	return nil
}
