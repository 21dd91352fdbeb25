package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// listen serves and prints the address as the server does.
func listen(ctx context.Context, address string, handler http.Handler) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	fmt.Printf("address   http://%s/\n", listener.Addr())
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// process is a server under measurement.
type process struct {
	cmd *exec.Cmd
	url string
}

// start runs a program until it has printed its address.
func start(ctx context.Context, program string, args ...string) (*process, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 15 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if url, found := strings.CutPrefix(lines.Text(), "address   "); found {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return &process{cmd: cmd, url: strings.TrimSuffix(url, "/")}, nil
		}
	}
	return nil, errors.Join(errors.New(program+" ended before it served"), cmd.Wait())
}

// stop ends the process as an operator does.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	return p.cmd.Wait()
}

// clockTicks is how many parts of a second /proc counts in; Linux has 100.
const clockTicks = 100

// cpu is the time that the process has had, user and system.
func (p *process) cpu() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * time.Second / clockTicks, errors.Join(err1, err2)
}

// build compiles the server as a user does.
func build(ctx context.Context, dir string) (string, error) {
	program := filepath.Join(dir, "tallyfeed")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", program, "github.com/tallyfeed/tallyfeed")
	cmd.Stderr = os.Stderr
	return program, cmd.Run()
}

// runOnce runs a program to its end.
func runOnce(ctx context.Context, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stderr = os.Stderr
	return cmd.Run()
}
