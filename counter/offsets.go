package counter

import (
	"context"
	"errors"

	"github.com/segmentio/kafka-go"
)

// span is what a partition holds, and how far a group has committed: -1 for not
// at all.
type span struct {
	partition             int
	first, end, committed int64
}

// client is for a few requests; done ends what it keeps running.
func (c KafkaConfig) client() (client *kafka.Client, done func()) {
	transport := c.transport()
	return &kafka.Client{Addr: kafka.TCP(c.Brokers...), Transport: transport, Timeout: kafkaTimeout}, transport.CloseIdleConnections
}

// ranges reads the spans of all partitions of the topic, for who asks now and
// then.
func (c KafkaConfig) ranges(ctx context.Context, group string) ([]span, error) {
	client, done := c.client()
	defer done()
	return c.rangesBy(ctx, client, group)
}

func (c KafkaConfig) rangesBy(ctx context.Context, client *kafka.Client, group string) ([]span, error) {
	metadata, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{c.Topic}})
	if err != nil {
		return nil, err
	}
	var ids []int
	for _, topic := range metadata.Topics {
		if topic.Error != nil {
			return nil, topic.Error
		}
		for _, partition := range topic.Partitions {
			ids = append(ids, partition.ID)
		}
	}
	requests := make([]kafka.OffsetRequest, 0, 2*len(ids))
	for _, id := range ids {
		requests = append(requests, kafka.FirstOffsetOf(id), kafka.LastOffsetOf(id))
	}
	offsets, err := client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{c.Topic: requests}})
	if err != nil {
		return nil, err
	}
	fetched, err := client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{c.Topic: ids}})
	if err != nil {
		return nil, err
	}
	committed := map[int]int64{}
	for _, partition := range fetched.Topics[c.Topic] {
		committed[partition.Partition] = partition.CommittedOffset
	}
	var spans []span
	for _, partition := range offsets.Topics[c.Topic] {
		if partition.Error != nil {
			return nil, partition.Error
		}
		spans = append(spans, span{partition.Partition, partition.FirstOffset, partition.LastOffset, committed[partition.Partition]})
	}
	return spans, nil
}

// ends reads where each partition of the topic ends.
func (c KafkaConfig) ends(ctx context.Context, client *kafka.Client) (map[int]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*kafkaTimeout)
	defer cancel()
	spans, err := c.rangesBy(ctx, client, AggregatorGroup)
	if err != nil {
		return nil, err
	}
	ends := make(map[int]int64, len(spans))
	for _, s := range spans {
		ends[s.partition] = s.end
	}
	return ends, nil
}

// commit sets the offset of a group that has no members.
func (c KafkaConfig) commit(ctx context.Context, group string, partition int, offset int64) error {
	client, done := c.client()
	defer done()
	reply, err := client.OffsetCommit(ctx, &kafka.OffsetCommitRequest{
		GroupID: group, GenerationID: -1,
		Topics: map[string][]kafka.OffsetCommit{c.Topic: {{Partition: partition, Offset: offset}}},
	})
	if err != nil {
		return err
	}
	for _, p := range reply.Topics[c.Topic] {
		err = errors.Join(err, p.Error)
	}
	return err
}

// rewind sets a group back to the first record of each partition in which it has
// committed more than there is: the topic was deleted and made anew.
func (c KafkaConfig) rewind(ctx context.Context, group string) error {
	spans, err := c.ranges(ctx, group)
	if err != nil {
		return err
	}
	for _, s := range spans {
		if s.committed > s.end {
			err = errors.Join(err, c.commit(ctx, group, s.partition, s.first))
		}
	}
	return err
}
