package embedded

import (
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/kfake"
)

// KafkaPart is a Kafka of one broker in the process, with its log and the
// groups' offsets in a folder.
type KafkaPart struct{ cluster *kfake.Cluster }

// Kafka starts one on a free port of the loopback interface. A folder that an
// earlier one left is taken up again.
func Kafka(dir string) (*KafkaPart, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("start the embedded kafka: %w", err)
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DataDir(dir))
	if err != nil {
		return nil, fmt.Errorf("start the embedded kafka on %s: %w", dir, err)
	}
	return &KafkaPart{cluster: cluster}, nil
}

// Brokers is how to reach it.
func (p *KafkaPart) Brokers() []string { return p.cluster.ListenAddrs() }

// Close stops it; what it was sent is in the folder then.
func (p *KafkaPart) Close() error {
	p.cluster.Close()
	return nil
}
