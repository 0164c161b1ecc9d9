package jobs

import (
	"context"
	"log/slog"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/lifecycle"
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
	lifecycle.End
	topic  events.Topic
	job    string
	replay bool // told before: it is counted already
}

// Ended frees the job's place in the index and counts its outcome.
func (e Ending) Ended(ctx context.Context, d end) {
	if d.Outcome == events.OutcomeUnknown { // an operator will ask for it by its id
		if err := e.Store.findable(ctx, d.topic, d.job); err != nil {
			e.Log.ErrorContext(ctx, "a job of unknown outcome cannot be resolved by its id", "job", d.job, "error", err)
		}
	}
	if !d.replay {
		e.Metrics.ended(d.job, d.topic.Workload, d.Outcome, d.Reason)
	}
	if err := e.Store.leave(ctx, d.topic, d.job, e.inputKept(d), d.Worked); err != nil {
		e.Log.WarnContext(ctx, "a job stays in the index until the rescuer drops it", "job", d.job, "error", err)
	}
}

// inputKept is for how long the input is still stored, and so counted.
func (e Ending) inputKept(d end) time.Duration {
	switch {
	case d.Outcome == events.OutcomeCompleted, d.Reason == events.Cancelled:
		return 0 // deleted by the step that ended the job
	case d.Outcome == events.OutcomeFailed && d.Reason == events.StorageFault:
		return 0 // it was the input that was missing
	}
	return e.Keep
}
