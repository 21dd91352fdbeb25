package faults

import (
	"fmt"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallyfeed/tallyfeed/database"
)

// compareArchive waits until every row is what the clients were told. It returns
// how many rows were compared, and what still differs at the end.
func (w *world) compareArchive(all *told, within time.Duration) (rows int, differences []string) {
	w.t.Helper()
	db, err := database.Open(w.t.Context(), w.sql)
	if err != nil {
		return 0, []string{err.Error()}
	}
	defer func() { _ = db.Close() }()
	for deadline := time.Now().Add(within); ; time.Sleep(100 * time.Millisecond) {
		rows, differences = w.archived(db, all)
		if len(differences) == 0 || time.Now().After(deadline) {
			return rows, differences
		}
	}
}

func (w *world) archived(db *bun.DB, all *told) (n int, found []string) {
	var rows []struct {
		Subject, Sub string
		Metric       int
		Active       bool
	}
	err := db.NewRaw("SELECT r.subject, u.sub, r.metric, r.active FROM reactions AS r JOIN users AS u ON u.ordinal = r.ordinal").Scan(w.t.Context(), &rows)
	if err != nil {
		return 0, []string{err.Error()}
	}
	archived := make(map[fact]bool, len(rows))
	for _, row := range rows {
		f := fact{metric: []string{"like", "fav"}[row.Metric]}
		_, err1 := fmt.Sscanf(row.Sub, "viewer%d", &f.viewer)
		_, err2 := fmt.Sscanf(row.Subject, "post:%d", &f.post)
		if err1 != nil || err2 != nil {
			return 0, []string{fmt.Sprintf("a foreign row: %+v", row)}
		}
		archived[f] = row.Active
		if all.states[f] != row.Active {
			found = append(found, fmt.Sprintf("row of %+v: %t, client was told %t", f, row.Active, all.states[f]))
		}
	}
	for f, on := range all.states {
		if _, has := archived[f]; on && !has {
			found = append(found, fmt.Sprintf("no row of %+v, which the client was told is set", f))
		}
	}
	counts := map[string][2]int{}
	for f, on := range all.states {
		if on {
			c := counts[fmt.Sprintf("post:%d", f.post)]
			if f.metric == "like" {
				c[0]++
			} else {
				c[1]++
			}
			counts[fmt.Sprintf("post:%d", f.post)] = c
		}
	}
	var totals []struct {
		Subject     string
		Likes, Favs int
	}
	if err := db.NewRaw("SELECT subject, likes, favs FROM subject_counts").Scan(w.t.Context(), &totals); err != nil {
		return 0, []string{err.Error()}
	}
	for _, total := range totals {
		if want := counts[total.Subject]; want != [2]int{total.Likes, total.Favs} {
			found = append(found, fmt.Sprintf("archived counts of %s: %d and %d, clients were told %v", total.Subject, total.Likes, total.Favs, want))
		}
	}
	return len(rows), found
}

// restore empties Redis under the running servers, and says how long it took
// until they were ready again: all facts restored.
func (w *world) restore() time.Duration {
	w.t.Helper()
	began := time.Now()
	if err := w.direct.FlushAll(w.t.Context()).Err(); err != nil {
		w.t.Fatal(err)
	}
	for _, s := range w.servers {
		if s.address == "" {
			continue
		}
		if err := s.awaitReady(60 * time.Second); err != nil {
			w.t.Fatalf("not restored: %v\n%s", err, strings.Join(w.log.lines("restore"), "\n"))
		}
	}
	return time.Since(began)
}
