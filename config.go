package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/tallyfeed/tallyfeed/auth"
	"github.com/tallyfeed/tallyfeed/counter"
	"github.com/tallyfeed/tallyfeed/graph"
)

type logger = *slog.Logger

// commands is the command line. Every flag has its variable TALLYFEED_….
type commands struct {
	Serve  serveCommand  `cmd:"" default:"withargs" help:"Serve the API and run the workers (what no command means)."`
	Token  tokenCommand  `cmd:"" help:"Print a token for trying things out, made from the secret."`
	Import importCommand `cmd:"" help:"Import posts from a JSONL file. A second run changes nothing."`
	Epoch  epochCommand  `cmd:"" help:"Say whether Redis is known to hold all facts. A server with the role archive restores what is missing."`

	DeleteUser deleteUserCommand `cmd:"" help:"Delete a user for good: posts, likes, favs and name."`
	Export     exportCommand     `cmd:"" help:"Write all that is kept of a user as JSONL."`

	Recount     recountCommand     `cmd:"" help:"Count subjects anew from their facts, and mend what is wrong."`
	Audit       auditCommand       `cmd:"" help:"Compare the counts of all posts with their facts once, and mend what is wrong."`
	Compensate  compensateCommand  `cmd:"" help:"Compare the archive with the facts: what Redis has lost goes back into the facts, all else is mended from them."`
	DeadLetters deadLettersCommand `cmd:"" help:"List the records that were no events, or send them in again."`
}

// stores says where things are kept.
type stores struct {
	Data         string `default:"./data" help:"Folder for what the embedded parts keep. Default: ${default}." placeholder:"DIR"`
	Database     string `help:"postgres://… or sqlite:FILE. Default: SQLite in the data folder." placeholder:"URL"`
	DatabaseFile string `help:"File that holds --database, since that may hold a password." placeholder:"FILE"`
}

type redisFlags struct {
	Redis     string `help:"redis://…, rediss://… or unix://…; several hosts separated by commas, or cluster=true, for a cluster. Pool sizes and time-outs as parameters. Default: embedded." placeholder:"URL"`
	RedisFile string `help:"File that holds --redis." placeholder:"FILE"`
}

// defaultTopic is that of --kafka-topic.
const defaultTopic = "counter-events"

type kafkaFlags struct {
	Kafka             []string `help:"Brokers, host:port, separated by commas. Default: embedded." placeholder:"HOST:PORT"`
	KafkaTopic        string   `default:"${topic}" help:"Topic of the events. Another one has a consumer group of its own."`
	KafkaPartitions   int      `default:"8" help:"Partitions of the topic, when it is created."`
	KafkaReplication  int      `default:"-1" help:"Replicas of the topic, when it is created; -1: what the brokers say."`
	KafkaTLS          bool     `name:"kafka-tls" help:"Speak TLS with the brokers."`
	KafkaCA           string   `name:"kafka-ca" help:"PEM file with the authority that signed the brokers' certificates. Default: the system's." placeholder:"FILE"`
	KafkaSASL         string   `name:"kafka-sasl" enum:",plain,scram-sha-256,scram-sha-512" default:"" help:"plain, scram-sha-256 or scram-sha-512." placeholder:"MECHANISM"`
	KafkaUser         string   `help:"User for SASL." placeholder:"NAME"`
	KafkaPassword     string   `help:"Password for SASL." placeholder:"TEXT"`
	KafkaPasswordFile string   `help:"File that holds --kafka-password." placeholder:"FILE"`
}

type tokenFlags struct {
	JWTSecret     string `name:"jwt-secret" help:"Secret of at least 32 bytes that checks HS256 tokens. Default: made on the first start and kept in the data folder, where all parts are embedded." placeholder:"TEXT"`
	JWTSecretFile string `name:"jwt-secret-file" help:"File that holds --jwt-secret." placeholder:"FILE"`
	JWTIssuer     string `name:"jwt-issuer" help:"What a token's iss must be." placeholder:"TEXT"`
	JWTAudience   string `name:"jwt-audience" help:"What a token's aud must hold." placeholder:"TEXT"`
}

// The roles a process can have.
const (
	roleAPI       = "api"
	rolePublish   = "publish"
	roleAggregate = "aggregate"
	roleArchive   = "archive"
	roleAudit     = "audit"
)

