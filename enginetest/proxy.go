package enginetest

import (
	"bytes"
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// Proxy stands between clients and one Redis, and does to their connections
// what networks do.
type Proxy struct {
	tb       testing.TB
	network  string
	target   string
	listener net.Listener

	mu    sync.Mutex
	conns map[net.Conn]bool
	// pause is closed when a stall ends; nil when there is none.
	pause chan struct{}
	// delay is how late replies are.
	delay time.Duration
	// loseReplies and loseRequests are how many scripts still lose theirs.
	loseReplies, loseRequests int
	replies, requests         int
}

// NewProxy listens on a port of its own in front of the Redis at url, as
// RedisServer.URL gives it. It ends at cleanup.
func NewProxy(tb testing.TB, url string) *Proxy {
	tb.Helper()
	p := &Proxy{tb: tb, network: "tcp", conns: map[net.Conn]bool{}}
	scheme, target, _ := strings.Cut(url, "://")
	p.target, _, _ = strings.Cut(target, "?")
	if scheme == "unix" {
		p.network = "unix"
	}
	var err error
	if p.listener, err = (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0"); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = p.listener.Close(); p.Cut() })
	go p.accept()
	return p
}

// URL is what clients connect to.
func (p *Proxy) URL() string { return "redis://" + p.listener.Addr().String() }

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := (&net.Dialer{Timeout: time.Second}).DialContext(context.Background(), p.network, p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		go p.carry(client, server)
	}
}

// carry passes both directions on until one ends.
func (p *Proxy) carry(client, server net.Conn) {
	losing := make(chan struct{}, 1)
	go func() {
		defer p.end(client, server)
		buffer := make([]byte, 64<<10)
		for {
			n, err := client.Read(buffer)
			if err != nil {
				return
			}
			p.await()
			if bytes.Contains(bytes.ToLower(buffer[:n]), []byte("\r\neval")) {
				switch p.fate() {
				case loseRequest:
					return
				case loseReply:
					losing <- struct{}{}
				case pass:
				}
			}
			if _, err := server.Write(buffer[:n]); err != nil {
				return
			}
		}
	}()
	defer p.end(client, server)
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if err != nil {
			return
		}
		p.await()
		p.late()
		select {
		case <-losing:
			return
		default:
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (p *Proxy) end(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		delete(p.conns, conn)
		_ = conn.Close()
	}
}

// await waits out a stall.
func (p *Proxy) await() {
	p.mu.Lock()
	pause := p.pause
	p.mu.Unlock()
	if pause != nil {
		<-pause
	}
}

// late waits out a reply's delay.
func (p *Proxy) late() {
	p.mu.Lock()
	delay := p.delay
	p.mu.Unlock()
	time.Sleep(delay)
}

// What becomes of a script.
const (
	pass = iota
	loseRequest
	loseReply
)

func (p *Proxy) fate() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.loseRequests > 0:
		p.loseRequests--
		p.requests++
		return loseRequest
	case p.loseReplies > 0:
		p.loseReplies--
		p.replies++
		return loseReply
	}
	return pass
}

// Cut ends all connections. New ones are taken.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		_ = conn.Close()
	}
	clear(p.conns)
}

// Stall passes nothing on until the returned function is called.
func (p *Proxy) Stall() (resume func()) {
	pause := make(chan struct{})
	p.mu.Lock()
	p.pause = pause
	p.mu.Unlock()
	var once sync.Once
	return func() {
		once.Do(func() {
			p.mu.Lock()
			p.pause = nil
			p.mu.Unlock()
			close(pause)
		})
	}
}

// Delay has each reply arrive d later than it does; 0 ends that.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// LoseReplies cuts the connection of each of the next n requests that run
// scripts, after Redis has run them and before their reply passes.
func (p *Proxy) LoseReplies(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loseReplies += n
}

// LoseRequests cuts the connection of each of the next n requests that run
// scripts, before Redis has seen them.
func (p *Proxy) LoseRequests(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loseRequests += n
}

// Lost is how many replies and requests were lost so far.
func (p *Proxy) Lost() (replies, requests int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.replies, p.requests
}
