package gate

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Settings holds every number of the gate. All processes of a fleet should run
// with the same ones; while they differ, during a rollout, each script goes by
// the settings of who asks.
type Settings struct {
	// Concurrency is how many calls the fleet makes to one dependency at the
	// same time: 1 to 10000.
	Concurrency int
	// FirstReserve is the share of the places that only first calls may take, 0
	// to 0.9. Repeated calls always keep one place.
	FirstReserve float64
	// Lease is how long a permit lives, where Ask names nothing else: longer than
	// the longest call is allowed to take.
	Lease time.Duration

	// RetryBurst is what the retry bucket holds at most: 1 to 10000.
	RetryBurst int
	// RetryPerFirst is what a first call adds to it, 0 to 1; RetryPerSecond what
	// a second adds, above 0 and at least a burst in a day.
	RetryPerFirst, RetryPerSecond float64
	// ManualShare is how large the bucket of manual retries is, beside the
	// other: above 0, up to 1, and at least one token of burst.
	ManualShare float64

	// Probes is how many calls test a dependency before the breaker closes, how
	// many of them run at the same time at most, and the concurrency that it
	// closes with: 1 to Concurrency.
	Probes int
	// Window is what the breaker looks back on: it opens when at least
	// WindowCalls ended in it and FailureRatio of them (above 0, up to 1) were
	// bad.
	Window       time.Duration
	WindowCalls  int
	FailureRatio float64
	// OpenFor is how long the breaker opens the first time; it doubles each time
	// that the probes fail, up to OpenMax.
	OpenFor, OpenMax time.Duration
	// Growth is what a good call adds to the allowed concurrency (above 0, up to
	// 10), Shrink what a bad one multiplies it by, at most once a second (0.1 to
	// 1).
	Growth, Shrink float64

	// HoldMax is the most that a provider's hint can hold the whole dependency.
	HoldMax time.Duration
	// Busy is the time after which to ask again when no place is free. Each
	// asker gets between one and two of it, so that they do not come together.
	Busy time.Duration
}

// keep is how long the gate's keys live after their last use, orderMax how far
// ahead an operator's order may reach.
const (
	keep     = 8 * 24 * time.Hour
	orderMax = 7 * 24 * time.Hour
)

// Defaults are the numbers of docs/retries.md.
func Defaults() Settings {
	return Settings{
		Concurrency: 100, FirstReserve: 0.1, Lease: 15 * time.Second,
		RetryBurst: 100, RetryPerFirst: 0.2, RetryPerSecond: 1, ManualShare: 0.25,
		Probes: 3, Window: 30 * time.Second, WindowCalls: 10, FailureRatio: 0.5,
		OpenFor: 15 * time.Second, OpenMax: 2 * time.Minute, Growth: 0.25, Shrink: 0.75,
		HoldMax: time.Hour, Busy: 2 * time.Second,
	}
}

// ManualRetries is the reserve of manual retries: what it holds at most, and what a
// second alone adds to it.
func (s Settings) ManualRetries() (burst, perSecond float64) {
	return s.ManualShare * float64(s.RetryBurst), s.ManualShare * s.RetryPerSecond
}

// Check refuses settings outside their bounds. The message of each says what to
// change; all that apply are joined.
func (s Settings) Check() error {
	var errs []error
	refuse := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("gate: "+format, args...))
		}
	}
	whole := func(name string, n, low, high int) {
		refuse(low <= n && n <= high, "%s is %d: set it between %d and %d", name, n, low, high)
	}
	within := func(name string, f, low, high float64) { // false for NaN as well
		refuse(low <= f && f <= high, "%s is %v: set it between %v and %v", name, f, low, high)
	}
	lasts := func(name string, d, low, high time.Duration) {
		refuse(low <= d && d <= high, "%s is %s: set it between %s and %s", name, d, low, high)
	}
	const tiny = 0.001
	whole("the concurrency", s.Concurrency, 1, 10000)
	within("the first calls' reserve", s.FirstReserve, 0, 0.9)
	lasts("the permit's lease", s.Lease, 10*time.Millisecond, 10*time.Minute)

	whole("the retry budget's burst", s.RetryBurst, 1, 10000)
	within("the retry budget per first call", s.RetryPerFirst, 0, 1)
	within("the retry budget per second", s.RetryPerSecond, tiny, 10000)
	refuse(s.RetryPerSecond*(24*time.Hour).Seconds() >= float64(s.RetryBurst),
		"the retry budget takes over a day to fill to %d at %v per second: raise the rate or lower the burst",
		s.RetryBurst, s.RetryPerSecond)
	within("the manual share", s.ManualShare, tiny, 1)
	refuse(s.ManualShare*float64(s.RetryBurst) >= 1,
		"a manual share of %v of a burst of %d never makes one token: raise one of them", s.ManualShare, s.RetryBurst)

	whole("the number of probes", s.Probes, 1, 1000)
	refuse(s.Probes <= s.Concurrency, "%d probes are more than the concurrency of %d", s.Probes, s.Concurrency)
	lasts("the breaker's window", s.Window, 10*time.Millisecond, time.Hour)
	whole("the least calls in the window", s.WindowCalls, 1, 1000000)
	within("the failure ratio", s.FailureRatio, tiny, 1)
	lasts("the breaker's first opening", s.OpenFor, 10*time.Millisecond, time.Hour)
	lasts("the breaker's longest opening", s.OpenMax, 10*time.Millisecond, time.Hour)
	refuse(s.OpenFor <= s.OpenMax, "the breaker's first opening of %s is longer than its longest of %s", s.OpenFor, s.OpenMax)
	within("the growth", s.Growth, tiny, 10)
	within("the shrinking", s.Shrink, 0.1, 1)

	lasts("the longest hold", s.HoldMax, 10*time.Millisecond, 24*time.Hour)
	lasts("the wait for a place", s.Busy, 10*time.Millisecond, time.Minute)
	return errors.Join(errs...)
}

// fill puts the settings into a script's text in the place of cfg.<name>: they
// are sent once, with the script, and cost nothing when it runs.
func (s Settings) fill(script string) string {
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	values := map[string]string{
		"concurrency": strconv.Itoa(s.Concurrency), "first_reserve": number(s.FirstReserve),
		"retry_burst": strconv.Itoa(s.RetryBurst), "retry_per_first": number(s.RetryPerFirst),
		"retry_per_second": number(s.RetryPerSecond),
		"manual_burst":     number(s.ManualShare * float64(s.RetryBurst)), "manual_share": number(s.ManualShare),
		"probes": strconv.Itoa(s.Probes), "window": ms(s.Window), "window_calls": strconv.Itoa(s.WindowCalls),
		"failure_ratio": number(s.FailureRatio), "open_for": ms(s.OpenFor), "open_max": ms(s.OpenMax),
		"growth": number(s.Growth), "shrink": number(s.Shrink), "hold_max": ms(s.HoldMax), "busy": ms(s.Busy),
		"keep": ms(keep), "order_max": ms(orderMax),
	}
	return regexp.MustCompile(`\bcfg\.\w+`).ReplaceAllStringFunc(script, func(name string) string {
		value, ok := values[strings.TrimPrefix(name, "cfg.")]
		if !ok {
			panic("gate: a script asks for the setting " + name) // seen by every test
		}
		return value
	})
}
