package jobs

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/lifecycle"
	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/retry"
	"github.com/tidings/tidings/jobs/store"
)

// attempt is one claim at work.
type attempt struct {
	w     *Worker
	t     Task
	wl    Workload
	token string
	start time.Time
	until time.Time // the job's deadline less the time for saving
	req   model.Request
	bad   *model.Error  // the input cannot be read
	job   lifecycle.Job // as it was claimed

	mu   sync.Mutex     // of kept, which the renewal changes too
	kept store.Snapshot // the job as this claim has left it

	number int  // the attempt's
	first  bool // no call of the job was made before it
	made   int  // calls counted in this attempt
	held   gate.Permit
	last   retry.Kind // of the call before
	next   time.Time  // the next call's; zero before the first pause
	lines  []string   // ledger lines not yet written
	cost   float64
	paid   bool
	// What the job's calls have cost at most, and had before the last one, in 1e-9
	// US dollars; and what one of them may cost, 0 if nobody knows or asks.
	spent, earlier, worst int64
}

// prepare makes what an attempt of the job would send.
func (w *Worker) prepare(t Task, wl Workload, read store.Snapshot) *attempt {
	a := &attempt{w: w, t: t, wl: wl, token: rand.Text(), job: read.Job, first: read.Job.Calls == 0}
	var in Input
	if err := json.Unmarshal(read.Input, &in); err != nil {
		a.bad = &model.Error{Kind: retry.InvalidInput, Cause: err}
		return a
	}
	a.req = render(wl, t.Topic, read.Job.Language, in)
	if read.Job.CostCap > 0 {
		if usd := w.Model.Worst(a.req); usd != nil {
			a.worst = lifecycle.Nanos(*usd)
		}
	}
	return a
}

// begin takes over a claim, which has counted the first call.
func (a *attempt) begin(claimed store.Snapshot) {
	j := claimed.Job
	a.job, a.kept, a.start, a.number, a.made = j, claimed, time.Now(), j.Attempts, 1
	a.until = a.start.Add(j.DeadlineAt.Sub(claimed.Now) - a.w.Settings.Saving)
	a.kept.Input = nil // it is in the request
	a.spent, a.earlier = j.Spent, j.Spent-a.worst
	if j.Attempts == 1 {
		a.w.Metrics.claimed(j.ID, a.wl.Name, claimed.Now.Sub(j.AcceptedAt))
	}
}

// do lets a verb of this claim happen, on what the claim knows.
func (a *attempt) do(ctx context.Context, verb string, decide func(lifecycle.State) lifecycle.Change) error {
	a.mu.Lock()
	from := a.kept
	a.mu.Unlock()
	after, err := a.w.Store.goOn(ctx, verb, a.t.Topic, from, decide)
	if err == nil {
		a.mu.Lock()
		a.kept = after
		a.mu.Unlock()
	}
	return err
}

// generate makes the calls and checks the output.
func (a *attempt) generate(ctx context.Context) (model.Response, error) {
	if a.bad != nil {
		a.report(context.WithoutCancel(ctx), a.held, gate.NotSent())
		return model.Response{}, a.bad
	}
	res, err := a.w.Model.Generate(ctx, a.req, a.until,
		model.Hooks{Before: a.before, After: a.after, Waiting: a.waiting})
	if err != nil {
		if a.held.ID != "" { // it ended before its first call was sent
			a.report(context.WithoutCancel(ctx), a.held, gate.NotSent())
		}
		return res, err
	}
	if err := a.w.schemas.check(a.wl.Name, res.Content); err != nil {
		return res, &model.Error{Kind: retry.InvalidOutput, RequestID: res.RequestID, Usage: res.Usage, Cause: err}
	}
	return res, nil
}

