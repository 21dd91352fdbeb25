package enginetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// process is a running engine.
type process struct {
	name    string
	command *exec.Cmd
	log     string        // path of what it prints
	exited  chan struct{} // closed once it has been waited for
	err     error         // how it ended; read after exited is closed
}

// startProcess starts name with args. What it prints is appended to log.
func startProcess(log, name string, args ...string) (*process, error) {
	// The process is ended by its handle, not by a context: a test's context
	// is cancelled before its cleanups run, and they still need the engine.
	p := &process{
		name:    name,
		command: exec.CommandContext(context.Background(), name, args...),
		log:     log,
		exited:  make(chan struct{}),
	}
	separate(p.command)
	output, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	p.command.Stdout, p.command.Stderr = output, output

	started := make(chan error)
	go func() {
		// Linux sends the signal of a parent's death when the thread that
		// forked ends, so this thread stays as long as the process does.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.command.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = p.command.Wait()
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// signal sends s. A process that has ended is no error.
func (p *process) signal(s os.Signal) error {
	if err := p.command.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %s to %s: %w", s, p.name, err)
	}
	return nil
}

// kill ends the process at once, also a stopped one, and waits for its end.
// A second call does nothing.
func (p *process) kill() error {
	if err := p.signal(os.Kill); err != nil {
		return err
	}
	<-p.exited
	return nil
}

// ended reports whether the process is over.
func (p *process) ended() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// await polls until answers returns nil. It gives up when the process ends or
// after within, with the last answer and the end of the log in the error.
func (p *process) await(within time.Duration, answers func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for {
		last := answers(ctx)
		if last == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%s ended before it was ready (%w): %s", p.name, errors.Join(p.err, last), p.tail())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready after %s: %w: %s", p.name, within, last, p.tail())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// tail returns the end of what the process printed.
func (p *process) tail() string {
	const enough = 2000
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-enough):])
}
