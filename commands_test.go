package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/tallyfeed/tallyfeed/database"
	"github.com/tallyfeed/tallyfeed/enginetest"
)

// --help of each command names its flags, what each is for and its variable: it
// is the manual that is always at hand.
func TestHelp(t *testing.T) {
	t.Parallel()
	parser, err := kong.New(&commands{}, kong.Name("tallyfeed"), kong.DefaultEnvars("TALLYFEED"), kong.Vars{"topic": defaultTopic})
	if err != nil {
		t.Fatal(err)
	}
	top := execute(t, nil, "--help")
	if top.status != 0 || top.log.String() != "" {
		t.Errorf("--help: status %d: %s", top.status, &top.log)
	}
	for _, command := range parser.Model.Children {
		if !strings.Contains(top.stdout.String(), "\n  "+command.Name+" ") || command.Help == "" {
			t.Errorf("--help does not say what %s is for: %s", command.Name, &top.stdout)
		}
		t.Run(command.Name, func(t *testing.T) {
			t.Parallel()
			p := execute(t, nil, command.Name, "--help")
			if p.status != 0 || p.log.String() != "" {
				t.Errorf("status %d: %s", p.status, &p.log)
			}
			text := p.stdout.String()
			for _, flag := range command.Flags {
				if !strings.Contains(text, "--"+flag.Name) || flag.Help == "" {
					t.Errorf("nothing on --%s: %s", flag.Name, text)
				}
				if want := "TALLYFEED_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_")); !strings.Contains(text, "$"+want) {
					t.Errorf("no variable for --%s: %s", flag.Name, text)
				}
			}
			for _, argument := range command.Positional {
				if argument.Help == "" {
					t.Errorf("nothing on argument %s", argument.Name)
				}
			}
		})
	}
}

// A flag wins over its variable, and a variable over the default.
func TestVariables(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "by-variable")
	p := serving(t, []string{"TALLYFEED_LISTEN=127.0.0.1:0", "TALLYFEED_DATA=" + data, "TALLYFEED_LOG_FORMAT=json", "TALLYFEED_ROLES=api"})
	if _, err := os.Stat(filepath.Join(data, "secret")); err != nil {
		t.Errorf("TALLYFEED_DATA: %v", err)
	}
	p.stop(t)
	for line := range strings.Lines(p.log.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("TALLYFEED_LOG_FORMAT: %s", line)
		}
	}
	if !strings.Contains(p.log.String(), `"stopped"`) {
		t.Errorf("the log: %s", &p.log)
	}
	p = serving(t, []string{"TALLYFEED_LISTEN=nonsense", "TALLYFEED_DATA=" + data}, "serve", "--listen", "127.0.0.1:0")
	p.stop(t)
}

func TestToken(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	const secret = "hush-0123456789abcdef0123456789abcdef"
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		reason string
		env    []string
		args   []string
		status int
		says   string
	}{
		"FirstUse":   {"Before any server has run: the secret is made.", nil, []string{"--sub", "alice", "--data", data}, 0, ""},
		"Secret":     {"Of real engines.", nil, []string{"--sub", "alice", "--jwt-secret", secret}, 0, ""},
		"SecretFile": {"A secret need not be on a command line.", nil, []string{"--sub", "alice", "--jwt-secret-file", file}, 0, ""},
		"Variable":   {"Nor in a file.", []string{"TALLYFEED_JWT_SECRET=" + secret}, []string{"--sub", "alice", "--name", "Alice", "--expires", "5m"}, 0, ""},
		"NoSub":      {"Whose?", nil, []string{"--data", data}, 1, "--sub"},
		"EmptySub":   {"Whose?", nil, []string{"--sub", "", "--data", data}, 1, "sub"},
		"LongSub":    {"The server would refuse it.", nil, []string{"--sub", strings.Repeat("a", 129), "--data", data}, 1, "128"},
		"Short":      {"The server would refuse it.", nil, []string{"--sub", "alice", "--jwt-secret", "hush"}, 1, "32"},
		"Past":       {"Good for nothing.", nil, []string{"--sub", "alice", "--expires=-1s", "--data", data}, 1, "lifetime"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := execute(t, tc.env, append([]string{"token"}, tc.args...)...)
			out := p.stdout.String()
			if p.status != tc.status || !strings.Contains(p.log.String(), tc.says) {
				t.Errorf("%s\nstatus %d: %s%s", tc.reason, p.status, out, &p.log)
			}
			if tc.status == 0 && (strings.Count(out, ".") != 2 || strings.Count(out, "\n") != 1) {
				t.Errorf("%s\nnot one token alone, to be taken by a shell: %s", tc.reason, out)
			}
			if strings.Contains(out+p.log.String(), "hush") {
				t.Errorf("%s\nthe secret is printed: %s%s", tc.reason, out, &p.log)
			}
		})
	}
}

