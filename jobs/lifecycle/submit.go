package lifecycle

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/tidings/tidings/events"
)

// Code is a verb's answer in a word.
type Code string

// The verbs' answers; which verb gives which is said there.
const (
	OK           Code = "ok"
	Created      Code = "created"
	LiveJob      Code = "live"
	JobRunning   Code = "job_running"
	Replay       Code = "replay"
	KeyReused    Code = "key_reused"
	RunNow       Code = "run_now"
	WaitRequired Code = "wait"
	TooOften     Code = "too_often"
	Completed    Code = "completed"
	NotRetryable Code = "not_retryable"
	InputGone    Code = "input_gone"
	Unknown      Code = "unknown"
	CancelledNow Code = "cancelled"
	NotUnknown   Code = "not_unknown"
	Claimable    Code = "claimed"
	Wait         Code = "wait_a_moment"
	TooEarly     Code = "early"
	AskQueue     Code = "ask_queue"
	Busy         Code = "busy"
	Ended        Code = "ended"
	Stale        Code = "stale"
	Gone         Code = "gone"
	Lost         Code = "lost"
	Conflict     Code = "conflict"
	Changed      Code = "changed"
)

// Terms are what a new job is accepted under.
type Terms struct {
	JobID      string
	Dependency string
	Queue      string
	Long       bool // a long call: its deadline is another
}

// Submission asks for a job.
type Submission struct {
	Terms
	Fingerprint string // of the input and the language
	Language    string
	Input       []byte
	Replace     bool // end the live job of another input
	Keyed       bool // it has an Idempotency-Key
}

// Submitted is the answer to Submit.
type Submitted struct {
	Code     Code // Created, LiveJob, JobRunning, Replay or KeyReused
	JobID    string
	Status   events.Status
	Live     bool       // of Replay: the answer was that of a live job
	Replaced *Cancelled // the job that Replace ended
	Follows  string     // the failed job whose input made way
}

// keyed is what an Idempotency-Key was answered with.
type keyed struct {
	Fingerprint string        `json:"fingerprint"`
	JobID       string        `json:"job"`
	Status      events.Status `json:"status"`
	Live        bool          `json:"live,omitzero"`
}

// Answered tells what a key was answered with before: not ok if it was never used,
// KeyReused if for something else.
func (s State) Answered(fingerprint string) (a Submitted, ok bool) {
	var k keyed
	if s.Key == "" || json.Unmarshal([]byte(s.Key), &k) != nil {
		return Submitted{}, false
	}
	if k.Fingerprint != fingerprint {
		return Submitted{Code: KeyReused}, true
	}
	return Submitted{Code: Replay, JobID: k.JobID, Status: k.Status, Live: k.Live}, true
}

// Submit starts a job for a new version of the document, or says why not.
func (r Rules) Submit(s State, ask Submission) (Change, Submitted) {
	created := Submitted{Code: Created, JobID: ask.JobID, Status: events.Queued}
	if s.knows(ask.JobID) {
		if s.Job.ID == ask.JobID {
			created.Follows = s.Job.Follows
		}
		return Change{}, created
	}
	if a, ok := s.Answered(ask.Fingerprint); ok {
		return Change{}, a
	}
	remember := func(c *Change, job string, status events.Status, live bool) {
		if ask.Keyed {
			b, _ := json.Marshal(keyed{ask.Fingerprint, job, status, live})
			c.Key = string(b)
		}
	}
	if s.Live() && s.Job.Fingerprint == ask.Fingerprint {
		c := Change{}
		remember(&c, s.Job.ID, s.Last.Status, true)
		return c, Submitted{Code: LiveJob, JobID: s.Job.ID, Status: s.Last.Status}
	}
	if s.Live() && !ask.Replace {
		return Change{}, Submitted{Code: JobRunning, JobID: s.Job.ID, Status: s.Last.Status}
	}
	c := Change{}
	if s.Last.Seq > 0 && !s.Last.Status.Terminal() {
		h := how{outcome: events.OutcomeFailed, reason: events.Cancelled, forget: true, replacedBy: ask.JobID}
		if !s.Live() { // its record is lost, and nobody can go on with it
			h.reason = events.StorageFault
		}
		s = s.recovered()
		c = s.change()
		c.Cancelled = s.Job.ID
		r.finish(s, &c, h)
		created.Replaced = &Cancelled{JobID: s.Job.ID, Run: s.Job.Run, Queue: s.Job.Queue}
	} else if s.Job.ID != "" && s.InputBytes > 0 {
		created.Follows = s.Job.ID
	}
	r.start(s, &c, ask.Terms, Job{Fingerprint: ask.Fingerprint, Language: ask.Language, Follows: created.Follows}, "")
	c.Input = &Input{Bytes: ask.Input, Keep: r.DeadlineFor(ask.Long) + r.InputRetention}
	remember(&c, ask.JobID, events.Queued, false)
	return c, created
}

