package events_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tidings/tidings/events"
)

// The table of docs/protocol.md, written down a second time.
func TestMayIsTheContractsTable(t *testing.T) {
	const same, other = true, false
	allowed := map[events.Status]map[bool]string{
		"":                {other: "queued"},
		events.Idle:       {other: "queued"},
		events.Completed:  {other: "queued"},
		events.Failed:     {other: "queued"},
		events.Queued:     {same: "queued processing error"},
		events.Processing: {same: "processing retrying queued completed error"},
		events.Retrying:   {same: "retrying queued processing error"},
	}
	for from, by := range allowed {
		for _, to := range []events.Status{"", "nonsense", events.Idle, events.Queued, events.Processing,
			events.Retrying, events.Completed, events.Failed} {
			for _, sameJob := range []bool{same, other} {
				want := to != "" && slices.Contains(strings.Fields(by[sameJob]), string(to))
				if got := events.May(from, to, sameJob); got != want {
					t.Errorf("%q to %q, same job %v: got %v, want %v", from, to, sameJob, got, want)
				}
			}
		}
	}
}

func TestFollowsResolvesAnUnknownOutcomeOnly(t *testing.T) {
	unknown := events.Transition{Status: events.Failed, Outcome: events.OutcomeUnknown, JobID: "j1"}
	failed := events.Transition{Status: events.Failed, Outcome: events.OutcomeFailed, JobID: "j1"}
	for _, c := range []struct {
		last events.Transition
		to   events.Status
		job  string
		want bool
	}{
		{unknown, events.Completed, "j1", true},
		{unknown, events.Failed, "j1", true},
		{unknown, events.Processing, "j1", false},
		{unknown, events.Completed, "j2", false},
		{unknown, events.Queued, "j2", true},
		{failed, events.Completed, "j1", false},
		{failed, events.Failed, "j1", false},
	} {
		if got := events.Follows(c.last, events.Transition{Status: c.to, JobID: c.job}); got != c.want {
			t.Errorf("%s (%s) to %s of %s: got %v, want %v", c.last.Status, c.last.Outcome, c.to, c.job, got, c.want)
		}
	}
}
