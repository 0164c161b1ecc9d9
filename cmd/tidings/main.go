// Command tidings is the whole product in one program.
//
//	tidings dev              everything in one process, to try it
//	tidings serve            the API
//	tidings work             the workers
//	tidings all              both, against a Redis by URL
//	tidings watch <session>  a session's live status in the terminal
//	tidings doctor <url>     what proxies do to streams
//	tidings check            what the settings add up to at worst
//	tidings version          what was built, and with which libraries
//	tidings retries          the kill switch: off, on, show
//	tidings pause, resume    calls to a model
//	tidings drill            faults, and what the service makes of them
//
// Where to look:
//
//	config.go      every setting; with environment.go the only reader of the environment
//	environment.go what has no flag, and names that are no settings
//	wire.go        the parts, put together
//	run.go         their start and their end
//	embedded.go    the Redis of dev
//	redisurl.go    where Redis is
//	watch.go       the stream in a terminal
//	doctor.go      what proxies do to streams, check by check
//	trip.go        one probe stream, as it came
//	check.go       the worst case, and checks without a key
//	inventory.go   who repeats what
//	operate.go     what operators do from a terminal
//	version.go     what was built
//	drill.go       the drill's command; the package drill is the rest of it
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// The exit codes of every mode but watch, which has its own.
const (
	exitFailed   = 1
	exitSettings = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks; from then on the next one ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program: it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr *os.File) int {
	line, mode, err := readCommandLine(args, stdout, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "tidings:", err)
		return exitSettings
	}
	switch mode {
	case "watch":
		return newWatcher(line.Watch, stdout, isTerminal(stdout)).run(ctx)
	case "doctor":
		return newDoctor(line.Doctor, stdout).run(ctx)
	case "check":
		return check(ctx, &line.Check, stdout)
	case "version":
		printVersion(stdout)
		return 0
	case "retries":
		return report(switchRetries(ctx, &line.Retries, stdout), stderr)
	case "pause":
		return report(pauseCalls(ctx, &line.Pause, stdout), stderr)
	case "resume":
		return report(resumeCalls(ctx, &line.Resume, stdout), stderr)
	case "probe":
		return report(probeCalls(ctx, &line.Probe, stdout), stderr)
	case "drill":
		return runDrill(ctx, &line.Drill, stdout, stderr)
	}
	return report(runService(ctx, mode, line.settings(mode), stdout, stderr), stderr)
}

func report(err error, stderr io.Writer) int {
	if err != nil {
		fmt.Fprintln(stderr, "tidings:", err)
		return exitFailed
	}
	return 0
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
