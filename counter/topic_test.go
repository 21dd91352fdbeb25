package counter

import (
	"context"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/tallyfeed/tallyfeed/enginetest"
)

// The topic gets more partitions while all runs: what is on the new ones is
// folded too, without a restart.
func TestPartitionsAdded(t *testing.T) {
	t.Parallel()
	config := topic(t, enginetest.Kafka(t))
	s := newSystem(t, FactsConfig{})
	publisher := startPublisher(t, s.redis, config)
	s.facts.config.OnChange = publisher.Offer
	startAggregator(t, s.redis, config, enginetest.Topic(t, "group"))
	p := post(t, "1")
	s.counts(t, p)
	s.set(t, 1, p, Like, true)
	s.snapshotIs(t, 30*time.Second, p, 1, 0)

	client := &kafka.Client{Addr: kafka.TCP(config.Brokers...), Timeout: kafkaTimeout}
	reply, err := client.CreatePartitions(t.Context(), &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{{Name: config.Topic, Count: 12}}})
	if err == nil {
		err = reply.Errors[config.Topic]
	}
	if err != nil {
		t.Fatal(err)
	}
	// Enough subjects that the new partitions get some, whatever the hash.
	var subjects []Subject
	for i := range 60 {
		q := post(t, "more-"+string(rune('a'+i%26))+string(rune('a'+i/26)))
		subjects = append(subjects, q)
		s.counts(t, q)
	}
	for o := Ordinal(1); o <= 3; o++ { // likes before and after everybody has noticed
		for _, q := range subjects {
			s.set(t, o, q, Like, true)
		}
		time.Sleep(time.Second)
	}
	for _, q := range subjects {
		s.snapshotIs(t, 40*time.Second, q, 3, 0)
	}
}

// The topic is deleted and made anew while all runs. What was published and not
// folded went with it: those counts come from the audit. What is liked from then
// on is folded as before.
func TestTopicMadeAnew(t *testing.T) {
	t.Parallel()
	config := topic(t, enginetest.Kafka(t))
	s := newSystem(t, FactsConfig{})
	publisher := startPublisher(t, s.redis, config)
	s.facts.config.OnChange = publisher.Offer
	sweeper := NewSweeper(s.redis, publisher, quiet, SweeperConfig{Every: 100 * time.Millisecond, Patience: 500 * time.Millisecond})
	background(t, sweeper.Run)
	startAggregator(t, s.redis, config, enginetest.Topic(t, "group"))
	p := post(t, "1")
	s.counts(t, p)
	for o := range Ordinal(20) {
		s.set(t, o, p, Like, true)
	}
	s.snapshotIs(t, 30*time.Second, p, 20, 0)

	client := &kafka.Client{Addr: kafka.TCP(config.Brokers...), Timeout: kafkaTimeout}
	reply, err := client.DeleteTopics(t.Context(), &kafka.DeleteTopicsRequest{Topics: []string{config.Topic}})
	if err == nil {
		err = reply.Errors[config.Topic]
	}
	if err != nil {
		t.Fatal(err)
	}
	s.set(t, 20, p, Like, true) // while there is no topic
	time.Sleep(2 * time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	eventually(t, 30*time.Second, "the topic again", func() bool { return config.EnsureTopics(ctx) == nil })
	s.set(t, 21, p, Like, true)
	s.snapshotIs(t, 60*time.Second, p, 22, 0)
}
