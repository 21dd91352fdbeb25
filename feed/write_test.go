package feed_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/uptrace/bun"

	"github.com/tallyfeed/tallyfeed/feed"
)

func TestInvalidDrafts(t *testing.T) {
	onEngines(t, func(t *testing.T, db *bun.DB) {
		f := feed.New(db, feed.Config{})
		alice := feed.Author{Sub: "alice"}
		cases := map[string]struct {
			reason string
			author feed.Author
			draft  feed.Draft
			field  string // "" where it is taken
		}{
			"Longest":      {"Limits count characters, and are themselves allowed.", alice, feed.Draft{Title: strings.Repeat("é", 300), Body: strings.Repeat("☃", 20_000)}, ""},
			"NoBody":       {"A title can say it all.", alice, feed.Draft{Title: "T"}, ""},
			"NoTitle":      {"A post needs something to be shown by.", alice, feed.Draft{Body: "B"}, "title"},
			"BlankTitle":   {"White space shows nothing.", alice, feed.Draft{Title: " \t\u00a0"}, "title"},
			"LongTitle":    {"One character too many.", alice, feed.Draft{Title: strings.Repeat("x", 301)}, "title"},
			"LongBody":     {"One character too many.", alice, feed.Draft{Title: "T", Body: strings.Repeat("x", 20_001)}, "body"},
			"BrokenTitle":  {"PostgreSQL refuses broken UTF-8.", alice, feed.Draft{Title: "T\xff"}, "title"},
			"NULTitle":     {"PostgreSQL refuses NUL.", alice, feed.Draft{Title: "T\x00"}, "title"},
			"BrokenBody":   {"PostgreSQL refuses broken UTF-8.", alice, feed.Draft{Title: "T", Body: "\xc3("}, "body"},
			"NULBody":      {"PostgreSQL refuses NUL.", alice, feed.Draft{Title: "T", Body: "\x00"}, "body"},
			"Visibility":   {"Only two are known.", alice, feed.Draft{Title: "T", Visibility: "FRIENDS"}, "visibility"},
			"NoAuthor":     {"Nobody can't publish.", feed.Author{}, feed.Draft{Title: "T"}, "author"},
			"LongAuthor":   {"A sub has 128 characters at most.", feed.Author{Sub: strings.Repeat("x", 129)}, feed.Draft{Title: "T"}, "author"},
			"LongName":     {"Nor is a name a body.", feed.Author{Sub: "a", Name: strings.Repeat("x", 201)}, feed.Draft{Title: "T"}, "authorName"},
			"ControlNames": {"A name is one line.", feed.Author{Sub: "a", Name: "A\nB"}, feed.Draft{Title: "T"}, "authorName"},
		}
		for name, tc := range cases {
			post, err := f.Publish(t.Context(), tc.author, tc.draft)
			invalid, refused := errors.AsType[*feed.InvalidError](err)
			switch {
			case tc.field == "" && err != nil:
				t.Errorf("%s: %s\n%v", name, tc.reason, err)
			case tc.field != "" && (!refused || invalid.Field != tc.field):
				t.Errorf("%s: %s\n%+v, %v; want %s refused", name, tc.reason, post, err, tc.field)
			}
		}
		if got := page(t, f, 10, nil); len(got.Posts) != 2 {
			t.Errorf("%d posts went in, want the two good ones", len(got.Posts))
		}
	})
}

func TestPublishGivesNewIDs(t *testing.T) {
	onEngines(t, func(t *testing.T, db *bun.DB) {
		f := feed.New(db, feed.Config{})
		one, two := publish(t, f, "alice", "T", feed.Public), publish(t, f, "alice", "T", feed.Public)
		version7 := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
		if one.ID == two.ID || !version7.MatchString(one.ID) || !feed.ValidID(one.ID) {
			t.Errorf("ids are %s and %s", one.ID, two.ID)
		}
	})
}

