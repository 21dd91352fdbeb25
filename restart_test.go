package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// What was liked is there again after a SIGKILL of the embedded default, but for
// the last second; pages are served within 2 s of the start, before likes are.
func TestKilledEmbedded(t *testing.T) {
	t.Parallel()
	system := embeddedSystem(t)
	system.importFile(t, writePosts(t, 60), "61 added, 0 there already, 0 bad\n")
	bob, eve := system.token(t, "bob"), system.token(t, "eve")
	yes, no := true, false
	best := time.Hour
	server := system.serve(t)
	for round := range 3 { // a busy machine may be late once
		for i := range 10 {
			server.react(t, bob, "like", fmt.Sprintf("post:e%03d", 1+10*round+i))
		}
		server.react(t, eve, "like", "post:e060")
		server.react(t, bob, "unlike", fmt.Sprintf("post:e%03d", 1+10*round))
		time.Sleep(time.Second) // what is younger may be lost
		server.kill()

		began := time.Now()
		server = start(t, nil, append([]string{"serve", "--listen", "127.0.0.1:0"}, system.flags...)...)
		eventually(t, serveWithin, func() error {
			found := addressLine.FindStringSubmatch(server.stdout.String())
			if found == nil {
				return errors.New("no address yet")
			}
			server.address = found[1]
			var data struct{ Feed struct{ Nodes []post } }
			if server.ask(t, bob, `{feed(first:100){nodes{id title}}}`, nil, &data); len(data.Feed.Nodes) != 60 {
				return fmt.Errorf("%d posts", len(data.Feed.Nodes))
			}
			return nil
		})
		best = min(best, time.Since(began))
		eventually(t, serveWithin, func() error {
			if status, body := server.get(t, "/readyz"); status != http.StatusOK {
				return errors.New(body)
			}
			return nil
		})
		for i := range 10 * (round + 1) {
			id, likes, liked := fmt.Sprintf("post:e%03d", 1+i), 1, &yes
			if i%10 == 0 {
				likes, liked = 0, &no
			}
			if err := want(server.see(t, bob, id), likes, liked); err != nil {
				t.Errorf("round %d: %v", round, err)
			}
		}
		if err := want(server.see(t, eve, "post:e060"), 1, &yes); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		if !strings.Contains(server.log.String(), "facts restored") {
			t.Errorf("the log does not say what was restored: %s", &server.log)
		}
	}
	if best > 2*time.Second {
		t.Errorf("pages were served after %s at best", best)
	}
	t.Logf("pages after %s at best", best.Round(time.Millisecond))
	server.stop(t)
}

// An embedded Redis is restored whatever the roles: no other process could.
func TestRestoredWithoutItsRole(t *testing.T) {
	t.Parallel()
	system := embeddedSystem(t)
	system.importFile(t, writePosts(t, 5), "6 added, 0 there already, 0 bad\n")
	bob := system.token(t, "bob")
	yes := true
	server := system.serve(t)
	server.react(t, bob, "like", "post:e005")
	server.stop(t)
	server = system.serve(t, "--roles", "api")
	if err := want(server.see(t, bob, "post:e005"), 1, &yes); err != nil {
		t.Error(err)
	}
	server.stop(t)
}
