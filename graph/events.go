package graph

import (
	"context"
	"net/http"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"github.com/tallyfeed/tallyfeed/auth"
)

const (
	// keepAlive is how often a stream that has nothing to say says so: proxies
	// close what is silent.
	keepAlive = 15 * time.Second
	// slowest is what a client may take for one event.
	slowest = 10 * time.Second
)

// stream answers with server-sent events, in the distinct connections mode of
// https://github.com/enisdenjo/graphql-sse/blob/master/PROTOCOL.md: an event next
// for each response, and complete at the end.
// The operation has a context of its own, which ends with it.
func stream(request, operation context.Context, w http.ResponseWriter, responses graphql.ResponseHandler) {
	viewer, signedIn := auth.ViewerFrom(request)
	if socket, ok := request.Value(connectionKey{}).(*connection); ok && signedIn {
		timer := time.AfterFunc(time.Until(viewer.Expires), socket.end)
		defer timer.Stop()
	}
	header := w.Header()
	header.Set("Content-Type", mediaEvents+"; charset=utf-8")
	header.Set("Cache-Control", "private, no-store")
	header.Set("X-Accel-Buffering", "no") // nginx would gather events
	header.Add("Vary", "Accept, Authorization")

	// The server's time-outs are for requests that end.
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{})
	send := func(event string) error {
		_ = control.SetWriteDeadline(time.Now().Add(slowest))
		if _, err := w.Write([]byte(event)); err != nil {
			return err
		}
		return control.Flush()
	}

	answers := make(chan *graphql.Response)
	panicked := make(chan any, 1)
	go func() {
		defer close(answers)
		defer func() {
			if value := recover(); value != nil { // for the request's own goroutine to answer for
				panicked <- value
			}
		}()
		for response := responses(operation); response != nil; response = responses(operation) {
			select {
			case answers <- response:
			case <-request.Done():
				return
			}
		}
	}()
	silence := time.NewTicker(keepAlive)
	defer silence.Stop()
	for err := send(":\n\n"); err == nil; {
		select {
		case response, more := <-answers:
			if !more && len(panicked) > 0 {
				panic(<-panicked)
			}
			if !more {
				_ = send("event: complete\ndata:\n\n")
				return
			}
			err = send("event: next\ndata: " + string(encode(response)) + "\n\n")
		case <-silence.C:
			err = send(":\n\n")
		case <-request.Done():
			return
		}
	}
}