func TestOnlyTheAuthorChangesAPost(t *testing.T) {
	onEngines(t, func(t *testing.T, db *bun.DB) {
		f := feed.New(db, feed.Config{})
		open := publish(t, f, "alice", "Open", feed.Public).ID
		hidden := publish(t, f, "alice", "Hidden", feed.Private).ID
		cases := map[string]struct {
			reason, sub, id string
			want            error
		}{
			"Reader":     {"Who can read it is told that it is not theirs.", "bob", open, feed.ErrForbidden},
			"Outsider":   {"Who can't read it must not learn that it is there.", "bob", hidden, feed.ErrNoPost},
			"Unknown":    {"There is nothing to change.", "alice", "nothing", feed.ErrNoPost},
			"Malformed":  {"What can't be an id is none.", "alice", "a'b", feed.ErrNoPost},
			"NotSigned":  {"Nobody is not an author.", "", open, feed.ErrNoPost},
			"OddViewer":  {"PostgreSQL would choke on the NUL.", "a\x00", open, feed.ErrNoPost},
			"TheAuthor":  {"It is theirs.", "alice", open, nil},
			"HisPrivate": {"So is the private one.", "alice", hidden, nil},
		}
		title := "Changed"
		for name, tc := range cases {
			if _, err := f.Update(t.Context(), tc.sub, tc.id, feed.Changes{Title: &title}); !errors.Is(err, tc.want) {
				t.Errorf("%s: %s\nupdate: %v, want %v", name, tc.reason, err, tc.want)
			}
			if _, err := f.Update(t.Context(), tc.sub, tc.id, feed.Changes{}); !errors.Is(err, tc.want) {
				t.Errorf("%s: %s\nempty update: %v, want %v", name, tc.reason, err, tc.want)
			}
			if tc.want == nil {
				continue
			}
			if err := f.Delete(t.Context(), tc.sub, tc.id); !errors.Is(err, tc.want) {
				t.Errorf("%s: %s\ndelete: %v, want %v", name, tc.reason, err, tc.want)
			}
		}
		for _, id := range []string{open, hidden} {
			if err := f.Delete(t.Context(), "alice", id); err != nil {
				t.Errorf("delete by the author: %v", err)
			}
			if err := f.Delete(t.Context(), "alice", id); !errors.Is(err, feed.ErrNoPost) {
				t.Errorf("second delete: %v, want ErrNoPost", err)
			}
		}
	})
}

func TestUpdateChangesWhatIsGiven(t *testing.T) {
	onEngines(t, func(t *testing.T, db *bun.DB) {
		f := feed.New(db, feed.Config{})
		before := publish(t, f, "alice", "Title", feed.Public)
		body, private := "It's new? \\", feed.Private
		after, err := f.Update(t.Context(), "alice", before.ID, feed.Changes{Body: &body, Visibility: &private})
		if err != nil {
			t.Fatal(err)
		}
		if after.Title != "Title" || after.Body != body || after.Visibility != private || !after.PublishedAt.Equal(before.PublishedAt) {
			t.Errorf("post is %+v", after)
		}
		if before.Body != "Text." || before.Visibility != feed.Public {
			t.Errorf("the post handed out before has changed: %+v", before)
		}
		if got := page(t, f, 10, nil); len(got.Posts) != 0 {
			t.Errorf("a post made private is still in the feed")
		}
		if _, err := f.Post(t.Context(), before.ID, "bob"); !errors.Is(err, feed.ErrNoPost) {
			t.Errorf("a post made private, read by another: %v", err)
		}

		blank, unknown := " ", feed.Visibility("ALL")
		for field, changes := range map[string]feed.Changes{"title": {Title: &blank}, "visibility": {Visibility: &unknown}} {
			_, err := f.Update(t.Context(), "alice", before.ID, changes)
			if invalid, ok := errors.AsType[*feed.InvalidError](err); !ok || invalid.Field != field {
				t.Errorf("%s: %v, want it refused", field, err)
			}
		}
	})
}
