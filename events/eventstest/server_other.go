//go:build !linux

package eventstest

import "os/exec"

// dieWithParent has no counterpart here: a server outlives a test binary that
// died without its cleanups.
func dieWithParent(*exec.Cmd) {}
