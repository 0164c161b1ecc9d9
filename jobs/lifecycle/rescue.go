package lifecycle

import (
	"time"

	"github.com/tidings/tidings/events"
)

// Action is what the rescuer does about a job.
type Action string

// The actions.
const (
	LostLease Action = "lost"     // the claim's lease is gone: wait and start another run, or end it
	Rerun     Action = "rerun"    // the queue's task is of no use: another run, nothing to tell
	TellWait  Action = "queued"   // told as queued with a reason, or with none to take one back
	Adopt     Action = "adopt"    // somebody ran the task before its planned time
	Wake      Action = "wake"     // the gate it waits for has opened: no wait any more
	Missing   Action = "missing"  // count a task that the queue did not know
	EndIt     Action = "error"    // end it
	Unplaced  Action = "unplaced" // its task may be lost, and not because an operator deleted it
	Placed    Action = "placed"   // the run's task is in the queue, whatever happened since
	RunTask   Action = "run"      // the queue's alone: a task waits that may run at once
)

// Remedy is what to do about what the rescuer found. Seq is the head of the log that
// it saw, Run the run of the task that it saw, 0 for any.
type Remedy struct {
	Action  Action
	JobID   string
	Run     int
	Seq     int64
	Reason  events.Reason
	Outcome events.Outcome // of EndIt
}

// Rescued is the answer to Rescue.
type Rescued struct {
	Code Code // OK, or Changed: something has happened since the rescuer looked
	Run  int
	In   time.Duration // until the run is due
	End  *End          // nil: it goes on
}

// Rescue carries out a remedy, if nothing has changed since the rescuer looked.
func (r Rules) Rescue(s State, m Remedy) (Change, Rescued) {
	s = s.recovered()
	j := s.Job
	if j.ID != m.JobID || m.Run != 0 && j.Run != m.Run {
		return Change{}, Rescued{Code: Changed}
	}
	c := s.change()
	n := &c.Job
	if m.Action == Placed {
		if !j.Unplaced {
			return Change{}, Rescued{Code: OK, Run: j.Run}
		}
		n.Unplaced = false
		return c, Rescued{Code: OK, Run: j.Run}
	}
	if !s.Live() || s.Last.Seq != m.Seq || j.Claimed(s.Now) && m.Action != EndIt {
		return Change{}, Rescued{Code: Changed}
	}
	ended := func(h how) (Change, Rescued) {
		c.Cancelled = j.ID
		end := r.finish(s, &c, h)
		end.Worked = 0 // where it broke off, nobody knows
		return c, Rescued{Code: OK, Run: j.Run, End: end}
	}
	exhausted := func(reason events.Reason) (Change, Rescued) {
		return ended(how{outcome: events.OutcomeRetriesExhausted, reason: reason, canRetry: true})
	}
	rerun := func() { n.Run, n.Unplaced, n.Missing = j.Run+1, true, 0 }
	switch m.Action {
	case RunTask:
		return Change{}, Rescued{Code: OK, Run: j.Run}
	case LostLease:
		at := s.Now.Add(r.delay(max(1, j.Attempts), j.ID))
		switch {
		case s.DocumentJob == j.ID: // the next claim tells its end
			at = s.Now
		case j.Attempts >= j.MaxAttempts:
			return exhausted(events.AttemptsUsedUp)
		case j.Calls >= j.Allowance:
			return exhausted(events.CallAllowance)
		case !at.Before(r.lastStart(j)):
			return ended(how{outcome: events.OutcomeDeadlineExceeded, reason: events.DeadlinePassed, canRetry: true})
		}
		r.again(s, &c, at, events.WorkerLost)
		n.Claim = nil
		rerun()
	case Rerun:
		rerun()
	case Unplaced:
		n.Unplaced = true
	case Missing:
		n.Missing++
	case Adopt:
		c.publish(s, events.Transition{Status: events.Queued, Reason: events.RunByOperator})
		n.NextRetryAt, n.HintUntil = time.Time{}, time.Time{}
	case Wake:
		c.publish(s, events.Transition{Status: events.Queued})
		n.NotBefore = time.Time{}
	case TellWait:
		t := events.Transition{Status: events.Queued, Reason: m.Reason}
		if due := j.Due(); due.After(s.Now) {
			t.NotBefore = due
		}
		c.publish(s, t)
		n.PauseTold = m.Reason == events.QueuePaused
	default:
		h := how{outcome: m.Outcome, reason: m.Reason, canRetry: true}
		if m.Reason == events.StorageFault {
			h.canRetry, h.forget = false, true
		}
		return ended(h)
	}
	return c, Rescued{Code: OK, Run: n.Run, In: max(0, n.Due().Sub(s.Now))}
}
