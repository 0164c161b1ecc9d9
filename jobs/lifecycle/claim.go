package lifecycle

import (
	"math"
	"time"

	"github.com/tidings/tidings/events"
)

// Claiming asks for a job's next attempt.
type Claiming struct {
	JobID  string
	Run    int
	Token  string // names the claim, for ever
	Worker string
	// ByHand says that somebody ran the task before its planned time; without it
	// such a task is answered with AskQueue.
	ByHand bool
	// Worst is what one call may cost, in 1e-9 US dollars; 0: nobody knows or asks.
	Worst int64
}

// Claimed is the answer to Claim.
type Claimed struct {
	Code Code // Claimable, Wait, TooEarly, AskQueue, Busy, Ended, Stale or Gone
	// In is how long to wait: for the job's time, or for the other claim's lease.
	In  time.Duration
	End *End // how this claim ended the job; nil if it did not
}

// Claim gives a worker the right to speak for the job and counts the attempt and its
// first call, so nothing is sent before its count is stored. Whoever wants to know
// only whether a claim would succeed leaves the change alone.
func (r Rules) Claim(s State, ask Claiming) (Change, Claimed) {
	j := s.Job
	switch {
	case j.ID != ask.JobID:
		return Change{}, Claimed{Code: Gone}
	case !s.Live():
		return Change{}, Claimed{Code: Ended}
	case j.Claimed(s.Now) && j.Claim.Token == ask.Token:
		return Change{}, Claimed{Code: Claimable}
	case j.Run != ask.Run:
		return Change{}, Claimed{Code: Stale}
	case j.Claimed(s.Now):
		return Change{}, Claimed{Code: Busy, In: j.Claim.LeaseUntil.Sub(s.Now)}
	}
	c := s.change()
	ended := func(h how) (Change, Claimed) { return c, Claimed{Code: Ended, End: r.finish(s, &c, h)} }
	exhausted := func(reason events.Reason, able bool) (Change, Claimed) {
		return ended(how{outcome: events.OutcomeRetriesExhausted, reason: reason, canRetry: able})
	}
	switch {
	case s.DocumentJob == j.ID:
		// Its document is stored and its end was lost: it is told again.
		c.publish(s, events.Transition{Status: events.Processing, Attempt: max(1, j.Attempts)})
		c.publish(s, events.Transition{Status: events.Completed, Outcome: events.OutcomeCompleted, Version: s.DocumentVersion})
		c.Job.Claim, c.Input = nil, &Input{}
		return c, Claimed{Code: Ended, End: &End{Outcome: events.OutcomeCompleted}}
	case !s.Now.Before(r.lastStart(j)):
		return ended(expired(s))
	case j.Attempts >= j.MaxAttempts:
		return exhausted(events.AttemptsUsedUp, true)
	}
	if due := j.Due(); due.After(s.Now) {
		limit := s.Now.Add(Early)
		wait := Claimed{In: due.Sub(s.Now)}
		switch {
		case !due.After(limit):
			wait.Code = Wait
		case j.HintUntil.After(limit) || j.NotBefore.After(limit):
			wait.Code = TooEarly // what a provider or the gate asked for is kept
		case !ask.ByHand:
			wait.Code = AskQueue // a planned wait is an operator's to shorten
		}
		if wait.Code != "" {
			return Change{}, wait
		}
		c.publish(s, events.Transition{Status: events.Queued, Reason: events.RunByOperator})
	}
	switch {
	case s.InputBytes == 0:
		return ended(how{outcome: events.OutcomeFailed, reason: events.StorageFault, forget: true})
	case j.Calls >= j.Allowance:
		return exhausted(events.CallAllowance, true)
	case tooDear(j, ask.Worst):
		// What not even one call may cost, another job with the same input may not.
		return exhausted(events.CallAllowance, j.Calls > 0)
	}
	n := &c.Job
	n.Attempts++
	n.Calls++
	n.Spent += ask.Worst
	n.Claim = &Claim{Token: ask.Token, Worker: ask.Worker, At: s.Now, LeaseUntil: s.Now.Add(r.Lease), Call: 1}
	n.NextRetryAt, n.NotBefore, n.HintUntil, n.PauseTold, n.Missing, n.Unplaced = time.Time{}, time.Time{}, time.Time{}, false, 0, false
	c.publish(s, events.Transition{Status: events.Processing, Call: 1, MaxCalls: j.MaxCalls})
	return c, Claimed{Code: Claimable}
}

