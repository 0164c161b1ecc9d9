package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/tidings/tidings/cmd/tidings/drill"
)

// drillCommand is what can be said to the drill. It has no settings of the
// service: the fleet that it starts gets its own, and so does its Redis.
type drillCommand struct {
	Short       bool     `help:"The short form: less of everything, in about a minute."`
	Replicas    int      `type:"whole" from:"1" to:"10" default:"10" help:"Workers that crowds of clients meet. The short form takes three at most."`
	Seed        uint64   `default:"1" help:"Decides which client comes when, and which calls fail by chance."`
	Row         []string `placeholder:"ROW" help:"Run only these rows: ${drill_rows}."`
	Report      string   `placeholder:"FILE" help:"Write a report, as JSON if the name ends in .json, else as Markdown."`
	RedisServer string   `placeholder:"PATH" help:"The redis-server to start. Without one that on the PATH, else the embedded one."`
}

// runDrill drills the program itself. It returns the exit code.
func runDrill(ctx context.Context, c *drillCommand, out, stderr io.Writer) int {
	if dir := filepath.Dir(c.Report); c.Report != "" { // said now, and not after minutes
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			fmt.Fprintf(stderr, "tidings: --report: there is no folder %s to write it into\n", dir)
			return exitSettings
		}
	}
	self, err := os.Executable()
	if err != nil {
		return report(err, stderr)
	}
	server := c.RedisServer
	if server == "" {
		if server, err = exec.LookPath("redis-server"); err != nil {
			server = ""
		}
	}
	got, err := drill.Run(ctx, drill.Options{
		Program: self, RedisServer: server, Embedded: startEmbedded,
		Replicas: c.Replicas, Seed: c.Seed, Rows: c.Row, Short: c.Short, Versions: versions(), Out: out, Progress: stderr,
	})
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(stderr, "tidings: interrupted; nothing is left running")
		return watchInterrupted
	}
	if err == nil && c.Report != "" {
		err = got.Save(c.Report)
	}
	if err != nil {
		return report(err, stderr)
	}
	if !got.Passed() {
		fmt.Fprintln(out, "\nnot all gates passed")
		return exitFailed
	}
	fmt.Fprintf(out, "\nall %d gates passed in %s\n", len(got.Lines), got.Took)
	return 0
}

// versions are those that a drill's report names: the program's own, which is
// gateway and workflow in one, the vendors' SDKs, and what it stands on.
func versions() map[string]string {
	all := map[string]string{"Go": runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return all
	}
	all["Tidings"] = info.Main.Version
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			all["Tidings"] += " " + s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			all["Tidings"] += " with changes"
		}
	}
	for _, d := range info.Deps {
		for _, part := range []string{"hibiken/asynq", "redis/go-redis", "openai/openai-go", "anthropics/anthropic-sdk-go", "google.golang.org/genai",
			"alicebob/miniredis"} {
			if strings.HasSuffix(d.Path, part) || strings.Contains(d.Path, part+"/v") {
				all[d.Path] = d.Version
			}
		}
	}
	return all
}
