package model

import (
	"context"
	"errors"
	"time"

	"github.com/tidings/tidings/jobs/retry"
)

// Hooks connect layer 1 with whoever owns the job. Each may be nil. Their time
// counts against the attempt's budget.
type Hooks struct {
	// Before is asked before each call, the last step before sending; n counts
	// from 1 in this attempt. An error means: do not send; it comes out of
	// Generate unchanged.
	Before func(ctx context.Context, n int) error
	// After gets exactly one record per call, failed ones too: whenever Before
	// returned nil, After follows, and it ends before any wait begins (S4-23).
	// Its context carries the values of Generate's but never ends, because what
	// was sent has to be recorded; bound it yourself.
	After func(ctx context.Context, c Call)
	// Waiting is told that call n failed and call n+1 will be made at now+pause.
	// An error ends the attempt and comes out unchanged.
	Waiting func(ctx context.Context, n int, pause time.Duration, err *Error) error
}

// What followed from a call, as far as layer 1 decides it.
const (
	DecisionDone  = "done"  // success
	DecisionAgain = "again" // one more call in this attempt, after a pause
	DecisionQueue = "queue" // not in this attempt, but the queue may repeat it
	DecisionFinal = "final" // never repeated unchanged
)

// Call is the record of one call: what the ledger, the log line and the gate's
// breaker need.
type Call struct {
	// N counts from 1 in the attempt.
	N     int
	Start time.Time
	// Duration is what the call took, Timeout what it was allowed.
	Duration, Timeout time.Duration
	// Response holds no Content if the call failed: partial output is never
	// used.
	Response Response
	// Usage is what the call is known to have used, whether it failed or not.
	Usage Usage
	// Err is nil on success.
	Err *Error
	// Decision is one of the Decision constants.
	Decision string
	// Pause is what is waited before the next call, for DecisionAgain.
	Pause time.Duration
	// Cost is the price in US dollars, nil if unknown.
	Cost *float64
}

// Retrying is layer 1: it makes the calls of one attempt. It is safe for
// concurrent use if its random source is.
type Retrying struct {
	provider Provider
	settings retry.Settings
	random   func() float64
	prices   []price
	window   int64
}

// NewRetrying wraps a provider. random gives numbers from 0 up to but not 1,
// such as math/rand/v2.Float64; it must not be nil. The settings should have
// passed their Check.
func NewRetrying(p Provider, s retry.Settings, random func() float64) *Retrying {
	if p == nil || random == nil {
		panic("model: NewRetrying needs a provider and a random source")
	}
	return (&Retrying{provider: p, settings: s, random: random}).Priced(ListPrices())
}

// Priced takes prices and the model's window from another table than
// ListPrices. It is for the time before the first call.
func (r *Retrying) Priced(p *Prices) *Retrying {
	r.prices = p.of(r.provider.Dependency())
	r.window = windowOf(r.prices)
	return r
}

// Worst is what a call with this request costs at most in US dollars, as far as
// that can be told before it is made: by a cautious estimate of its input, nothing
// of it cached, and an output as long as it may be. Nil if the model has no price
// or the output no limit.
func (r *Retrying) Worst(req Request) *float64 {
	written := int64(req.MaxOutputTokens)
	if written <= 0 {
		return nil
	}
	in := mostTokens(req.System) + mostTokens(req.Prompt) + mostTokens(string(req.Schema))
	return costAt(r.prices, Usage{InputTokens: &in, OutputTokens: &written})
}

// Window is how many tokens the model takes, 0 if that is not known.
func (r *Retrying) Window() int64 { return r.window }

// Dependency names what the calls are made to.
func (r *Retrying) Dependency() string { return r.provider.Dependency() }

// leastFirst is what must be left for the first call. A further call needs
// Settings.MinRest, because there the queue is the better place to go on; the
// first one is what the attempt was started for.
const leastFirst = time.Second

