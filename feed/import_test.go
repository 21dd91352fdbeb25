package feed_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/uptrace/bun"

	"github.com/tallyfeed/tallyfeed/feed"
)

// line is a good line but for the fields that with replaces or, by "", drops.
func line(id string, with map[string]string) string {
	fields := map[string]string{"id": fmt.Sprintf("%q", id), "author": `"alice"`, "title": `"T"`, "body": `"B"`, "publishedAt": `"2026-11-02T08:15:00Z"`}
	for name, value := range with {
		fields[name] = value
	}
	var parts []string
	for name, value := range fields {
		if value != "" {
			parts = append(parts, fmt.Sprintf("%q:%s", name, value))
		}
	}
	return "{" + strings.Join(parts, ",") + "}\n"
}

func TestImportLines(t *testing.T) {
	onEngines(t, func(t *testing.T, db *bun.DB) {
		f := feed.New(db, feed.Config{})
		with := func(name, value string) string { return line("x", map[string]string{name: value}) }
		cases := map[string]struct{ reason, line, says string }{
			"NotJSON":       {"A CSV by mistake.", "x,alice,T", "not a post in JSON"},
			"Cut":           {"A file cut off in the middle.", `{"id":"x","author"`, "not a post in JSON"},
			"Array":         {"A JSON file that is not JSONL.", `[{"id":"x"}]`, "not a post in JSON"},
			"Two":           {"A line end that was lost.", strings.TrimSpace(with("", "")) + with("", ""), "more than one"},
			"Null":          {"Null is an object without fields.", "null", "id is missing"},
			"UnknownField":  {"A typing error would lose data in silence.", with("visiblity", `"PRIVATE"`), "visiblity"},
			"NoID":          {"It is what makes a second run safe.", with("id", ""), "id is missing"},
			"NoAuthor":      {"A post is by somebody.", with("author", ""), "author is missing"},
			"NoTitle":       {"A post has a title.", with("title", ""), "title is missing"},
			"NoBody":        {"It may be empty, but not forgotten.", with("body", ""), "body is missing"},
			"NoTime":        {"The feed is ordered by it.", with("publishedAt", ""), "publishedAt is missing"},
			"BadID":         {"The id becomes part of keys.", with("id", `"a b"`), "id must be"},
			"NumericID":     {"Ids are strings.", with("id", `10001`), "not a post in JSON"},
			"LongAuthor":    {"A sub has 128 characters.", with("author", `"`+strings.Repeat("é", 129)+`"`), "author must not be longer"},
			"BlankTitle":    {"As for a post that is published.", with("title", `" "`), "title must not be blank"},
			"NUL":           {"PostgreSQL refuses it, and with it the batch.", with("body", `"\u0000"`), "NUL"},
			"BrokenUTF8":    {"encoding/json would replace it in silence.", with("body", "\"\xff\""), "UTF-8"},
			"BadVisibility": {"Only two are known.", with("visibility", `"public"`), "visibility must be"},
			"BadTime":       {"A time without its zone is not a time.", with("publishedAt", `"2026-11-02 08:15"`), "publishedAt must be a time"},
			"YearOut":       {"The zone carries it out of the years.", with("publishedAt", `"9999-12-31T23:59:59-01:00"`), "years"},
			"LongLine":      {"Memory is bounded.", with("body", `"`+strings.Repeat("x", 1<<20)+`"`), "longer than"},
		}
		for name, tc := range cases {
			// Each stands between good lines, which must go in.
			text := line(name+"-before", nil) + "\r\n" + strings.TrimSuffix(tc.line, "\n") + "\r\n" + line(name+"-after", nil)
			report, err := f.Import(t.Context(), strings.NewReader(text))
			if err != nil || report.Added != 2 || report.Bad != 1 || len(report.Errors) != 1 {
				t.Errorf("%s: %s\n%+v, %v", name, tc.reason, report, err)
				continue
			}
			if got := report.Errors[0]; got.Line != 3 || !strings.Contains(got.Reason, tc.says) {
				t.Errorf("%s: %s\n%s; want line 3 and %q", name, tc.reason, got, tc.says)
			}
		}
	})
}

