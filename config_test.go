package main

import (
	"io"
	"strings"
	"testing"
)

// A value that would start a server which does nothing, or refuses every like,
// is an error that names its flag.
func TestSenselessFlags(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{
		"--outbox-limit=0", "--outbox-limit=-1", "--memory-limit=-1", "--memory-limit=7", "--audit-rate=0", "--kafka-partitions=0", "--roles=",
		"--compensate-at=25:00", "--compensate-at=", "--time-zone=Nowhere/Land", "--time-zone=",
	} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			err := run(t.Context(), []string{"serve", "--data", t.TempDir(), "--listen", "127.0.0.1:0", flag}, strings.NewReader(""), io.Discard, io.Discard)
			name, _, _ := strings.Cut(flag, "=")
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%v", err)
			}
		})
	}
}
