package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// drillProgram builds the binary without the race detector: there the drill's
// many processes would be about the detector.
var drillProgram = sync.OnceValues(func() (string, error) {
	path := filepath.Join(programDir(), "tidings-drill")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// drillCommandLine prepares a drill in an environment that would ruin it if it
// listened to it.
func drillCommandLine(t *testing.T, args ...string) *process {
	t.Helper()
	path, err := drillProgram()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(path, append([]string{"drill"}, args...)...), out: newOutput(), err: newOutput(), exited: make(chan struct{})}
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TIDINGS_REDIS_URL=redis://127.0.0.1:1", "TIDINGS_CALLS=5", "TIDINGS_AUTH=jwt",
		"TIDINGS_MODEL_BASE_URL=http://127.0.0.1:1", "TIDINGS_QUEUE_LIMIT=1"}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.err
	return p
}

// allPass reads a drill's table and wants each of these rows in it, with gates
// that have all passed.
func allPass(t *testing.T, p *process, rows ...string) {
	t.Helper()
	<-p.exited // the drill bounds its own time
	gates := map[string]int{}
	for line := range strings.Lines(p.out.String()) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			continue
		}
		switch fields[len(fields)-1] {
		case "yes":
			gates[strings.TrimSuffix(fields[0], ",")]++
		case "NO":
			t.Errorf("a gate has failed: %s", line)
		}
	}
	for _, row := range rows {
		if gates[row] < 2 {
			t.Errorf("%d gates of %s", gates[row], row)
		}
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestTheShortDrillPasses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "report.json")
	p := drillCommandLine(t, "--short", "--seed", "7", "--report", file).start()
	allPass(t, p, "baseline", "S4-53", "S4-54", "S4-55", "S4-56", "S4-57", "S4-58")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Seed              int
		Versions          map[string]string
		Traffic, Settings map[string][]string
		Gates             []struct{ Pass bool }
	}
	if err := json.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	if report.Seed != 7 || len(report.Gates) < 30 || !strings.HasPrefix(report.Versions["Redis"], "redis-server 7") ||
		report.Versions["github.com/hibiken/asynq"] == "" || report.Versions["github.com/openai/openai-go/v3"] == "" ||
		len(report.Traffic) != 7 || len(report.Settings) != 7 {
		t.Errorf("the report lacks something: %s", text)
	}
}

func TestADrillWithoutRedisServerTakesTheEmbeddedOne(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "report.md")
	p := drillCommandLine(t, "--short", "--row", "baseline", "--report", file)
	p.cmd.Env = []string{"PATH="}
	allPass(t, p.start(), "baseline")
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "Redis: embedded") {
		t.Errorf("%v: the report does not say which Redis it was:\n%s", err, text)
	}
}

func TestADrillThatIsInterruptedLeavesNoProcess(t *testing.T) {
	t.Parallel()
	p := drillCommandLine(t, "--row", "S4-54")
	dir := t.TempDir()
	p.cmd.Env = append(p.cmd.Env, "TMPDIR="+dir)
	p.start()
	for !strings.Contains(p.err.String(), "workers: 10") {
		select {
		case <-p.err.changed:
		case <-p.exited:
			t.Fatal("it has ended before it was interrupted")
		}
	}
	if left := livingIn(t, dir); len(left) < 13 { // 10 workers, the API, Redis, the drill
		t.Errorf("only these run: %v", left)
	}
	p.signal(syscall.SIGINT)
	if code := p.code(); code != watchInterrupted {
		t.Errorf("exit code %d", code)
	}
	if left := livingIn(t, dir); len(left) > 0 {
		t.Errorf("these still run: %v", left)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
		t.Errorf("these folders are left: %v", left)
	}
}

func TestADrillSaysWhatItCannotDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--row", "S4-99"}, exitFailed, "S4-57"},
		{[]string{"--replicas", "11"}, exitSettings, "1 to 10"},
		{[]string{"--short", "--row", "baseline", "--redis-server", "/nowhere/redis-server"}, exitFailed, "the row can be run"},
	} {
		p := drillCommandLine(t, c.args...).start()
		if code := p.code(); code != c.code || !strings.Contains(p.out.String()+p.err.String(), c.says) {
			t.Errorf("%v: exit code %d, %q is missing in %s%s", c.args, code, c.says, p.out, p.err)
		}
	}
}
