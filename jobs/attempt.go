package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/retry"
)

// attempt is one claim at work.
type attempt struct {
	w     *Worker
	t     Task
	wl    Workload
	token string
	claim answer
	start time.Time
	made  int // calls reserved in this attempt
	held  gate.Permit
	last  retry.Kind // of the call before
	next  time.Time  // the next call's; zero before the first pause
	lines []string   // ledger lines not yet written
	cost  float64
	paid  bool
	// What the job's calls have cost at most, and had before the last one, in 1e-9
	// US dollars; and what one of them may cost, 0 if nobody knows or asks.
	spent, earlier, worst int64
}

// generate makes the calls and checks the output.
func (a *attempt) generate(ctx context.Context, input []byte) (model.Response, error) {
	var in Input
	if err := json.Unmarshal(input, &in); err != nil {
		return model.Response{}, &model.Error{Kind: retry.InvalidInput, Cause: err}
	}
	until := a.start.Add(time.Duration(a.claim.Deadline-a.claim.Now)*time.Millisecond - a.w.Settings.Saving)
	req := render(a.wl, a.t.Topic, a.claim.Language, in)
	a.spent = a.claim.Spent
	if a.claim.Cap > 0 {
		if usd := a.w.Model.Worst(req); usd != nil {
			a.worst = nanos(*usd)
		}
	}
	res, err := a.w.Model.Generate(ctx, req, until,
		model.Hooks{Before: a.before, After: a.after, Waiting: a.waiting})
	if err != nil {
		return res, err
	}
	if err := a.w.schemas.check(a.wl.Name, res.Content); err != nil {
		return res, &model.Error{Kind: retry.InvalidOutput, RequestID: res.RequestID, Usage: res.Usage, Cause: err}
	}
	return res, nil
}

// before is the ticket of one call: the gate, then the reservation on the job's
// keys, the last step before it is sent. What the gate gave goes back when the
// reservation is refused, because then nothing was sent.
func (a *attempt) before(ctx context.Context, n int) error {
	if n > 1 && a.w.draining.Load() {
		return errDraining
	}
	ask := gate.Ask{Dependency: a.w.Model.Dependency(), Workload: a.wl.Name, JobID: a.t.JobID,
		Token: fmt.Sprintf("%s.%d", a.token, n), First: a.claim.Calls == 0 && a.made == 0, Manual: a.claim.Manual > 0,
		Lease: a.w.Settings.PerCallFor(a.wl.Long) + permitMargin}
	got, err := repeat(ctx, func() (gate.Answer, error) {
		got, err := a.w.Gate.Ticket(ctx, ask)
		if err != nil { // whatever it was: fail closed, and come again
			err = fmt.Errorf("%w: %w", events.ErrUnavailable, err)
		}
		return got, err
	})
	if err != nil {
		return err
	}
	a.w.Metrics.ticket(ask.Dependency, got)
	if got.Verdict != gate.Go {
		return gateClosed{got}
	}
	if err := a.reserve(ctx, n); err != nil {
		a.report(context.WithoutCancel(ctx), got.Permit, gate.NotSent())
		return err
	}
	a.held = got.Permit
	a.made++
	return nil
}

// permitMargin is how much longer a permit lives than its call may take, so that
// it need not be renewed: a dead holder's place is free soon enough.
const permitMargin = 5 * time.Second

func (a *attempt) reserve(ctx context.Context, n int) error {
	ask := args{"job": a.t.JobID, "token": a.token, "call": n}
	if a.worst > 0 {
		ask["spent"] = a.spent + a.worst
	}
	got, err := repeat(ctx, func() (answer, error) {
		got, _, err := a.w.Store.run(ctx, "reserve", a.t.Topic, ask, nil)
		return got, err
	})
	switch {
	case err != nil:
		return err
	case got.Code == "lost":
		return errClaimLost
	case got.Code != "ok":
		return refusedCall{got.Code}
	}
	a.earlier, a.spent = a.spent, a.spent+a.worst
	return nil
}

// report tells the gate what became of a call, before any wait.
func (a *attempt) report(ctx context.Context, p gate.Permit, r gate.Result) {
	ctx, cancel := context.WithTimeout(ctx, permitMargin)
	defer cancel()
	if err := a.w.Gate.Report(ctx, p, r); err != nil {
		a.w.Log.WarnContext(ctx, "a permit goes back only when its lease ends", "job", a.t.JobID, "error", err)
	}
}

// after records a call: one log line, one ledger line, the metrics.
func (a *attempt) after(ctx context.Context, c model.Call) {
	dependency := a.w.Model.Dependency()
	if c.Err != nil {
		a.last = c.Err.Kind
		a.report(ctx, a.held, gate.Failed(c.Err.Kind, c.Err.RetryAfter))
	} else {
		a.report(ctx, a.held, gate.OK())
	}
	line := callLine(a.claim.Attempt, dependency, c)
	a.lines = append(a.lines, ledgerLine{Call: &line}.text())
	a.w.Metrics.call(a.t.JobID, dependency, a.wl.Name, a.claim.Calls == 0 && c.N == 1, c)
	if c.Cost != nil {
		a.cost, a.paid = a.cost+*c.Cost, true
	}
	a.settleUp(c)
	attrs := []slog.Attr{slog.String("job", a.t.JobID), slog.String("workload", a.wl.Name),
		slog.String("dependency", dependency), slog.Int("attempt", a.claim.Attempt), slog.Int("call", c.N),
		slog.Int64("ms", c.Duration.Milliseconds()), slog.String("decision", c.Decision),
		slog.Any("input_tokens", c.Usage.InputTokens), slog.Any("output_tokens", c.Usage.OutputTokens),
		slog.Any("cost_usd", c.Cost), slog.String("request_id", line.RequestID)}
	level := slog.LevelInfo
	if c.Err != nil {
		level = slog.LevelWarn
		attrs = append(attrs, slog.String("class", string(c.Err.Kind)), slog.Int("status", c.Err.Status), slog.String("provider_type", c.Err.Type),
			slog.Int64("wait_hint_ms", c.Err.RetryAfter.Milliseconds()))
	}
	a.w.Log.LogAttrs(ctx, level, "model call", attrs...)
}

// settleUp puts what a call has cost in the place of what it might have. Where
// nobody knows that, the latter stays (S4-25). A provider does not charge for an
// answer that is an error.
func (a *attempt) settleUp(c model.Call) {
	switch {
	case c.Cost != nil:
		a.spent = a.earlier + nanos(*c.Cost)
	case c.Err != nil && c.Err.Status >= 400:
		a.spent = a.earlier
	}
}

// nanos are US dollars as the record has them, rounded up.
func nanos(usd float64) int64 { return int64(math.Ceil(usd * 1e9)) }

// waiting publishes the pause before the next call.
func (a *attempt) waiting(ctx context.Context, n int, pause time.Duration, failed *model.Error) error {
	a.next = time.Now().Add(pause)
	if a.w.draining.Load() {
		return errDraining
	}
	got, err := repeat(ctx, func() (answer, error) {
		got, _, err := a.w.Store.run(ctx, "pause", a.t.Topic, args{"job": a.t.JobID, "token": a.token, "call": n,
			"pause_ms": ms(pause), "reason": string(failed.Kind), "lines": a.lines, "spent": a.spent}, nil)
		return got, err
	})
	if err != nil {
		return err
	}
	if got.Code != "ok" {
		return errClaimLost
	}
	a.lines = nil
	return nil
}

func ptr[T any](v T) *T { return &v }