// Generate makes the calls of one attempt. All calls and pauses together end by
// the budget, by until (the job's deadline minus the time for saving; zero is
// none) and by the context's deadline, whichever comes first. Each call may
// take PerCall or what is left, whichever is less (S0-13 to S0-17).
//
// A failure is repeated after a pause if its kind allows it in the call, calls
// are left, and after the pause MinRest would be left. The pause is the drawn
// backoff or the provider's hint, whichever is longer. A hint that does not fit
// is not shortened: the attempt ends, and the error carries it.
//
// Errors are:
//   - *Exhausted, wrapping the last *Error: it could be repeated, but the calls
//     are used up;
//   - *Error: not to be repeated in the call, or no time to. Its RetryAfter is
//     what is left of the hint. Cancelled (or Timeout, at its deadline) is
//     also what comes out when ctx ends before a call or before a pause is over;
//   - *Error with Type input_too_long: the request cannot fit into the model's
//     window, nothing was sent;
//   - *NoTime: less than a second was left at the start, nothing was sent;
//   - whatever Before or Waiting returned, unchanged.
//
// A provider is trusted to return when the call's context ends; modeltest.Suite
// checks it. One that does not holds the attempt up. Leaving it behind instead
// would let a call of this attempt run beside the next attempt's (S0-22).
func (r *Retrying) Generate(ctx context.Context, req Request, until time.Time, h Hooks) (Response, error) {
	if e := tooLong(r.window, req); e != nil {
		return Response{}, e
	}
	budget := r.settings.BudgetFor(req.Long)
	now := time.Now()
	left := budget
	if !until.IsZero() {
		left = min(left, until.Sub(now))
	}
	if d, ok := ctx.Deadline(); ok {
		left = min(left, d.Sub(now))
	}
	end := now.Add(left) // from here on the monotonic clock counts (S4-03)

	if ctx.Err() != nil {
		return Response{}, endOf(ctx)
	}
	if left < min(leastFirst, budget) {
		return Response{}, &NoTime{Left: left}
	}
	for n := 1; ; n++ {
		if h.Before != nil {
			if err := h.Before(ctx, n); err != nil {
				return Response{}, err
			}
		}
		c := r.call(ctx, req, n, end)
		answered := time.Now()
		c.Decision, c.Pause = r.decide(c, end.Sub(answered))
		ended := c.Decision == DecisionAgain && ctx.Err() != nil
		if ended {
			c.Decision, c.Pause = DecisionQueue, 0
		}
		if h.After != nil {
			h.After(context.WithoutCancel(ctx), c)
		}
		switch {
		case c.Decision == DecisionDone:
			return c.Response, nil
		case ended:
			return Response{}, endAfter(ctx, c.Err)
		case c.Decision == DecisionAgain:
		case c.Err.InCall() && n >= r.settings.Calls:
			return Response{}, &Exhausted{Calls: n, Last: c.Err}
		default:
			return Response{}, c.Err
		}
		if err := r.wait(ctx, c, h); err != nil {
			return Response{}, err
		}
		if time.Until(end) < r.settings.MinRest { // the hooks took their time
			return Response{}, since(c.Err, answered)
		}
	}
}

// call makes one call and records it, all but the decision.
func (r *Retrying) call(ctx context.Context, req Request, n int, end time.Time) Call {
	c := Call{N: n, Start: time.Now()}
	c.Timeout = max(0, min(r.settings.PerCallFor(req.Long), end.Sub(c.Start)))
	callCtx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()

	resp, err := r.provider.Generate(callCtx, req)
	c.Duration = time.Since(c.Start)
	c.Err = AsError(callCtx, err)
	c.Response, c.Usage = resp, resp.Usage
	if c.Err != nil {
		c.Response.Content = nil
		if c.Usage == (Usage{}) {
			c.Usage = c.Err.Usage
		}
	}
	c.Cost = costAt(r.prices, c.Usage)
	return c
}

// decide says what follows from a call with this much time left.
func (r *Retrying) decide(c Call, left time.Duration) (decision string, pause time.Duration) {
	switch {
	case c.Err == nil:
		return DecisionDone, 0
	case !c.Err.Queued():
		return DecisionFinal, 0
	case !c.Err.InCall(), c.N >= r.settings.Calls:
		return DecisionQueue, 0
	}
	if !c.Err.Adjusted { // there, nobody is busy
		pause = max(c.Err.RetryAfter, r.settings.Backoff().Pause(c.N, r.random))
	}
	if left-pause < r.settings.MinRest {
		return DecisionQueue, 0
	}
	return DecisionAgain, pause
}

// wait announces the pause and takes it.
func (r *Retrying) wait(ctx context.Context, c Call, h Hooks) error {
	next := time.Now().Add(c.Pause)
	if h.Waiting != nil {
		if err := h.Waiting(ctx, c.N, c.Pause, c.Err); err != nil {
			return err
		}
	}
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	select {
	case <-timer.C:
		if ctx.Err() == nil {
			return nil
		}
	case <-ctx.Done():
	}
	return endAfter(ctx, c.Err)
}

// endAfter is the error of a context that ended after a failed call.
func endAfter(ctx context.Context, last *Error) *Error {
	e := endOf(ctx)
	e.Cause = errors.Join(e.Cause, last)
	return e
}

// since is the error with what is left of its wait hint.
func since(e *Error, answered time.Time) *Error {
	if e.RetryAfter == 0 {
		return e
	}
	c := *e
	c.RetryAfter = max(0, e.RetryAfter-time.Since(answered))
	return &c
}
