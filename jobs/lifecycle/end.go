package lifecycle

import (
	"time"

	"github.com/tidings/tidings/events"
)

// End is how a job ended.
type End struct {
	Outcome events.Outcome
	Reason  events.Reason
	Worked  time.Duration // in a slot, over all attempts
}

// how says how a job ends that did not complete.
type how struct {
	outcome  events.Outcome
	reason   events.Reason
	canRetry bool
	retryAt  time.Time // a manual retry is not accepted before
	detail   string
	forget   bool // delete the input
	// replacedBy is the job whose submit ends this one.
	replacedBy string
}

// finish ends the job as an error. Its input stays for a manual retry, and so does
// a provider's wait: it outlives the job, and a tap is told of it.
func (r Rules) finish(s State, c *Change, h how) *End {
	j := &c.Job
	t := events.Transition{Status: events.Failed, Outcome: h.outcome, Reason: h.reason, CanRetry: h.canRetry, Detail: h.detail, ReplacedBy: h.replacedBy}
	if h.canRetry {
		t.RetryAvailableAt = latest(h.retryAt, coolDown(*j, s.Now))
		if j.HintUntil.After(s.Now) {
			t.RetryAvailableAt = latest(t.RetryAvailableAt, j.HintUntil)
		}
	}
	if !h.canRetry || !j.HintUntil.After(s.Now) {
		j.HintUntil = time.Time{}
	}
	c.publish(s, t)
	end := &End{Outcome: h.outcome, Reason: h.reason, Worked: j.Worked}
	j.Claim, j.NextRetryAt, j.NotBefore, j.PauseTold, j.Worked = nil, time.Time{}, time.Time{}, false, 0
	c.Input = &Input{Keep: r.InputRetention}
	if h.forget {
		c.Input.Keep = 0
	}
	return end
}

// coolDown is when a user may try again: at once at first, then after a pause that
// doubles with each manual retry in a row from the third on, up to 30 s.
func coolDown(j Job, now time.Time) time.Time {
	if j.Manual < 3 {
		return time.Time{}
	}
	return now.Add(min(30*time.Second, time.Second<<min(j.Manual-2, 10)))
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Cancelled is the answer to Cancel.
type Cancelled struct {
	Code   Code // CancelledNow, Ended or Unknown
	JobID  string
	Status events.Status
	Run    int    // of the task that is of no use any more
	Queue  string // and where it waits
}

// Cancel ends the live job.
func (r Rules) Cancel(s State) (Change, Cancelled) {
	switch {
	case s.Last.Seq == 0:
		return Change{}, Cancelled{Code: Unknown}
	case s.Last.Status.Terminal():
		return Change{}, Cancelled{Code: Ended, JobID: s.Last.JobID, Status: s.Last.Status}
	}
	s = s.recovered()
	c := s.change()
	c.Cancelled = c.Job.ID
	r.finish(s, &c, how{outcome: events.OutcomeFailed, reason: events.Cancelled, forget: true})
	return c, Cancelled{Code: CancelledNow, JobID: c.Job.ID, Status: events.Failed, Run: c.Job.Run, Queue: c.Job.Queue}
}

// recovered is the state with what the log says of a live job whose record was
// lost.
func (s State) recovered() State {
	if s.Last.JobID != s.Job.ID && !s.Last.Status.Terminal() {
		l := s.Last
		s.Job = Job{ID: l.JobID, Attempts: l.Attempt, MaxAttempts: l.MaxAttempts, DeadlineAt: l.DeadlineAt}
	}
	return s
}

// Resolved is the answer to Resolve.
type Resolved struct {
	Code   Code // OK, NotUnknown or Unknown
	Status events.Status
}

// Resolve ends an unknown outcome by an operator's word: with a document it was
// completed, with none it failed.
func (r Rules) Resolve(s State, job string, document []byte) (Change, Resolved) {
	status := events.Failed
	if document != nil {
		status = events.Completed
	}
	switch {
	case s.Job.ID != job || s.Last.JobID != job:
		return Change{}, Resolved{Code: Unknown}
	case s.Job.Resolved != nil && s.Job.Resolved.Status == status:
		return Change{}, Resolved{Code: OK, Status: status}
	case s.Last.Outcome != events.OutcomeUnknown:
		return Change{}, Resolved{Code: NotUnknown, Status: s.Last.Status}
	}
	c := s.change()
	if document != nil {
		c.complete(s, document)
	} else {
		c.publish(s, events.Transition{Status: events.Failed, Outcome: events.OutcomeFailed, Reason: events.Internal, CanRetry: s.InputBytes > 0})
	}
	c.Job.Resolved = &Settled{Status: status}
	return c, Resolved{Code: OK, Status: status}
}

// complete ends the job with its document.
func (c *Change) complete(s State, body []byte) (version int64) {
	version = s.DocumentVersion + 1
	c.publish(s, events.Transition{Status: events.Completed, Outcome: events.OutcomeCompleted, Version: version})
	c.Document = &Document{Version: version, JobID: c.Job.ID, At: s.Now, Body: body}
	c.Input = &Input{}
	return version
}
