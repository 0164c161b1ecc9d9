package server

import (
	"bytes"
	"encoding/json"
	"sync"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/locales"
)

// resubscribeAfter is when clients of the original contract ask again after
// idle. The stream stays open for all others.
const resubscribeAfter = 2 * time.Second

const busyKey = "ai_service_busy_retrying"

// renderer makes a transition's JSON, in the reader's language and at the
// reader's time: what is stored are codes and numbers.
type renderer struct {
	texts *locales.Catalog
	now   func() time.Time // the storage's clock, which all stored times are made with
	live  *frames
}

func newRenderer(texts *locales.Catalog, now func() time.Time) *renderer {
	return &renderer{texts: texts, now: now, live: newFrames(now)}
}

// The fields of each event, in the order in which they are sent. Event is only
// in answers that are JSON altogether; a stream says it in its own line.
type (
	headJSON struct {
		Event       events.Status `json:"event,omitempty"`
		SessionID   string        `json:"session_id"`
		Workload    string        `json:"workload"`
		JobID       string        `json:"job_id"`
		Seq         int64         `json:"seq"`
		At          stamp         `json:"at"`
		ServerTime  stamp         `json:"server_time"`
		Attempt     int           `json:"attempt"`
		MaxAttempts int           `json:"max_attempts"`
		DeadlineAt  *stamp        `json:"deadline_at"`
	}
	idleJSON struct {
		Event              events.Status `json:"event,omitempty"`
		SessionID          string        `json:"session_id"`
		Workload           string        `json:"workload"`
		ServerTime         stamp         `json:"server_time"`
		StaysOpen          bool          `json:"stays_open"`
		ResubscribeAfterMS int64         `json:"resubscribe_after_ms"`
		Reset              bool          `json:"reset,omitempty"`
	}
	queuedJSON struct {
		headJSON
		Reason     events.Reason `json:"reason,omitempty"`
		Message    string        `json:"message,omitempty"`
		NotBefore  *stamp        `json:"not_before,omitempty"`
		StartsInMS int64         `json:"starts_in_ms,omitempty"`
		Reset      bool          `json:"reset,omitempty"`
	}
	processingJSON struct {
		headJSON
		Call     int  `json:"call"`
		MaxCalls int  `json:"max_calls"`
		Reset    bool `json:"reset,omitempty"`
	}
	retryingJSON struct {
		headJSON
		Layer          events.Layer  `json:"layer"`
		NextAttempt    int           `json:"next_attempt,omitempty"`
		Call           int           `json:"call,omitempty"`
		NextCall       int           `json:"next_call,omitempty"`
		MaxCalls       int           `json:"max_calls,omitempty"`
		NextRetryAt    stamp         `json:"next_retry_at"`
		RetryInMS      int64         `json:"retry_in_ms"`
		Reason         events.Reason `json:"reason"`
		Message        string        `json:"message"`
		UserMessageKey string        `json:"user_message_key"`
		UserMessage    string        `json:"user_message"`
		Reset          bool          `json:"reset,omitempty"`
	}
	completedJSON struct {
		headJSON
		Outcome     events.Outcome `json:"outcome"`
		Version     int64          `json:"version"`
		DocumentURL string         `json:"document_url"`
		Reset       bool           `json:"reset,omitempty"`
	}
	errorJSON struct {
		headJSON
		Outcome          events.Outcome `json:"outcome"`
		Reason           events.Reason  `json:"reason"`
		MessageKey       string         `json:"message_key"`
		Message          string         `json:"message"`
		Detail           string         `json:"detail_code,omitempty"`
		CanRetry         bool           `json:"can_retry"`
		RetryAvailableAt *stamp         `json:"retry_available_at"` // null when can_retry is false
		Reset            bool           `json:"reset,omitempty"`
	}
)

// form says how an event is wanted.
type form struct {
	lang  locales.Language
	named bool // with "event" in it
	reset bool // the reader's place was lost
}

// idle is the answer when no job is known.
func (r *renderer) idle(topic events.Topic, f form) ([]byte, error) {
	return encode(idleJSON{
		Event: f.name(events.Idle), SessionID: topic.Session, Workload: topic.Workload, ServerTime: stamp{r.now()},
		StaysOpen: true, ResubscribeAfterMS: resubscribeAfter.Milliseconds(), Reset: f.reset,
	})
}

// event renders a transition anew, with what remains of its waits.
func (r *renderer) event(topic events.Topic, t events.Transition, f form) ([]byte, error) {
	if t.Seq == 0 {
		return r.idle(topic, f)
	}
	now := r.now()
	head := headJSON{
		Event: f.name(t.Status), SessionID: topic.Session, Workload: topic.Workload, JobID: t.JobID, Seq: t.Seq,
		At: stamp{t.At}, ServerTime: stamp{now}, Attempt: t.Attempt, MaxAttempts: t.MaxAttempts, DeadlineAt: optional(t.DeadlineAt),
	}
	switch t.Status {
	case events.Queued:
		return encode(r.queued(head, t, now, f))
	case events.Processing:
		return encode(processingJSON{headJSON: head, Call: t.Call, MaxCalls: t.MaxCalls, Reset: f.reset})
	case events.Retrying:
		return encode(r.retrying(head, t, now, f))
	case events.Completed:
		return encode(completedJSON{headJSON: head, Outcome: t.Outcome, Version: t.Version,
			DocumentURL: "/api/v1/sessions/" + topic.Session + "/" + topic.Workload, Reset: f.reset})
	case events.Failed:
		return encode(r.failed(head, topic, t, f))
	}
	return nil, &problem{code: codeInternal}
}