type serveCommand struct {
	stores     `embed:""`
	redisFlags `embed:""`
	kafkaFlags `embed:""`
	tokenFlags `embed:""`

	Listen        string   `default:"127.0.0.1:8080" help:"HTTP address. Port 0 picks one. Default: ${default}." placeholder:"HOST:PORT"`
	Roles         []string `enum:"all,api,publish,aggregate,archive,audit" default:"all" help:"Any of api (serves, and publishes its own likes), publish (sends what others left in the outbox), aggregate (folds), archive (writes who likes what to SQL, and restores it from there), audit (compares counts with facts and mends). Default: ${default}." placeholder:"ROLE"`
	JWTPublicKey  string   `name:"jwt-public-key" help:"PEM file with the public key that checks RS256, ES256 or EdDSA tokens." placeholder:"FILE"`
	JWKS          string   `name:"jwks" help:"Where an issuer publishes its keys." placeholder:"URL"`
	Introspection string   `enum:"auto,on,off" default:"auto" help:"Whether clients may read the schema: ${enum}. auto: only where all parts are embedded."`

	CORSOrigins      []string          `name:"cors-origins" help:"Origins whose pages may use the API, e.g. https://app.example, separated by commas; * is all. Default: none but its own." placeholder:"ORIGIN"`
	TrustedDocuments string            `help:"Manifest of trusted documents, as Apollo's tools write it." placeholder:"FILE"`
	TrustedOnly      bool              `help:"Run no document that is not in --trusted-documents."`
	RateCost         int               `default:"200000" help:"Cost of queries that a viewer, or an address without a token, may ask for a minute; a page of 20 costs some 300. 0: no limit. Default: ${default}."`
	RateMutations    int               `default:"600" help:"Changes that a viewer may make a minute. 0: no limit. Default: ${default}."`
	Likers           map[string]string `default:"post=public" help:"Who may see who likes something of a type: public, author or off. Default: ${default}." placeholder:"TYPE=POLICY"`
	TrustedProxies   []string          `help:"Proxies whose X-Forwarded-For is believed: addresses or ranges, separated by commas." placeholder:"CIDR"`

	OutboxLimit  int     `default:"10000" help:"How many changes may wait for Kafka in each of the 256 parts before likes are refused."`
	AuditRate    int     `default:"100" help:"How many subjects a second the audit looks at."`
	MemoryLimit  float64 `default:"0.9" help:"Share of Redis' maxmemory from which on likes are refused."`
	CompensateAt string  `default:"03:30" help:"When the role archive compares archive and facts each night; off: never. Default: ${default}." placeholder:"HH:MM"`
	TimeZone     string  `default:"UTC" help:"Time zone of --compensate-at, e.g. Europe/Berlin, or Local. Default: ${default}." placeholder:"NAME"`
	LogLevel     string  `enum:"debug,info,warn,error" default:"info" help:"Least level that is logged: ${enum}."`
	LogFormat    string  `enum:"text,json" default:"text" help:"Form of the log lines: ${enum}."`
}

func (c *serveCommand) has(role string) bool {
	return slices.Contains(c.Roles, "all") || slices.Contains(c.Roles, role)
}

func (c *serveCommand) embedded() bool {
	return c.Redis == "" && len(c.Kafka) == 0 && c.Database == ""
}

func (c *serveCommand) introspection() bool {
	return c.Introspection == "on" || c.Introspection == "auto" && c.embedded()
}

func (c *serveCommand) logger(w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.LogLevel)) // kong has checked it
	options := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "json" {
		return slog.New(requestLog{slog.NewJSONHandler(w, options)})
	}
	return slog.New(requestLog{slog.NewTextHandler(w, options)})
}

// fromFile fills a value from the file named for it.
func fromFile(flag string, value *string, file string) error {
	if file == "" {
		return nil
	}
	if *value != "" {
		return fmt.Errorf("give either --%s or --%s-file", flag, flag)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("--%s-file: %w", flag, err)
	}
	*value = strings.TrimSpace(string(text))
	if *value == "" {
		return fmt.Errorf("--%s-file: %s is empty", flag, file)
	}
	return nil
}

func (s *stores) resolve() error {
	return fromFile("database", &s.Database, s.DatabaseFile)
}

// address is where the database is.
func (s *stores) address() string {
	if s.Database == "" {
		return "sqlite:" + filepath.Join(s.Data, "tallyfeed.db")
	}
	return s.Database
}

func (c *serveCommand) resolve() error {
	return errors.Join(
		c.check(),
		c.stores.resolve(),
		fromFile("redis", &c.Redis, c.RedisFile),
		fromFile("kafka-password", &c.KafkaPassword, c.KafkaPasswordFile),
		fromFile("jwt-secret", &c.JWTSecret, c.JWTSecretFile),
	)
}

