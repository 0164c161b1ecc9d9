package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestCheckListsWhoRepeatsWhat: every layer that could, its owner, its number
// and where that is pinned, for the settings that were given.
func TestCheckListsWhoRepeatsWhat(t *testing.T) {
	env := map[string]string{"TIDINGS_MODEL": "anthropic/claude-x", "TIDINGS_CALLS": "2", "TIDINGS_QUEUE_ATTEMPTS": "3", "TIDINGS_CALL_ALLOWANCE": "5",
		"TIDINGS_RETRY_BURST": "40", "TIDINGS_REDIS_URL": "redis://127.0.0.1:6379?max_retries=7", "TIDINGS_BREAKER_OPEN": "17s"}
	line, _, err := read(t, env, "check")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if code := check(t.Context(), &line.Check, &out); code != 0 {
		t.Errorf("exit code %d", code)
	}
	lines := map[string]string{}
	for l := range strings.Lines(out.String()) {
		name, rest, _ := strings.Cut(strings.TrimSpace(l), "  ")
		lines[name] = strings.TrimSpace(rest)
	}
	for layer, want := range map[string][]string{
		"calls in an attempt":             {"Tidings", "2 calls", "TIDINGS_CALLS"},
		"attempts at a job":               {"3 attempts, 30s,1m,2m apart"},
		"all calls of a job":              {"5 calls", "stored with the job"},
		"all repeated calls of the fleet": {"40, +0.2 a first call, +1/s"},
		"manual retries":                  {"the user", "0.25"},
		"the rescuer's new runs":          {"Tidings"},
		"outside workers":                 {"Tidings"},
		"the vendor's SDK":                {"nobody", "0", "anthropic.go"},
		"Go's HTTP client":                {"net/http", "never took in"},
		"a proxy or gateway in between":   {"unknown", "not seen from here"},
		"Asynq's own retries":             {"23 tries, never reached"},
		"a command to Redis":              {"go-redis", "7 retries"},
		"a step in Redis":                 {"once more"},
		"breaker open":                    {"17s"},
		"concurrency":                     {"100"},
	} {
		for _, part := range want {
			if !strings.Contains(lines[layer], part) {
				t.Errorf("%s: no %q in %q", layer, part, lines[layer])
			}
		}
	}
}
