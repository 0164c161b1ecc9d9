//go:build !linux

package drill

import "os/exec"

// dieWithParent does nothing here: only Linux has it. The drill ends its
// processes itself in any case but when it is killed.
func dieWithParent(*exec.Cmd) {}
