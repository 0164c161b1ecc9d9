package model_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/model/modeltest"
	"github.com/tidings/tidings/jobs/retry"
)

// S4-32, S4-33: asked, sent, recorded, and only then is a wait announced.
func TestHooksAreCalledInOrder(t *testing.T) {
	var log []string
	a := defaults()
	a.hooks = model.Hooks{
		Before: func(_ context.Context, n int) error { log = append(log, fmt.Sprint("before ", n)); return nil },
		After:  func(_ context.Context, c model.Call) { log = append(log, fmt.Sprint("after ", c.N, " ", c.Decision)) },
		Waiting: func(_ context.Context, n int, pause time.Duration, err *model.Error) error {
			log = append(log, fmt.Sprint("waiting ", n, " ", pause, " ", err.Kind))
			return nil
		},
	}
	wantSuccess(t, play(t, a, modeltest.Status(503), modeltest.Status(529), modeltest.OK()), 3)
	want := []string{
		"before 1", "after 1 again", "waiting 1 1s unavailable",
		"before 2", "after 2 again", "waiting 2 2s overloaded",
		"before 3", "after 3 done",
	}
	if !slices.Equal(log, want) {
		t.Errorf("got  %q\nwant %q", log, want)
	}
}

func TestEachCallHasItsRecord(t *testing.T) {
	o := play(t, defaults(), modeltest.Status(503).After(2*time.Second).Using(10, 0), modeltest.Answer(`{}`).After(3*time.Second).Using(20, 5))
	wantSuccess(t, o, 2)
	if len(o.records) != 2 {
		t.Fatalf("%d records of 2 calls", len(o.records))
	}
	first, second := o.records[0], o.records[1]
	if first.N != 1 || first.Decision != model.DecisionAgain || first.Pause != time.Second || first.Duration != 2*time.Second ||
		first.Timeout != 30*time.Second || first.Err == nil || first.Err.Status != 503 || *first.Usage.InputTokens != 10 {
		t.Errorf("first record is %+v", first)
	}
	if second.N != 2 || second.Decision != model.DecisionDone || second.Pause != 0 || second.Duration != 3*time.Second ||
		second.Err != nil || *second.Usage.OutputTokens != 5 || string(second.Response.Content) != `{}` {
		t.Errorf("second record is %+v", second)
	}
	if got := second.Start.Sub(first.Start); got != 3*time.Second {
		t.Errorf("second call starts %s after the first, want 3s", got)
	}
	if second.Cost != nil {
		t.Errorf("cost of a model without a price is %v, want unknown", *second.Cost)
	}
}

// priced is a provider whose model has a price.
type priced struct{ *modeltest.Scripted }

func (priced) Dependency() string { return "openai/gpt-4.1" }

func TestFailedCallsCostToo(t *testing.T) {
	input, output := int64(1_000_000), int64(0)
	p := priced{modeltest.NewScripted(modeltest.Fail(&model.Error{
		Kind: retry.StreamInterrupted, Usage: model.Usage{InputTokens: &input, OutputTokens: &output},
	}))}
	synctest.Test(t, func(t *testing.T) {
		var c model.Call
		_, err := model.NewRetrying(p, retry.Defaults(), func() float64 { return 0 }).Generate(t.Context(), model.Request{}, time.Time{},
			model.Hooks{After: func(_ context.Context, got model.Call) { c = got }})
		if err == nil || c.Cost == nil || *c.Cost != 2 {
			t.Errorf("error %v, cost %v; want a failure of $2", err, c.Cost)
		}
	})
}

// S4-58: partial output is never served, whatever a provider hands over.
func TestPartialOutputIsDropped(t *testing.T) {
	cut := modeltest.Cut()
	cut.Content = []byte(`{"text":"half a`)
	o := play(t, defaults(), cut)
	wantFailure(t, o, 1, retry.StreamInterrupted)
	if len(o.records[0].Response.Content) != 0 {
		t.Error("the record holds partial output")
	}
}

