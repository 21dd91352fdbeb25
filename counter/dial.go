package counter

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// dialer connects as go-redis does, but hands a failure over as a connection
// that fails at its first use. A pool that has failed to dial as often as it has
// places would not try again for up to a second, and answer the old failure
// meanwhile (go-redis, internal/pool, tryDial): a Redis that is back would be
// away for that long.
func dialer(options *redis.Options) func(ctx context.Context, network, addr string) (net.Conn, error) {
	dial := redis.NewDialer(options)
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			// Wrapped once, since go-redis takes one layer off what fails while it
			// greets a new connection (redis.go, _getConn).
			return brokenConn{err: fmt.Errorf("%w", err)}, nil
		}
		return conn, nil
	}
}

// brokenConn is a connection that never was: all that is done with it fails for
// the same reason.
type brokenConn struct{ err error }

func (b brokenConn) Read([]byte) (int, error)         { return 0, b.err }
func (b brokenConn) Write([]byte) (int, error)        { return 0, b.err }
func (b brokenConn) SetDeadline(time.Time) error      { return b.err }
func (b brokenConn) SetReadDeadline(time.Time) error  { return b.err }
func (b brokenConn) SetWriteDeadline(time.Time) error { return b.err }
func (brokenConn) Close() error                       { return nil }
func (brokenConn) LocalAddr() net.Addr                { return &net.TCPAddr{} }
func (brokenConn) RemoteAddr() net.Addr               { return &net.TCPAddr{} }
