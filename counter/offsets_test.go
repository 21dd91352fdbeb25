package counter

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tallyfeed/tallyfeed/enginetest"
)

// A request to Kafka leaves nothing running: kafka-go's transports ask for the
// topics every few seconds until they are closed, and a restore or a stall watch
// makes many requests. Not parallel: it counts the goroutines of all.
func TestRequestsLeaveNothingRunning(t *testing.T) {
	config := topic(t, enginetest.Kafka(t))
	asking := func() int {
		stacks := make([]byte, 8<<20)
		return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "connPool).discover(")
	}
	before := asking()
	for range 10 {
		if _, err := NewCatchUp(config, "nobody", nil).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := NewPublisher(nil, config, quiet).Close(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, 10*time.Second, "as few transports as before", func() bool { return asking() <= before })
}
