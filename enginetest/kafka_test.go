package enginetest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/tallyfeed/tallyfeed/enginetest"
)

// createTopic makes a topic of one partition and waits for its leader.
func createTopic(t *testing.T, brokers []string, topic string) {
	t.Helper()
	client := &kafka.Client{Addr: kafka.TCP(brokers...), Timeout: 10 * time.Second}
	created, err := client.CreateTopics(t.Context(), &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: 1, ReplicationFactor: 1}},
	})
	if err = errors.Join(err, created.Errors[topic]); err != nil {
		t.Fatal(err)
	}
	eventually(t, "leader of "+topic, func() bool {
		_, err := kafka.DialLeader(t.Context(), "tcp", brokers[0], topic, 0)
		return err == nil
	})
}

func produce(ctx context.Context, brokers []string, topic, value string) error {
	writer := &kafka.Writer{
		Addr: kafka.TCP(brokers...), Topic: topic, RequiredAcks: kafka.RequireAll, BatchSize: 1,
		ReadTimeout: time.Second, WriteTimeout: time.Second, MaxAttempts: 1,
	}
	return errors.Join(writer.WriteMessages(ctx, kafka.Message{Value: []byte(value)}), writer.Close())
}

// consume returns the next value for group, and commits it.
func consume(t *testing.T, brokers []string, topic, group string) string {
	t.Helper()
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: brokers, Topic: topic, GroupID: group, MaxWait: 200 * time.Millisecond, StartOffset: kafka.FirstOffset,
	})
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	message, err := reader.ReadMessage(ctx)
	if err = errors.Join(err, reader.Close()); err != nil {
		t.Fatal(err)
	}
	return string(message.Value)
}

func TestKafka(t *testing.T) {
	t.Parallel()
	brokers := enginetest.Kafka(t)
	topic, group := enginetest.Topic(t, "events"), enginetest.Topic(t, "group")
	createTopic(t, brokers, topic)
	for _, want := range []string{"one", "two"} {
		if err := produce(t.Context(), brokers, topic, want); err != nil {
			t.Fatal(err)
		}
		if got := consume(t, brokers, topic, group); got != want {
			t.Errorf("consumed %q, want %q", got, want)
		}
	}
}

func TestStartKafka(t *testing.T) {
	t.Parallel()
	server := enginetest.StartKafka(t)
	topic, group := enginetest.Topic(t, "events"), enginetest.Topic(t, "group")
	createTopic(t, server.Brokers(), topic)
	if err := produce(t.Context(), server.Brokers(), topic, "before"); err != nil {
		t.Fatal(err)
	}

	server.Stop()
	if err := produce(t.Context(), server.Brokers(), topic, "meanwhile"); err == nil {
		t.Error("a stopped broker acknowledges")
	}
	server.Kill()
	server.Restart()
	if got := consume(t, server.Brokers(), topic, group); got != "before" {
		t.Errorf("after the restart the first record is %q", got)
	}
}
