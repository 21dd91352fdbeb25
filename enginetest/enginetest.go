// Package enginetest starts the engines that tests need: Redis, a Redis
// Cluster, Kafka and PostgreSQL. Every engine belongs to the test that asked
// for it, or to the test binary, and ends with it.
//
// Where a real engine is not installed, Redis and Kafka are replaced by ones
// that run inside the test process, and tests that have no such replacement are
// skipped. With TALLYFEED_TEST_ENGINES=real neither happens: a missing engine
// fails the test, since a skipped suite looks like one that passes.
//
//	TALLYFEED_TEST_ENGINES    "real": replace nothing, skip nothing
//	TALLYFEED_TEST_KAFKA      brokers of a running Kafka, comma-separated
//	TALLYFEED_KAFKA_LIBS      folder with the jars of Kafka; .engines/kafka/libs
//	                          in the repository by default
//	TALLYFEED_TEST_POSTGRES   URL of a running PostgreSQL, as an account that
//	                          may create databases
package enginetest

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// realRequired reports whether replacements and skips are forbidden. An unknown
// value fails the test: a typing error must not turn into a green suite.
func realRequired(tb testing.TB) bool {
	tb.Helper()
	switch value := os.Getenv("TALLYFEED_TEST_ENGINES"); value {
	case "real":
		return true
	case "":
		return false
	default:
		tb.Fatalf("TALLYFEED_TEST_ENGINES=%s: the only value is real", value)
		return false
	}
}

// missing ends the test: as failed where real engines are required, as skipped
// elsewhere.
func missing(tb testing.TB, what string) {
	tb.Helper()
	if realRequired(tb) {
		tb.Fatalf("TALLYFEED_TEST_ENGINES=real, and %s", what)
	}
	tb.Skip(what)
}

// folder makes a temporary folder that is removed at cleanup. Its path is
// short: a unix socket's may have 108 bytes, and tb.TempDir contains the name
// of the test.
func folder(tb testing.TB) string {
	tb.Helper()
	dir, err := shortFolder("")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Errorf("remove the engine's folder: %v", err)
		}
	})
	return dir
}

// shortFolder makes a folder in parent, or for "" in the place for temporary
// ones.
func shortFolder(parent string) (string, error) {
	const longest = 60 // leaves room for a socket's name inside
	if parent == "" {
		parent = os.TempDir()
	}
	if len(parent) > longest {
		parent = "/tmp"
	}
	return os.MkdirTemp(parent, "tally")
}

// repository returns the folder of go.mod above the working directory, which
// is the package's folder while its tests run.
func repository() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod above %s", start)
		}
	}
}

// unique returns 16 hex digits that no other call returns.
func unique() string {
	random := make([]byte, 8)
	_, _ = rand.Read(random) // never fails
	return hex.EncodeToString(random)
}
