package jobs

import (
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/lifecycle"
)

// found is what the rescuer sees of one open job.
type found struct {
	last      events.Transition
	now       time.Time
	lost      bool // its record is
	claimed   bool // a lease lives
	nextRetry time.Time
	notBefore time.Time
	hint      time.Time // a provider's wait: nobody may shorten it
	told      bool      // that the queue is paused
	missing   int       // times the task was missing before
	unplaced  bool      // nobody has confirmed that the run's task was enqueued

	// What follows is the queue's, and asked for only where it matters (asks).
	task    TaskState
	paused  bool
	offered bool // to outside workers, for as long as none takes it
	workers int
	ran     bool // before its time, by somebody

	gateOpen bool // asked of the gate for those it holds back
}

// due is when the queue may start the job; zero: at once.
func (f found) due() time.Time {
	if f.notBefore.After(f.nextRetry) {
		return f.notBefore
	}
	return f.nextRetry
}

// waits tells whether the job's place is in the queue.
func (f found) waits() bool {
	return f.last.Status == events.Queued || f.last.Status == events.Retrying && f.last.Layer == events.QueueLayer
}

// heldBack tells whether the gate has told the job to wait, for longer than it takes
// to come by itself. Whoever ends a pause or a hold lets it go on.
func (f found) heldBack() bool {
	switch f.last.Reason {
	case events.DependencyPaused, events.RateLimited, events.BreakerOpen:
		return f.last.Status == events.Queued && f.task == TaskScheduled && f.notBefore.After(f.now.Add(lifecycle.Early))
	}
	return false
}

func (f found) expired() bool {
	return !f.last.DeadlineAt.IsZero() && f.now.After(f.last.DeadlineAt)
}

// asks tells whether the record leaves open what to do, so that the queue has
// to be asked.
func (f found) asks() bool { return !f.lost && !f.expired() && !f.claimed && f.waits() }

// tooEarly tells whether a pending task comes before a time that may be
// shortened: a planned one, not one that a provider or the gate asked for.
func (f found) tooEarly() bool {
	limit := f.now.Add(lifecycle.Early)
	return f.task == TaskPending && f.nextRetry.After(limit) && !f.hint.After(limit) && !f.notBefore.After(limit)
}

// remedy is what to do about it; the zero value is nothing.
type remedy struct {
	action  lifecycle.Action // or enqueue
	reason  events.Reason
	outcome events.Outcome
}

// enqueue counts a missing task and enqueues it.
const enqueue lifecycle.Action = "enqueue"

// diagnose is the rescuer's table. patience is how long a task may be on its
// way from one place to the next.
func diagnose(f found, patience time.Duration) remedy {
	// Both clocks: the time it was given, and the last change, which may have
	// taken that time away.
	late := f.now.Sub(f.due()) > patience && f.now.Sub(f.last.At) > patience
	removed := remedy{lifecycle.EndIt, events.Removed, events.OutcomeFailed}
	switch {
	case f.lost:
		return remedy{lifecycle.EndIt, events.StorageFault, events.OutcomeFailed}
	case f.expired() && f.last.Status == events.Queued && f.last.Reason == events.DependencyPaused:
		return remedy{lifecycle.EndIt, events.DependencyPaused, events.OutcomeAdmissionDenied}
	case f.expired():
		return remedy{lifecycle.EndIt, events.DeadlinePassed, events.OutcomeDeadlineExceeded}
	case f.claimed:
		return remedy{}
	case !f.waits():
		return remedy{action: lifecycle.LostLease}

	case f.task == TaskArchived:
		return removed
	case f.task == TaskDone:
		// The task is over and its job is not: Redis has lost what came between,
		// or a worker gave up. Its id is taken, so it takes another run.
		return remedy{action: lifecycle.Rerun}
	case f.task == TaskMissing && f.unplaced:
		return remedy{action: enqueue}
	case f.task == TaskMissing && f.last.Status == events.Retrying:
		return removed
	case f.task == TaskMissing && f.missing >= 2:
		return removed
	case f.task == TaskMissing:
		// Between the record and the queue a submit may have crashed, or still be.
		return remedy{action: enqueue}

	case f.paused && !f.told:
		return remedy{action: lifecycle.TellWait, reason: events.QueuePaused}
	case f.paused:
		return remedy{}
	case f.told:
		return remedy{action: lifecycle.TellWait}

	case f.heldBack() && f.gateOpen:
		return remedy{action: lifecycle.Wake}
	case f.task == TaskScheduled && f.due().IsZero() && f.now.Sub(f.last.At) > onItsWay:
		return remedy{action: lifecycle.RunTask}
	case f.tooEarly() && f.ran:
		return remedy{action: lifecycle.Adopt, reason: events.RunByOperator}
	case f.task == TaskPending && f.workers == 0 && late && f.last.Reason != events.NoWorker:
		return remedy{action: lifecycle.TellWait, reason: events.NoWorker}
	case late && (f.task == TaskActive && !f.offered || f.task == TaskScheduled && !f.due().IsZero()):
		// Still waiting, or taken by a worker that died before it claimed.
		return remedy{action: lifecycle.Rerun}
	}
	return remedy{}
}
