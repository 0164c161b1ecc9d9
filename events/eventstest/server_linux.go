package eventstest

import (
	"os/exec"
	"syscall"
)

// dieWithParent lets the kernel end the server when the test binary dies
// without its cleanups (a panic, a test timeout).
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
