package jobs_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/model/modeltest"
	"github.com/tidings/tidings/jobs/retry"
)

// good satisfies the summary's schema.
func good() modeltest.Step {
	return modeltest.Answer(`{"title":"A title","summary":"A summary.","key_points":["a point"]}`)
}

// story writes a history as one line per transition.
func story(all []events.Transition) string {
	var b strings.Builder
	for _, t := range all {
		fmt.Fprintf(&b, "%s %d/%d", t.Status, t.Attempt, t.MaxAttempts)
		switch t.Status {
		case events.Processing:
			fmt.Fprintf(&b, " call %d/%d", t.Call, t.MaxCalls)
		case events.Retrying:
			fmt.Fprintf(&b, " %s %s", t.Layer, t.Reason)
			if t.Layer == events.QueueLayer {
				fmt.Fprintf(&b, " next %d", t.NextAttempt)
			}
		case events.Failed:
			fmt.Fprintf(&b, " %s %s retry=%v", t.Outcome, t.Reason, t.CanRetry)
		case events.Completed:
			fmt.Fprintf(&b, " version %d", t.Version)
		case events.Queued:
			b.WriteString(strings.TrimRight(" "+string(t.Reason), " "))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// waits are the queue's waits, from each queue retrying to its time.
func waits(all []events.Transition) []time.Duration {
	var out []time.Duration
	for _, t := range all {
		if t.Layer == events.QueueLayer {
			out = append(out, t.NextRetryAt.Sub(t.At).Round(time.Second))
		}
	}
	return out
}

func TestBothLayersGiveUp(t *testing.T) {
	for _, tc := range []struct {
		name            string
		calls, attempts int
		waits           []time.Duration
	}{
		{"ours, 3 calls x 4 attempts", 3, 4, []time.Duration{30 * time.Second, 60 * time.Second, 120 * time.Second}},
		{"the original's, 4 calls x 3 attempts", 4, 3, []time.Duration{30 * time.Second, 60 * time.Second}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := modeltest.NewScripted(modeltest.Status(529))
			inTestbed(t, m, func(s *retry.Settings) { s.Calls, s.Attempts = tc.calls, tc.attempts }, func(t *testing.T, h *testbed) {
				h.start()
				h.submit("some text to work on")
				time.Sleep(9 * time.Minute)
				synctest.Wait()
				if got := m.Calls(); got != 12 {
					t.Errorf("the model received %d calls, want 12", got)
				}
				all := h.history()
				if got, want := fmt.Sprint(waits(all)), fmt.Sprint(tc.waits); got != want {
					t.Errorf("waits %s, want %s", got, want)
				}
				end := h.last()
				if end.Status != events.Failed || end.Outcome != events.OutcomeRetriesExhausted || !end.CanRetry {
					t.Errorf("ended as %+v", end)
				}
				if t.Failed() {
					t.Log("\n" + story(all))
				}
				for i, n := range all {
					if i > 0 && n.Prev != all[i-1].Seq {
						t.Errorf("transition %d does not follow its predecessor", i)
					}
				}
				starts := h.queue.Starts()
				next := 0
				for _, n := range all {
					if n.Layer == events.QueueLayer {
						next++
						late := starts[next].At.Sub(n.NextRetryAt)
						if late < 0 || late > time.Second {
							t.Errorf("attempt %d started %s after its time", n.NextAttempt, late)
						}
					}
				}
			})
		})
	}
}

func TestFailsOnceInTheCallThenCompletes(t *testing.T) {
	m := modeltest.NewScripted(modeltest.Status(503), good())
	inTestbed(t, m, nil, func(t *testing.T, h *testbed) {
		h.start()
		h.submit("some text to work on")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		want := "queued 0/4\nprocessing 1/4 call 1/3\nretrying 1/4 call unavailable\nprocessing 1/4 call 2/3\ncompleted 1/4 version 1\n"
		if got := story(h.history()); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
		doc, err := h.service.Document(t.Context(), h.topic)
		if err != nil || doc.Version != 1 || !strings.Contains(string(doc.Content), "A summary.") {
			t.Errorf("document %+v, %v", doc, err)
		}
		l, err := h.service.Attempts(t.Context(), h.topic)
		if err != nil || len(l.Calls) != 2 || len(l.Attempts) != 1 {
			t.Errorf("ledger %+v, %v", l, err)
		}
		if n, _, _ := jobs.Counted(t.Context(), h.store.Client); n != 0 {
			t.Errorf("%d jobs stay open", n)
		}
	})
}
