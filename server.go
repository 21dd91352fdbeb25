// Tallyfeed serves feed pages with counts and, for each viewer, what that
// viewer likes, over GraphQL. See README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
	_ "time/tzdata" // for --time-zone where the system has none

	"golang.org/x/sync/errgroup"

	"github.com/tallyfeed/tallyfeed/archive"
	"github.com/tallyfeed/tallyfeed/auth"
	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/edge"
	"github.com/tallyfeed/tallyfeed/feed"
	"github.com/tallyfeed/tallyfeed/graph"
	"github.com/tallyfeed/tallyfeed/web"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "tallyfeed:", err)
		os.Exit(1)
	}
}

// How long a stop may take: requests first, then what they left behind.
const (
	requestsTimeout = 4 * time.Second
	stopTimeout     = 10 * time.Second
)

// serve runs the roles of the configuration until ctx ends, and then stops in
// order: no more requests, publish, fold and commit, close.
func serve(ctx context.Context, config serveCommand, out, logs io.Writer) (err error) {
	log := config.logger(logs)
	counter.LogRedis(log)
	// What the parts need lives longer than ctx: requests in flight finish first.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()

	parts, err := openParts(ctx, life, config, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, parts.close()) }()

	var listener net.Listener
	if listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", config.Listen); err != nil {
		return fmt.Errorf("can't listen on %s: %w", config.Listen, cause(err))
	}
	system := newSystem(config, parts, log)
	handler, err := system.handler(life, config, log)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	server := &http.Server{
		Handler:           handler,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug), // of handshakes and connections that break off
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
	}
	if system.edge != nil {
		server.RegisterOnShutdown(system.edge.Close)
	}
	if err := announce(out, config, parts, listener.Addr().String()); err != nil {
		return errors.Join(err, listener.Close())
	}

	serving := make(chan error, 1)
	go func() { serving <- server.Serve(listener) }()
	workers := system.start(life)

	select {
	case <-ctx.Done():
	case err := <-serving:
		return errors.Join(fmt.Errorf("serve: %w", err), workers.stop())
	}
	log.Info("stopping")
	deadline := time.AfterFunc(stopTimeout, func() {
		log.Error("stop took too long; what is left is taken up by the next start")
		os.Exit(1)
	})
	defer deadline.Stop()
	system.draining.Store(true)
	closing, cancel := context.WithTimeout(life, requestsTimeout)
	defer cancel()
	if err := server.Shutdown(closing); err != nil {
		log.Warn("requests cut off", "err", err)
	}
	if err := workers.stop(); err != nil {
		return err
	}
	log.Info("stopped")
	return nil
}

// announce prints what is embedded, where to look, and what to paste.
func announce(out io.Writer, config serveCommand, parts *parts, address string) error {
	text := ""
	for _, part := range []struct {
		name, real string
		note       string
	}{
		{"redis", parts.redisName, "likes are kept in the database"},
		{"kafka", parts.kafkaName, "kept in " + config.Data},
		{"database", parts.databaseName, "SQLite, kept in " + config.Data},
	} {
		if part.real == "" {
			text += fmt.Sprintf("%-9s embedded (%s)\n", part.name, part.note)
		} else {
			text += fmt.Sprintf("%-9s %s\n", part.name, part.real)
		}
	}
	text += fmt.Sprintf("address   http://%s/\n", address)
	if parts.embeddedSecret {
		token, err := auth.Mint(parts.tokens.Secret, "alice", "Alice", config.JWTIssuer, config.JWTAudience, 24*time.Hour)
		if err != nil {
			return err
		}
		if config.has(roleAPI) {
			// What is behind the # stays in the browser: no log gets to see it.
			text += fmt.Sprintf("page      http://%s/#token=%s\n", address, token)
		}
		text += fmt.Sprintf("token     %s\n          (alice, for a day; more: go run . token --sub NAME)\n", token)
	}
	_, err := io.WriteString(out, text)
	return err
}

// workers are the roles that run beside the requests. They are told to stop
// together, and each finishes what it has taken.
type workers struct {
	group *errgroup.Group
	end   context.CancelFunc
}

func (w *workers) stop() error {
	w.end()
	return w.group.Wait()
}

