package tidings

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Statuses fetches the latest event of each session, up to 50, in the order asked
// for: for a list that is drawn once. A session without a job has the event idle.
func (c *Client) Statuses(ctx context.Context, sessions ...string) ([]Event, error) {
	query := url.Values{"sessions": {strings.Join(sessions, ",")}, "workload": {c.workload}}
	var answer struct{ Statuses []json.RawMessage }
	err := c.call(ctx, callTimeout, request{
		method: http.MethodGet, path: "/api/v1/status?" + query.Encode(), header: map[string]string{"Accept": "application/json"},
	}, &answer)
	events := make([]Event, 0, len(answer.Statuses))
	for _, raw := range answer.Statuses {
		o := readObject(string(raw))
		events = append(events, readEvent(o.text("event"), o))
	}
	return events, err
}

// Ledger is what happened to the newest job: its attempts, and the calls to the model
// in each. The server may leave out what it does not know.
type Ledger struct {
	JobID    string    `json:"job_id"`
	Attempts []Attempt `json:"attempts"`
	Calls    []Call    `json:"calls"`
}

// Attempt is one run of the job by a worker, from 1.
type Attempt struct {
	Attempt     int       `json:"attempt"`
	StartedAt   time.Time `json:"started_at"`
	EndedAt     time.Time `json:"ended_at"`    // zero while it runs
	DurationMS  int64     `json:"duration_ms"` // 0 while it runs
	Status      string    `json:"status"`      // what it led to
	Reason      string    `json:"reason"`
	NextRetryAt time.Time `json:"next_retry_at"`
}

// Call is one request to the model inside an attempt, from 1 in each.
type Call struct {
	Attempt        int       `json:"attempt"`
	Call           int       `json:"call"`
	Dependency     string    `json:"dependency"` // provider and model
	StartedAt      time.Time `json:"started_at"`
	DurationMS     int64     `json:"duration_ms"`
	ProviderStatus int       `json:"provider_status"`
	Class          string    `json:"class"` // the reason it failed; "" when it did not
	WaitHintMS     int64     `json:"wait_hint_ms"`
	Decision       string    `json:"decision"`     // done, again, queue or final
	InputTokens    *int64    `json:"input_tokens"` // nil is unknown, which is not 0
	OutputTokens   *int64    `json:"output_tokens"`
	CostUSD        *float64  `json:"cost_usd"`
}

// Attempts fetches the ledger of a session's newest job.
func (c *Client) Attempts(ctx context.Context, session string) (Ledger, error) {
	var l Ledger
	err := c.call(ctx, callTimeout, request{
		method: http.MethodGet, path: c.path(session, "/attempts"), header: map[string]string{"Accept": "application/json"},
	}, &l)
	return l, err
}
