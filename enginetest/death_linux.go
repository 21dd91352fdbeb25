package enginetest

import "syscall"

// dieWithParent has the kernel end the engine when the test binary ends without
// running its cleanups: a panic, a time-out, a kill.
func dieWithParent(attributes *syscall.SysProcAttr) {
	attributes.Pdeathsig = syscall.SIGKILL
}
