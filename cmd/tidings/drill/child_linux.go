package drill

import (
	"os/exec"
	"syscall"
)

// dieWithParent lets the kernel end a process that the drill started when the
// drill itself is killed.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
