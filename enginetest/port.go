package enginetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// busOffset is how far the second port of a cluster's Redis is from the first.
const busOffset = 10000

// FreePort returns a TCP port of 127.0.0.1 on which nothing listens, and whose
// number plus 10000 is free as well: a cluster's Redis takes both. It is not
// reserved, but it lies below the ports that the kernel gives to outgoing
// connections, so only another test could take it.
func FreePort(tb testing.TB) int {
	tb.Helper()
	port, err := freePort()
	if err != nil {
		tb.Fatal(err)
	}
	return port
}

func freePort() (int, error) {
	const first, last = 12000, 22000
	var err error
	for range 100 {
		port := first + rand.IntN(last-first)
		if err = free(port); err == nil {
			err = free(port + busOffset)
		}
		if err == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port from %d to %d: %w", first, last, err)
}

func free(port int) error {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	return listener.Close()
}
