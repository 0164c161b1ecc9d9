package jobs

import (
	"context"
	"log/slog"
	"time"

	"github.com/tidings/tidings/events"
)

// Ending does what follows a job's end outside its session's keys, whoever ended
// it: the worker, an outside worker, a request or the rescuer. All of it may be
// repeated, and but for the place in the index none of it has to happen.
type Ending struct {
	Store *Store
	// Keep is how long the input of a job that may be retried stays.
	Keep    time.Duration
	Metrics *Metrics
	Log     *slog.Logger
}

// end is how a job ended.
type end struct {
	topic   events.Topic
	job     string
	outcome events.Outcome
	reason  events.Reason
	worked  time.Duration // in a slot, over all attempts; 0: unknown
	replay  bool          // told before: it is counted already
}

// Ended frees the job's place in the index and counts its outcome.
func (e Ending) Ended(ctx context.Context, d end) {
	if d.outcome == events.OutcomeUnknown { // an operator will ask for it by its id
		if err := e.Store.findable(ctx, d.topic, d.job); err != nil {
			e.Log.ErrorContext(ctx, "a job of unknown outcome cannot be resolved by its id", "job", d.job, "error", err)
		}
	}
	if !d.replay {
		e.Metrics.ended(d.job, d.topic.Workload, d.outcome, d.reason)
	}
	if err := e.Store.leave(ctx, d.topic, d.job, e.inputKept(d), d.worked); err != nil {
		e.Log.WarnContext(ctx, "a job stays in the index until the rescuer drops it", "job", d.job, "error", err)
	}
}

// inputKept is for how long the input is still stored, and so counted.
func (e Ending) inputKept(d end) time.Duration {
	switch {
	case d.outcome == events.OutcomeCompleted, d.reason == events.Cancelled:
		return 0 // deleted by the step that ended the job
	case d.outcome == events.OutcomeFailed && d.reason == events.StorageFault:
		return 0 // it was the input that was missing
	}
	return e.Keep
}

// end is the end that a verb answered with.
func (a answer) end(t events.Topic, job string) end {
	return end{topic: t, job: job, outcome: events.Outcome(a.Outcome), reason: events.Reason(a.Reason), worked: a.worked(), replay: a.Replay == "1"}
}
