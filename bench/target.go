package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/uptrace/bun"
	"golang.org/x/sync/errgroup"

	"github.com/tallyfeed/tallyfeed/auth"
	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/database"
)

// target is what likes are sent to.
type target interface {
	// react likes or unlikes as a viewer by number.
	react(ctx context.Context, viewer int, post string, want bool) error
	// count is what nobody in particular sees.
	count(ctx context.Context, post string) (int, error)
	// archived says whether SQL has the like of a viewer.
	archived(ctx context.Context, viewer int, post string) (bool, error)
	cpu() (time.Duration, error)
	close() error
}

// served is a server process, over HTTP.
type served struct {
	*process
	http    *http.Client
	viewers []string // their tokens
	dir     string
	db      *bun.DB
}

func newServed(ctx context.Context, c *likesCommand) (*served, error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	program, err := build(ctx, dir)
	if err != nil {
		return nil, err
	}
	posts := filepath.Join(dir, "posts.jsonl")
	if err := writePosts(posts, likePosts); err != nil {
		return nil, err
	}
	address := c.Database
	if address == "" {
		address = "sqlite:" + filepath.Join(dir, "feed.db")
	}
	if err := runOnce(ctx, program, "import", "--database", address, posts); err != nil {
		return nil, err
	}
	server, err := start(ctx, program, "serve", "--rate-cost", "1000000000", "--rate-mutations", "1000000000", "--listen", "127.0.0.1:0", "--data", dir, "--redis", c.Redis,
		"--kafka", c.Kafka, "--kafka-topic", c.Topic, "--database", address, "--jwt-secret", secret, "--log-level", "warn")
	if err != nil {
		return nil, err
	}
	s := &served{process: server, dir: dir, http: &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: c.Clients + 32}}}
	if s.db, err = database.Open(ctx, address); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	for i := range c.Viewers {
		token, err := auth.Mint([]byte(secret), fmt.Sprintf("viewer%d", i), "", "", "", time.Hour)
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.viewers = append(s.viewers, token)
	}
	return s, nil
}

func (s *served) react(ctx context.Context, viewer int, post string, want bool) error {
	name := "like"
	if !want {
		name = "unlike"
	}
	body := fmt.Appendf(nil, `{"query":"mutation($s:ID!){%s(input:{subjectId:$s}){changed subject{likeCount}}}","variables":{"s":%q}}`, name, post)
	_, err := ask(ctx, s.http, s.url, s.viewers[viewer], body)
	return err
}

func (s *served) count(ctx context.Context, post string) (int, error) {
	text, err := ask(ctx, s.http, s.url, "", fmt.Appendf(nil, `{"query":"{post(id:\"%s\"){likeCount}}"}`, post))
	if err != nil {
		return 0, err
	}
	var reply struct {
		Data struct{ Post struct{ LikeCount int } }
	}
	err = json.Unmarshal([]byte(text), &reply)
	return reply.Data.Post.LikeCount, err
}

func (s *served) archived(ctx context.Context, viewer int, post string) (bool, error) {
	return s.db.NewSelect().TableExpr("reactions AS r").Join("JOIN users AS u ON u.ordinal = r.ordinal").
		Where("r.subject = ?", post).Where("r.metric = 0").Where("r.active").Where("u.sub = ?", fmt.Sprintf("viewer%d", viewer)).Exists(ctx)
}

func (s *served) close() error {
	return errors.Join(s.db.Close(), s.stop(), os.RemoveAll(s.dir))
}

// inside is the parts in this process, without GraphQL and HTTP.
type inside struct {
	redis      *counter.Redis
	facts      *counter.Facts
	reader     *counter.Reader
	publisher  *counter.Publisher
	aggregator *counter.Aggregator
	workers    *errgroup.Group
	end        context.CancelFunc
}

func newInside(ctx context.Context, c *likesCommand) (*inside, error) {
	r, err := counter.OpenRedis(ctx, c.Redis)
	if err != nil {
		return nil, err
	}
	kafka := counter.KafkaConfig{Brokers: []string{c.Kafka}, Topic: c.Topic, Partitions: 8, Replication: 1}
	if err := errors.Join(r.DeclareEpoch(ctx), kafka.EnsureTopics(ctx)); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	ordinals := counter.NewOrdinals(numbered{})
	p := &inside{redis: r, publisher: counter.NewPublisher(r, kafka, log), workers: &errgroup.Group{}}
	p.facts = counter.NewFacts(r, ordinals, log, counter.FactsConfig{OnChange: p.publisher.Offer})
	p.reader = counter.NewReader(r, ordinals, counter.ReaderConfig{})
	p.aggregator = counter.NewAggregator(r, kafka, log, counter.AggregatorConfig{Group: c.Topic})
	ctx, p.end = context.WithCancel(ctx)
	p.workers.Go(func() error { return p.publisher.Run(ctx) })
	p.workers.Go(func() error { return p.aggregator.Run(ctx) })
	return p, nil
}

func (p *inside) react(ctx context.Context, viewer int, post string, want bool) error {
	s, err := counter.ParseSubject(post)
	if err != nil {
		return err
	}
	_, err = p.facts.Set(ctx, counter.Viewer(strconv.Itoa(viewer)), s, counter.Like, want)
	return err
}

func (p *inside) count(ctx context.Context, post string) (int, error) {
	s, err := counter.ParseSubject(post)
	if err != nil {
		return 0, err
	}
	readings, err := p.reader.Counts(ctx, []counter.Subject{s})
	return int(readings[0].Counts.Like), err
}

// archived is part of target. Inside the process nothing is archived.
func (p *inside) archived(context.Context, int, string) (bool, error) { return true, nil }

func (p *inside) cpu() (time.Duration, error) {
	return time.Duration(ownCPU() * float64(time.Second)), nil
}

func (p *inside) close() error {
	p.end()
	return errors.Join(p.workers.Wait(), p.publisher.Close(), p.aggregator.Close(), p.redis.Close())
}
