package tidings

// Phase is what the screen shows.
type Phase string

// The five phases.
const (
	Loading   Phase = "loading"
	Retrying  Phase = "retrying"
	Failed    Phase = "error"
	Done      Phase = "done"
	Dismissed Phase = "dismissed"
)

// Connection tells whether a stream is up.
type Connection string

// The three states of the connection.
const (
	Open         Connection = "open"         // the stream is up
	Reconnecting Connection = "reconnecting" // wanted but not up: under way or scheduled
	Closed       Connection = "closed"       // no stream is wanted now
)

// Result is what is known of the job, whatever the screen shows.
type Result string

// The three results.
const (
	ResultPending   Result = "pending"
	ResultCompleted Result = "completed"
	ResultFailed    Result = "failed"
)

// Texts the state asks for. They are keys of [Texts].
const (
	KeyBusyRetrying = "ai_service_busy_retrying"
	KeyChecking     = "session_checking_connection"
	KeyRetryButton  = "ai_workload_retry_button"
	KeySeeLater     = "session_see_later"
)

// CompilingKey is the key of the text that says a workload's document is being made.
func CompilingKey(workload string) string { return "session_" + workload + "_compiling" }

// TakingLongerKey is the key of the text that takes its place after 30 seconds.
func TakingLongerKey(workload string) string { return "session_" + workload + "_taking_longer" }

// ErrorKey is the key of the text that says a workload's document could not be
// made.
func ErrorKey(workload string) string { return "ai_workload_" + workload + "_error" }

// Times of the machine, in milliseconds.
const (
	hardTimeout = 30_000
	idleDelay   = 2_000
	baseDelay   = 1_000
	minHint     = 500
	maxHint     = 30_000
	maxDelay    = 30_000
)

// State is what a view draws. All of it follows from what the machine has seen.
type State struct {
	Phase        Phase
	Spinner      bool
	MessageKey   string // "" for no text
	RetryAttempt int    // 0 for none
	CanRetry     bool
	CanDismiss   bool
	Connection   Connection
	// ResubscribeAt is when a scheduled subscribe is due, in milliseconds since
	// the machine was made; -1 for none.
	ResubscribeAt int64
	LastEventID   string
	Outcome       Result
}

// Effect is something the machine wants done.
type Effect string

// The three effects.
const (
	Subscribe Effect = "subscribe"  // drop the stream, if any, and open a new one after LastEventID
	Close     Effect = "close"      // drop the stream
	PostRetry Effect = "post_retry" // ask the server for another try, and report what it said
)

// Kind names an input.
type Kind string

// The kinds of input. OnEvent uses Message, OnRetryHint uses Millis,
// OnDisconnect uses Status.
const (
	OnOpen          Kind = "open"
	OnEvent         Kind = "event"
	OnRetryHint     Kind = "retry_hint"
	OnDisconnect    Kind = "disconnect"
	OnTick          Kind = "tick"
	OnForeground    Kind = "foreground"
	OnDismiss       Kind = "user_dismiss"
	OnRetry         Kind = "user_retry"
	OnRetryAccepted Kind = "retry_accepted"
	OnRetryFailed   Kind = "retry_failed"
)

// Input is something that happened: on the stream, to the clock, or by the user.
type Input struct {
	At      int64 // milliseconds since the machine was made, from a clock that does not go back
	Kind    Kind
	Message Message // OnEvent
	KeepID  bool    // OnEvent: the message tells no id, the position stays
	Millis  int     // OnRetryHint
	Status  int     // OnDisconnect: the HTTP status, 0 when there was no answer
}

// Machine is the state machine of one session's status. It is a plain value
// without clock, timer or lock: the same inputs always give the same states, and
// a copy is a snapshot. The zero Machine is not ready; use NewMachine.
type Machine struct {
	session, workload string

	now           int64
	deadline      int64
	timedOut      bool
	phase         Phase
	attempt       int
	connection    Connection
	resubscribeAt int64
	lastEventID   string
	outcome       Result
	failures      int
	base          int64
	lastSeq       int64
	awaitingRetry bool
	event         *Event // never changed, only replaced
}

// NewMachine makes the machine of a session's workload, at time 0, with its
// first effects.
func NewMachine(session, workload string) (Machine, []Effect) {
	return Machine{
		session:       session,
		workload:      workload,
		deadline:      hardTimeout,
		phase:         Loading,
		connection:    Reconnecting,
		resubscribeAt: -1,
		outcome:       ResultPending,
		base:          baseDelay,
		lastSeq:       -1,
		event:         &Event{},
	}, []Effect{Subscribe}
}

