// Command bench measures what the README promises, on real engines:
//
//	go run ./bench page    --redis URL                  CPU a page beside a hand-written handler
//	go run ./bench likes   --redis URL --kafka BROKER   likes a second, and how fresh counts are
//	go run ./bench memory  --redis URL                  bytes a like
//	go run ./bench audit   --redis URL                  what the audit takes of a core
//	go run ./bench subscriptions --redis URL --kafka BROKER   live counts for many
//	go run ./bench archive                              events a second into SQL
//	go run ./bench restore --redis URL --kafka BROKER   facts a second out of SQL
//
// It refuses a Redis that is not empty, and leaves it full.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/alecthomas/kong"
	"github.com/redis/go-redis/v9"
)

type commands struct {
	Page          pageCommand          `cmd:"" help:"CPU, pages a second and latency of the signed-in page of 20, beside a hand-written handler on the same Redis."`
	Likes         likesCommand         `cmd:"" help:"Latency of likes, and time until another viewer sees the count."`
	Archive       archiveCommand       `cmd:"" help:"Events a second that the archive takes."`
	Restore       restoreCommand       `cmd:"" help:"Facts a second that an empty Redis gets back from the archive."`
	Audit         auditCommand         `cmd:"" help:"What the audit takes of a core."`
	Memory        memoryCommand        `cmd:"" help:"Bytes that a like takes in Redis."`
	Subscriptions subscriptionsCommand `cmd:"" help:"Memory, CPU and latency of live counts for many at once."`

	Plain plainCommand `cmd:"" hidden:"" help:"Serve the hand-written handler."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var line commands
	command := kong.Parse(&line, kong.Name("bench"))
	command.BindTo(ctx, (*context.Context)(nil))
	command.FatalIfErrorf(command.Run())
}

// openEmpty connects to a Redis that holds nothing yet.
func openEmpty(ctx context.Context, url string) (*redis.Client, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(options)
	n, err := client.DBSize(ctx).Result()
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	if n > 0 {
		return nil, errors.Join(fmt.Errorf("this Redis holds %d keys: give an empty one", n), client.Close())
	}
	return client, nil
}
