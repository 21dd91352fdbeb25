//go:build unix && !linux

package enginetest

import "syscall"

// dieWithParent does nothing: only Linux knows such a signal. Elsewhere an
// engine outlives a test binary that ends without running its cleanups.
func dieWithParent(*syscall.SysProcAttr) {}
