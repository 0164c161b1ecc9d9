package main

import (
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/jobs/gate"
)

// S4-16: what the gate goes by has names, bounds and the documented defaults.
func TestTheGatesDefaultsAreTheDocumentedOnes(t *testing.T) {
	line, mode, err := read(t, map[string]string{"TIDINGS_REDIS_URL": "redis://127.0.0.1:1", "TIDINGS_MODEL": "local"}, "serve")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := line.settings(mode).gate, gate.Defaults(); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestEachSettingReachesTheGate(t *testing.T) {
	env := map[string]string{
		"TIDINGS_MODEL_CONCURRENCY": "40", "TIDINGS_BUSY_WAIT": "500ms", "TIDINGS_FIRST_RESERVE": "0.5",
		"TIDINGS_RETRY_BURST": "8", "TIDINGS_RETRY_PER_FIRST": "0.1", "TIDINGS_RETRY_PER_SECOND": "2", "TIDINGS_RETRY_MANUAL_SHARE": "0.5",
		"TIDINGS_BREAKER_WINDOW": "10s", "TIDINGS_BREAKER_CALLS": "4", "TIDINGS_BREAKER_RATIO": "0.25",
		"TIDINGS_BREAKER_OPEN": "2s", "TIDINGS_BREAKER_OPEN_MAX": "8s", "TIDINGS_BREAKER_PROBES": "2",
		"TIDINGS_GROWTH": "1", "TIDINGS_SHRINK": "0.5", "TIDINGS_HOLD_MAX": "5m",
	}
	want := gate.Defaults()
	want.Concurrency, want.FirstReserve, want.Busy = 40, 0.5, 500*time.Millisecond
	want.RetryBurst, want.RetryPerFirst, want.RetryPerSecond, want.ManualShare = 8, 0.1, 2, 0.5
	want.Window, want.WindowCalls, want.FailureRatio = 10*time.Second, 4, 0.25
	want.OpenFor, want.OpenMax, want.Probes = 2*time.Second, 8*time.Second, 2
	want.Growth, want.Shrink, want.HoldMax = 1, 0.5, 5*time.Minute
	for _, mode := range []string{"dev", "check"} { // what was set counts in dev too
		line, mode, err := read(t, env, mode)
		if err != nil {
			t.Fatal(err)
		}
		if got := line.settings(mode).gate; got != want {
			t.Errorf("%s: got  %+v\nwant %+v", mode, got, want)
		}
	}
}

func TestDevKeepsOneSessionsPlayedFailuresFromTheOthers(t *testing.T) {
	line, mode, err := read(t, nil, "dev")
	if err != nil {
		t.Fatal(err)
	}
	if g := line.settings(mode).gate; g.WindowCalls < 1000 || g.RetryBurst < 1000 || g.HoldMax > time.Second || g.Shrink < 1 {
		t.Errorf("a few played failures would close the gate for all: %+v", g)
	}
	line, mode, err = read(t, map[string]string{"TIDINGS_MODEL": "openai/gpt-x", "OPENAI_API_KEY": "k"}, "dev")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := line.settings(mode).gate, gate.Defaults(); got != want {
		t.Errorf("a real provider's failures are not heeded in dev: %+v", got)
	}
}

func TestTheGatesSettingsAreRefusedWhenTheyCannotWork(t *testing.T) {
	for want, env := range map[string][2]string{
		"want a number from 0 to 0.9":      {"TIDINGS_FIRST_RESERVE", "1"},
		"want a number from 0 to 1, got":   {"TIDINGS_RETRY_PER_FIRST", "NaN"},
		"want a whole number from 1":       {"TIDINGS_BREAKER_CALLS", "0"},
		"never makes one token":            {"TIDINGS_RETRY_BURST", "2"},
		"takes over a day to fill":         {"TIDINGS_RETRY_PER_SECOND", "0.001"},
		"longer than its longest of 10ms":  {"TIDINGS_BREAKER_OPEN_MAX", "10ms"},
		"are more than the concurrency of": {"TIDINGS_BREAKER_PROBES", "101"},
	} {
		_, _, err := read(t, map[string]string{env[0]: env[1]}, "dev")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s=%s: %v, want an error with %q", env[0], env[1], err, want)
		}
	}
}
