package graph_test

import "testing"

// Exact counts come from the facts: they are right while the snapshot is still
// behind, for everybody, and cost no round trip.
func TestExactCounts(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	const fields = `{feed(first:20){nodes{id likeCount exactLikeCount exactFavCount viewerHasLiked}}}`
	e.ok(t, "bob", fields, nil) // snapshots are there, and hold 0
	for _, sub := range []string{"bob", "eve", "joe"} {
		a := e.ok(t, sub, `mutation{like(input:{subjectId:"post:p60"}){subject{likeCount exactLikeCount exactFavCount}}}`, nil)
		if a.at("like", "subject", "likeCount") != a.at("like", "subject", "exactLikeCount") || a.at("like", "subject", "exactFavCount") != 0.0 {
			t.Errorf("a mutation's counts are exact: %s", a.raw)
		}
	}
	for sub, trips := range map[string]int{"bob": 2, "": 1} {
		e.trips.reset()
		a := e.ok(t, sub, fields, nil)
		if got := a.at("feed", "nodes", 0, "exactLikeCount"); got != 3.0 {
			t.Errorf("as %q: exactly %v, want 3: %.300s", sub, got, a.raw)
		}
		if got := a.at("feed", "nodes", 0, "likeCount"); sub == "" && got != 0.0 {
			t.Errorf("nobody folds here, so the copy holds 0, and not %v", got)
		}
		if got, commands := e.trips.seen(); got != trips {
			t.Errorf("as %q: %d round trips with %d commands, want %d", sub, got, commands, trips)
		}
	}
	// Who does not ask does not pay.
	e.trips.reset()
	e.ok(t, "", `{feed(first:20){nodes{id likeCount}}}`, nil)
	if _, commands := e.trips.seen(); commands != 20 {
		t.Errorf("%d commands for 20 counts", commands)
	}
}

// A population that is no number takes its exact count away, and says so once.
func TestExactCountMalformed(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	e.ok(t, "bob", `{post(id:"post:p1"){likeCount}}`, nil)
	key := ""
	names, err := e.raw.Keys(t.Context(), "cnt:v1:post:p1{*").Result()
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	key = "bm:like:post:p1:n" + names[0][len("cnt:v1:post:p1"):]
	if err := e.raw.Set(t.Context(), key, "many", 0).Err(); err != nil {
		t.Fatal(err)
	}
	a := e.ask(t, "bob", `{post(id:"post:p1"){likeCount exactLikeCount exactFavCount}}`, nil)
	if a.code() != "UNAVAILABLE" || a.at("post", "exactLikeCount") != nil || a.at("post", "likeCount") != 0.0 {
		t.Errorf("%s", a.raw)
	}
}
