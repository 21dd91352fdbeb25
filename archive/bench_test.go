package archive_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tallyfeed/tallyfeed/archive"
	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/database"
	"github.com/tallyfeed/tallyfeed/enginetest"
)

// BenchmarkLikers reads pages of 20 likers of one post, at its start and in its
// middle. TALLYFEED_BENCH_LIKERS says how many like it; 1000000 takes a while to
// fill in.
func BenchmarkLikers(b *testing.B) {
	likers := 20_000
	if text := os.Getenv("TALLYFEED_BENCH_LIKERS"); text != "" {
		var err error
		if likers, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	for engine, address := range map[string]func() string{
		"SQLite":     func() string { return "sqlite:" + filepath.Join(b.TempDir(), "archive.db") },
		"PostgreSQL": func() string { return enginetest.Postgres(b) },
	} {
		b.Run(engine, func(b *testing.B) {
			db, err := database.Open(b.Context(), address())
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = db.Close() })
			if err := database.Migrate(b.Context(), db); err != nil {
				b.Fatal(err)
			}
			const numbers = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
			for _, statement := range []string{
				"INSERT INTO users (sub, name, ordinal) " + numbers + "SELECT 'viewer-' || i, 'Name', i FROM n",
				"INSERT INTO reactions (subject, metric, ordinal, active, version) " + numbers + "SELECT 'post:1', 0, i, TRUE, CAST(i + 1 AS BIGINT) * 1048576 FROM n",
			} {
				if _, err := db.ExecContext(b.Context(), statement, likers-1); err != nil {
					b.Fatal(err)
				}
			}
			if _, err := db.ExecContext(b.Context(), "ANALYZE"); err != nil {
				b.Fatal(err)
			}
			store := archive.NewStore(db)
			subject, err := counter.NewSubject(counter.TypePost, "1")
			if err != nil {
				b.Fatal(err)
			}
			middle := &archive.Liker{Version: counter.Version(likers/2) << 20, Ordinal: counter.Ordinal(likers / 2)}
			for name, after := range map[string]*archive.Liker{"first": nil, "middle": middle} {
				b.Run(fmt.Sprintf("likers=%d/%s", likers, name), func(b *testing.B) {
					var took []time.Duration
					for b.Loop() {
						at := time.Now()
						pages, err := store.Likers(b.Context(), archive.LikersQuery{Subject: subject, After: after, N: 20})
						if err != nil || len(pages[0]) != 20 {
							b.Fatal(pages, err)
						}
						took = append(took, time.Since(at))
					}
					slices.Sort(took)
					b.ReportMetric(took[len(took)/2].Seconds()*1000, "p50-ms")
				})
			}
		})
	}
}