// start runs what the roles ask for.
func (s *system) start(life context.Context) *workers {
	ctx, end := context.WithCancel(life)
	w := &workers{group: &errgroup.Group{}, end: end}
	for _, worker := range s.workers {
		w.group.Go(func() error { return worker(ctx) })
	}
	return w
}

// readiness fails while draining, or while a part does not answer.
func (s *system) readiness(ctx context.Context) error {
	if s.draining.Load() {
		return errors.New("draining")
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	status, err := s.parts.redis.Epoch(ctx)
	switch {
	case err != nil:
		return errors.New("redis does not answer")
	case !status.Complete():
		if s.restorer != nil && s.restorer.Progress() != "" {
			return errors.New(s.restorer.Progress())
		}
		return errors.New("redis does not hold all facts")
	}
	if err := s.parts.database.PingContext(ctx); err != nil {
		return errors.New("the database does not answer")
	}
	if err := s.verifier.Ready(); err != nil {
		return errors.New("the keys for tokens can't be had")
	}
	return nil
}

// handler is everything that is served.
func (s *system) handler(life context.Context, config serveCommand, log logger) (http.Handler, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := s.readiness(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ready\n")
	})
	var err error
	if s.verifier, err = auth.New(life, s.parts.tokens); err != nil {
		return nil, err
	}
	if !config.has(roleAPI) {
		return wrapped(mux)
	}
	options, err := s.edgeOptions(config, log)
	if err != nil {
		return nil, err
	}
	if err := s.leavers.Load(life); err != nil {
		return nil, err
	}
	s.edge = graph.NewHandler(graph.Services{
		Posts: s.posts, Facts: s.facts, Counts: s.reader, Archive: s.store, Lists: archive.NewLists(s.store, s.reader),
		Live: s.live, Users: s.leavers, Verifier: s.verifier, Log: log,
	}, options)
	mux.Handle("/graphql", s.edge)
	mux.Handle("GET /playground/", graph.NewPlayground("/playground/"))
	mux.Handle("GET /playground", http.RedirectHandler("/playground/", http.StatusMovedPermanently))
	page := web.NewPage()
	mux.Handle("GET /{$}", page)
	mux.Handle("GET /assets/", page)
	return wrapped(mux)
}

// edgeOptions is what the flags say of the GraphQL edge.
func (s *system) edgeOptions(config serveCommand, log logger) (options graph.Options, err error) {
	shared := edge.NewShared(s.parts.redis.Client(), log)
	options = graph.Options{
		Introspection: config.introspection(), Origins: config.CORSOrigins,
		Documents: edge.NewDocuments(shared), TrustedOnly: config.TrustedOnly,
		Likers: graph.LikersPolicy(config.Likers["post"]),
	}
	if config.RateCost > 0 {
		options.Costs = edge.NewBuckets(shared, "cost", config.RateCost)
	}
	if config.RateMutations > 0 {
		options.Mutations = edge.NewBuckets(shared, "mutations", config.RateMutations)
	}
	if config.TrustedDocuments != "" {
		if options.Trusted, err = trustedDocuments(config.TrustedDocuments); err != nil {
			return options, fmt.Errorf("--trusted-documents: %w", err)
		}
	}
	options.Address, err = clientAddress(config.TrustedProxies)
	return options, err
}

// trustedDocuments reads a manifest, and refuses one whose documents could not
// be run: better at the start than at somebody's tap.
func trustedDocuments(name string) (*edge.Manifest, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	manifest, err := edge.ReadManifest(file)
	if err != nil {
		return nil, err
	}
	return manifest, manifest.Each(func(id, document string) error {
		if err := graph.CheckDocument(document); err != nil {
			return fmt.Errorf("document %s: %w", id, err)
		}
		return nil
	})
}

// subjects lets feed delete what is counted about a post.
type subjects struct{ facts *counter.Facts }

// Delete is part of feed.Subjects.
func (s subjects) Delete(ctx context.Context, postID string) error {
	subject, err := counter.NewSubject(counter.TypePost, postID)
	if err != nil {
		return err
	}
	return s.facts.Delete(ctx, subject)
}

var _ feed.Subjects = subjects{}
