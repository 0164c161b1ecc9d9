//go:build unix

package main

import "syscall"

// openFiles is how many files this process may have open, 0 when that is not
// known. Go has raised it to the hard limit at the start.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int(min(limit.Cur, 1<<30))
}