func TestImportTwice(t *testing.T) {
	onEngines(t, func(t *testing.T, db *bun.DB) {
		f := feed.New(db, feed.Config{})
		file := "\ufeff" + line("1", map[string]string{"authorName": `"Alice"`, "visibility": `"PRIVATE"`}) +
			line("2", nil) + line("3", nil) + line("2", map[string]string{"title": `"Other"`}) +
			strings.TrimSpace(line("4", map[string]string{"publishedAt": `"2026-11-02T08:15:00.1234567+02:00"`}))
		importFile := func(added, unchanged, bad int) feed.ImportReport {
			t.Helper()
			report, err := f.Import(t.Context(), strings.NewReader(file))
			if err != nil || report.Added != added || report.Unchanged != unchanged || report.Bad != bad {
				t.Errorf("%+v, %v; want %d, %d, %d", report, err, added, unchanged, bad)
			}
			return report
		}
		importFile(4, 1, 0)
		importFile(0, 5, 0)

		// What people have done since must stay.
		title := "Edited"
		if _, err := f.Update(t.Context(), "alice", "1", feed.Changes{Title: &title}); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Publish(t.Context(), feed.Author{Sub: "alice", Name: "Alice B."}, feed.Draft{Title: "T"}); err != nil {
			t.Fatal(err)
		}
		if err := f.Delete(t.Context(), "alice", "3"); err != nil {
			t.Fatal(err)
		}
		report := importFile(0, 4, 1)
		if len(report.Errors) != 1 || report.Errors[0].Line != 3 || !strings.Contains(report.Errors[0].Reason, "deleted") {
			t.Errorf("errors are %v, want the deleted id in line 3", report.Errors)
		}
		post, err := f.Post(t.Context(), "1", "alice")
		if err != nil || post.Title != title || post.Author.Name != "Alice B." || post.Visibility != feed.Private {
			t.Errorf("post is %+v by %+v, %v", post, post.Author, err)
		}
		if post, err := f.Post(t.Context(), "4", ""); err != nil || post.PublishedAt.Format("15:04:05.999999999") != "06:15:00.123456" {
			t.Errorf("post is %+v, %v", post, err)
		}
	})
}

func TestImportIsSeenAtOnce(t *testing.T) {
	onEngines(t, func(t *testing.T, db *bun.DB) {
		f := feed.New(db, feed.Config{})
		if _, err := f.Post(t.Context(), "1", ""); !errors.Is(err, feed.ErrNoPost) {
			t.Fatal(err)
		}
		if _, err := f.Import(t.Context(), strings.NewReader(line("1", nil))); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Post(t.Context(), "1", ""); err != nil {
			t.Errorf("post after the import: %v", err)
		}
	})
}

func TestImportsTogether(t *testing.T) {
	onEngines(t, func(t *testing.T, db *bun.DB) {
		var file strings.Builder
		for n := range 1200 {
			file.WriteString(line(fmt.Sprint(n), map[string]string{"author": fmt.Sprintf(`"author %d"`, n*7%13)}))
		}
		var group sync.WaitGroup
		var mu sync.Mutex
		added := 0
		for range 4 {
			group.Go(func() {
				report, err := feed.New(db, feed.Config{}).Import(t.Context(), strings.NewReader(file.String()))
				if err != nil || report.Added+report.Unchanged != 1200 {
					t.Errorf("%+v, %v", report, err)
				}
				mu.Lock()
				defer mu.Unlock()
				added += report.Added
			})
		}
		group.Wait()
		if added != 1200 {
			t.Errorf("%d posts were added by all together", added)
		}
	})
}

func TestImportKeepsCounting(t *testing.T) {
	onEngines(t, func(t *testing.T, db *bun.DB) {
		file := strings.Repeat("bad\n", 1000) + line("1", nil)
		report, err := feed.New(db, feed.Config{}).Import(t.Context(), strings.NewReader(file))
		if err != nil || report.Bad != 1000 || len(report.Errors) != 100 || report.Added != 1 {
			t.Errorf("%d bad, %d told, %d added, %v", report.Bad, len(report.Errors), report.Added, err)
		}
	})
}

func TestImportStops(t *testing.T) {
	onEngines(t, func(t *testing.T, db *bun.DB) {
		f := feed.New(db, feed.Config{})
		broken := errors.New("disk on fire")
		report, err := f.Import(t.Context(), io.MultiReader(strings.NewReader(line("1", nil)), iotest.ErrReader(broken)))
		if !errors.Is(err, broken) || report.Added != 1 {
			t.Errorf("%+v, %v; want what was read to be in and the error of the reader", report, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		report, err = f.Import(ctx, strings.NewReader(line("2", nil)))
		if !errors.Is(err, context.Canceled) || report.Added != 0 {
			t.Errorf("%+v, %v; want nothing in", report, err)
		}
	})
}

func TestDemo(t *testing.T) {
	onEngines(t, func(t *testing.T, db *bun.DB) {
		f := feed.New(db, feed.Config{})
		report, err := f.Import(t.Context(), feed.Demo())
		if err != nil || report.Added != 200 || report.Unchanged+report.Bad != 0 {
			t.Fatalf("%+v, %v", report, err)
		}
		if author, err := f.Author(t.Context(), "alice"); err != nil || author.Name == "" {
			t.Errorf("alice is %+v, %v", author, err)
		}
		if post, err := f.Post(t.Context(), "10001", ""); err != nil || post.Title == "" {
			t.Errorf("post 10001 is %+v, %v", post, err)
		}
	})
}

func FuzzImportLine(f *testing.F) {
	f.Add(line("1", nil))
	f.Add(line("1", map[string]string{"title": `"\ud800"`, "visibility": "null"}))
	first, _, err := bufio.NewReader(feed.Demo()).ReadLine()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(first))
	db := openFile(f)
	f.Fuzz(func(t *testing.T, text string) {
		// What the checks let through must go into the store and come out again.
		report, err := feed.New(db, feed.Config{}).Import(t.Context(), strings.NewReader(text))
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if report.Bad+report.Added+report.Unchanged > strings.Count(text, "\n")+1 {
			t.Errorf("%q: %+v", text, report)
		}
	})
}