// before allows one call: the claim has allowed the first one; a further one needs a
// ticket of the gate and its reservation on the job's keys, the last step before it is
// sent. What the gate gave goes back when the reservation is refused, because then nothing
// was sent.
func (a *attempt) before(ctx context.Context, n int) error {
	if n == 1 {
		return nil
	}
	if a.w.draining.Load() {
		return errDraining
	}
	got, err := a.ticket(ctx, n)
	if err != nil {
		return err
	}
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

// ticket asks the gate for the attempt's call n.
func (a *attempt) ticket(ctx context.Context, n int) (gate.Answer, error) {
	ask := gate.Ask{Dependency: a.w.Model.Dependency(), Workload: a.wl.Name, JobID: a.t.JobID,
		Token: fmt.Sprintf("%s.%d", a.token, n), First: a.first && n == 1, Manual: a.job.Manual > 0,
		Lease: a.w.Settings.PerCallFor(a.wl.Long) + permitMargin}
	got, err := repeat(ctx, func() (gate.Answer, error) {
		got, err := a.w.Gate.Ticket(ctx, ask)
		if err != nil { // whatever it was: fail closed, and come again
			err = fmt.Errorf("%w: %w", events.ErrUnavailable, err)
		}
		return got, err
	})
	if err == nil {
		a.w.Metrics.ticket(ask.Dependency, got)
	}
	return got, err
}

// reserve counts a further call.
func (a *attempt) reserve(ctx context.Context, n int) error {
	var code lifecycle.Code
	var end lifecycle.Attempt
	err := a.do(ctx, "reserve", func(s lifecycle.State) (c lifecycle.Change) {
		c, code, end = a.w.rules().Reserve(s, a.t.JobID, a.token, n, a.spent, a.worst)
		return c
	})
	switch {
	case err != nil:
		return err
	case code == lifecycle.Lost:
		return errClaimLost
	case code != lifecycle.OK:
		return refusedCall{end}
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
	held := a.held
	a.held = gate.Permit{}
	if c.Err != nil {
		a.last = c.Err.Kind
		a.report(ctx, held, gate.Failed(c.Err.Kind, c.Err.RetryAfter))
	} else {
		a.report(ctx, held, gate.OK())
	}
	line := callLine(a.number, dependency, c)
	a.lines = append(a.lines, line.Text())
	a.w.Metrics.call(a.t.JobID, dependency, a.wl.Name, a.first && c.N == 1, c)
	if c.Cost != nil {
		a.cost, a.paid = a.cost+*c.Cost, true
	}
	a.settleUp(c)
	attrs := []slog.Attr{slog.String("job", a.t.JobID), slog.String("workload", a.wl.Name),
		slog.String("dependency", dependency), slog.Int("attempt", a.number), slog.Int("call", c.N),
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
		a.spent = a.earlier + lifecycle.Nanos(*c.Cost)
	case c.Err != nil && c.Err.Status >= 400:
		a.spent = a.earlier
	}
}

// waiting publishes the pause before the next call.
func (a *attempt) waiting(ctx context.Context, n int, pause time.Duration, failed *model.Error) error {
	a.next = time.Now().Add(pause)
	if a.w.draining.Load() {
		return errDraining
	}
	var code lifecycle.Code
	err := a.do(ctx, "pause", func(s lifecycle.State) (c lifecycle.Change) {
		c, code = a.w.rules().Pause(s, a.t.JobID, a.token, pause, events.Reason(failed.Kind), a.spent, a.lines)
		return c
	})
	if err != nil {
		return err
	}
	if code != lifecycle.OK {
		return errClaimLost
	}
	a.lines = nil
	return nil
}

// renew keeps the claim alive until work ends, and ends it when the claim is
// lost, or when it could not be renewed for as long as the lease lives: then
// another worker may have started.
func (a *attempt) renew(work context.Context, cancel context.CancelCauseFunc) {
	lease := a.w.Settings.Lease
	tick := time.NewTicker(lease / 3)
	defer tick.Stop()
	alive := time.Now()
	for {
		select {
		case <-work.Done():
			return
		case <-tick.C:
		}
		sent := time.Now()
		ctx, done := context.WithTimeout(work, lease/3)
		var code lifecycle.Code
		err := a.do(ctx, "renew", func(s lifecycle.State) (c lifecycle.Change) {
			c, code = a.w.rules().Renew(s, a.t.JobID, a.token, false)
			return c
		})
		done()
		switch {
		case err == nil && code == lifecycle.OK:
			alive = sent
		case err == nil, time.Since(alive) >= lease:
			cancel(errClaimLost)
			return
		}
	}
}

func ptr[T any](v T) *T { return &v }