// Bad lines are told by their numbers, the rest goes in, and the status says that
// not all is well.
func TestImport(t *testing.T) {
	t.Parallel()
	const good = `{"id":"a1","author":"ada","title":"t","body":"b","publishedAt":"2026-11-01T08:00:00Z"}`
	lines := strings.Join([]string{
		good,
		`{"id":"a2"`,
		``,
		`{"id":"a*3","author":"ada","title":"t","body":"b","publishedAt":"2026-11-01T08:00:00Z"}`,
		`{"id":"a4","author":"ada","title":" ","body":"b","publishedAt":"2026-11-01T08:00:00Z"}`,
		`{"id":"a5","author":"ada","title":"t","body":"b","publishedAt":"yesterday"}`,
		`{"id":"a6","author":"ada","title":"t","body":"b","publishedAt":"2026-11-01T08:00:00Z","likes":5}`,
		strings.ReplaceAll(good, "a1", "a7"),
	}, "\n")
	file := filepath.Join(t.TempDir(), "posts.jsonl")
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	p := execute(t, nil, "import", "--data", data, file)
	if want := "2 added, 0 there already, 5 bad\n"; p.status != 1 || p.stdout.String() != want {
		t.Errorf("status %d: %s, want 1 and %s", p.status, &p.stdout, want)
	}
	for _, piece := range []string{"line 2: ", "line 4: id ", "line 5: title ", "line 6: publishedAt ", "line 7: ", "5 lines were not imported"} {
		if !strings.Contains(p.log.String(), piece) {
			t.Errorf("not a word of %q: %s", piece, &p.log)
		}
	}
	p = execute(t, nil, "import", "--data", data, file)
	if want := "0 added, 2 there already, 5 bad\n"; p.status != 1 || p.stdout.String() != want {
		t.Errorf("again: status %d: %s, want 1 and %s", p.status, &p.stdout, want)
	}

	more := start(t, nil, "import", "--data", data, "-") // nothing on its standard input
	if status := more.wait(t, serveWithin); status != 0 || more.stdout.String() != "0 added, 0 there already, 0 bad\n" {
		t.Errorf("of nothing: status %d: %s%s", status, &more.stdout, &more.log)
	}
	for reason, args := range map[string][]string{
		"No such file.":     {"import", "--data", data, filepath.Join(data, "missing.jsonl")},
		"No file at all.":   {"import", "--data", data},
		"A bad address.":    {"import", "--database", "mysql://x", file},
		"Nothing is there.": {"import", "--database", "postgres://u:hush@127.0.0.1:1/x", file},
	} {
		p := execute(t, nil, args...)
		if p.status != 1 || p.stdout.String() != "" || strings.Contains(p.log.String(), "hush") {
			t.Errorf("%s\nstatus %d: %s%s", reason, p.status, &p.stdout, &p.log)
		}
	}

	// What is there is served, and the demo is not put on top of it.
	server := serving(t, nil, "serve", "--listen", "127.0.0.1:0", "--data", data)
	if all := server.feed(t, "", 100); len(all) != 2 {
		t.Errorf("the feed: %v", all)
	}
	if status, _ := server.get(t, "/healthz"); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	server.stop(t)
}

// The command on real engines: nothing is wrong, then a row is, and it is mended
// once. The dry run says so first.
func TestCompensateCommand(t *testing.T) {
	t.Parallel()
	system := realSystem(t, startRedis(t, false), enginetest.Kafka(t))
	system.importFile(t, writePosts(t, 20), "21 added, 0 there already, 0 bad\n")
	server := system.serve(t)
	bob := system.token(t, "bob")
	server.react(t, bob, "like", "post:e001")
	server.react(t, bob, "like", "post:e002")
	var flags []string
	for _, flag := range system.flags {
		if flag == "--kafka-replication" {
			break // what follows of Kafka is for who makes a topic
		}
		flags = append(flags, flag)
	}
	flags = append(append([]string{"compensate"}, flags...), system.stores...)
	compensate := func(more ...string) string {
		p := execute(t, system.env[1:], append(flags, more...)...)
		if p.status != 0 {
			t.Fatalf("status %d: %s", p.status, &p.log)
		}
		return p.stdout.String()
	}
	if got, want := compensate("--all"), "21 subjects and 2 facts compared: 0 put back into the facts, 0 rows and 0 counts of the archive mended\n"; got != want {
		t.Errorf("%swant %s", got, want)
	}
	db, err := database.Open(t.Context(), system.stores[1])
	if err != nil {
		t.Fatal("the database can't be opened")
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), "UPDATE reactions SET active = FALSE WHERE subject = 'post:e002'"); err != nil {
		t.Fatal(err)
	}
	for _, more := range [][]string{{"--all", "--dry-run"}, {"--all"}} {
		if got, want := compensate(more...), "21 subjects and 2 facts compared: 0 put back into the facts, 1 rows and 0 counts of the archive mended\n"; got != want {
			t.Errorf("%v: %swant %s", more, got, want)
		}
	}
	if got, want := compensate("--all", "--json"), `{"subjects":21,"facts":2,"putBack":0,"mended":0,"countsMended":0}`+"\n"; got != want {
		t.Errorf("%swant %s", got, want)
	}
	server.stop(t)
}
