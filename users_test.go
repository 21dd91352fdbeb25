package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Somebody likes, asks for what is kept, and leaves: likers and export know of
// the like within seconds, and nothing does when all is done.
func TestLeaving(t *testing.T) {
	t.Parallel()
	s := embeddedSystem(t)
	s.importFile(t, writePosts(t, 5), "6 added, 0 there already, 0 bad\n")
	server := s.serve(t)
	bob, eve := s.token(t, "bob"), s.token(t, "eve")
	server.react(t, bob, "like", "post:e001")
	server.react(t, eve, "like", "post:e001")
	began := time.Now()
	eventually(t, 10*time.Second, func() error {
		var data struct {
			Post struct {
				Likers struct {
					TotalCount int
					Nodes      []struct{ ID string }
				}
			}
		}
		server.ask(t, "", `{post(id:"post:e001"){likers{totalCount nodes{id}}}}`, nil, &data)
		if likers := data.Post.Likers; likers.TotalCount != 2 || len(likers.Nodes) != 2 {
			return fmt.Errorf("%+v", likers)
		}
		return nil
	})
	t.Logf("in the archive after %s", time.Since(began).Round(time.Millisecond))

	export := func(sub string) *running {
		return execute(t, nil, append([]string{"export", "--sub", sub}, s.flags...)...)
	}
	if p := export("bob"); p.status != 0 || !strings.Contains(p.stdout.String(), `{"type":"like","id":"post:e001","at":"`) {
		t.Errorf("export: %d %s%s", p.status, &p.stdout, &p.log)
	}
	if p := execute(t, nil, append([]string{"delete-user", "--sub", "eve"}, s.flags...)...); p.status != 0 || !strings.Contains(p.stdout.String(), "1 posts, likes and favs, would be deleted") {
		t.Errorf("without --yes: %d %s%s", p.status, &p.stdout, &p.log)
	}
	if p := execute(t, nil, append([]string{"delete-user", "--sub", "eve", "--yes"}, s.flags...)...); p.status != 0 {
		t.Errorf("delete-user: %d %s%s", p.status, &p.stdout, &p.log)
	}
	var me struct{ Viewer struct{ ID string } }
	server.ask(t, bob, `{viewer{id}}`, nil, &me)
	if a := server.ask(t, bob, `mutation($i:ID!){deleteUser(input:{id:$i}){deletedUserId}}`, map[string]any{"i": me.Viewer.ID}, nil); len(a.Errors) > 0 {
		t.Fatalf("%+v", a.Errors)
	}
	if a := server.ask(t, bob, `{viewer{id}}`, nil, nil); len(a.Errors) != 1 || a.Errors[0].Extensions.Code != "UNAUTHENTICATED" {
		t.Errorf("a token of who has left: %+v", a)
	}
	eventually(t, 60*time.Second, func() error {
		for _, sub := range []string{"bob", "eve"} {
			if p := export(sub); p.status == 0 || !strings.Contains(p.log.String(), "nothing is known of this user") {
				return fmt.Errorf("%s: %d %s%s", sub, p.status, &p.stdout, &p.log)
			}
		}
		return nil
	})
	eventually(t, 10*time.Second, func() error { return want(server.see(t, "", "post:e001"), 0, nil) })
	if a := server.ask(t, eve, `{viewer{id}}`, nil, nil); len(a.Errors) != 1 {
		t.Errorf("deleted by the command, and the server takes the token: %+v", a)
	}
	if status, body := server.get(t, "/readyz"); status != http.StatusOK {
		t.Error(body)
	}
	server.stop(t)
}
