package faults

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// kind is a way to break something.
type kind string

const (
	killServer      kind = "server killed"
	pauseServer     kind = "server stopped for longer than its session and leases"
	killRedis       kind = "redis killed and restarted"
	pauseRedis      kind = "redis stopped"
	killKafka       kind = "kafka killed and restarted"
	pauseKafka      kind = "kafka stopped"
	cutConnections  kind = "connections to redis cut"
	stall           kind = "connections to redis stalled"
	loseReplies     kind = "replies lost after redis ran the script"
	loseRequests    kind = "requests lost before redis saw them"
	movePartitions  kind = "partitions moved"
	deleteSnapshots kind = "snapshots deleted"
)

// kinds with how often each comes: the cheap ones more often.
var kinds = []kind{
	killServer, killServer, killServer, pauseServer, killRedis, pauseRedis, killKafka, pauseKafka,
	cutConnections, cutConnections, stall, loseReplies, loseReplies, loseReplies, loseRequests, loseRequests,
	movePartitions, deleteSnapshots, deleteSnapshots, deleteSnapshots,
}

// fault is one step of a plan.
type fault struct {
	after  time.Duration // since the fault before
	kind   kind
	target int           // which server, which proxy
	length time.Duration // how long something is stopped or away
	size   int           // how many
}

func (f fault) String() string {
	return fmt.Sprintf("after %4dms: %s (target %d, %dms, %d)", f.after.Milliseconds(), f.kind, f.target, f.length.Milliseconds(), f.size)
}

// planOf makes the faults of a run; the same seed gives the same plan. Every
// kind comes once before any comes twice.
func planOf(seed uint64, length time.Duration, servers int) []fault {
	random := rand.New(rand.NewPCG(seed, 1))
	between := func(low, high int) time.Duration {
		return time.Duration(low+random.IntN(high-low)) * time.Millisecond
	}
	var first []kind
	seen := map[kind]bool{}
	for _, i := range random.Perm(len(kinds)) {
		if k := kinds[i]; !seen[k] {
			seen[k] = true
			first = append(first, k)
		}
	}
	var plan []fault
	for total := time.Duration(0); total < length; {
		f := fault{kind: kinds[random.IntN(len(kinds))], target: random.IntN(servers), after: between(200, 2500), size: 1 + random.IntN(5)}
		if len(plan) < len(first) {
			f.kind = first[len(plan)]
		}
		switch f.kind {
		case pauseServer:
			f.length = between(7000, 13000)
		case killKafka, movePartitions:
			f.length = between(1000, 6000)
		case pauseKafka:
			f.length = between(2000, 8000)
		case deleteSnapshots, cutConnections, loseReplies, loseRequests:
		default:
			f.length = between(100, 2500)
		}
		total += f.after + f.length
		plan = append(plan, f)
	}
	return plan
}

func describe(plan []fault) string {
	var text strings.Builder
	for i, f := range plan {
		fmt.Fprintf(&text, "%3d %s\n", i+1, f)
	}
	return text.String()
}
