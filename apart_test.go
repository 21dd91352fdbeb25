package main

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/tallyfeed/tallyfeed/enginetest"
)

// Roles may run apart: one process takes a like, another folds it, a third one
// shows it.
func TestApart(t *testing.T) {
	t.Parallel()
	system := realSystem(t, startRedis(t, false), enginetest.Kafka(t))
	system.importFile(t, writePosts(t, 20), "21 added, 0 there already, 0 bad\n")
	taking := system.serve(t, "--roles", "api")
	showing := system.serve(t, "--roles", "api")
	const id = "post:e020"
	bob, eve := system.token(t, "bob"), system.token(t, "eve")
	yes, no := true, false
	for _, server := range []*running{taking, showing} {
		if err := want(server.see(t, eve, id), 0, &no); err != nil {
			t.Fatal(err)
		}
	}

	// Nobody folds yet: the viewer sees the own like on any server all the same.
	taking.react(t, bob, "like", id)
	if err := want(showing.see(t, bob, id), 1, &yes); err != nil {
		t.Errorf("on another server: %v", err)
	}
	if err := want(showing.see(t, eve, id), 0, &no); err != nil {
		t.Errorf("somebody counts although nobody folds: %v", err)
	}
	folding := system.serve(t, "--roles", "publish,aggregate")
	eventually(t, serveWithin, func() error { return want(showing.see(t, eve, id), 1, &no) })

	// A post by one is on the other's first page within 2 s.
	var published struct{ PublishPost struct{ Post post } }
	taking.ask(t, bob, `mutation{publishPost(input:{title:"t",body:"b"}){post{id}}}`, nil, &published)
	eventually(t, 2*time.Second+time.Second, func() error {
		if first := showing.feed(t, "", 100)[0]; first.ID != published.PublishPost.Post.ID {
			return errors.New("first is " + first.ID)
		}
		return nil
	})

	// The one that folds may go away and come back.
	folding.stop(t)
	taking.react(t, eve, "like", id)
	system.serve(t, "--roles", "aggregate")
	eventually(t, serveWithin, func() error { return want(showing.see(t, "", id), 2, nil) })
	taking.stop(t)
	showing.stop(t)
}

// A Redis that goes away takes counts, flags and likes with it and nothing else,
// and all is well without a restart when it is back.
func TestRedisComesBack(t *testing.T) {
	t.Parallel()
	server := startRedis(t, true)
	if !server.Real() {
		t.Skip("kills a real Redis")
	}
	system := realSystem(t, server, enginetest.Kafka(t))
	system.importFile(t, writePosts(t, 20), "21 added, 0 there already, 0 bad\n")
	p := system.serve(t)
	const id = "post:e020"
	bob := system.token(t, "bob")
	yes := true
	p.react(t, bob, "like", id)
	server.Kill()
	var feed struct{ Feed struct{ Nodes []post } }
	p.ask(t, bob, `{feed(first:20){nodes{id title}}}`, nil, &feed)
	if len(feed.Feed.Nodes) != 20 {
		t.Errorf("posts: %v", feed.Feed.Nodes)
	}
	for _, document := range []string{`{feed{nodes{id likeCount}}}`, `mutation{like(input:{subjectId:"post:e001"}){changed}}`} {
		if a := p.ask(t, bob, document, nil, nil); len(a.Errors) != 1 || a.Errors[0].Extensions.Code != "UNAVAILABLE" {
			t.Errorf("%s: %s %+v", document, a.Data, a.Errors)
		}
	}
	if status, body := p.get(t, "/readyz"); status != http.StatusServiceUnavailable || body != "redis does not answer\n" {
		t.Errorf("/readyz: %d %s", status, body)
	}
	if status, _ := p.get(t, "/healthz"); status != http.StatusOK {
		t.Errorf("/healthz: %d", status)
	}
	server.Restart()
	eventually(t, 10*time.Second, func() error {
		if status, body := p.get(t, "/readyz"); status != http.StatusOK {
			return fmt.Errorf("/readyz: %d %s", status, body)
		}
		return nil
	})
	if err := want(p.see(t, bob, id), 1, &yes); err != nil {
		t.Error(err)
	}
	p.stop(t)
}

// Likes that were answered are counted, although the server was killed before
// Kafka had them, and nobody does anything about it (DESIGN 2.3, 2.4).
func TestKilledBeforePublishing(t *testing.T) {
	t.Parallel()
	broker := enginetest.StartKafka(t)
	system := realSystem(t, startRedis(t, false), broker.Brokers())
	system.importFile(t, writePosts(t, 20), "21 added, 0 there already, 0 bad\n")
	first := system.serve(t)
	ids := []string{"post:e018", "post:e019", "post:e020"}
	for _, id := range ids { // their snapshots are there, and hold 0
		if err := want(first.see(t, "", id), 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	bob := system.token(t, "bob")
	yes := true
	broker.Kill()
	for _, id := range ids {
		if changed, subject := first.react(t, bob, "like", id); !changed || want(subject, 1, &yes) != nil {
			t.Errorf("a like while Kafka is away: changed %t, %s", changed, subject)
		}
	}
	first.kill()
	broker.Restart()

	second := system.serve(t)
	for _, id := range ids {
		eventually(t, serveWithin, func() error { return want(second.see(t, "", id), 1, nil) })
		if err := want(second.see(t, bob, id), 1, &yes); err != nil {
			t.Error(err)
		}
	}
	second.stop(t)
}