// queued says why a job waits for more than its turn, and for how long.
func (r *renderer) queued(head headJSON, t events.Transition, now time.Time, f form) queuedJSON {
	j := queuedJSON{headJSON: head, Reason: t.Reason, NotBefore: optional(t.NotBefore), Reset: f.reset}
	if t.Reason != "" {
		j.Message, _ = r.texts.Text(f.lang, "reason_"+string(t.Reason), nil)
	}
	if t.NotBefore.IsZero() {
		return j
	}
	left := max(t.NotBefore.Sub(now), 0)
	j.StartsInMS = left.Milliseconds()
	if seconds := countdown(left, t.NotBefore.Sub(t.At)); seconds > 0 && j.Message != "" {
		next, _ := r.texts.Plural(f.lang, "retry_in_seconds", seconds, nil)
		j.Message += " " + next
	}
	return j
}

// retrying's numbers come from the fields that are sent beside them, so they
// cannot disagree.
func (r *renderer) retrying(head headJSON, t events.Transition, now time.Time, f form) retryingJSON {
	left := max(t.NextRetryAt.Sub(now), 0)
	j := retryingJSON{
		headJSON: head, Layer: t.Layer, NextRetryAt: stamp{t.NextRetryAt}, RetryInMS: left.Milliseconds(), Reason: t.Reason,
		UserMessageKey: busyKey, Reset: f.reset,
	}
	seconds := countdown(left, t.NextRetryAt.Sub(t.At))
	args := locales.Args{"Seconds": seconds, "Attempt": t.NextAttempt, "Max": t.MaxAttempts}
	key, soon := "retrying_queue", "retrying_now"
	if t.Layer == events.CallLayer {
		j.Call, j.NextCall, j.MaxCalls = t.Call, t.NextCall, t.MaxCalls
		args = locales.Args{"Seconds": seconds, "Call": t.NextCall, "Max": t.MaxCalls}
		key, soon = "retrying_call", "retrying_call_now"
	} else {
		j.NextAttempt = t.NextAttempt
	}
	if seconds == 0 {
		key = soon
	}
	j.Message, _ = r.texts.Text(f.lang, key, args)
	j.UserMessage, _ = r.texts.Text(f.lang, busyKey, nil)
	return j
}

// countdown is what is left of a wait in seconds, rounded up so that it never
// says 0 too early, but not above the wait that was planned: one with a
// fraction of a second, by a provider's hint or a jitter, is said to the nearest.
func countdown(left, whole time.Duration) int {
	planned := int(whole.Round(time.Second) / time.Second)
	return min(wholeSeconds(left), max(1, planned))
}

func (r *renderer) failed(head headJSON, topic events.Topic, t events.Transition, f form) errorJSON {
	j := errorJSON{headJSON: head, Outcome: t.Outcome, Reason: t.Reason, Detail: t.Detail, CanRetry: t.CanRetry, Reset: f.reset}
	if w, ok := jobs.WorkloadNamed(topic.Workload); ok {
		j.MessageKey = w.ErrorKey
	}
	key := j.MessageKey
	if !t.CanRetry { // the workload's text offers a retry; what there is to say is why
		key = "reason_" + string(t.Reason)
	}
	j.Message, _ = r.texts.Text(f.lang, key, nil)
	if t.CanRetry {
		available := t.RetryAvailableAt
		if available.IsZero() {
			available = t.At
		}
		j.RetryAvailableAt = optional(available)
	}
	return j
}

func (f form) name(s events.Status) events.Status {
	if f.named {
		return s
	}
	return ""
}

// encode is JSON on one line, with the texts' letters as they are.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

const (
	liveFrames = 1024
	liveFor    = time.Second // after that, what remains of a wait would be wrong
)

// frames shares the data of live events among the streams that send them: one
// rendering for each transition and language. It keeps the newest liveFrames.
type frames struct {
	now func() time.Time

	mu    sync.Mutex
	known map[frameKey]*liveFrame
	order [liveFrames]frameKey
	next  int
}

type frameKey struct {
	topic events.Topic
	seq   int64
	lang  locales.Language
}

type liveFrame struct {
	made time.Time
	once sync.Once
	data []byte
	err  error
}

func newFrames(now func() time.Time) *frames {
	return &frames{now: now, known: make(map[frameKey]*liveFrame)}
}

// data renders, or returns what it rendered for the same key just now.
func (f *frames) data(key frameKey, render func() ([]byte, error)) ([]byte, error) {
	now := f.now()
	f.mu.Lock()
	l, ok := f.known[key]
	if !ok || now.Sub(l.made) > liveFor {
		if !ok {
			delete(f.known, f.order[f.next])
			f.order[f.next] = key
			f.next = (f.next + 1) % liveFrames
		}
		l = &liveFrame{made: now}
		f.known[key] = l
	}
	f.mu.Unlock()
	l.once.Do(func() { l.data, l.err = render() })
	return l.data, l.err
}
