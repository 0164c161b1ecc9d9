package jobs

import (
	"testing"
	"time"

	"github.com/tidings/tidings/events"
)

// TestDiagnose walks the rescuer's table, row by row, and its edges.
func TestDiagnose(t *testing.T) {
	now := time.UnixMilli(1_775_563_260_000)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	in := func(d time.Duration) time.Time { return now.Add(d) }
	at := func(s events.Status, age time.Duration) events.Transition {
		l := events.Transition{Status: s, At: ago(age), DeadlineAt: in(5 * time.Minute)}
		if s == events.Retrying {
			l.Layer = events.QueueLayer
		}
		return l
	}
	inCall := at(events.Retrying, time.Second)
	inCall.Layer = events.CallLayer
	over := func(l events.Transition) events.Transition { l.DeadlineAt = ago(time.Millisecond); return l }
	told := func(l events.Transition, r events.Reason) events.Transition { l.Reason = r; return l }

	tests := []struct {
		name  string
		found found
		want  remedy
	}{
		{"a live claim", found{last: at(events.Processing, time.Hour), claimed: true}, remedy{}},
		{"a live claim between two calls", found{last: inCall, claimed: true}, remedy{}},
		{"a lost claim", found{last: at(events.Processing, time.Second)}, remedy{action: "lost"}},
		{"a lost claim between two calls", found{last: inCall}, remedy{action: "lost"}},
		{"the deadline passed while it waits", found{last: over(at(events.Queued, time.Minute)), task: TaskMissing},
			remedy{"error", events.DeadlinePassed, events.OutcomeDeadlineExceeded}},
		{"the deadline passed under a claim", found{last: over(at(events.Processing, time.Minute)), claimed: true},
			remedy{"error", events.DeadlinePassed, events.OutcomeDeadlineExceeded}},

		{"queued, on its way", found{last: at(events.Queued, time.Second), task: TaskPending, workers: 1}, remedy{}},
		{"queued, missing", found{last: at(events.Queued, time.Second), task: TaskMissing}, remedy{action: "enqueue"}},
		{"queued, missing again", found{last: at(events.Queued, time.Minute), task: TaskMissing, missing: 1}, remedy{action: "enqueue"}},
		{"queued, twice in vain", found{last: at(events.Queued, time.Minute), task: TaskMissing, missing: 2},
			remedy{"error", events.Removed, events.OutcomeFailed}},
		{"queued, its new run not placed", found{last: at(events.Queued, time.Minute), task: TaskMissing, missing: 2, unplaced: true}, remedy{action: "enqueue"}},
		{"queued, archived", found{last: at(events.Queued, time.Second), task: TaskArchived}, remedy{"error", events.Removed, events.OutcomeFailed}},
		{"queued, its task done", found{last: at(events.Queued, time.Second), task: TaskDone}, remedy{action: "rerun"}},
		{"queued, waiting without a time", found{last: at(events.Queued, 2*time.Second), task: TaskScheduled}, remedy{action: "run"}},
		{"queued a moment ago, waiting without a time", found{last: at(events.Queued, time.Second/2), task: TaskScheduled}, remedy{}},
		{"queued, waiting for the gate", found{last: at(events.Queued, time.Minute), task: TaskScheduled, notBefore: in(time.Minute)}, remedy{}},
		{"queued, its gate open again", found{last: told(at(events.Queued, time.Minute), events.DependencyPaused), task: TaskScheduled, notBefore: in(time.Minute), gateOpen: true},
			remedy{action: "wake"}},
		{"queued, its gate open in a moment", found{last: told(at(events.Queued, time.Minute), events.BreakerOpen), task: TaskScheduled, notBefore: in(time.Second), gateOpen: true}, remedy{}},
		{"a planned wait, its gate open", found{last: told(at(events.Retrying, time.Minute), events.RateLimited), task: TaskScheduled, nextRetry: in(time.Minute), gateOpen: true}, remedy{}},
		{"the deadline passed in a pause", found{last: over(told(at(events.Queued, time.Minute), events.DependencyPaused)), task: TaskScheduled},
			remedy{"error", events.DependencyPaused, events.OutcomeAdmissionDenied}},
		{"queued, the gate's time passed", found{last: at(events.Queued, time.Minute), task: TaskScheduled, notBefore: ago(6 * time.Second)}, remedy{action: "rerun"}},
		{"queued, taken and never claimed", found{last: at(events.Queued, 6*time.Second), task: TaskActive}, remedy{action: "rerun"}},
		{"queued, just taken", found{last: at(events.Queued, time.Second), task: TaskActive}, remedy{}},
		{"queued, no worker", found{last: at(events.Queued, 6*time.Second), task: TaskPending}, remedy{action: "queued", reason: events.NoWorker}},
		{"queued, no worker yet", found{last: at(events.Queued, 4*time.Second), task: TaskPending}, remedy{}},
		{"queued, no worker and told", found{last: told(at(events.Queued, time.Minute), events.NoWorker), task: TaskPending}, remedy{}},
		{"queued, workers busy", found{last: at(events.Queued, time.Minute), task: TaskPending, workers: 3}, remedy{}},

		{"queued, paused", found{last: at(events.Queued, 0), task: TaskPending, paused: true}, remedy{action: "queued", reason: events.QueuePaused}},
		{"retrying, paused", found{last: at(events.Retrying, 0), task: TaskScheduled, nextRetry: in(time.Minute), paused: true},
			remedy{action: "queued", reason: events.QueuePaused}},
		{"paused and told", found{last: told(at(events.Queued, time.Minute), events.QueuePaused), task: TaskPending, paused: true, told: true}, remedy{}},
		{"paused, its time passed", found{last: at(events.Queued, time.Minute), task: TaskScheduled, nextRetry: ago(time.Minute), paused: true, told: true}, remedy{}},
		{"resumed", found{last: told(at(events.Queued, time.Minute), events.QueuePaused), task: TaskPending, told: true}, remedy{action: "queued"}},
		{"deleted while paused", found{last: at(events.Retrying, time.Minute), task: TaskMissing, paused: true, told: true},
			remedy{"error", events.Removed, events.OutcomeFailed}},

		{"retrying, waiting", found{last: at(events.Retrying, time.Second), task: TaskScheduled, nextRetry: in(time.Minute)}, remedy{}},
		{"retrying, between active and waiting", found{last: at(events.Retrying, time.Minute), task: TaskActive, nextRetry: in(time.Second)}, remedy{}},
		{"retrying, deleted", found{last: at(events.Retrying, 0), task: TaskMissing, nextRetry: in(time.Minute)}, remedy{"error", events.Removed, events.OutcomeFailed}},
		{"retrying, archived", found{last: at(events.Retrying, 0), task: TaskArchived, nextRetry: in(time.Minute)}, remedy{"error", events.Removed, events.OutcomeFailed}},
		{"retrying, its new run not placed", found{last: at(events.Retrying, 0), task: TaskMissing, nextRetry: in(time.Minute), unplaced: true}, remedy{action: "enqueue"}},
		{"retrying, its task done", found{last: at(events.Retrying, 0), task: TaskDone, nextRetry: in(time.Minute)}, remedy{action: "rerun"}},
		{"retrying, its time passed and waiting", found{last: at(events.Retrying, time.Minute), task: TaskScheduled, nextRetry: ago(6 * time.Second)}, remedy{action: "rerun"}},
		{"retrying, its time just passed", found{last: at(events.Retrying, time.Minute), task: TaskScheduled, nextRetry: ago(4 * time.Second)}, remedy{}},
		{"retrying, its time passed and active", found{last: at(events.Retrying, time.Minute), task: TaskActive, nextRetry: ago(6 * time.Second)}, remedy{action: "rerun"}},
		{"retrying, its time passed, workers busy", found{last: at(events.Retrying, time.Minute), task: TaskPending, nextRetry: ago(time.Minute), workers: 1}, remedy{}},
		{"retrying, its time passed, no worker", found{last: at(events.Retrying, time.Minute), task: TaskPending, nextRetry: ago(6 * time.Second)},
			remedy{action: "queued", reason: events.NoWorker}},

		{"run by an operator, not taken yet", found{last: at(events.Retrying, time.Second), task: TaskPending, nextRetry: in(time.Minute), ran: true},
			remedy{action: "adopt", reason: events.RunByOperator}},
		{"early by itself", found{last: at(events.Retrying, time.Second), task: TaskPending, nextRetry: in(time.Minute)}, remedy{}},
		{"run, but a provider asked for the wait", found{last: at(events.Retrying, time.Second), task: TaskPending, nextRetry: in(time.Minute),
			hint: in(time.Minute), ran: true}, remedy{}},
		{"run, but the gate asked for the wait", found{last: at(events.Queued, time.Second), task: TaskPending, notBefore: in(time.Minute), ran: true}, remedy{}},
	}
	for _, tt := range tests {
		tt.found.now = now
		if got := diagnose(tt.found, Patience); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}
