package counter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/tallyfeed/tallyfeed/lua"
)

// Redis is where the facts are: one server or a cluster.
type Redis struct {
	// reads may be retried by the client. writes never are: a script whose
	// reply got lost has run, and running it again would report that nothing
	// changed (measured: by default go-redis does so, and says that all is well).
	reads, writes redis.UniversalClient

	// connects counts connections made. Whoever remembers something about
	// Redis forgets it when this moves: the other end may be another server.
	connects atomic.Uint64
}

// ErrAddress says that the address of a Redis can't be one, whoever listens.
var ErrAddress = errors.New("redis: the address can't be used")

// Time-outs for a URL that names none. A page waits for less, see ReaderConfig.
const (
	dialTimeout  = time.Second
	replyTimeout = 500 * time.Millisecond
)

// OpenRedis takes redis://, rediss:// or unix:// as go-redis reads them, with
// pool sizes and time-outs as URL parameters. Several hosts separated by
// commas, or cluster=true among the parameters, make it a cluster; a single
// server that says it belongs to one is taken as such. It fails when no server
// answers, with ErrAddress when none could. Errors never hold the password.
func OpenRedis(ctx context.Context, address string) (*Redis, error) {
	address, cluster, err := splitHosts(address)
	if err != nil {
		return nil, err
	}
	if !cluster {
		r, err := openSingle(address)
		if err != nil {
			return nil, err
		}
		cluster, err = r.saysCluster(ctx)
		if err == nil && !cluster {
			r.loadScripts(ctx)
			return r, nil
		}
		if closeErr := r.Close(); err != nil {
			return nil, errors.Join(err, closeErr)
		}
	}
	r, err := openCluster(address)
	if err != nil {
		return nil, err
	}
	if err := r.Ping(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	r.loadScripts(ctx)
	return r, nil
}

// loadScripts saves the first use of each script a round trip. Whatever it does
// not reach, run sends when it is asked for it.
func (r *Redis) loadScripts(ctx context.Context) {
	_ = r.eachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		for _, script := range lua.All {
			node.ScriptLoad(ctx, script.Text)
		}
		return nil
	})
}

// splitHosts turns host1:p1,host2:p2 into the form that go-redis knows.
func splitHosts(address string) (string, bool, error) {
	head, rest, found := strings.Cut(address, "://")
	if !found {
		return "", false, fmt.Errorf("%w: it needs a scheme: redis://, rediss:// or unix://", ErrAddress)
	}
	// Several hosts are no valid URL yet, so they are taken apart by hand.
	hosts, tail := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 && head != "unix" {
		hosts, tail = rest[:i], rest[i:]
	}
	userinfo := ""
	if i := strings.LastIndex(hosts, "@"); i >= 0 {
		userinfo, hosts = hosts[:i+1], hosts[i+1:]
	}
	names := strings.Split(hosts, ",")
	u, err := url.Parse(head + "://" + userinfo + names[0] + tail)
	if err != nil {
		return "", false, fmt.Errorf("%w: it is not a URL; are special characters of the password percent-encoded?", ErrAddress) // the cause would show the password
	}
	query := u.Query()
	cluster := len(names) > 1 || query.Get("cluster") == "true" || query.Has("addr")
	query.Del("cluster")
	for _, name := range names[1:] {
		query.Add("addr", name)
	}
	u.RawQuery = query.Encode()
	return u.String(), cluster, nil
}

func openSingle(address string) (*Redis, error) {
	options, err := redis.ParseURL(address)
	if err != nil {
		return nil, fmt.Errorf("%w: check scheme, host, database and parameters", ErrAddress)
	}
	r := &Redis{}
	options.Protocol = 2
	options.ContextTimeoutEnabled = true
	options.PipelinePoolSize = -1 // pipelines are the rule here: one pool
	options.DisableIdentity = true
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	options.DialTimeout = orDefault(options.DialTimeout, dialTimeout)
	options.DialerRetries = 1 // of the client's own five, each with a pause: a page can't wait
	options.ReadTimeout = orDefault(options.ReadTimeout, replyTimeout)
	options.WriteTimeout = orDefault(options.WriteTimeout, replyTimeout)
	options.OnConnect = r.onConnect
	options.Dialer = dialer(options)
	options.MaxRetries = 2
	r.reads = redis.NewClient(options)
	once := *options
	once.MaxRetries = -1
	r.writes = redis.NewClient(&once)
	return r, nil
}

func openCluster(address string) (*Redis, error) {
	options, err := redis.ParseClusterURL(address)
	if err != nil {
		return nil, fmt.Errorf("%w: check scheme, hosts and parameters", ErrAddress)
	}
	r := &Redis{}
	options.Protocol = 2
	options.ContextTimeoutEnabled = true
	options.PipelinePoolSize = -1
	options.DisableIdentity = true
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	options.ClusterStateReloadInterval = time.Second // of a minute, for which a dead master would be dialled
	options.DisableRoutingPolicies = true            // every command here names its key
	options.DialTimeout = orDefault(options.DialTimeout, dialTimeout)
	options.DialerRetries = 1 // of the client's own five, each with a pause: a page can't wait
	options.ReadTimeout = orDefault(options.ReadTimeout, replyTimeout)
	options.WriteTimeout = orDefault(options.WriteTimeout, replyTimeout)
	options.OnConnect = r.onConnect
	options.Dialer = dialer(&redis.Options{DialTimeout: options.DialTimeout, TLSConfig: options.TLSConfig})
	r.reads = redis.NewClusterClient(options)
	once := *options
	once.MaxRetries = -1 // for redirects the client still asks again; onceCmd stops the rest
	r.writes = redis.NewClusterClient(&once)
	return r, nil
}

// LogRedis sends what go-redis says by itself (it names addresses, and repeats
// what its callers are told) to log at debug level. It is go-redis's only logger,
// so this is for the start of a process.
func LogRedis(log *slog.Logger) { redis.SetLogger(redisLog{log}) }

type redisLog struct{ log *slog.Logger }

// Printf is part of go-redis's logger.
func (l redisLog) Printf(ctx context.Context, format string, args ...any) {
	l.log.DebugContext(ctx, "go-redis", "says", fmt.Sprintf(format, args...))
}

func orDefault(value, fallback time.Duration) time.Duration {
	if value == 0 {
		return fallback
	}
	return value
}

func (r *Redis) onConnect(context.Context, *redis.Conn) error {
	r.connects.Add(1)
	return nil
}

// saysCluster asks a single server whether it belongs to a cluster.
func (r *Redis) saysCluster(ctx context.Context) (bool, error) {
	if err := r.Ping(ctx); err != nil {
		return false, err
	}
	info, err := r.reads.Info(ctx, "cluster").Result()
	if err != nil {
		return false, nil //nolint:nilerr // INFO may be forbidden, or not there (miniredis): then it is a single server
	}
	return strings.Contains(info, "cluster_enabled:1"), nil
}

// Ping asks whether Redis answers.
func (r *Redis) Ping(ctx context.Context) error {
	if err := r.reads.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	return nil
}

// AddHook lets tests and metrics see commands and pipelines of both clients.
func (r *Redis) AddHook(hook redis.Hook) {
	r.reads.AddHook(hook)
	r.writes.AddHook(hook)
}

// Client is for what is kept in the same Redis and is no counting: none of its
// keys may begin as those of this package do.
func (r *Redis) Client() redis.UniversalClient { return r.writes }

// Close closes all connections.
func (r *Redis) Close() error {
	return errors.Join(r.reads.Close(), r.writes.Close())
}
