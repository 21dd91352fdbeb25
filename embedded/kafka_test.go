package embedded_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/tallyfeed/tallyfeed/embedded"
)

const (
	topic = "events"
	group = "readers"
)

// fill creates the topic, writes three records and commits the first for group.
func fill(ctx context.Context, brokers []string) error {
	client := &kafka.Client{Addr: kafka.TCP(brokers...)}
	created, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: 1, ReplicationFactor: 1}},
	})
	if err = errors.Join(err, created.Errors[topic]); err != nil {
		return err
	}
	writer := &kafka.Writer{Addr: kafka.TCP(brokers...), Topic: topic, RequiredAcks: kafka.RequireAll, BatchSize: 1}
	for _, value := range []string{"one", "two", "three"} {
		if err := writer.WriteMessages(ctx, kafka.Message{Value: []byte(value)}); err != nil {
			return err
		}
	}
	if err := writer.Close(); err != nil {
		return err
	}
	value, err := next(ctx, brokers)
	if err == nil && value != "one" {
		err = fmt.Errorf("the first record is %q", value)
	}
	return err
}

// next returns the value after the group's last commit, and commits it.
func next(ctx context.Context, brokers []string) (string, error) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: brokers, Topic: topic, GroupID: group, StartOffset: kafka.FirstOffset,
		MaxWait: 200 * time.Millisecond,
	})
	message, err := reader.ReadMessage(ctx)
	return string(message.Value), errors.Join(err, reader.Close())
}

func open(t *testing.T, dir string) *embedded.KafkaPart {
	t.Helper()
	part, err := embedded.Kafka(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = part.Close() })
	return part
}

func TestKafkaKeepsRecordsAndOffsets(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := t.TempDir()

	part := open(t, dir)
	if err := fill(ctx, part.Brokers()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"two", "three"} {
		for range 2 { // a second Close does nothing
			if err := part.Close(); err != nil {
				t.Fatal(err)
			}
		}
		part = open(t, dir)
		if got, err := next(ctx, part.Brokers()); err != nil || got != want {
			t.Errorf("after a restart the group reads %q (%v), want %q", got, err, want)
		}
	}
}

// victim names the folder in the process that TestKafkaSurvivesAKill kills.
const victim = "TALLYFEED_TEST_VICTIM"

func TestKafkaSurvivesAKill(t *testing.T) {
	t.Parallel()
	if dir := os.Getenv(victim); dir != "" {
		part, err := embedded.Kafka(dir)
		if err == nil {
			err = fill(t.Context(), part.Brokers())
		}
		fmt.Println("filled:", err)
		_, _ = io.Copy(io.Discard, os.Stdin) // until killed, or the parent is gone
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	command := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestKafkaSurvivesAKill$")
	command.Env = append(os.Environ(), victim+"="+dir)
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer input.Close()
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil || line != "filled: <nil>\n" {
		t.Errorf("the other process says %q, %v", line, err)
	}
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait() // says that it was killed

	if got, err := next(ctx, open(t, dir).Brokers()); err != nil || got != "two" {
		t.Errorf("after a kill the group reads %q (%v), want two", got, err)
	}
}