// knows tells whether the job was made already.
func (s State) knows(job string) bool { return s.Job.ID == job || slices.Contains(s.Job.Earlier, job) }

// start makes a new job the topic's current one.
func (r Rules) start(s State, c *Change, t Terms, j Job, reason events.Reason) {
	j.ID, j.Dependency, j.Queue, j.Run = t.JobID, t.Dependency, t.Queue, 1
	if s.Job.ID != "" {
		j.Earlier = append(slices.Clone(s.Job.Earlier), s.Job.ID)
		j.Earlier = j.Earlier[max(0, len(j.Earlier)-4):]
	}
	j.AcceptedAt, j.DeadlineAt = s.Now, s.Now.Add(r.DeadlineFor(t.Long))
	j.MaxAttempts, j.MaxCalls, j.Allowance, j.CostCap = r.Attempts, r.Calls, r.Allowance, Nanos(r.Cost)
	c.Job, c.NewLedger = j, true
	c.publish(s, events.Transition{Status: events.Queued, Reason: reason})
}

// Retried is the answer to Retry.
type Retried struct {
	Code Code // Created, LiveJob, RunNow, WaitRequired, TooOften, Completed, NotRetryable, InputGone or Unknown
	// JobID is the job that is answered with, Follows the one that failed.
	JobID, Follows string
	Status         events.Status
	Run            int    // of RunNow: the task to run
	Queue          string // and where it waits
	In             time.Duration
}

// Retry is the user's "try again": another job with a failed one's input, or no
// further wait for the next attempt.
func (r Rules) Retry(s State, t Terms) (Change, Retried) {
	j, l := s.Job, s.Last
	here := Retried{JobID: j.ID, Status: l.Status}
	code := func(c Code) (Change, Retried) {
		here.Code = c
		return Change{}, here
	}
	wait := func(c Code, until time.Time) (Change, Retried) {
		here.In = until.Sub(s.Now)
		return code(c)
	}
	switch {
	case l.Seq == 0:
		return code(Unknown)
	case j.ID == "" && l.Status == events.Completed:
		here.JobID = l.JobID
		return code(Completed)
	case j.ID == "": // an end can be told, nothing can be started
		return code(InputGone)
	case s.knows(t.JobID):
		here = Retried{JobID: t.JobID, Status: events.Queued}
		if j.ID == t.JobID {
			here.Follows = j.Follows
		}
		return code(Created)
	case l.Status == events.Completed:
		return code(Completed)
	case l.Status == events.Failed && !l.CanRetry:
		return code(NotRetryable)
	case (l.Status == events.Failed || s.waitsInQueue()) && j.HintUntil.After(s.Now):
		return wait(WaitRequired, j.HintUntil)
	case l.Status == events.Failed && l.RetryAvailableAt.After(s.Now):
		return wait(TooOften, l.RetryAvailableAt)
	case l.Status == events.Failed && s.InputBytes == 0:
		return code(InputGone)
	case l.Status == events.Failed:
		c := Change{}
		r.start(s, &c, t, Job{Fingerprint: j.Fingerprint, Language: j.Language, Manual: j.Manual + 1, Follows: j.ID}, events.RunByUser)
		c.Input = &Input{Keep: r.DeadlineFor(t.Long) + r.InputRetention}
		return c, Retried{Code: Created, JobID: t.JobID, Status: events.Queued, Follows: j.ID}
	}
	run := Retried{Code: RunNow, JobID: j.ID, Run: j.Run, Queue: j.Queue, Status: events.Queued}
	switch {
	case s.waitsInQueue():
		c := s.change()
		c.publish(s, events.Transition{Status: events.Queued, Reason: events.RunByUser})
		c.Job.NextRetryAt, c.Job.HintUntil = time.Time{}, time.Time{}
		return c, run
	case l.Status == events.Queued && l.Reason == events.RunByUser && j.Attempts > 0:
		return Change{}, run // the same tap again
	}
	return code(LiveJob)
}

func (s State) waitsInQueue() bool {
	return s.Last.Status == events.Retrying && s.Last.Layer == events.QueueLayer
}
