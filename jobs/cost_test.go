package jobs_test

import (
	"testing"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/model/modeltest"
	"github.com/tidings/tidings/jobs/retry"
)

// prices gives the scripted model a price: 1 USD for a million tokens in, 100 for
// a million out. A summary's 6,144 tokens out cost 0.6144 USD at most.
func prices(t *testing.T, h *testbed) {
	t.Helper()
	p, err := model.ListPrices().With([]byte(`{"prices":[{"dependency":"scripted","input":1,"output":100}]}`))
	if err != nil {
		t.Fatal(err)
	}
	h.worker.Model = model.NewRetrying(h.model, h.setting, dice()).Priced(p)
}

// spent is what the record says that the job's calls have cost, in US dollars.
func (h *testbed) spent() float64 {
	h.t.Helper()
	record, err := h.store.Record(h.t.Context(), h.topic)
	if err != nil {
		h.t.Fatal(err)
	}
	return float64(record.Spent) / 1e9
}

// TestAJobsCostIsBounded: before each call the most that it may cost has to
// fit into what is left; what it has cost then takes that one's place.
func TestAJobsCostIsBounded(t *testing.T) {
	usd := func(c float64) func(*retry.Settings) { return func(s *retry.Settings) { s.Cost = c } }
	paid := modeltest.Timeout().Using(1000, 4000) // 0.401 USD
	for _, tt := range []struct {
		name     string
		cap      float64
		step     modeltest.Step
		calls    int
		spent    float64
		canRetry bool
		outcome  events.Outcome
	}{
		{"nothing fits", 0.5, good(), 0, 0, false, events.OutcomeRetriesExhausted},
		{"one", 0.7, paid, 1, 0.401, true, events.OutcomeRetriesExhausted},
		{"two", 1.1, paid, 2, 0.802, true, events.OutcomeRetriesExhausted},
		{"no cap", 0, paid, 4, 1.604, true, events.OutcomeRetriesExhausted},
		{"refused calls cost nothing", 0.7, modeltest.Status(529), 12, 0, true, events.OutcomeRetriesExhausted},
		{"well below", 0.7, good(), 1, 0.00402, false, events.OutcomeCompleted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.step.Err == nil {
				tt.step = tt.step.Using(20, 40)
			}
			m := modeltest.NewScripted(tt.step)
			inTestbed(t, m, usd(tt.cap), func(t *testing.T, h *testbed) {
				prices(t, h)
				h.start()
				h.submit("some text to work on")
				passed(5 * time.Minute)
				end := h.last()
				if end.Outcome != tt.outcome || end.CanRetry != tt.canRetry || m.Calls() != tt.calls {
					t.Errorf("%d calls, ended as %s %s retry=%v", m.Calls(), end.Outcome, end.Reason, end.CanRetry)
				}
				limit := events.CallAllowance
				if tt.cap == 0 || tt.calls == 12 {
					limit = events.AttemptsUsedUp
				}
				if end.Status == events.Failed && end.Reason != limit {
					t.Errorf("because of %s", end.Reason)
				}
				waits := 0
				for _, n := range h.history() {
					if n.Status == events.Retrying && n.Layer == events.QueueLayer {
						waits++
					}
				}
				if most := max(0, tt.calls-1); waits > most {
					t.Errorf("waited %d times for calls that could not be paid", waits-most)
				}
				if got := h.spent(); got < tt.spent-1e-6 || got > tt.spent+1e-6 {
					t.Errorf("spent %v USD, want %v", got, tt.spent)
				}
			})
		})
	}
}

// TestWhatNobodyKnowsCountsInFull: a call whose cost the provider does not
// tell may have cost what it may cost at most; a model without a price is not
// bounded.
func TestWhatNobodyKnowsCountsInFull(t *testing.T) {
	for _, priced := range []bool{true, false} {
		m := modeltest.NewScripted(modeltest.Timeout())
		inTestbed(t, m, func(s *retry.Settings) { s.Cost = 1.5 }, func(t *testing.T, h *testbed) {
			want := 4
			if priced {
				prices(t, h)
				want = 2
			}
			h.start()
			h.submit("some text to work on")
			passed(5 * time.Minute)
			if m.Calls() != want {
				t.Errorf("priced %v: %d calls, want %d", priced, m.Calls(), want)
			}
			if got := h.spent(); priced && (got < 2*0.6144 || got > 1.5) {
				t.Errorf("spent %v USD", got)
			}
		})
	}
}

// TestACrashForgetsNoCost: the worker dies in its call, and the next one
// finds what that may have cost.
func TestACrashForgetsNoCost(t *testing.T) {
	m := modeltest.NewScripted(modeltest.Hang())
	inTestbed(t, m, func(s *retry.Settings) { s.Cost = 0.7 }, func(t *testing.T, h *testbed) {
		doomed := h.member("doomed")
		defer doomed.close()
		prices(t, h)
		doomed.worker.Model = h.worker.Model
		defer h.member("healer").rescue()()
		h.work(doomed)
		h.submit("some text to work on")
		passed(time.Second)
		doomed.life.kill()
		h.start()
		m.Play(good())
		passed(2 * time.Minute)
		end := h.last()
		if end.Outcome != events.OutcomeRetriesExhausted || end.Reason != events.CallAllowance || m.Calls() != 1 {
			t.Errorf("%d calls\n%s", m.Calls(), story(h.history()))
		}
		if got := h.spent(); got < 0.6144 {
			t.Errorf("spent %v USD", got)
		}
	})
}
