package lifecycle

import (
	"encoding/json"
	"time"

	"github.com/tidings/tidings/events"
)

// Ledger lists what was tried for a topic's newest job.
type Ledger struct {
	JobID    string        `json:"job_id"`
	Attempts []AttemptLine `json:"attempts"`
	Calls    []CallLine    `json:"calls"`
}

// AttemptLine is one claim of the job by a worker.
type AttemptLine struct {
	Attempt   int           `json:"attempt"`
	Run       int           `json:"run"`
	Worker    string        `json:"worker"`
	StartedAt time.Time     `json:"started_at"`
	EndedAt   time.Time     `json:"ended_at"`
	Status    events.Status `json:"status"` // what the attempt led to
	Reason    events.Reason `json:"reason,omitempty"`
	NextAt    *time.Time    `json:"next_retry_at,omitempty"`
	// What an outside worker reported: its failure type, and of its message what may
	// be kept (model.Redact).
	FailureType string `json:"failure_type,omitempty"`
	Message     string `json:"message,omitempty"`
}

// CallLine is one request to the provider.
type CallLine struct {
	Attempt        int           `json:"attempt"`
	Call           int           `json:"call"`
	Dependency     string        `json:"dependency"`
	StartedAt      time.Time     `json:"started_at"`
	DurationMS     int64         `json:"duration_ms"`
	ProviderStatus int           `json:"provider_status,omitempty"`
	ProviderType   string        `json:"provider_type,omitempty"`
	RequestID      string        `json:"request_id,omitempty"`
	Class          events.Reason `json:"class,omitempty"` // empty: it succeeded
	WaitHintMS     int64         `json:"wait_hint_ms,omitempty"`
	Message        string        `json:"message,omitempty"` // what may be kept of the provider's (model.Redact)
	Advice         string        `json:"advice,omitempty"`  // what an operator can change
	Decision       string        `json:"decision"`          // done, again, queue, final
	InputTokens    *int64        `json:"input_tokens"`
	OutputTokens   *int64        `json:"output_tokens"`
	CostUSD        *float64      `json:"cost_usd"`
}

// line is how either is stored.
type line struct {
	Attempt *AttemptLine `json:"a,omitempty"`
	Call    *CallLine    `json:"c,omitempty"`
}

// Text is the line as it is stored.
func (l AttemptLine) Text() string { return line{Attempt: &l}.text() }

// Text is the line as it is stored.
func (l CallLine) Text() string { return line{Call: &l}.text() }

func (l line) text() string {
	b, err := json.Marshal(l)
	if err != nil { // numbers, times and codes always encode
		panic(err)
	}
	return string(b)
}

// ReadLedger reads the stored lines of the record's job.
func ReadLedger(j Job, lines []string) (Ledger, error) {
	l := Ledger{JobID: j.ID, Attempts: []AttemptLine{}, Calls: []CallLine{}}
	for _, text := range lines {
		var s line
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			return Ledger{}, err
		}
		if s.Attempt != nil {
			l.Attempts = append(l.Attempts, *s.Attempt)
		}
		if s.Call != nil {
			l.Calls = append(l.Calls, *s.Call)
		}
	}
	if j.Claim != nil { // the one that runs has no line yet
		l.Attempts = append(l.Attempts, AttemptLine{Attempt: j.Attempts, Run: j.Run, Worker: j.Claim.Worker, StartedAt: j.Claim.At, Status: events.Processing})
	}
	return l, nil
}
