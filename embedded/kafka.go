package embedded

import (
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/kfake"
)

// KafkaPart is a Kafka of one broker inside the process. Its topics, its log
// and the groups' committed offsets are in a folder.
type KafkaPart struct{ cluster *kfake.Cluster }

// Kafka starts one on a free port of the loopback interface, and makes the
// folder if need be. What an earlier one left there is taken up again, also
// after a kill: each write goes to the kernel before it is acknowledged. When it
// reaches the disk is left to the kernel, as Kafka itself leaves it, so a crash
// of the whole machine may lose the last seconds.
//
// Topics are not made by being used. Two on one folder would spoil it: see Lock.
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

// Brokers is how to reach it. The port is another one after each start, so
// nobody may keep it.
func (p *KafkaPart) Brokers() []string { return p.cluster.ListenAddrs() }

// Close stops it. A second call does nothing.
func (p *KafkaPart) Close() error {
	p.cluster.Close()
	return nil
}
