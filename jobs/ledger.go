package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/model"
)

// The ledger is a list of JSON lines beside the job record: a line per attempt
// and per call of the newest job, bounded to 200. A line is written by the verb
// that follows it, so it costs no round trip and a replaced worker cannot write
// one.

// ledgerLine is either an attempt or a call.
type ledgerLine struct {
	Attempt *AttemptLine `json:"a,omitempty"`
	Call    *CallLine    `json:"c,omitempty"`
}

// hole is where the settling script writes an attempt's status and reason.
const hole = "%"

func (l ledgerLine) text() string {
	b, err := json.Marshal(l)
	if err != nil { // numbers, times and codes always encode
		panic(err)
	}
	return string(b)
}

func (s *Store) ledger(ctx context.Context, t events.Topic) (Ledger, error) {
	pipe := s.client.Pipeline()
	record := pipe.HGetAll(ctx, t.Key("job"))
	lines := pipe.LRange(ctx, t.Key("ledger"), 0, -1)
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return Ledger{}, storageError("ledger", err)
	}
	r := record.Val()
	if r["job"] == "" {
		return Ledger{}, &Refusal{Code: CodeNotFound}
	}
	l := Ledger{JobID: r["job"], Attempts: []AttemptLine{}, Calls: []CallLine{}}
	for _, text := range lines.Val() {
		var line ledgerLine
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			return Ledger{}, fmt.Errorf("jobs: a ledger line cannot be read: %w", err)
		}
		if line.Attempt != nil {
			l.Attempts = append(l.Attempts, *line.Attempt)
		}
		if line.Call != nil {
			l.Calls = append(l.Calls, *line.Call)
		}
	}
	if r["token"] != "" { // the one that runs has no line yet
		l.Attempts = append(l.Attempts, AttemptLine{Attempt: int(number(r["attempts"])), Run: int(number(r["run"])),
			Worker: r["worker"], StartedAt: fromMS(number(r["claimed"])), Status: events.Processing})
	}
	return l, nil
}

// callLine is the ledger's line of a call.
func callLine(attempt int, dependency string, c model.Call) CallLine {
	l := CallLine{
		Attempt: attempt, Call: c.N, Dependency: dependency, StartedAt: c.Start.UTC(),
		DurationMS: c.Duration.Milliseconds(), Decision: c.Decision, RequestID: c.Response.RequestID,
		InputTokens: c.Usage.InputTokens, OutputTokens: c.Usage.OutputTokens, CostUSD: c.Cost,
	}
	if c.Err != nil {
		l.ProviderStatus, l.ProviderType, l.RequestID = c.Err.Status, c.Err.Type, c.Err.RequestID
		l.Message, l.Advice = c.Err.Message, c.Err.Advice
		l.Class, l.WaitHintMS = events.Reason(c.Err.Kind), c.Err.RetryAfter.Milliseconds()
	}
	return l
}
