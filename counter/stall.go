package counter

import (
	"context"
	"time"
)

// stallEvery is how often a reader that gets nothing is doubted.
const stallEvery = 10 * time.Second

// stallWatch finds out that a consumer group stands still while records wait:
// kafka-go's readers can stop for good after a broker's restart or a rebalance
// (kafka-go #387, #955, #1276). Joining again mends that.
type stallWatch struct {
	kafka   KafkaConfig
	group   string
	checked time.Time
	idle    bool
	behind  map[int]int64 // committed offsets of partitions in which records waited
}

// moved says that a record came.
func (w *stallWatch) moved() { w.idle = false }

// stalled is called often; it looks every few seconds. It says true when this
// reader got nothing between two looks, and a partition had records waiting at
// both, with nobody committing.
func (w *stallWatch) stalled(ctx context.Context) bool {
	now := time.Now()
	if now.Sub(w.checked) < stallEvery {
		return false
	}
	wasIdle := w.idle && !w.checked.IsZero()
	w.checked, w.idle = now, true
	if !wasIdle {
		w.behind = nil
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, kafkaTimeout)
	defer cancel()
	spans, err := w.kafka.ranges(ctx, w.group)
	if err != nil {
		w.behind = nil
		return false // Kafka is away: no reader could help
	}
	before := w.behind
	w.behind = map[int]int64{}
	for _, s := range spans {
		if s.end > max(s.committed, s.first) {
			w.behind[s.partition] = s.committed
			if committed, waited := before[s.partition]; waited && committed == s.committed {
				return true
			}
		}
	}
	return false
}
