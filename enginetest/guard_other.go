//go:build !unix

package enginetest

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// Here no real engine is started: what would need one is skipped.

const (
	pause  = noSignal("stop")
	resume = noSignal("continue")
)

type noSignal string

func (s noSignal) String() string { return string(s) }
func (noSignal) Signal()          {}

var errNotUnix = errors.New("engines are started on Unix only")

var _ os.Signal = pause

// account is who runs an engine.
type account struct{ Uid, Gid uint32 } //nolint:revive // the names of syscall.Credential

func separate(*exec.Cmd) {}

func guarded(*account, syscall.Signal, string, string, ...string) (*process, error) {
	return nil, errNotUnix
}

func accountNamed(string) (*account, error) { return nil, errNotUnix }

func runAs(*account, string, string, ...string) error { return errNotUnix }
