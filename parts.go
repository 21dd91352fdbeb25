package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
	"github.com/uptrace/bun"

	"github.com/tallyfeed/tallyfeed/auth"
	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/database"
	"github.com/tallyfeed/tallyfeed/embedded"
	"github.com/tallyfeed/tallyfeed/feed"
)

// parts is what a process stands on: real engines, or embedded ones.
type parts struct {
	redis    *counter.Redis
	kafka    counter.KafkaConfig
	database *bun.DB
	ordinals counter.OrdinalStore
	tokens   auth.Config

	// Names to show, "" where embedded.
	redisName, kafkaName, databaseName string
	embeddedSecret                     bool

	closers []func() error
}

// closeFirst puts a closer before those that are there already.
func (p *parts) closeFirst(f func() error) { p.closers = append(p.closers, f) }

func (p *parts) close() error {
	var all error
	for _, f := range slices.Backward(p.closers) {
		all = errors.Join(all, f())
	}
	p.closers = nil
	return all
}

// patience is how long a part may be down at the start.
const patience = 30 * time.Second

// openParts opens everything a process needs. It waits for what is not there
// yet until ctx ends or patience does; what it opens lives on life.
func openParts(ctx, life context.Context, config serveCommand, log logger) (opened *parts, err error) {
	p := &parts{} // not the result, which is nil when something fails
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if config.Redis == "" || len(config.Kafka) == 0 || config.Database == "" {
		release, err := embedded.Lock(config.Data)
		if err != nil {
			return nil, err
		}
		p.closers = append(p.closers, release)
	}
	if err := p.openTokens(config); err != nil {
		return nil, err
	}
	if err := p.openDatabase(ctx, config, log); err != nil {
		return nil, err
	}
	if err := p.openRedis(ctx, life, config, log); err != nil {
		return nil, err
	}
	return p, p.openKafka(ctx, config, log)
}

func embeddedSecret(dir string) ([]byte, error) { return embedded.Secret(dir) }

func (p *parts) openTokens(config serveCommand) error {
	p.tokens = auth.Config{Secret: []byte(config.JWTSecret), JWKSURL: config.JWKS, Issuer: config.JWTIssuer, Audience: config.JWTAudience}
	if config.JWTPublicKey != "" {
		pem, err := os.ReadFile(config.JWTPublicKey)
		if err != nil {
			return fmt.Errorf("--jwt-public-key: %w", err)
		}
		p.tokens.PublicKeyPEM = pem
	}
	if config.JWTSecret != "" || config.JWTPublicKey != "" || config.JWKS != "" {
		return nil
	}
	if !config.embedded() {
		return errors.New("real engines need a real key: give --jwt-secret, --jwt-secret-file, --jwt-public-key or --jwks")
	}
	secret, err := embeddedSecret(config.Data)
	p.tokens.Secret, p.embeddedSecret = secret, true
	return err
}

func (p *parts) openDatabase(ctx context.Context, config serveCommand, log logger) error {
	address := config.address()
	if config.Database != "" {
		p.databaseName = redacted(address)
	}
	err := keepTrying(ctx, log, orEmbedded("database", p.databaseName), func(ctx context.Context) (err error) {
		if p.database == nil {
			if p.database, err = database.Open(ctx, address); err != nil {
				p.database = nil
				return err
			}
		}
		return p.database.PingContext(ctx)
	})
	if err != nil {
		return err
	}
	p.closers = append(p.closers, p.database.Close)
	if err := database.Migrate(ctx, p.database); err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	p.ordinals = counter.NewSQLOrdinals(p.database)
	if p.databaseName != "" {
		return nil
	}
	posts := feed.New(p.database, feed.Config{})
	empty, err := posts.Empty(ctx)
	if err != nil || !empty {
		return err
	}
	_, err = posts.Import(ctx, feed.Demo())
	return err
}

func (p *parts) openRedis(ctx, life context.Context, config serveCommand, log logger) error {
	address := config.Redis
	if address == "" {
		part, err := embedded.Redis(life)
		if err != nil {
			return err
		}
		p.closers = append(p.closers, part.Close)
		address = part.URL()
	} else {
		p.redisName = redacted(address)
	}
	err := keepTrying(ctx, log, orEmbedded("redis", p.redisName), func(ctx context.Context) (err error) {
		p.redis, err = counter.OpenRedis(ctx, address)
		return err
	})
	if err != nil {
		return err
	}
	p.closers = append(p.closers, p.redis.Close)
	for _, warning := range p.redis.Warnings(ctx) {
		log.Warn(warning)
	}
	if err := p.redis.Found(ctx, p.ordinals); err != nil && !errors.Is(err, counter.ErrNoEpoch) {
		return err // without an epoch, posts are served all the same, and the role archive restores
	}
	return nil
}

