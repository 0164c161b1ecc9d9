package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// livingIn lists the processes that know a folder: from their environment, or
// because they work in it.
func livingIn(t *testing.T, dir string) (found []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		environment, _ := os.ReadFile(filepath.Join(p, "environ")) // one that has just ended has none
		line, _ := os.ReadFile(filepath.Join(p, "cmdline"))
		works, _ := os.Readlink(filepath.Join(p, "cwd"))
		if strings.Contains(string(environment)+works, dir) {
			found = append(found, p+" "+string(line))
		}
	}
	return found
}
