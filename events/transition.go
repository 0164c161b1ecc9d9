package events

import "time"

// Transition is one published change of a job's status: codes and numbers
// only. Words are made where it is sent, in the reader's language.
type Transition struct {
	// Seq grows strictly for a topic over jobs, retries and restarts: Redis
	// time in milliseconds, or the predecessor's plus one if that is larger.
	Seq int64
	// Prev is the predecessor's Seq, 0 for the first that the log knows. A
	// reader that has not seen Prev has missed something and reads the log.
	Prev int64
	// At is when it happened, Redis time in milliseconds.
	At time.Time

	Status      Status
	JobID       string
	Attempt     int // the one that runs or has just failed; 0 while the first one waits
	MaxAttempts int
	DeadlineAt  time.Time

	Reason  Reason
	Outcome Outcome // completed and error

	Call     int // processing, and retrying in the call layer
	MaxCalls int

	Layer       Layer     // retrying
	NextAttempt int       // retrying, queue layer
	NextCall    int       // retrying, call layer
	NextRetryAt time.Time // retrying: stored once, used as stored
	NotBefore   time.Time // queued, when waiting for more than its turn

	// Detail is the provider's type of the last failure, or what an outside worker
	// called it: error. It comes from a closed list.
	Detail           string
	Version          int64     // completed: the document's version
	CanRetry         bool      // error
	RetryAvailableAt time.Time // error: when a manual retry is accepted again; zero: now
	// ReplacedBy is the job whose submit cancelled this one: the next transition
	// is that job's, so this error is not where a reader's wait ends.
	ReplacedBy string
}

// Status is a job's state as the stream names it.
type Status string

// The five stored states, and Idle, the answer when no job is known.
const (
	Queued     Status = "queued"
	Processing Status = "processing"
	Retrying   Status = "retrying"
	Completed  Status = "completed"
	Failed     Status = "error"
	Idle       Status = "idle"
)

// Terminal reports whether a job ends with s.
func (s Status) Terminal() bool { return s == Completed || s == Failed }

// Layer tells which of the two retry layers waits.
type Layer string

// The queue retries a whole attempt, the call layer one request inside it.
const (
	QueueLayer Layer = "queue"
	CallLayer  Layer = "call"
)

// Outcome is how a job ended.
type Outcome string

// The six outcomes of the contract.
const (
	OutcomeCompleted        Outcome = "completed"
	OutcomeFailed           Outcome = "failed"
	OutcomeDeadlineExceeded Outcome = "deadline_exceeded"
	OutcomeAdmissionDenied  Outcome = "admission_denied"
	OutcomeRetriesExhausted Outcome = "retries_exhausted"
	OutcomeUnknown          Outcome = "outcome_unknown"
)

// Outcomes lists all six.
func Outcomes() []Outcome {
	return []Outcome{OutcomeCompleted, OutcomeFailed, OutcomeDeadlineExceeded,
		OutcomeAdmissionDenied, OutcomeRetriesExhausted, OutcomeUnknown}
}

// Reason refines an outcome or a wait.
type Reason string

// The closed list of reasons. Each has a text in every language, and Reasons
// is what tests walk over.
const (
	Overloaded        Reason = "overloaded"
	RateLimited       Reason = "rate_limited"
	Unavailable       Reason = "unavailable"
	Timeout           Reason = "timeout"
	Network           Reason = "network"
	Auth              Reason = "auth"
	Quota             Reason = "quota"
	Misconfigured     Reason = "misconfigured" // wrong model name, address, parameter or place: an operator's to mend
	InvalidInput      Reason = "invalid_input"
	InvalidOutput     Reason = "invalid_output"
	StreamInterrupted Reason = "stream_interrupted"
	WorkerLost        Reason = "worker_lost"
	Internal          Reason = "internal"
	StorageFault      Reason = "storage"
	BreakerOpen       Reason = "breaker_open"
	RetryBudget       Reason = "retry_budget"
	CallAllowance     Reason = "call_allowance"
	AttemptsUsedUp    Reason = "attempts"
	RetriesDisabled   Reason = "retries_disabled"
	DependencyPaused  Reason = "dependency_paused"
	QueuePaused       Reason = "queue_paused"
	NoWorker          Reason = "no_worker"
	Draining          Reason = "draining"
	RunByOperator     Reason = "run_by_operator"
	RunByUser         Reason = "run_by_user"
	Cancelled         Reason = "cancelled"
	Removed           Reason = "removed"
	DeadlinePassed    Reason = "deadline"
)

// Lasting reports whether the same input fails again until somebody has put
// something right, so that a user who tries again only waits for the same end.
func (r Reason) Lasting() bool {
	switch r {
	case Auth, Misconfigured, Quota, InvalidInput:
		return true
	}
	return false
}

// Reasons lists every reason.
func Reasons() []Reason {
	return []Reason{Overloaded, RateLimited, Unavailable, Timeout, Network, Auth, Quota, Misconfigured,
		InvalidInput, InvalidOutput, StreamInterrupted, WorkerLost, Internal, StorageFault,
		BreakerOpen, RetryBudget, CallAllowance, AttemptsUsedUp, RetriesDisabled,
		DependencyPaused, QueuePaused, NoWorker, Draining, RunByOperator, RunByUser,
		Cancelled, Removed, DeadlinePassed}
}
