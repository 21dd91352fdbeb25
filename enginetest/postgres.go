package enginetest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const postgresReady = 60 * time.Second

// Postgres returns the URL of a new, empty database that is dropped at cleanup,
// whoever is still connected. It lies on the server of TALLYFEED_TEST_POSTGRES,
// else on one that the tests of this binary share, started where PostgreSQL is
// installed.
func Postgres(tb testing.TB) string {
	tb.Helper()
	server := os.Getenv("TALLYFEED_TEST_POSTGRES")
	if server == "" {
		var err error
		server, err = sharedPostgres()
		if errors.Is(err, errNotInstalled) {
			missing(tb, err.Error())
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	database, err := url.Parse(server)
	if err != nil {
		tb.Fatal("TALLYFEED_TEST_POSTGRES is no URL") // the error would show a password
	}
	name := "tally_" + unique()
	// template1 can't be copied while somebody is connected to it, template0
	// has no connections.
	execute(tb, server, "CREATE DATABASE "+name+" TEMPLATE template0 ENCODING 'UTF8'")
	tb.Cleanup(func() { execute(tb, server, "DROP DATABASE "+name+" WITH (FORCE)") })
	database.Path = "/" + name
	return database.String()
}

// execute runs one statement on a connection of its own. It works in cleanups,
// where the context of the test is over.
func execute(tb testing.TB, server, statement string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), postgresReady)
	defer cancel()
	connection, err := pgx.Connect(ctx, server)
	if err != nil {
		tb.Fatalf("reach PostgreSQL: %v", err)
	}
	_, err = connection.Exec(ctx, statement)
	if err = errors.Join(err, connection.Close(ctx)); err != nil {
		tb.Fatalf("%s: %v", statement, err)
	}
}

// errNotInstalled tells "there is none" from "it does not start": the first may
// skip a test, the second never does.
var errNotInstalled = errors.New("not installed")

// sharedPostgres starts the server that the tests of this binary share: initdb
// takes a second, too much for every test. Only a variable of the package
// outlives a test; it holds nothing that one test could change for another.
var sharedPostgres = sync.OnceValues(startPostgres)

// startPostgres makes a cluster in a temporary folder and returns the URL of
// its database postgres. It listens on a unix socket only. As root it runs as
// the user postgres, since PostgreSQL refuses root.
func startPostgres() (string, error) {
	bin, err := postgresBin()
	if err != nil {
		return "", err
	}
	var who *account
	parent := ""
	if os.Geteuid() == 0 {
		if who, err = accountNamed("postgres"); err != nil {
			return "", fmt.Errorf("PostgreSQL for root is %w: %w", errNotInstalled, err)
		}
		parent = "/tmp" // root's own TMPDIR may be closed to others
	}
	dir, err := shortFolder(parent)
	if err != nil {
		return "", err
	}
	if who != nil {
		if err := os.Chown(dir, int(who.Uid), int(who.Gid)); err != nil {
			return "", err
		}
	}
	data := filepath.Join(dir, "data")
	err = runAs(who, dir, filepath.Join(bin, "initdb"), "--pgdata", data, "--username", "postgres",
		"--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync")
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	run, err := guarded(who, syscall.SIGINT, dir, filepath.Join(dir, "log"), filepath.Join(bin, "postgres"),
		"-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "max_connections=300",
		// A test's data need not outlive the machine.
		"-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off")
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	server := "postgres://postgres@/postgres?host=" + url.QueryEscape(dir)
	return server, run.await(postgresReady, func(ctx context.Context) error {
		connection, err := pgx.Connect(ctx, server)
		if err != nil {
			return err
		}
		return connection.Close(ctx)
	})
}

// postgresBin returns the folder of initdb and postgres: where PATH has both,
// else the newest of Debian's, which keeps them out of PATH.
func postgresBin() (string, error) {
	candidates, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	// 9.6 is the only version that would sort above 10 and later ones.
	slices.Sort(candidates)
	slices.Reverse(candidates)
	if initdb, err := exec.LookPath("initdb"); err == nil {
		candidates = slices.Insert(candidates, 0, filepath.Dir(initdb))
	}
	for _, dir := range candidates {
		_, initdbErr := os.Stat(filepath.Join(dir, "initdb"))
		_, serverErr := os.Stat(filepath.Join(dir, "postgres"))
		if initdbErr == nil && serverErr == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("PostgreSQL is %w (Debian: postgresql)", errNotInstalled)
}
