package main

import (
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"strconv"
	"strings"
	"text/tabwriter"
)

// repeating is a layer that could make a call, or a step of a job, more than
// once: each has one owner and one place where its number is pinned (S4-71,
// S4-72).
type repeating struct{ layer, owner, times, pinned string }

// inventory lists every one of them for these settings, those included that must
// not repeat, and those that nobody can see from here.
func inventory(s *settings) []repeating {
	r := s.retry
	all := []repeating{
		{"calls in an attempt", "Tidings", fmt.Sprintf("%d calls", r.Calls), "TIDINGS_CALLS; jobs/model/retrying.go"},
		{"attempts at a job", "Tidings", fmt.Sprintf("%d attempts, %s apart", r.Attempts, r.Plan), "TIDINGS_QUEUE_ATTEMPTS, TIDINGS_QUEUE_DELAYS; the job's record"},
		{"all calls of a job", "Tidings", fmt.Sprintf("%d calls", r.Allowance), "TIDINGS_CALL_ALLOWANCE; stored with the job, counted before each call"},
		{"all repeated calls of the fleet", "Tidings", fmt.Sprintf("%d, +%g a first call, +%g/s", s.gate.RetryBurst, s.gate.RetryPerFirst, s.gate.RetryPerSecond), "TIDINGS_RETRY_…; the gate in Redis"},
		{"manual retries", "the user", fmt.Sprintf("a new job each; %g of that budget", s.gate.ManualShare), "TIDINGS_RETRY_MANUAL_SHARE; the gate in Redis"},
		{"the rescuer's new runs", "Tidings", "within the attempts and calls above", "jobs/rescue_table.go"},
		{"outside workers", "Tidings", "the same attempts; their calls are their own", "jobs/outside.go"},
		{"the vendor's SDK", "nobody", "0", sdkPinned(s.Model)},
		{"Go's HTTP client", "net/http", "only what the other side never took in", "net/http; a call of ours is a POST"},
		{"a proxy or gateway in between", "whoever runs it", "unknown: must be 0", "not seen from here; see operations.md, Proxy"},
		{"the provider itself", "the provider", "unknown", "not seen from here"},
		{"Asynq's own retries", "Tidings", "it carries out what the job's record says", "jobs/asynq.go: " + strconv.Itoa(r.Attempts+asynqSpare) + " tries, never reached; asynq " + version("github.com/hibiken/asynq")},
		{"a step in Redis", "Tidings", "once more when its answer is lost", "jobs/repeat.go; each step is safe to repeat by its token"},
		{"a command to Redis", "go-redis", redisTimes(s), "TIDINGS_REDIS_URL (max_retries); go-redis " + version("github.com/redis/go-redis/v9")},
		{"a client's stream", "the client", "for as long as it wants", "reads alone: starts no work"},
	}
	return all
}

// sdkPinned says where the repeats of the SDK in use are turned off.
func sdkPinned(model string) string {
	vendor, _, _ := strings.Cut(model, "/")
	switch vendor {
	case "anthropic":
		return "jobs/model/provider/anthropic.go; anthropic-sdk-go " + version("github.com/anthropics/anthropic-sdk-go")
	case "openai":
		return "jobs/model/provider/openai.go; openai-go " + version("github.com/openai/openai-go/v3")
	case "gemini":
		return "jobs/model/provider/gemini.go; genai " + version("google.golang.org/genai")
	}
	return "the built-in model has none"
}

// redisTimes is how often go-redis sends a command; its default is 3 retries.
func redisTimes(s *settings) string {
	retries := 0
	if t := s.redis; t != nil {
		switch {
		case t.single != nil:
			retries = t.single.MaxRetries
		case t.sentinel != nil:
			retries = t.sentinel.MaxRetries
		case t.cluster != nil:
			retries = t.cluster.MaxRetries
		}
	}
	switch {
	case retries < 0:
		return "0 retries"
	case retries == 0:
		retries = 3
	}
	return fmt.Sprintf("%d retries in about a second", retries)
}

// version is what was built in.
func version(module string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == module {
				return m.Version
			}
		}
	}
	return "of unknown version"
}

// printInventory lists who may repeat what, and what the gate goes by.
func printInventory(out io.Writer, s *settings) {
	fmt.Fprintln(out, "\nwho repeats what")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  layer\towner\thow often\tpinned in")
	for _, r := range inventory(s) {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", r.layer, r.owner, r.times, r.pinned)
	}
	_ = w.Flush() // whoever asked went away
	fmt.Fprintln(out, "\nthe fleet's gate in front of "+s.Model)
	w = tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, a := range gateAttrs(s.gate) {
		if attr, ok := a.(slog.Attr); ok {
			fmt.Fprintf(w, "  %s\t%s\n", strings.ReplaceAll(attr.Key, "_", " "), attr.Value)
		}
	}
	_ = w.Flush() // whoever asked went away
}
