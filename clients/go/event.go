package tidings

import (
	"encoding/json"
	"time"
)

// Event holds what the last accepted event said. The server may leave out any of
// it: a field it did not send, or sent with another type, has its zero value.
// Times are the server's; [Status] has them on the client's own clock.
type Event struct {
	Name string // queued, processing, retrying, completed, error or idle; "" before the first

	SessionID   string
	Workload    string
	JobID       string
	Seq         int64
	Attempt     int // the one that runs or has just failed, from 1; 0 while the first one waits
	MaxAttempts int
	At          time.Time
	ServerTime  time.Time // when the server sent this copy
	DeadlineAt  time.Time

	Reason    string    // why it waits, or why it ended
	NotBefore time.Time // queued, when it waits for more than its turn

	Call     int // processing, retrying
	MaxCalls int

	Layer          string // retrying: "queue" or "call"
	NextAttempt    int
	NextCall       int
	NextRetryAt    time.Time
	RetryIn        time.Duration // what was left until then when the server sent this
	Message        string        // localized: the wait, or why it ended
	UserMessageKey string
	UserMessage    string // localized: what to tell a user who waits

	Outcome     string // completed, error
	Version     int64  // completed: the document's version
	DocumentURL string

	MessageKey       string    // error
	RefusesRetry     bool      // error: the server said can_retry false
	RetryAvailableAt time.Time // error: when a retry by hand is accepted again

	Reset bool // the server could not resume after the last position

	// Fields is everything the event carried, also what this version of the
	// client has no name for.
	Fields map[string]json.RawMessage
}

func readEvent(name string, o object) Event {
	seq, _ := o.integer("seq", 0, maxSafeInteger)
	version, _ := o.integer("version", 0, maxSafeInteger)
	return Event{
		Name:             name,
		SessionID:        o.text("session_id"),
		Workload:         o.text("workload"),
		JobID:            o.text("job_id"),
		Seq:              seq,
		Attempt:          o.count("attempt"),
		MaxAttempts:      o.count("max_attempts"),
		At:               o.time("at"),
		ServerTime:       o.time("server_time"),
		DeadlineAt:       o.time("deadline_at"),
		Reason:           o.text("reason"),
		NotBefore:        o.time("not_before"),
		Call:             o.count("call"),
		MaxCalls:         o.count("max_calls"),
		Layer:            o.text("layer"),
		NextAttempt:      o.count("next_attempt"),
		NextCall:         o.count("next_call"),
		NextRetryAt:      o.time("next_retry_at"),
		RetryIn:          time.Duration(o.count("retry_in_ms")) * time.Millisecond,
		Message:          o.text("message"),
		UserMessageKey:   o.text("user_message_key"),
		UserMessage:      o.text("user_message"),
		Outcome:          o.text("outcome"),
		Version:          version,
		DocumentURL:      o.text("document_url"),
		MessageKey:       o.text("message_key"),
		RefusesRetry:     o.isFalse("can_retry"),
		RetryAvailableAt: o.time("retry_available_at"),
		Reset:            o.isTrue("reset"),
		Fields:           o,
	}
}