func TestBeforeCanRefuse(t *testing.T) {
	refusal := errors.New("no ticket")
	for at := 1; at <= 2; at++ {
		a := defaults()
		a.hooks.Before = func(_ context.Context, n int) error {
			if n == at {
				return refusal
			}
			return nil
		}
		o := play(t, a, modeltest.Status(503), modeltest.OK())
		if o.err != refusal {
			t.Errorf("refused at call %d: error is %v, want it unchanged", at, o.err)
		}
		if o.calls != at-1 || len(o.records) != at-1 {
			t.Errorf("refused at call %d: %d calls, %d records", at, o.calls, len(o.records))
		}
	}
}

func TestWaitingCanEndTheAttempt(t *testing.T) {
	lost := errors.New("claim lost")
	a := defaults()
	a.hooks.Waiting = func(context.Context, int, time.Duration, *model.Error) error { return lost }
	o := play(t, a, modeltest.Status(503), modeltest.OK())
	if o.err != lost || o.calls != 1 || o.took != 0 {
		t.Errorf("error %v, %d calls in %s; want it unchanged after one call, at once", o.err, o.calls, o.took)
	}
}

// The next call comes at the time that was announced, however long announcing
// it took.
func TestWaitingDoesNotLengthenThePause(t *testing.T) {
	a := defaults()
	a.hooks.Waiting = func(context.Context, int, time.Duration, *model.Error) error {
		time.Sleep(400 * time.Millisecond)
		return nil
	}
	wantPauses(t, play(t, a, modeltest.Status(503), modeltest.OK()), time.Second)
}

// S4-07: time is checked again after each pause. Slow hooks can use it up.
func TestTimeIsCheckedAgainAfterThePause(t *testing.T) {
	a := defaults()
	a.hooks.Waiting = func(context.Context, int, time.Duration, *model.Error) error {
		time.Sleep(36 * time.Second)
		return nil
	}
	o := play(t, a, modeltest.RateLimited(50*time.Second), modeltest.OK())
	wantFailure(t, o, 1, retry.RateLimited) // does not fit, never announced
	if o.took != 0 {
		t.Errorf("took %s", o.took)
	}
	o = play(t, a, modeltest.RateLimited(30*time.Second), modeltest.OK())
	wantFailure(t, o, 1, retry.RateLimited)
	var e *model.Error
	if errors.As(o.err, &e); e.RetryAfter != 0 || o.records[0].Err.RetryAfter != 30*time.Second {
		t.Errorf("hints are %s and %s, want nothing left of the 30s in the record", e.RetryAfter, o.records[0].Err.RetryAfter)
	}
}

// The time of Before is part of the budget too.
func TestBeforeCountsAgainstTheBudget(t *testing.T) {
	a := defaults()
	a.hooks.Before = func(context.Context, int) error { time.Sleep(40 * time.Second); return nil }
	o := play(t, a, modeltest.Hang())
	wantFailure(t, o, 1, retry.Timeout)
	if o.took != 45*time.Second || o.timeouts()[0] != 5*time.Second {
		t.Errorf("took %s with a timeout of %v, want 45s and 5s", o.took, o.timeouts())
	}
}

// A record must be made even if the job was cancelled meanwhile.
func TestAfterRunsInAContextThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "kept"))
		time.AfterFunc(time.Second, cancel)
		a := defaults()
		a.hooks.After = func(ctx context.Context, c model.Call) {
			if ctx.Err() != nil || ctx.Value(key{}) != "kept" {
				t.Errorf("context: %v, %v", ctx.Err(), ctx.Value(key{}))
			}
		}
		wantFailure(t, a.run(ctx, modeltest.Hang()), 1, retry.Cancelled)
	})
}

// -- Wait hints

func TestAHintThatFitsIsWaitedInTheCall(t *testing.T) {
	o := play(t, defaults(), modeltest.RateLimited(20*time.Second), modeltest.OK())
	wantSuccess(t, o, 2)
	wantPauses(t, o, 20*time.Second)
}

func TestAHintNeverShortensThePause(t *testing.T) {
	o := play(t, defaults(), modeltest.RateLimited(time.Millisecond), modeltest.OK())
	wantPauses(t, o, time.Second)
}

