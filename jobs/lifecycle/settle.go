package lifecycle

import (
	"encoding/json"
	"time"

	"github.com/tidings/tidings/events"
)

// Reserve counts a further call of an attempt, the last step before it is sent, and
// tells of it: OK, Lost, or why not (Ended with how the attempt then ends). spent is
// what the calls before it have cost at most.
func (r Rules) Reserve(s State, job, token string, call int, spent, worst int64) (Change, Code, Attempt) {
	j := s.Job
	j.Spent = spent
	switch {
	case !s.holds(job, token) || !j.Claimed(s.Now):
		return Change{}, Lost, Attempt{}
	case call <= j.Claim.Call:
		return Change{}, OK, Attempt{}
	case !s.Now.Before(j.DeadlineAt):
		return Change{}, Ended, Attempt{Outcome: events.OutcomeDeadlineExceeded, Reason: events.DeadlinePassed, CanRetry: true}
	case j.Calls >= j.Allowance || tooDear(j, worst):
		return Change{}, Ended, Attempt{Outcome: events.OutcomeRetriesExhausted, Reason: events.CallAllowance, CanRetry: true}
	}
	c := s.change()
	c.Job.Calls++
	c.Job.Spent = spent + worst
	c.Job.Claim.Call = call
	c.publish(s, events.Transition{Status: events.Processing, Call: call, MaxCalls: j.MaxCalls})
	return c, OK, Attempt{}
}

// Pause tells that a call failed and the next one of the same attempt follows: OK or
// Lost. spent is what the job's calls have cost at most, lines are the ledger's.
func (r Rules) Pause(s State, job, token string, pause time.Duration, reason events.Reason, spent int64, lines []string) (Change, Code) {
	j := s.Job
	if !s.holds(job, token) || !j.Claimed(s.Now) {
		return Change{}, Lost
	}
	c := s.change()
	c.Job.Spent, c.Lines = spent, lines
	c.publish(s, events.Transition{Status: events.Retrying, Layer: events.CallLayer, Call: j.Claim.Call, NextCall: j.Claim.Call + 1,
		MaxCalls: j.MaxCalls, NextRetryAt: s.Now.Add(pause), Reason: reason})
	return c, OK
}

// What an attempt came to.
type Kind int

// Finished: with a document. TryAgain: the queue starts another attempt after the
// plan's wait. HandBack: it goes back and counts for nothing. Failed: the job ends.
const (
	Failed Kind = iota
	Finished
	TryAgain
	HandBack
)

// Attempt is what an attempt came to, for Settle.
type Attempt struct {
	Kind     Kind
	Reason   events.Reason
	Outcome  events.Outcome // of Failed
	CanRetry bool           // of Failed: by hand
	Detail   string         // the provider's or the worker's own word for the failure
	Hint     time.Duration  // what the provider asks to wait
	RetryIn  time.Duration  // of Failed: no manual retry before
	Hold     Hold           // of HandBack: how long, and why
	NewRun   bool           // the queue's task cannot carry on
	Spent    int64          // what the job's calls have cost at most
	Worst    int64          // what one more may cost; 0: nobody knows or asks
	Document []byte         // of Finished
	Lines    []string       // the ledger's, of calls
	Line     AttemptLine    // the attempt's own
}

// Settled is what became of an attempt that was settled.
type Settled struct {
	Token   string         `json:"token,omitzero"`
	At      time.Time      `json:"at,omitzero"`
	Status  events.Status  `json:"status"`
	Outcome events.Outcome `json:"outcome,omitzero"`
	Reason  events.Reason  `json:"reason,omitzero"`
	Next    time.Time      `json:"next,omitzero"` // when the job may be started again; zero: at once
	Run     int            `json:"run,omitzero"`
	Attempt int            `json:"attempt,omitzero"` // the attempts that count
	Version int64          `json:"version,omitzero"`
	Worked  time.Duration  `json:"worked,omitzero"`
}

// End is how the job ended; nil if it goes on.
func (d Settled) End() *End {
	if !d.Status.Terminal() {
		return nil
	}
	return &End{Outcome: d.Outcome, Reason: d.Reason, Worked: d.Worked}
}

