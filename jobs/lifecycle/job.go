package lifecycle

import (
	"fmt"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/retry"
)

// Job is the record of a topic's newest job. Its status is not in it: that is the
// topic's last transition. Times are Redis's, to the millisecond; the zero time
// stands for none.
type Job struct {
	ID          string    `json:"id"`
	Run         int       `json:"run"` // the queue's task that may claim it, from 1
	Fingerprint string    `json:"fingerprint,omitzero"`
	Language    string    `json:"language,omitzero"`
	Dependency  string    `json:"dependency,omitzero"`
	Queue       string    `json:"queue,omitzero"`
	AcceptedAt  time.Time `json:"accepted_at,omitzero"`
	DeadlineAt  time.Time `json:"deadline_at,omitzero"`
	MaxAttempts int       `json:"max_attempts,omitzero"`
	MaxCalls    int       `json:"max_calls,omitzero"` // in one attempt
	Allowance   int       `json:"allowance,omitzero"` // calls in all
	CostCap     int64     `json:"cost_cap,omitzero"`  // of all calls, in 1e-9 US dollars; 0: none
	Manual      int       `json:"manual,omitzero"`    // manual retries in a row
	Follows     string    `json:"follows,omitzero"`   // the failed job whose input it took over or displaced
	// Earlier are the topic's jobs before it, at most 4, the newest last: a request
	// that is repeated may find that its job has been there and is not the last one.
	Earlier []string `json:"earlier,omitzero"`

	Attempts int           `json:"attempts,omitzero"`
	Calls    int           `json:"calls,omitzero"`
	Spent    int64         `json:"spent,omitzero"`  // what its calls have cost at most, in 1e-9 US dollars
	Worked   time.Duration `json:"worked,omitzero"` // how long its attempts held a slot
	Claim    *Claim        `json:"claim,omitzero"`  // nil: nobody has it

	NextRetryAt time.Time `json:"next_retry_at,omitzero"` // when the queue may start it again
	HintUntil   time.Time `json:"hint_until,omitzero"`    // a provider's wait, which nobody may shorten
	NotBefore   time.Time `json:"not_before,omitzero"`    // a wait that counts no attempt
	PauseTold   bool      `json:"pause_told,omitzero"`    // that its queue is paused
	Unplaced    bool      `json:"unplaced,omitzero"`      // the run's task may not be in the queue yet
	Missing     int       `json:"missing,omitzero"`       // how often the rescuer found the task missing

	Settled  *Settled `json:"settled,omitzero"`  // the last settlement, for its repeats
	Resolved *Settled `json:"resolved,omitzero"` // an operator's word on an unknown outcome
}

// Claim is a worker's right to speak for a job. It goes in the step that ends the
// attempt, so who has it speaks for a live job.
type Claim struct {
	Token      string    `json:"token"`
	Worker     string    `json:"worker"`
	At         time.Time `json:"at"`
	LeaseUntil time.Time `json:"lease_until"`
	Call       int       `json:"call"` // the last one counted in this attempt
}

// Due is when the queue may start the job; zero: at once.
func (j Job) Due() time.Time {
	if j.NotBefore.After(j.NextRetryAt) {
		return j.NotBefore
	}
	return j.NextRetryAt
}

// Claimed reports whether a lease lives.
func (j Job) Claimed(now time.Time) bool { return j.Claim != nil && j.Claim.LeaseUntil.After(now) }

// State is what a decision is made on.
type State struct {
	Job Job // the zero Job: none is known
	// Last is the topic's newest transition: the job's own, or what a record that
	// was lost has left; the zero Transition: none is known.
	Last events.Transition
	Now  time.Time // Redis's clock
	// The current document's version, 0 for none, and the job that made it.
	DocumentVersion int64
	DocumentJob     string
	InputBytes      int    // 0: not stored any more
	Key             string // what the asked Idempotency-Key was answered with; "" for none
	Report          string // what the asked attempt was reported as; "" for none
}

// Live reports whether the record's job has not ended.
func (s State) Live() bool {
	return s.Job.ID != "" && s.Last.JobID == s.Job.ID && !s.Last.Status.Terminal()
}

// holds reports whether the token's claim speaks for the job. An attempt's own end
// may come after its lease, as long as nobody else went on.
func (s State) holds(job, token string) bool {
	return s.Live() && s.Job.ID == job && s.Job.Claim != nil && s.Job.Claim.Token == token
}

// Change is what a verb decided, as data: the record, the transitions and what is
// written beside them, all or nothing. The zero Change is nothing.
type Change struct {
	Job         Job
	Transitions []events.Transition
	// Cancelled is the job whose worker is told to stop; "" for none.
	Cancelled string

	Input     *Input
	Document  *Document
	NewLedger bool     // forget the lines of the job before
	Lines     []string // to add to the ledger, JSON
	Key       string   // what the Idempotency-Key is answered with from now on
	Report    string   // what the attempt was reported as
	// Attempt is the one that Report is of.
	Attempt int

	err error
}

// Input says what becomes of the stored input: stored if it has Bytes, kept for Keep
// from now on if not, and deleted if Keep is 0.
type Input struct {
	Bytes []byte
	Keep  time.Duration
}

// Document is a new current document.
type Document struct {
	Version int64
	JobID   string
	At      time.Time
	Body    []byte
}

// Nothing reports whether there is nothing to store.
func (c Change) Nothing() bool {
	return c.Job.ID == "" && c.err == nil && c.Input == nil && c.Lines == nil && c.Key == ""
}

// Err is a defect of ours: a transition that may not follow. Such a change is not
// stored.
func (c Change) Err() error { return c.err }

// change begins a change of the state's job.
func (s State) change() Change {
	c := Change{Job: s.Job}
	if s.Job.Claim != nil { // a copy, so that the state stays as it was read
		claim := *s.Job.Claim
		c.Job.Claim = &claim
	}
	return c
}

// publish adds a transition of the changed job. Its place, and its time, are the
// decision's.
func (c *Change) publish(s State, t events.Transition) {
	last := s.Last
	if n := len(c.Transitions); n > 0 {
		last = c.Transitions[n-1]
	}
	t.JobID, t.MaxAttempts, t.DeadlineAt = c.Job.ID, c.Job.MaxAttempts, c.Job.DeadlineAt
	if t.Attempt == 0 {
		t.Attempt = c.Job.Attempts
	}
	if !events.Follows(last, t) {
		c.err = fmt.Errorf("%s may not follow %s", t.Status, last.Status)
	}
	t.At = s.Now
	if t.At.Before(last.At) { // a clock that stepped back
		t.At = last.At
	}
	t.Prev, t.Seq = last.Seq, max(t.At.UnixMilli(), last.Seq+1)
	c.Transitions = append(c.Transitions, t)
}

// Rules are the settings that verbs decide by.
type Rules struct{ retry.Settings }

// Early is how much before its time a task may come and just wait: queues cut times
// to whole seconds, and clocks differ.
const Early = 2 * time.Second
