package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"github.com/klauspost/compress/gzhttp"
	"github.com/realclientip/realclientip-go"
)

// minCompressed is from where on an answer is compressed: smaller ones fit a
// packet or two as they are.
const minCompressed = 2 << 10

// wrapped gives every answer what they all have: a request id, headers that keep
// browsers from guessing, and compression where it helps.
func wrapped(next http.Handler) (http.Handler, error) {
	compress, err := gzhttp.NewWrapper(gzhttp.MinSize(minCompressed), gzhttp.CompressionLevel(1))
	if err != nil {
		return nil, err
	}
	compressed := compress(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(requestIDHeader)
		if !validRequestID(id) {
			id = rand.Text()
		}
		header := w.Header()
		header.Set(requestIDHeader, id)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'") // pages have their own
		r = r.WithContext(context.WithValue(r.Context(), requestIDKey{}, id))
		if r.Header.Get("Upgrade") != "" || strings.Contains(strings.Join(r.Header.Values("Accept"), ","), "text/event-stream") {
			next.ServeHTTP(w, r) // a WebSocket takes the connection over; events must not be gathered
			return
		}
		compressed.ServeHTTP(w, r)
	}), nil
}

const requestIDHeader = "X-Request-Id"

type requestIDKey struct{}

// validRequestID takes ids that proxies make; what else stands there must not
// reach the log.
func validRequestID(id string) bool {
	return len(id) > 0 && len(id) <= 128 && strings.Trim(id, requestIDCharacters) == ""
}

const requestIDCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:=+/"

// requestLog adds the request's id to what is logged on its behalf.
type requestLog struct{ slog.Handler }

// Handle is part of slog.Handler.
func (l requestLog) Handle(ctx context.Context, record slog.Record) error {
	if id, ok := ctx.Value(requestIDKey{}).(string); ok {
		record.AddAttrs(slog.String("request", id))
	}
	return l.Handler.Handle(ctx, record)
}

// WithAttrs is part of slog.Handler.
func (l requestLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return requestLog{l.Handler.WithAttrs(attrs)}
}

// WithGroup is part of slog.Handler.
func (l requestLog) WithGroup(name string) slog.Handler { return requestLog{l.Handler.WithGroup(name)} }

// clientAddress says where requests come from: their connection, or, where that
// is a trusted proxy's, what the last such proxy says in X-Forwarded-For. A
// client has many IPv6 addresses, so the network of one stands for it.
func clientAddress(proxies []string) (func(*http.Request) string, error) {
	ranges, err := realclientip.AddressesAndRangesToIPNets(proxies...)
	if err != nil {
		return nil, fmt.Errorf("--trusted-proxies: %w", err)
	}
	forwarded, err := realclientip.NewRightmostTrustedRangeStrategy("X-Forwarded-For", ranges)
	if err != nil {
		return nil, err
	}
	return func(r *http.Request) string {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		peer := net.ParseIP(host)
		for _, proxy := range ranges {
			if !proxy.Contains(peer) {
				continue
			}
			if client, _ := realclientip.SplitHostZone(forwarded.ClientIP(r.Header, r.RemoteAddr)); client != "" {
				return network(net.ParseIP(client))
			}
		}
		return network(peer)
	}, nil
}

func network(ip net.IP) string {
	if ip == nil || ip.To4() != nil {
		return ip.String()
	}
	return ip.Mask(net.CIDRMask(64, 128)).String()
}