func (p *parts) openKafka(ctx context.Context, config serveCommand, log logger) (err error) {
	if p.kafka, err = config.kafkaConfig(); err != nil {
		return err
	}
	if len(config.Kafka) == 0 {
		part, err := embedded.Kafka(filepath.Join(config.Data, "kafka"))
		if err != nil {
			return err
		}
		p.closers = append(p.closers, part.Close)
		p.kafka.Brokers, p.kafka.Replication = part.Brokers(), 1
	} else {
		p.kafkaName = strings.Join(config.Kafka, ",")
	}
	return keepTrying(ctx, log, orEmbedded("kafka", p.kafkaName), p.kafka.EnsureTopics)
}

// kafkaConfig is what the flags say of Kafka.
func (f *kafkaFlags) kafkaConfig() (config counter.KafkaConfig, err error) {
	config = counter.KafkaConfig{
		Brokers: f.Kafka, Topic: f.KafkaTopic,
		Partitions: f.KafkaPartitions, Replication: f.KafkaReplication,
	}
	if err := counter.ParseBrokers(f.Kafka); err != nil {
		return config, err
	}
	if f.KafkaTLS || f.KafkaCA != "" {
		config.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if f.KafkaCA != "" {
		pem, err := os.ReadFile(f.KafkaCA)
		if err != nil {
			return config, fmt.Errorf("--kafka-ca: %w", err)
		}
		config.TLS.RootCAs = x509.NewCertPool()
		if !config.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return config, fmt.Errorf("--kafka-ca: no certificate in %s", f.KafkaCA)
		}
	}
	switch f.KafkaSASL {
	case "plain":
		config.SASL = plain.Mechanism{Username: f.KafkaUser, Password: f.KafkaPassword}
	case "scram-sha-256":
		config.SASL, err = scram.Mechanism(scram.SHA256, f.KafkaUser, f.KafkaPassword)
	case "scram-sha-512":
		config.SASL, err = scram.Mechanism(scram.SHA512, f.KafkaUser, f.KafkaPassword)
	}
	return config, err
}

// keepTrying calls open until it succeeds, for as long as patience lasts.
func keepTrying(ctx context.Context, log logger, what string, open func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for said := false; ; {
		attempt, done := context.WithTimeout(ctx, 5*time.Second)
		err := open(attempt)
		done()
		if err == nil {
			return nil
		}
		if errors.Is(err, database.ErrURL) || errors.Is(err, counter.ErrAddress) {
			return fmt.Errorf("can't reach %s: %w", what, err) // it gets no better
		}
		if !said {
			log.Warn("can't reach "+what+", trying again for half a minute", "err", err)
			said = true
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("can't reach %s: %w", what, err)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// orEmbedded names a part in a message.
func orEmbedded(part, name string) string {
	if name == "" {
		return "the embedded " + part
	}
	return part + " " + name
}

// redacted shows an address without its user, password and parameters. It must
// not be fooled by an address that is no valid URL.
func redacted(address string) string {
	scheme, rest, found := strings.Cut(address, "://")
	if !found {
		if strings.HasPrefix(address, "sqlite:") {
			return address
		}
		return "of an unknown kind"
	}
	rest, _, _ = strings.Cut(rest, "?")
	if i := strings.LastIndex(rest, "@"); i >= 0 {
		rest = rest[i+1:]
	}
	hosts, _, _ := strings.Cut(rest, "/")
	for _, host := range strings.Split(hosts, ",") {
		// What is no port may be a piece of a password.
		if i := strings.LastIndex(host, ":"); i >= 0 && !strings.HasSuffix(host, "]") {
			if _, err := strconv.ParseUint(host[i+1:], 10, 16); err != nil {
				return scheme + "://…"
			}
		}
	}
	return scheme + "://" + rest
}

// cause takes the address out of a network error that is shown beside it.
func cause(err error) error {
	var operation *net.OpError
	if errors.As(err, &operation) {
		return operation.Err
	}
	return err
}
