package counter

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
)

// KafkaConfig says where events travel.
type KafkaConfig struct {
	Brokers []string
	// Topic carries the events, keyed by subject.
	Topic string
	// Partitions and Replication are used when the topic does not exist yet.
	Partitions, Replication int
	// TLS and SASL are nil where the brokers ask for none.
	TLS  *tls.Config
	SASL sasl.Mechanism
}

// AggregatorGroup is the consumer group that folds.
const AggregatorGroup = "counter-agg"

const (
	kafkaTimeout = 5 * time.Second
	maxFetch     = 4 << 20
	// A reader that is closed waits for as long as a fetch does (kafka-go #1248).
	maxWait = 500 * time.Millisecond
)

func (c KafkaConfig) dialer() *kafka.Dialer {
	return &kafka.Dialer{Timeout: kafkaTimeout, DualStack: true, TLS: c.TLS, SASLMechanism: c.SASL}
}

// transport asks again and again, every few seconds, who leads the partitions of
// the topic (of all topics, if it were not told which): close it.
func (c KafkaConfig) transport() *kafka.Transport {
	return &kafka.Transport{DialTimeout: kafkaTimeout, TLS: c.TLS, SASL: c.SASL, MetadataTopics: []string{c.Topic}}
}

// closeWriter closes a writer of ours with its transport, which Close leaves
// running.
func closeWriter(w *kafka.Writer) error {
	err := w.Close()
	if transport, ok := w.Transport.(*kafka.Transport); ok {
		transport.CloseIdleConnections()
	}
	return err
}

// EnsureTopics creates the topic and that of its dead letters if they are not
// there, and waits until each of their partitions has a leader: a first write
// would fail otherwise (kafka-go #1208).
func (c KafkaConfig) EnsureTopics(ctx context.Context) error {
	return errors.Join(c.ensure(ctx), c.deadLetters().ensure(ctx))
}

func (c KafkaConfig) ensure(ctx context.Context) error {
	client, done := c.client()
	defer done()
	created, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{
		Topic: c.Topic, NumPartitions: c.Partitions, ReplicationFactor: c.Replication,
	}}})
	if err == nil {
		err = created.Errors[c.Topic]
	}
	if err != nil && !errors.Is(err, kafka.TopicAlreadyExists) {
		return fmt.Errorf("create topic %s: %w", c.Topic, err)
	}
	for {
		if err = c.leaders(ctx, client); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("topic %s: %w", c.Topic, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (c KafkaConfig) leaders(ctx context.Context, client *kafka.Client) error {
	metadata, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{c.Topic}})
	if err != nil {
		return err
	}
	for _, topic := range metadata.Topics {
		if topic.Error != nil {
			return topic.Error
		}
		for _, partition := range topic.Partitions {
			if partition.Error != nil {
				return partition.Error
			}
			if partition.Leader.Host == "" {
				return errors.New("partition " + strconv.Itoa(partition.ID) + " has no leader")
			}
		}
	}
	return nil
}

// writer sends events. Murmur2 puts a subject on the same partition as Java's
// client does, so other producers keep the order too.
func (c KafkaConfig) writer() *kafka.Writer {
	return &kafka.Writer{
		Addr: kafka.TCP(c.Brokers...), Topic: c.Topic, Transport: c.transport(),
		Balancer:     kafka.Murmur2Balancer{},
		RequiredAcks: kafka.RequireAll,
		BatchTimeout: 10 * time.Millisecond, // the default of a second is paid by every lone like
		BatchSize:    publishBatch,
		MaxAttempts:  2, // beyond that the sweeper tries again
		ReadTimeout:  3 * time.Second, WriteTimeout: 3 * time.Second,
	}
}

func (c KafkaConfig) reader(group string, logError kafka.LoggerFunc) *kafka.Reader {
	return kafka.NewReader(kafka.ReaderConfig{
		Brokers: c.Brokers, Topic: c.Topic, GroupID: group, Dialer: c.dialer(),
		StartOffset: kafka.FirstOffset,
		MinBytes:    1, MaxBytes: maxFetch,
		MaxWait:               maxWait,
		SessionTimeout:        6 * time.Second,
		HeartbeatInterval:     2 * time.Second,
		RebalanceTimeout:      6 * time.Second,
		JoinGroupBackoff:      time.Second,
		ReadBackoffMax:        500 * time.Millisecond,
		WatchPartitionChanges: true, PartitionWatchInterval: 5 * time.Second,
		QueueCapacity:         1000,
		OffsetOutOfRangeError: true, // by default it would wait for a topic made anew to grow past the old offset
		ErrorLogger:           logError,
	})
}

// ParseBrokers checks host:port pairs.
func ParseBrokers(brokers []string) error {
	for _, broker := range brokers {
		if host, port, err := net.SplitHostPort(broker); err != nil || host == "" || port == "" {
			return fmt.Errorf("kafka: %q is not host:port", broker)
		}
	}
	return nil
}