func TestAHintThatDoesNotFitEndsTheAttemptAndIsKept(t *testing.T) {
	for _, hint := range []time.Duration{35*time.Second + 1, 171 * time.Second} { // 45 - 10 = 35
		o := play(t, defaults(), modeltest.RateLimited(hint), modeltest.OK())
		wantFailure(t, o, 1, retry.RateLimited)
		var e *model.Error
		if errors.As(o.err, &e); e.RetryAfter != hint || o.took != 0 {
			t.Errorf("hint is %s after %s, want %s at once", e.RetryAfter, o.took, hint)
		}
	}
	wantSuccess(t, play(t, defaults(), modeltest.RateLimited(35*time.Second), modeltest.OK()), 2)
}

// -- The end of the context

func TestCancelledInAPauseEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("cancelled by the user")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(5*time.Second, func() { cancel(cause) })
		o := defaults().run(ctx, modeltest.RateLimited(20*time.Second), modeltest.OK())
		wantFailure(t, o, 1, retry.Cancelled)
		if o.took != 5*time.Second || !errors.Is(o.err, cause) {
			t.Errorf("took %s, error %v; want 5s and the cause", o.took, errors.Unwrap(o.err))
		}
	})
}

func TestCancelledInACallEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second, cancel)
		o := defaults().run(ctx, modeltest.Hang(), modeltest.OK())
		wantFailure(t, o, 1, retry.Cancelled)
		if o.took != 5*time.Second || o.records[0].Decision != model.DecisionFinal {
			t.Errorf("took %s, decided %q; want 5s, %q", o.took, o.records[0].Decision, model.DecisionFinal)
		}
	})
}

func TestCancelledBeforeTheCallSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wantFailure(t, defaults().run(ctx, modeltest.OK()), 0, retry.Cancelled)
	})
}

// rude cancels the job's context while it answers.
type rude struct {
	*modeltest.Scripted
	cancel context.CancelFunc
}

func (r rude) Generate(ctx context.Context, req model.Request) (model.Response, error) {
	r.cancel()
	return r.Scripted.Generate(context.WithoutCancel(ctx), req)
}

func TestCancelledBesideAnAnswer(t *testing.T) {
	for name, step := range map[string]modeltest.Step{"503": modeltest.Status(503), "400": modeltest.Status(400), "ok": modeltest.OK()} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			p := rude{modeltest.NewScripted(step), cancel}
			var c model.Call
			announced := false
			resp, err := model.NewRetrying(p, retry.Defaults(), func() float64 { return 0.5 }).Generate(ctx, model.Request{}, time.Time{}, model.Hooks{
				After:   func(_ context.Context, got model.Call) { c = got },
				Waiting: func(context.Context, int, time.Duration, *model.Error) error { announced = true; return nil },
			})
			var e *model.Error
			errors.As(err, &e)
			switch name {
			case "ok": // paid for: whether it still counts is the fence's to say
				if err != nil || len(resp.Content) == 0 {
					t.Errorf("ok: %v", err)
				}
			case "400":
				if e == nil || e.Kind != retry.InvalidInput || c.Decision != model.DecisionFinal {
					t.Errorf("400: %v, %q", err, c.Decision)
				}
			case "503": // answered, recorded as such, and not repeated
				if e == nil || e.Kind != retry.Cancelled || c.Err.Status != 503 || c.Decision != model.DecisionQueue || announced {
					t.Errorf("503: %v, record %v %q, announced %v", err, c.Err, c.Decision, announced)
				}
			}
			if p.Calls() != 1 {
				t.Errorf("%s: %d calls", name, p.Calls())
			}
		})
	}
}

func TestNewRetryingNeedsItsParts(t *testing.T) {
	for name, build := range map[string]func(){
		"random":   func() { model.NewRetrying(modeltest.NewScripted(), retry.Defaults(), nil) },
		"provider": func() { model.NewRetrying(nil, retry.Defaults(), func() float64 { return 0 }) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("no complaint about a missing %s", name)
				}
			}()
			build()
		}()
	}
	if got := model.NewRetrying(modeltest.NewScripted(), retry.Defaults(), func() float64 { return 0 }).Dependency(); got != "scripted" {
		t.Errorf("dependency is %q", got)
	}
}
