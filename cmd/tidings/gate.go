package main

import (
	"log/slog"
	"time"

	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/model/local"
)

// gateSettings are those of the gate that all processes of a fleet share. Each
// default is that of gate.Defaults, which a test compares.
type gateSettings struct {
	ModelConcurrency int           `group:"Gate" env:"TIDINGS_MODEL_CONCURRENCY" type:"whole" from:"1" to:"10000" default:"100" help:"Calls that all processes together make to the model at the same time."`
	BusyWait         time.Duration `group:"Gate" env:"TIDINGS_BUSY_WAIT" type:"span" from:"10ms" to:"1m" default:"2s" help:"How long a job waits, up to twice that, before it asks again when all of them are taken. A call's usual length is a good value."`
	FirstReserve     float64       `group:"Gate" env:"TIDINGS_FIRST_RESERVE" type:"part" from:"0" to:"0.9" default:"0.1" help:"The share of them that is reserved for jobs' first calls."`

	RetryBurst       int     `group:"Gate" env:"TIDINGS_RETRY_BURST" type:"whole" from:"1" to:"10000" default:"100" help:"Repeated calls that all processes together have in reserve."`
	RetryPerFirst    float64 `group:"Gate" env:"TIDINGS_RETRY_PER_FIRST" type:"part" from:"0" to:"1" default:"0.2" help:"How much of a call each job's first call adds to that reserve."`
	RetryPerSecond   float64 `group:"Gate" env:"TIDINGS_RETRY_PER_SECOND" type:"part" from:"0.001" to:"10000" default:"1" help:"How many calls each second adds to it."`
	RetryManualShare float64 `group:"Gate" env:"TIDINGS_RETRY_MANUAL_SHARE" type:"part" from:"0.001" to:"1" default:"0.25" help:"The size of the separate reserve for manual retries, as a share of that one."`

	BreakerWindow  time.Duration `group:"Gate" env:"TIDINGS_BREAKER_WINDOW" type:"span" from:"10ms" to:"1h" default:"30s" help:"How far back the breaker looks."`
	BreakerCalls   int           `group:"Gate" env:"TIDINGS_BREAKER_CALLS" type:"whole" from:"1" to:"1000000" default:"10" help:"Calls it must have seen there before it may open. dev raises it for the local model, whose failures are played."`
	BreakerRatio   float64       `group:"Gate" env:"TIDINGS_BREAKER_RATIO" type:"part" from:"0.001" to:"1" default:"0.5" help:"The share of them that must have failed for it to open."`
	BreakerOpen    time.Duration `group:"Gate" env:"TIDINGS_BREAKER_OPEN" type:"span" from:"10ms" to:"1h" default:"15s" help:"How long it opens at first. It doubles each time that the probes fail."`
	BreakerOpenMax time.Duration `group:"Gate" env:"TIDINGS_BREAKER_OPEN_MAX" type:"span" from:"10ms" to:"1h" default:"2m" help:"How long it opens at most."`
	BreakerProbes  int           `group:"Gate" env:"TIDINGS_BREAKER_PROBES" type:"whole" from:"1" to:"1000" default:"3" help:"Good calls that close it, and calls at the same time that it closes with."`
	Growth         float64       `group:"Gate" env:"TIDINGS_GROWTH" type:"part" from:"0.001" to:"10" default:"0.25" help:"By how many calls at the same time each good call raises what is allowed after that."`
	Shrink         float64       `group:"Gate" env:"TIDINGS_SHRINK" type:"part" from:"0.1" to:"1" default:"0.75" help:"What a bad call multiplies it by, at most once a second. Not in dev with the local model."`
	HoldMax        time.Duration `group:"Gate" env:"TIDINGS_HOLD_MAX" type:"span" from:"10ms" to:"24h" default:"1h" help:"How long a provider's Retry-After holds all calls to it at most."`
}

// completeGate sets the gate that the whole fleet passes. In dev the local model's
// failures are played, each for one session, and must not become every session's:
// what would spread them is widened there, unless it was set to other than its
// default. Another model's failures are real.
func (s *settings) completeGate(mode string) error {
	g := gate.Defaults()
	known := g
	g.Concurrency, g.FirstReserve, g.Busy = s.ModelConcurrency, s.FirstReserve, s.BusyWait
	g.RetryBurst, g.RetryPerFirst, g.RetryPerSecond, g.ManualShare = s.RetryBurst, s.RetryPerFirst, s.RetryPerSecond, s.RetryManualShare
	g.Window, g.WindowCalls, g.FailureRatio = s.BreakerWindow, s.BreakerCalls, s.BreakerRatio
	g.OpenFor, g.OpenMax = s.BreakerOpen, s.BreakerOpenMax
	g.Probes, g.Growth, g.Shrink, g.HoldMax = s.BreakerProbes, s.Growth, s.Shrink, s.HoldMax
	if g.Probes == known.Probes { // who wants fewer calls at a time need not think of them
		g.Probes = min(g.Probes, g.Concurrency)
	}
	if mode == "dev" && s.Model == local.Name {
		if g.RetryBurst == known.RetryBurst {
			g.RetryBurst = 10_000
		}
		if g.WindowCalls == known.WindowCalls {
			g.WindowCalls = 1_000_000
		}
		if g.HoldMax == known.HoldMax {
			g.HoldMax = 10 * time.Millisecond
		}
		if g.Shrink == known.Shrink {
			g.Shrink = 1
		}
	}
	s.gate = g
	return g.Check()
}

// gateAttrs say at the start what the gate of this process goes by: a fleet's
// processes should all say the same.
func gateAttrs(g gate.Settings) []any {
	return []any{
		slog.Int("concurrency", g.Concurrency), slog.String("busy_wait", g.Busy.String()), slog.Float64("first_reserve", g.FirstReserve),
		slog.Int("retry_burst", g.RetryBurst), slog.Float64("retry_per_first", g.RetryPerFirst),
		slog.Float64("retry_per_second", g.RetryPerSecond), slog.Float64("manual_share", g.ManualShare),
		slog.String("breaker_window", g.Window.String()), slog.Int("breaker_calls", g.WindowCalls), slog.Float64("breaker_ratio", g.FailureRatio),
		slog.String("breaker_open", g.OpenFor.String()), slog.String("breaker_open_max", g.OpenMax.String()), slog.Int("breaker_probes", g.Probes),
		slog.Float64("growth", g.Growth), slog.Float64("shrink", g.Shrink), slog.String("hold_max", g.HoldMax.String()),
	}
}
