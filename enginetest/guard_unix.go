//go:build unix

package enginetest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// account is who runs an engine.
type account = syscall.Credential

const (
	pause  = syscall.SIGSTOP
	resume = syscall.SIGCONT
)

// separate puts the command into a process group of its own, so that Ctrl-C
// reaches the test and not the engine that its cleanup still talks to.
func separate(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(command.SysProcAttr)
}

// guarded starts an engine that the whole test binary shares. No test can end
// it, since none knows that it is the last; the guard, a shell, ends it and
// removes dir when the test binary has ended, however that came about: its
// standard input is a pipe from the test binary, and the kernel closes it.
// who is the account that runs it, nil the test's own; end is the signal that
// ends it.
func guarded(who *account, end syscall.Signal, dir, log string, engine ...string) (*process, error) {
	const guard = `end=$1 dir=$2; shift 2
"$@" </dev/null & engine=$!
cat >/dev/null
kill -$end $engine; wait $engine
rm -rf "$dir"`
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()

	arguments := append([]string{"-c", guard, "guard", strconv.Itoa(int(end)), dir}, engine...)
	p := &process{name: engine[0], log: log, exited: make(chan struct{})}
	p.command = exec.CommandContext(context.Background(), "sh", arguments...)
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: who}
	p.command.Dir = dir // the test's own folder may be closed to who
	p.command.Stdin = read
	output, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	p.command.Stdout, p.command.Stderr = output, output
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	go func() {
		p.err = p.command.Wait()
		_ = write.Close() // kept open until here, and kept from the garbage collector
		close(p.exited)
	}()
	return p, nil
}

// accountNamed returns a user of this machine.
func accountNamed(name string) (*account, error) {
	found, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(found.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user %s: %w", name, err)
	}
	gid, err := strconv.ParseUint(found.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user %s: %w", name, err)
	}
	return &account{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// runAs runs a command to its end as who (nil: the account of the test) in dir.
func runAs(who *account, dir, name string, args ...string) error {
	command := exec.CommandContext(context.Background(), name, args...)
	command.SysProcAttr = &syscall.SysProcAttr{Credential: who}
	command.Dir = dir
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, output)
	}
	return nil
}
