package faults

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tallyfeed/tallyfeed/enginetest"
)

// server is a Tallyfeed process that may die and come again at the same address.
type server struct {
	t       *testing.T
	program string
	args    []string
	address string // "" where it has no API
	log     *logFile

	mu  sync.Mutex
	cmd *exec.Cmd
}

// logFile keeps what the processes say.
type logFile struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// lines returns those that hold a text.
func (l *logFile) lines(part string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, part) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "tallyfeed")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/tallyfeed/tallyfeed")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return program
}

func (s *server) start() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmd = exec.CommandContext(context.WithoutCancel(s.t.Context()), s.program, s.args...) // cleanup ends it, after the context
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) signal(signal os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.cmd.Process.Signal(signal)
}

// wait reaps a process that was told to end.
func (s *server) wait() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.cmd.Wait()
}

func (s *server) kill() {
	s.signal(syscall.SIGKILL)
	s.wait()
}

// stop ends it as an operator does.
func (s *server) stop() error {
	s.signal(syscall.SIGTERM)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd.Wait()
}

// awaitReady waits until a server answers.
func (s *server) awaitReady(within time.Duration) error {
	var last error
	for deadline := time.Now().Add(within); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+"/readyz", nil)
		response, err := http.DefaultClient.Do(r)
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				cancel()
				return nil
			}
			err = fmt.Errorf("status %d", response.StatusCode)
		}
		last = err
		cancel()
	}
	return last
}

// freeAddress is one that nobody listens on now.
func freeAddress(t *testing.T) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(enginetest.FreePort(t)))
}
