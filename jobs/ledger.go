package jobs

import (
	"context"
	"fmt"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/lifecycle"
	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/store"
)

// The ledger is a list of JSON lines beside the job record: a line per attempt
// and per call of the newest job, bounded to 200. A line is written by the verb
// that follows it, so it costs no round trip and a replaced worker cannot write
// one.

func (s *Store) ledger(ctx context.Context, t events.Topic) (lifecycle.Ledger, error) {
	read, err := s.Records.Read(ctx, t, store.Want{})
	if err != nil {
		return lifecycle.Ledger{}, err
	}
	if read.Job.ID == "" {
		return lifecycle.Ledger{}, &Refusal{Code: CodeNotFound}
	}
	lines, err := s.Records.Ledger(ctx, t)
	if err != nil {
		return lifecycle.Ledger{}, err
	}
	l, err := lifecycle.ReadLedger(read.Job, lines)
	if err != nil {
		return l, fmt.Errorf("jobs: a ledger line cannot be read: %w", err)
	}
	return l, nil
}

// callLine is the ledger's line of a call.
func callLine(attempt int, dependency string, c model.Call) lifecycle.CallLine {
	l := lifecycle.CallLine{
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
