package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tallyfeed/tallyfeed/auth"
)

const (
	pageSize = 20
	secret   = "a secret of the benchmark, 32 bytes at least"
)

// pageQuery asks for all there is of a page, as the figures of other servers do.
const pageQuery = `query Feed { feed(first: 20) { nodes { id author { id name } title body publishedAt visibility likeCount favCount countsAsOf viewerHasLiked viewerHasFaved } } }`

type pageCommand struct {
	Redis   string        `required:"" help:"An empty Redis."`
	Rounds  int           `default:"5" help:"How often each server has its turn."`
	Time    time.Duration `default:"4s" help:"Length of a turn."`
	Clients int           `default:"16" help:"Connections."`
}

// Run measures both in turns.
func (c *pageCommand) Run(ctx context.Context) (err error) {
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
	if err := writePosts(posts, 200); err != nil {
		return err
	}
	database := "sqlite:" + filepath.Join(dir, "feed.db")
	if err := runOnce(ctx, program, "import", "--database", database, posts); err != nil {
		return err
	}
	ours, err := start(ctx, program, "serve", "--rate-cost", "1000000000", "--rate-mutations", "1000000000", "--listen", "127.0.0.1:0", "--data", dir, "--redis", c.Redis, "--database", database, "--jwt-secret", secret, "--log-level", "error")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ours.stop()) }()
	token, err := c.prepare(ctx, ours)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// The viewer was the first to react, so its ordinal is 0.
	plain, err := start(ctx, self, "plain", "--redis", c.Redis, "--posts", posts, "--secret", secret, "--ordinal", "0")
	if err != nil {
		return err
	}
	defer func() { _ = plain.stop() }()

	var ratios []float64
	fmt.Printf("%-12s %10s %10s %10s %14s\n", "server", "pages/s", "p50 ms", "p99 ms", "CPU us/page")
	for range c.Rounds {
		var each [2]float64
		for i, p := range []*process{plain, ours} {
			r, err := c.turn(ctx, p, token)
			if err != nil {
				return err
			}
			fmt.Printf("%-12s %10.0f %10.2f %10.2f %14.0f\n", []string{"hand-written", "tallyfeed"}[i], r.rate, r.p50, r.p99, r.cpu)
			each[i] = r.cpu
		}
		ratios = append(ratios, each[1]/each[0])
	}
	slices.Sort(ratios)
	fmt.Printf("CPU a page, tallyfeed / hand-written: median %.2f, min %.2f, max %.2f\n", ratios[len(ratios)/2], ratios[0], ratios[len(ratios)-1])
	return nil
}

// prepare likes some posts, so that both servers have something to find.
func (c *pageCommand) prepare(ctx context.Context, p *process) (string, error) {
	token, err := auth.Mint([]byte(secret), "viewer", "Viewer", "", "", time.Hour)
	if err != nil {
		return "", err
	}
	for i := 1; i <= pageSize; i += 2 {
		body := fmt.Sprintf(`{"query":"mutation{like(input:{subjectId:\"post:%d\"}){changed}}"}`, 200-i+1)
		if _, err := ask(ctx, http.DefaultClient, p.url, token, []byte(body)); err != nil {
			return "", err
		}
	}
	return token, nil
}

type turn struct{ rate, p50, p99, cpu float64 }

func (c *pageCommand) turn(ctx context.Context, p *process, token string) (turn, error) {
	body, err := json.Marshal(map[string]string{"query": pageQuery})
	if err != nil {
		return turn{}, err
	}
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: c.Clients}}
	first, err := ask(ctx, client, p.url, token, body)
	if err != nil {
		return turn{}, err
	}
	if n := strings.Count(first, `"viewerHasLiked":true`); n != pageSize/2 {
		return turn{}, fmt.Errorf("%d posts of the page are liked, want %d: %s", n, pageSize/2, first)
	}
	before, err := p.cpu()
	if err != nil {
		return turn{}, err
	}
	began := time.Now()
	var mu sync.Mutex
	var took []float64
	var failed error
	var wg sync.WaitGroup
	for range c.Clients {
		wg.Go(func() {
			var own []float64
			for time.Since(began) < c.Time {
				at := time.Now()
				if _, err := ask(ctx, client, p.url, token, body); err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
					return
				}
				own = append(own, time.Since(at).Seconds()*1000)
			}
			mu.Lock()
			took = append(took, own...)
			mu.Unlock()
		})
	}
	wg.Wait()
	length := time.Since(began)
	after, err := p.cpu()
	if err = errors.Join(err, failed); err != nil {
		return turn{}, err
	}
	return turn{
		rate: float64(len(took)) / length.Seconds(),
		p50:  quantile(took, 0.5), p99: quantile(took, 0.99),
		cpu: float64((after - before).Microseconds()) / float64(len(took)),
	}, nil
}

// quantile sorts values.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[min(int(q*float64(len(values))), len(values)-1)]
}

// ask posts a body and returns the answer; one that is not 200, or has errors,
// is an error.
func ask(ctx context.Context, client *http.Client, url, token string, body []byte) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/graphql", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK || bytes.Contains(text, []byte(`"errors"`)) {
		return "", fmt.Errorf("status %d: %.300s", response.StatusCode, text)
	}
	return string(text), nil
}

// writePosts writes n posts with ids 1 to n, bodies of 216 characters.
func writePosts(file string, n int) error {
	var text strings.Builder
	random := rand.New(rand.NewPCG(1, 2))
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for i := 1; i <= n; i++ {
		body := make([]byte, 216)
		for j := range body {
			body[j] = "abcdefghijklmnopqrstuvwxyz      "[random.IntN(32)]
		}
		body[0], body[len(body)-1] = 'A', '.'
		fmt.Fprintf(&text, `{"id":"%d","author":"author%d","authorName":"Author %d","title":"Post number %d","body":%q,"publishedAt":%q}`+"\n",
			i, i%20, i%20, i, body, at.Add(time.Duration(i)*time.Minute).Format(time.RFC3339))
	}
	return os.WriteFile(file, []byte(text.String()), 0o600)
}