// check refuses values that would start a server which does nothing.
func (c *serveCommand) check() error {
	switch {
	case len(c.Roles) == 0:
		return errors.New("--roles needs at least one")
	case c.OutboxLimit < 1:
		return errors.New("--outbox-limit must be at least 1")
	case c.MemoryLimit <= 0 || c.MemoryLimit > 1:
		return errors.New("--memory-limit must be above 0 and at most 1")
	case c.AuditRate < 1:
		return errors.New("--audit-rate must be at least 1")
	case c.RateCost != 0 && c.RateCost < graph.MaxCost:
		return fmt.Errorf("--rate-cost must be 0 or at least %d, which one query may cost", graph.MaxCost)
	case !validLikers(c.Likers):
		return errors.New("--likers must be post=public, post=author or post=off")
	case c.RateMutations < 0:
		return errors.New("--rate-mutations must be at least 0")
	case c.TrustedOnly && c.TrustedDocuments == "":
		return errors.New("--trusted-only needs --trusted-documents")
	case c.KafkaPartitions < 1:
		return errors.New("--kafka-partitions must be at least 1")
	}
	_, err := c.nightly()
	return err
}

// nightly is when to compensate.
func (c *serveCommand) nightly() (counter.Nightly, error) {
	if c.CompensateAt == "off" {
		return counter.Nightly{}, nil
	}
	at, err := time.Parse("15:04", c.CompensateAt)
	if err != nil {
		return counter.Nightly{}, errors.New("--compensate-at must be HH:MM or off")
	}
	zone, err := time.LoadLocation(c.TimeZone)
	if err != nil || c.TimeZone == "" {
		return counter.Nightly{}, fmt.Errorf("--time-zone: there is no %q", c.TimeZone)
	}
	return counter.Nightly{Hour: at.Hour(), Minute: at.Minute(), Zone: zone}, nil
}

func validLikers(policies map[string]string) bool {
	for kind, policy := range policies {
		switch graph.LikersPolicy(policy) {
		case graph.LikersPublic, graph.LikersAuthor, graph.LikersOff:
		default:
			return false
		}
		if kind != counter.TypePost {
			return false
		}
	}
	return true
}

// Run is called by kong.
func (c *serveCommand) Run(e *environment) error {
	if err := c.resolve(); err != nil {
		return err
	}
	return serve(e.ctx, *c, e.out, e.logs)
}

// environment is what commands run in.
type environment struct {
	ctx       context.Context
	in        io.Reader
	out, logs io.Writer
}

// logger is that of a command that ends by itself.
func (e *environment) logger() *slog.Logger { return slog.New(slog.NewTextHandler(e.logs, nil)) }

// errUsage ends the program after kong has said what is wrong.
var errUsage = errors.New("see --help")

// run reads the command line and does what it says.
func run(ctx context.Context, args []string, in io.Reader, out, logs io.Writer) error {
	var line commands
	exited := false
	parser, err := kong.New(&line,
		kong.Name("tallyfeed"),
		kong.Description("Feed pages with counts that do not drift and, for each viewer, what that viewer likes. Every flag can also be given as a variable: --jwt-secret is TALLYFEED_JWT_SECRET."),
		kong.DefaultEnvars("TALLYFEED"),
		kong.Vars{"topic": defaultTopic},
		kong.Writers(out, logs),
		kong.Exit(func(int) { exited = true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.UsageOnError(),
	)
	if err != nil {
		return err
	}
	command, err := parser.Parse(args)
	if exited {
		return nil // --help
	}
	if err != nil {
		return fmt.Errorf("%w; %w", err, errUsage)
	}
	return command.Run(&environment{ctx: ctx, in: in, out: out, logs: logs})
}

type tokenCommand struct {
	stores     `embed:""`
	tokenFlags `embed:""`

	Sub     string        `required:"" help:"Who the token is for: 1 to 128 characters." placeholder:"SUB"`
	Name    string        `help:"Name to show." placeholder:"NAME"`
	Expires time.Duration `default:"24h" help:"How long it is good. Default: ${default}." placeholder:"DURATION"`
}

// Run is called by kong.
func (c *tokenCommand) Run(e *environment) error {
	if err := fromFile("jwt-secret", &c.JWTSecret, c.JWTSecretFile); err != nil {
		return err
	}
	secret := []byte(c.JWTSecret)
	if len(secret) == 0 {
		var err error
		if secret, err = embeddedSecret(c.Data); err != nil {
			return err
		}
	}
	token, err := auth.Mint(secret, c.Sub, c.Name, c.JWTIssuer, c.JWTAudience, c.Expires)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(e.out, token)
	return err
}