// State is what to show now.
func (m *Machine) State() State {
	s := State{
		Phase:         m.phase,
		Connection:    m.connection,
		ResubscribeAt: m.resubscribeAt,
		LastEventID:   m.lastEventID,
		Outcome:       m.outcome,
	}
	switch m.phase {
	case Loading:
		s.Spinner, s.CanDismiss = !m.timedOut, true
		s.MessageKey = CompilingKey(m.workload)
		if m.timedOut {
			s.MessageKey = TakingLongerKey(m.workload)
		}
	case Retrying:
		s.Spinner, s.CanDismiss = !m.timedOut, true
		s.MessageKey, s.RetryAttempt = KeyBusyRetrying, m.attempt
	case Failed:
		s.MessageKey, s.CanRetry, s.CanDismiss = ErrorKey(m.workload), true, true
	}
	return s
}

// Event is the last accepted event with a name of the contract; its Name is ""
// before the first. It is never nil and must not be changed.
func (m *Machine) Event() *Event { return m.event }

// NextTick is when the machine next wants a tick, in milliseconds since it was
// made; -1 for never. A scheduled subscribe may come late by the given
// milliseconds. A late tick, or none, does no harm to what is shown.
func (m *Machine) NextTick(late int64) int64 {
	next := m.resubscribeAt
	if next >= 0 {
		next += late
	}
	if m.waiting() && !m.timedOut && (next < 0 || m.deadline < next) {
		next = m.deadline
	}
	return next
}

func (m *Machine) waiting() bool { return m.phase == Loading || m.phase == Retrying }

// Apply takes one input and returns what is to be done because of it, in order.
func (m *Machine) Apply(in Input) []Effect {
	effects := m.passTime(in.At)
	switch in.Kind {
	case OnOpen:
		if m.connection != Closed {
			m.connection, m.resubscribeAt = Open, -1
		}
	case OnRetryHint:
		m.base = min(max(int64(in.Millis), minHint), maxHint)
	case OnDisconnect:
		m.disconnect(in.Status)
	case OnForeground:
		if m.connection == Closed {
			break
		}
		m.connection, m.resubscribeAt, m.failures = Reconnecting, -1, 0
		effects = []Effect{Subscribe} // one, also when time has just given one
	case OnDismiss:
		if m.waiting() || m.phase == Failed {
			m.phase = Dismissed
		}
	case OnRetry:
		if m.phase != Failed {
			break
		}
		m.phase, m.outcome, m.attempt = Loading, ResultPending, 0
		m.timedOut, m.deadline = false, m.now+hardTimeout
		m.failures, m.awaitingRetry = 0, true
		effects = append(effects, PostRetry)
	case OnRetryAccepted:
		if !m.awaitingRetry {
			break
		}
		m.awaitingRetry = false
		m.connection, m.resubscribeAt = Reconnecting, -1
		effects = append(effects, Subscribe)
	case OnRetryFailed:
		if !m.awaitingRetry {
			break
		}
		m.awaitingRetry, m.outcome = false, ResultFailed
		m.show(Failed)
	case OnEvent:
		effects = append(effects, m.takeEvent(in.Message, in.KeepID)...)
	}
	return effects
}

// passTime applies what the time alone has changed, before the input itself is
// looked at.
func (m *Machine) passTime(at int64) []Effect {
	m.now = max(m.now, at)
	if m.waiting() && m.now >= m.deadline {
		m.timedOut = true
	}
	if m.resubscribeAt >= 0 && m.now >= m.resubscribeAt {
		m.resubscribeAt, m.connection = -1, Reconnecting
		return []Effect{Subscribe}
	}
	return nil
}

func (m *Machine) disconnect(status int) {
	if m.connection == Closed {
		return
	}
	if refused(status) {
		m.connection, m.resubscribeAt = Closed, -1
		m.show(Failed)
		return
	}
	m.connection = Reconnecting
	if m.resubscribeAt >= 0 {
		return // after idle: the schedule stands, and this is no failure
	}
	delay := int64(maxDelay)
	if m.failures < 16 { // beyond it every delay is the longest
		delay = min(m.base<<m.failures, maxDelay)
	}
	m.resubscribeAt = m.now + delay
	m.failures++
}

// refused tells whether a status means that asking again would be in vain.
func refused(status int) bool {
	switch status {
	case 204:
		return true
	case 408, 425, 429:
		return false
	}
	return status >= 400 && status <= 499
}

// show changes the phase unless the user has left: a dismissed view stays so.
func (m *Machine) show(p Phase) {
	if m.phase != Dismissed {
		m.phase = p
	}
}
