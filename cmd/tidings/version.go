package main

import (
	"fmt"
	"io"
	"runtime/debug"
)

// printVersion says what was built: the commit, the toolchain and every library with
// its version, which is the list of what a licence or an advisory may be about.
func printVersion(out io.Writer) {
	info, ok := debug.ReadBuildInfo()
	if !ok { // a binary of another kind of build
		fmt.Fprintln(out, "tidings, built without module support")
		return
	}
	set := map[string]string{}
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	commit := set["vcs.revision"]
	if commit == "" {
		commit = "unknown commit"
	}
	if set["vcs.modified"] == "true" {
		commit += ", modified"
	}
	fmt.Fprintf(out, "tidings %s (%s) %s\n", info.Main.Version, commit, info.GoVersion)
	if tags := set["-tags"]; tags != "" {
		fmt.Fprintf(out, "build tags %s\n", tags)
	}
	for _, lib := range info.Deps {
		if lib.Replace != nil {
			lib = lib.Replace
		}
		fmt.Fprintf(out, "%s %s\n", lib.Path, lib.Version)
	}
}