// lastStart is when it is too late to start, and too late to store a result.
func (r Rules) lastStart(j Job) time.Time { return j.DeadlineAt.Add(-r.Saving) }

// expired is how a job ends at its deadline. One that waited for the end of a pause
// was never served.
func expired(s State) how {
	h := how{outcome: events.OutcomeDeadlineExceeded, reason: events.DeadlinePassed, canRetry: true}
	if s.Last.Status == events.Queued && s.Last.Reason == events.DependencyPaused {
		h.outcome, h.reason = events.OutcomeAdmissionDenied, events.DependencyPaused
	}
	return h
}

func tooDear(j Job, worst int64) bool {
	return j.CostCap > 0 && worst > 0 && j.Spent+worst > j.CostCap
}

// Nanos are US dollars as records have them: 1e-9, rounded up.
func Nanos(usd float64) int64 { return int64(math.Ceil(usd * 1e9)) }

// Renew keeps a claim alive for another lease: OK or Lost. strict is for workers
// that may have slept: a claim whose lease has ended is lost to them.
func (r Rules) Renew(s State, job, token string, strict bool) (Change, Code) {
	if !s.holds(job, token) || strict && !s.Job.Claimed(s.Now) {
		return Change{}, Lost
	}
	c := s.change()
	c.Job.Claim.LeaseUntil = s.Now.Add(r.Lease)
	return c, OK
}

// Hold is the gate's wait for a job that nobody has claimed.
type Hold struct {
	Reason events.Reason
	For    time.Duration
	// MayEnd says that the wait may end before that, by an operator's word.
	MayEnd bool
}

// Hold lets an unclaimed job wait for the gate: OK with how long, or with its end if
// it could not be done in time any more; or Lost. It counts no attempt, and it is told
// with the time until which it lasts.
func (r Rules) Hold(s State, ask Claiming, h Hold) (Change, Claimed) {
	if _, got := r.Claim(s, ask); got.Code != Claimable || s.Job.Claim != nil && s.Job.Claim.Token == ask.Token {
		return Change{}, Claimed{Code: Lost}
	}
	c := s.change()
	c.Job.Claim = nil // of a worker that is gone
	at, end := r.wait(s, &c, h)
	if end != nil {
		return c, Claimed{Code: OK, End: end}
	}
	return c, Claimed{Code: OK, In: max(0, at.Sub(s.Now))}
}

// wait queues the job until the gate's time, or ends it if that passes its deadline.
func (r Rules) wait(s State, c *Change, h Hold) (time.Time, *End) {
	at := time.Time{}
	if h.For > 0 {
		at = s.Now.Add(h.For)
	}
	if last := r.lastStart(c.Job); !at.Before(last) {
		at = last // the claim then ends the job
		if !h.MayEnd || !at.After(s.Now) {
			e := how{outcome: events.OutcomeAdmissionDenied, reason: h.Reason, canRetry: true}
			if h.Reason == events.Draining {
				e.outcome, e.reason = events.OutcomeDeadlineExceeded, events.DeadlinePassed
			}
			return at, r.finish(s, c, e)
		}
	}
	c.publish(s, events.Transition{Status: events.Queued, Reason: h.Reason, NotBefore: at})
	c.Job.NotBefore, c.Job.NextRetryAt = at, time.Time{}
	return at, nil
}

// Deny ends an unclaimed job whose next call the gate does not allow: OK with its end,
// or Lost. A manual retry may come after retryIn.
func (r Rules) Deny(s State, ask Claiming, reason events.Reason, retryIn time.Duration) (Change, Claimed) {
	if _, got := r.Claim(s, ask); got.Code != Claimable || s.Job.Claim != nil && s.Job.Claim.Token == ask.Token {
		return Change{}, Claimed{Code: Lost}
	}
	c := s.change()
	h := how{outcome: events.OutcomeRetriesExhausted, reason: reason, canRetry: true}
	if retryIn > 0 {
		h.retryAt = s.Now.Add(retryIn)
	}
	return c, Claimed{Code: OK, End: r.finish(s, &c, h)}
}
