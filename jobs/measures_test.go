package jobs_test

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/model/modeltest"
)

// measured gives the testbed its measures.
func (h *testbed) measured() *jobs.Measures {
	counts := jobs.NewMetrics(prometheus.NewRegistry())
	counts.Measures = jobs.NewMeasures(h.client, slog.New(slog.DiscardHandler))
	h.worker.Metrics, h.service.Metrics, h.rescuer.Metrics = counts, counts, counts
	return counts.Measures
}

// window writes what was counted and reads it as another process would.
func (h *testbed) window(m *jobs.Measures, d time.Duration) jobs.Cohorts {
	h.t.Helper()
	if err := m.Write(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	c, err := jobs.NewMeasures(h.client, slog.New(slog.DiscardHandler)).Window(h.t.Context(), d)
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

func show(f *float64) string {
	if f == nil {
		return "n/a"
	}
	return fmt.Sprintf("%.4g", *f)
}

// TestCountedApart: admitted, refused, calls, extra calls, outcomes and
// accepted documents, and the ratios of what belongs together (S4-64, S4-65, S4-67).
func TestCountedApart(t *testing.T) {
	priced := good()
	in, out := int64(1000), int64(100)
	priced.Usage = model.Usage{InputTokens: &in, OutputTokens: &out}
	m := modeltest.NewScripted(modeltest.Status(503), priced, modeltest.Status(401), priced)
	inTestbed(t, m, nil, func(t *testing.T, h *testbed) {
		ms := h.measured()
		h.start()
		for i, session := range []string{"a", "b", "c"} {
			h.topic = events.NewTopic("", session, "summary")
			h.submit("some text to work on")
			passed(5 * time.Second)
			if i == 1 { // b failed: its manual retry is a job of its own
				if _, err := h.service.Cancel(t.Context(), h.topic); err != nil {
					t.Fatal(err)
				}
			}
		}
		h.service.Limits.OpenJobs = 0
		for range 4 {
			_, err := h.service.Submit(t.Context(), jobs.Submit{Topic: events.NewTopic("", "d", "guidance"), Input: jobs.Input{Text: "x"}})
			var r *jobs.Refusal
			if !errors.As(err, &r) || r.Code != jobs.CodeQueueFull {
				t.Fatalf("submitted %v", err)
			}
		}
		c := h.window(ms, time.Hour)
		a := c.All
		got := fmt.Sprintf("offered %d admitted %d refused %d open %d first %d calls %d extra %d unpriced %d in %d out %d ok %d failed %d accepted %d; %s %s %s",
			a.Offered, a.Admitted, a.Refused, a.Open, a.FirstCalls, a.Calls, a.ExtraCalls, a.UnpricedCalls, a.InputTokens, a.OutputTokens,
			a.Outcomes[events.OutcomeCompleted], a.Outcomes[events.OutcomeFailed], a.Accepted, show(a.Amplification), show(a.UsableCompletion), show(a.TokensPerAccepted))
		want := "offered 7 admitted 3 refused 4 open 0 first 3 calls 4 extra 1 unpriced 4 in 2000 out 200 ok 2 failed 1 accepted 2; 1.333 0.2857 1100"
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if a.QueueAge.Count != 3 || a.Completion.Count != 2 || show(a.QueueAge.P99) != "0.1" {
			t.Errorf("spreads %+v %+v", a.QueueAge, a.Completion)
		}
		if g := c.Workloads["guidance"]; g.Refused != 4 || g.Offered != 4 || g.Admitted != 0 || show(g.UsableCompletion) != "0" {
			t.Errorf("guidance %+v", g)
		}
	})
}

// TestNoDenominatorIsNotApplicable: neither 0 nor 100 %.
func TestNoDenominatorIsNotApplicable(t *testing.T) {
	inTestbed(t, modeltest.NewScripted(good()), nil, func(t *testing.T, h *testbed) {
		a := h.window(h.measured(), time.Hour).All
		for name, ratio := range map[string]*float64{"amplification": a.Amplification, "completion": a.UsableCompletion,
			"cost": a.CostPerAccepted, "tokens": a.TokensPerAccepted, "age": a.QueueAge.P50} {
			if ratio != nil {
				t.Errorf("%s of nothing is %v", name, *ratio)
			}
		}
	})
}

// TestAWindowWithoutCompletion shows what it cost and that nothing came of it.
func TestAWindowWithoutCompletion(t *testing.T) {
	failed := modeltest.Status(401)
	in := int64(500)
	failed.Usage.InputTokens = &in
	inTestbed(t, modeltest.NewScripted(failed), nil, func(t *testing.T, h *testbed) {
		ms := h.measured()
		h.start()
		h.submit("some text to work on")
		passed(time.Second)
		a := h.window(ms, time.Hour).All
		if a.Calls != 1 || a.InputTokens != 500 || a.Accepted != 0 || show(a.UsableCompletion) != "0" || show(a.TokensPerAccepted) != "n/a" || show(a.Amplification) != "1" {
			t.Errorf("%+v", a)
		}
		if n, ok := a.Outcomes[events.OutcomeCompleted]; n != 0 || !ok {
			t.Error("the outcome that did not happen is not shown")
		}
	})
}

// TestCallsCountWhereTheirJobWasTakenIn: also when they are made in a later
// cohort, so that amplification divides calls by first calls of the same jobs.
func TestCallsCountWhereTheirJobWasTakenIn(t *testing.T) {
	m := modeltest.NewScripted(modeltest.Step{Err: modeltest.Timeout().Err}, good())
	inTestbed(t, m, nil, func(t *testing.T, h *testbed) {
		ms := h.measured()
		h.start()
		passed(10*time.Minute - 5*time.Second) // the bubble begins at a full hour
		h.submit("some text to work on")
		passed(40 * time.Second)
		if h.last().Status != events.Completed {
			t.Fatalf("ended as %+v", h.last())
		}
		h.window(ms, time.Hour)
		keys, err := h.client.Keys(t.Context(), "tidings:{measures}:*").Result()
		if err != nil || len(keys) != 1 {
			t.Errorf("cohorts %v %v", keys, err)
		}
		passed(45 * time.Minute)
		if a := h.window(ms, time.Hour).All; a.Calls != 2 || show(a.Amplification) != "2" {
			t.Errorf("within the window %+v", a)
		}
		passed(20 * time.Minute)
		if a := h.window(ms, time.Hour).All; a.Calls != 0 || a.Offered != 0 {
			t.Errorf("after it %+v", a)
		}
	})
}

// TestMeasuresWaitForTheStorage: what could not be written is written later.
func TestMeasuresWaitForTheStorage(t *testing.T) {
	inTestbed(t, modeltest.NewScripted(good()), nil, func(t *testing.T, h *testbed) {
		ms := h.measured()
		h.start()
		h.submit("some text to work on")
		passed(time.Second)
		h.redis.SetError("LOADING Redis is loading the dataset in memory")
		if err := ms.Write(t.Context()); !errors.Is(err, events.ErrUnavailable) {
			t.Errorf("written without a storage: %v", err)
		}
		if _, err := ms.Window(t.Context(), time.Hour); !errors.Is(err, events.ErrUnavailable) {
			t.Errorf("read without a storage: %v", err)
		}
		h.redis.SetError("")
		if a := h.window(ms, time.Hour).All; a.Admitted != 1 || a.Accepted != 1 || a.Calls != 1 {
			t.Errorf("%+v", a)
		}
	})
}
