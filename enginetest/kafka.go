package enginetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
)

const kafkaReady = 90 * time.Second

// Kafka returns the addresses of a Kafka's brokers. Others may use it at the
// same time, so a test takes its topics' and groups' names from Topic.
//
// It is the one of TALLYFEED_TEST_KAFKA. Else, where real engines are required,
// it is a broker that the tests of this binary share; elsewhere it is kfake,
// inside this process and this test's alone, since a JVM takes seconds to start.
// Topics are not made by being used, on any of them.
func Kafka(tb testing.TB) []string {
	tb.Helper()
	if brokers := os.Getenv("TALLYFEED_TEST_KAFKA"); brokers != "" {
		return strings.Split(brokers, ",")
	}
	if !realRequired(tb) {
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(cluster.Close)
		return cluster.ListenAddrs()
	}
	broker, err := sharedKafka()
	if err != nil {
		tb.Fatal(err)
	}
	return []string{broker}
}

// Topic returns a name for a topic or a group that nobody else uses.
func Topic(tb testing.TB, prefix string) string {
	tb.Helper()
	return prefix + "-" + unique()
}

// KafkaServer is a real broker of one test. Its methods fail the test on an
// error, so they are called from the test's own goroutine.
type KafkaServer struct {
	tb     testing.TB
	broker kafkaBroker
	run    *process
}

// StartKafka starts a broker with a data folder of its own and returns when it
// answers. It ends at cleanup. Where there is no Kafka it skips the test, or
// fails it if real engines are required.
func StartKafka(tb testing.TB) *KafkaServer {
	tb.Helper()
	if _, err := findKafka(); errors.Is(err, errNotInstalled) {
		missing(tb, err.Error())
	}
	broker, err := formatKafka(folder(tb))
	if err != nil {
		tb.Fatal(err)
	}
	s := &KafkaServer{tb: tb, broker: broker}
	s.start()
	tb.Cleanup(func() {
		if err := s.run.kill(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// Brokers is the address; a restart does not change it.
func (s *KafkaServer) Brokers() []string { return []string{s.broker.address} }

// Kill ends the broker as SIGKILL does. A second call does nothing.
func (s *KafkaServer) Kill() {
	s.tb.Helper()
	if err := s.run.kill(); err != nil {
		s.tb.Fatal(err)
	}
}

// Stop has the broker accept connections and never answer, until Continue.
func (s *KafkaServer) Stop() {
	s.tb.Helper()
	if err := s.run.signal(pause); err != nil {
		s.tb.Fatal(err)
	}
}

// Continue ends what Stop began. Where nothing was stopped it does nothing.
func (s *KafkaServer) Continue() {
	s.tb.Helper()
	if err := s.run.signal(resume); err != nil {
		s.tb.Fatal(err)
	}
}

// Restart kills the broker if it runs, and starts it again with its data at the
// same address.
func (s *KafkaServer) Restart() {
	s.tb.Helper()
	s.Kill()
	s.start()
}

func (s *KafkaServer) start() {
	s.tb.Helper()
	run, err := startProcess(s.broker.log(), s.broker.command[0], s.broker.command[1:]...)
	if err != nil {
		s.tb.Fatal(err)
	}
	s.run = run
	if err := run.await(kafkaReady, s.broker.answers); err != nil {
		_ = run.kill() // the first error is the one to tell
		s.tb.Fatal(err)
	}
}

// sharedKafka starts the broker that the tests of this binary share; see
// sharedPostgres for why it is a variable.
var sharedKafka = sync.OnceValues(func() (string, error) {
	dir, err := shortFolder("")
	if err != nil {
		return "", err
	}
	broker, err := formatKafka(dir)
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	// SIGKILL: nobody reads the folder again, and an orderly end takes seconds.
	run, err := guarded(nil, syscall.SIGKILL, dir, broker.log(), broker.command...)
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return broker.address, run.await(kafkaReady, broker.answers)
})

// kafkaBroker is a formatted data folder and how to run a broker on it.
type kafkaBroker struct {
	dir     string
	address string
	command []string
}

func (b kafkaBroker) log() string { return filepath.Join(b.dir, "log") }

// answers reports nil once the broker is registered with its controller; before
// that it answers, and names no broker.
func (b kafkaBroker) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	connection, err := kafka.DialContext(ctx, "tcp", b.address)
	if err != nil {
		return err
	}
	brokers, err := connection.Brokers()
	if err == nil && len(brokers) == 0 {
		err = errors.New("no broker is registered yet")
	}
	return errors.Join(err, connection.Close())
}

// formatKafka prepares dir for a broker that is its own controller (KRaft).
func formatKafka(dir string) (kafkaBroker, error) {
	libs, err := findKafka()
	if err != nil {
		return kafkaBroker{}, err
	}
	port, err := freePort()
	if err != nil {
		return kafkaBroker{}, err
	}
	controller := port + busOffset // free as well
	b := kafkaBroker{dir: dir, address: fmt.Sprintf("127.0.0.1:%d", port)}
	properties := filepath.Join(dir, "server.properties")
	// A killed broker may register again only when its last session has ended:
	// after 9 s by default. No group waits for more members to come.
	settings := fmt.Sprintf(`process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:%[2]d
listeners=PLAINTEXT://127.0.0.1:%[1]d,CONTROLLER://127.0.0.1:%[2]d
advertised.listeners=PLAINTEXT://127.0.0.1:%[1]d
controller.listener.names=CONTROLLER
log.dirs=%[3]s
auto.create.topics.enable=false
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=2000
`, port, controller, filepath.Join(dir, "data"))
	if err := os.WriteFile(properties, []byte(settings), 0o600); err != nil {
		return kafkaBroker{}, err
	}
	jars := filepath.Join(libs, "*")           // java expands it
	const clusterID = "dGFsbHlmZWVkLWVuZ2luZQ" // 16 bytes in base64url; every broker here is a cluster of its own
	err = runAs(nil, dir, "java", "-cp", jars, "kafka.tools.StorageTool", "format", "-t", clusterID, "-c", properties)
	if err != nil {
		return kafkaBroker{}, err
	}
	b.command = []string{"java", "-Xmx512m", "-cp", jars, "kafka.Kafka", properties}
	return b, nil
}

// findKafka returns the folder with Kafka's jars.
func findKafka() (string, error) {
	if _, err := exec.LookPath("java"); err != nil {
		return "", fmt.Errorf("java is %w (Debian: default-jre-headless): %w", errNotInstalled, err)
	}
	libs := os.Getenv("TALLYFEED_KAFKA_LIBS")
	if libs == "" {
		root, err := repository()
		if err != nil {
			return "", err
		}
		libs = filepath.Join(root, ".engines", "kafka", "libs")
	}
	if found, err := filepath.Glob(filepath.Join(libs, "kafka_*.jar")); err != nil || len(found) == 0 {
		return "", fmt.Errorf("Kafka is %w in %s (scripts/engines install-kafka)", errNotInstalled, libs)
	}
	return libs, nil
}