// Settle ends an attempt: OK with what became of it, or Lost. The first settlement
// of a token is the one that counts, and is answered again to its repeats.
func (r Rules) Settle(s State, job, token string, a Attempt) (Change, Code, Settled) {
	if d := s.Job.Settled; s.Job.ID == job && d != nil && d.Token == token {
		return Change{}, OK, *d
	}
	if !s.holds(job, token) {
		return Change{}, Lost, Settled{}
	}
	c := s.change()
	j := &c.Job
	j.Worked += max(0, s.Now.Sub(j.Claim.At))
	j.Claim, j.Spent = nil, a.Spent
	d := Settled{Token: token, At: s.Now, Worked: j.Worked}
	hint := time.Time{}
	if a.Hint > 0 {
		hint = s.Now.Add(a.Hint)
	}
	fail := func(h how) {
		if !hint.IsZero() {
			j.HintUntil = hint
		}
		end := r.finish(s, &c, h)
		d.Status, d.Outcome, d.Reason = events.Failed, end.Outcome, end.Reason
	}
	exhausted := func(reason events.Reason) {
		fail(how{outcome: events.OutcomeRetriesExhausted, reason: reason, canRetry: true, detail: a.Detail})
	}
	switch a.Kind {
	case Finished:
		d.Status, d.Outcome, d.Version = events.Completed, events.OutcomeCompleted, c.complete(s, a.Document)
		j.Manual, j.Worked = 0, 0
	case HandBack:
		j.Attempts--
		if at, end := r.wait(s, &c, a.Hold); end != nil {
			d.Status, d.Outcome, d.Reason = events.Failed, end.Outcome, end.Reason
		} else {
			d.Status, d.Reason, d.Next = events.Queued, a.Hold.Reason, at
		}
	case TryAgain:
		at := latest(s.Now.Add(r.delay(j.Attempts, j.ID)), hint)
		switch {
		case j.Attempts >= j.MaxAttempts:
			exhausted(events.AttemptsUsedUp)
		case j.Calls >= j.Allowance || tooDear(*j, a.Worst):
			exhausted(events.CallAllowance)
		case !at.Before(r.lastStart(*j)):
			fail(how{outcome: events.OutcomeDeadlineExceeded, reason: events.DeadlinePassed, canRetry: true, detail: a.Detail})
		default:
			r.again(s, &c, at, a.Reason)
			j.HintUntil = hint
			d.Status, d.Reason, d.Next = events.Retrying, a.Reason, at
		}
	default:
		h := how{outcome: a.Outcome, reason: a.Reason, canRetry: a.CanRetry, detail: a.Detail}
		if a.RetryIn > 0 {
			h.retryAt = s.Now.Add(a.RetryIn)
		}
		fail(h)
	}
	if a.NewRun && !d.Status.Terminal() {
		j.Run++
		j.Unplaced = true
	}
	d.Run, d.Attempt, j.Settled = j.Run, j.Attempts, &d
	a.Line.Status, a.Line.Reason = d.Status, d.Reason
	c.Lines = append(a.Lines[:len(a.Lines):len(a.Lines)], a.Line.Text())
	return c, OK, d
}

// delay is the plan's wait after a failed attempt, the same for every repeat.
func (r Rules) delay(attempt int, job string) time.Duration {
	return r.Plan.Jittered(attempt, job, attempt, r.QueueJitter).Round(time.Millisecond)
}

// again lets the queue start the next attempt at its time.
func (r Rules) again(s State, c *Change, at time.Time, reason events.Reason) {
	c.publish(s, events.Transition{Status: events.Retrying, Layer: events.QueueLayer, NextAttempt: c.Job.Attempts + 1, NextRetryAt: at, Reason: reason})
	c.Job.NextRetryAt, c.Job.NotBefore = at, time.Time{}
}

// Report is what an outside worker says of its attempt. Digest is of what it says.
type Report struct {
	Worker  string
	Attempt int
	Token   string
	Digest  string
}

// reported is what an attempt was reported as, kept beyond its job for repeats.
type reported struct {
	Token   string  `json:"token"`
	Digest  string  `json:"digest"`
	Settled Settled `json:"settled"`
}

// SettleReport is Settle for an outside worker: OK, Lost, or Conflict for a second
// report that says something else. again tells that it was reported before.
func (r Rules) SettleReport(s State, job string, p Report, a Attempt) (c Change, code Code, d Settled, again bool) {
	if s.Report != "" {
		var known reported
		switch err := json.Unmarshal([]byte(s.Report), &known); {
		case err != nil || known.Token != p.Token:
			return Change{}, Lost, Settled{}, false
		case known.Digest != p.Digest:
			return Change{}, Conflict, Settled{}, false
		}
		return Change{}, OK, known.Settled, true
	}
	j := s.Job
	if !s.holds(job, p.Token) || !j.Claimed(s.Now) || j.Claim.Worker != p.Worker || j.Attempts != p.Attempt {
		return Change{}, Lost, Settled{}, false
	}
	a.Spent = j.Spent
	a.Line.Attempt, a.Line.Run, a.Line.Worker, a.Line.StartedAt, a.Line.EndedAt = p.Attempt, j.Run, p.Worker, j.Claim.At, s.Now
	c, code, d = r.Settle(s, job, p.Token, a)
	b, err := json.Marshal(reported{p.Token, p.Digest, d})
	if err != nil { // strings, numbers and times always encode
		panic(err)
	}
	c.Report, c.Attempt = string(b), p.Attempt
	return c, code, d, false
}

// Forget deletes the input of an ended job, which made way for another one's: OK or
// Changed.
func (r Rules) Forget(s State, job string) (Change, Code) {
	if s.Job.ID != job || s.Live() {
		return Change{}, Changed
	}
	c := s.change()
	c.Input = &Input{}
	return c, OK
}

// Account adds what a discarded attempt has cost to the ledger of its own job. It is
// all that may be written without the claim: OK or Gone.
func (r Rules) Account(s State, job string, lines []string) (Change, Code) {
	if s.Job.ID != job {
		return Change{}, Gone
	}
	c := s.change()
	c.Lines = lines
	return c, OK
}
