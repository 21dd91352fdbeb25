package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/redis/go-redis/v9"

	"github.com/tallyfeed/tallyfeed/archive"
	"github.com/tallyfeed/tallyfeed/auth"
	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/database"
	"github.com/tallyfeed/tallyfeed/edge"
	"github.com/tallyfeed/tallyfeed/enginetest"
	"github.com/tallyfeed/tallyfeed/feed"
	"github.com/tallyfeed/tallyfeed/graph"
	"github.com/tallyfeed/tallyfeed/leaving"
)

// BenchmarkPage is the signed-in page of 20, warm, in process, through
// Tallyfeed's handler and through the hand-written one, on the same Redis. CPU
// and pages a second of whole servers are printed by the command page.
func BenchmarkPage(b *testing.B) {
	ctx := b.Context()
	dir := b.TempDir()
	url := enginetest.Redis(b)
	file := filepath.Join(dir, "posts.jsonl")
	if err := writePosts(file, 200); err != nil {
		b.Fatal(err)
	}
	db, err := database.Open(ctx, "sqlite:"+filepath.Join(dir, "feed.db"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	if err := database.Migrate(ctx, db); err != nil {
		b.Fatal(err)
	}
	r, err := counter.OpenRedis(ctx, url)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = r.Close() })
	if err := r.DeclareEpoch(ctx); err != nil {
		b.Fatal(err)
	}
	ordinals := counter.NewOrdinals(numbered{})
	log := slog.New(slog.DiscardHandler)
	facts := counter.NewFacts(r, ordinals, log, counter.FactsConfig{})
	for i := 1; i <= pageSize; i += 2 {
		s, _ := counter.NewSubject(counter.TypePost, fmt.Sprint(200-i+1))
		if _, err := facts.Set(ctx, "7", s, counter.Like, true); err != nil {
			b.Fatal(err)
		}
	}
	posts := feed.New(db, feed.Config{})
	jsonl, err := os.Open(file)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = jsonl.Close() })
	if _, err := posts.Import(ctx, jsonl); err != nil {
		b.Fatal(err)
	}
	verifier, err := auth.New(ctx, auth.Config{Secret: []byte(secret)})
	if err != nil {
		b.Fatal(err)
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		b.Fatal(err)
	}
	client := redis.NewClient(options)
	b.Cleanup(func() { _ = client.Close() })
	hand := &plain{redis: client, secret: []byte(secret), parser: jwt.NewParser(jwt.WithValidMethods([]string{"HS256"}), jwt.WithExpirationRequired())}
	if hand.posts, err = newest(file, pageSize); err != nil {
		b.Fatal(err)
	}
	token, err := auth.Mint([]byte(secret), "7", "Viewer", "", "", time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	body, err := json.Marshal(map[string]string{"query": pageQuery})
	if err != nil {
		b.Fatal(err)
	}
	// Limits that nobody reaches, but that are asked.
	shared := edge.NewShared(r.Client(), log)
	limited := graph.Options{
		Documents: edge.NewDocuments(shared),
		Costs:     edge.NewBuckets(shared, "cost", 1_000_000_000), Mutations: edge.NewBuckets(shared, "mutations", 1_000_000),
	}
	handlers := []struct {
		name    string
		handler http.Handler
	}{
		{"tallyfeed", graph.NewHandler(graph.Services{
			Posts: posts, Facts: facts, Counts: counter.NewReader(r, ordinals, counter.ReaderConfig{}), Archive: archive.NewStore(db), Users: leaving.New(db, log), Verifier: verifier, Log: log,
		}, limited)},
		{"hand-written", hand.page(7)},
	}
	for _, h := range handlers {
		b.Run(h.name, func(b *testing.B) {
			b.ReportAllocs()
			var took []float64
			for b.Loop() {
				at := time.Now()
				request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/graphql", strings.NewReader(string(body)))
				request.Header.Set("Content-Type", "application/json")
				request.Header.Set("Authorization", "Bearer "+token)
				w := httptest.NewRecorder()
				h.handler.ServeHTTP(w, request)
				if n := strings.Count(w.Body.String(), `"viewerHasLiked":true`); n != pageSize/2 {
					b.Fatalf("%d posts are liked: %s", n, w.Body.String())
				}
				took = append(took, time.Since(at).Seconds()*1000)
			}
			b.ReportMetric(quantile(took, 0.5), "p50-ms")
		})
	}
}
