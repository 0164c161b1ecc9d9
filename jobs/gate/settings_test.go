package gate_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/jobs/gate"
)

func TestSettings_DefaultsAreTheDocumentedOnes(t *testing.T) {
	s := gate.Defaults()
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	if s.RetryBurst != 100 || s.RetryPerFirst != 0.2 || s.RetryPerSecond != 1 || s.ManualShare >= 1 {
		t.Errorf("budget: %+v", s)
	}
}

func TestSettings_Check(t *testing.T) {
	for part, change := range map[string]func(*gate.Settings){
		"concurrency is 0":         func(s *gate.Settings) { s.Concurrency = 0 },
		"concurrency is 10001":     func(s *gate.Settings) { s.Concurrency = 10001 },
		"reserve is 1":             func(s *gate.Settings) { s.FirstReserve = 1 },
		"lease is 0s":              func(s *gate.Settings) { s.Lease = 0 },
		"burst is 0":               func(s *gate.Settings) { s.RetryBurst = 0 },
		"per first call is NaN":    func(s *gate.Settings) { s.RetryPerFirst = math.NaN() },
		"per second is 0":          func(s *gate.Settings) { s.RetryPerSecond = 0 },
		"over a day":               func(s *gate.Settings) { s.RetryBurst, s.RetryPerSecond = 10000, 0.01 },
		"manual share is 2":        func(s *gate.Settings) { s.ManualShare = 2 },
		"never makes one token":    func(s *gate.Settings) { s.RetryBurst = 2 },
		"probes is 0":              func(s *gate.Settings) { s.Probes = 0 },
		"more than the concurr":    func(s *gate.Settings) { s.Concurrency = 2 },
		"window is 0s":             func(s *gate.Settings) { s.Window = 0 },
		"calls in the window is 0": func(s *gate.Settings) { s.WindowCalls = 0 },
		"ratio is 0":               func(s *gate.Settings) { s.FailureRatio = 0 },
		"first opening is 0s":      func(s *gate.Settings) { s.OpenFor = 0 },
		"longer than its longest of": func(s *gate.Settings) {
			s.OpenFor = 3 * time.Minute
		},
		"longest opening is 2h": func(s *gate.Settings) { s.OpenMax = 2 * time.Hour },
		"growth is 0":           func(s *gate.Settings) { s.Growth = 0 },
		"shrinking is 2":        func(s *gate.Settings) { s.Shrink = 2 },
		"longest hold is 0s":    func(s *gate.Settings) { s.HoldMax = 0 },
		"wait for a place is 0": func(s *gate.Settings) { s.Busy = 0 },
	} {
		s := gate.Defaults()
		change(&s)
		contains(t, s.Check(), part)
		if err := s.Check(); err != nil && !strings.HasPrefix(err.Error(), "gate: ") {
			t.Errorf("%v does not say whose setting it is", err)
		}
	}
}

func TestGate_RefusesStrangeNames(t *testing.T) {
	inBubble(t, func(w *world) {
		g := w.gate(gate.Defaults())
		for _, name := range []string{"", "a b", "a}b", "{a", "a\r\nb", "å", strings.Repeat("x", 201)} {
			for _, set := range []func(*gate.Ask){
				func(a *gate.Ask) { a.Dependency = name }, func(a *gate.Ask) { a.Workload = name },
				func(a *gate.Ask) { a.JobID = name }, func(a *gate.Ask) { a.Token = name },
			} {
				a := w.first()
				set(&a)
				_, err := g.Ticket(w.t.Context(), a)
				contains(w.t, err, "visible ASCII")
			}
			p := gate.Permit{Dependency: dep, ID: name}
			contains(w.t, g.Report(w.t.Context(), p, gate.OK()), "visible ASCII")
			_, err := g.Inspect(w.t.Context(), name)
			contains(w.t, err, "visible ASCII")
		}
		p := w.mustGo(g, w.first())
		contains(w.t, g.Report(w.t.Context(), p, gate.Result{}), "needs a result")
	})
}
