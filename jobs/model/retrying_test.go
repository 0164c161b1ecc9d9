package model_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/model/modeltest"
	"github.com/tidings/tidings/jobs/retry"
)

// attempt is one run of layer 1 over a scripted provider, in virtual time.
type attempt struct {
	settings retry.Settings
	random   func() float64
	request  model.Request
	within   time.Duration // until the job's deadline; 0 is none
	hooks    model.Hooks
}

// outcome is what came of it. calls is the provider's own count.
type outcome struct {
	resp     model.Response
	err      error
	took     time.Duration
	calls    int
	received []modeltest.Received
	records  []model.Call
}

// pauses are the times between the end of a call and the arrival of the next.
func (o outcome) pauses() []time.Duration {
	var ds []time.Duration
	for i := 1; i < len(o.received); i++ {
		ds = append(ds, o.received[i].At.Sub(o.records[i-1].Start.Add(o.records[i-1].Duration)))
	}
	return ds
}

func (o outcome) timeouts() []time.Duration {
	var ds []time.Duration
	for _, r := range o.received {
		ds = append(ds, r.Timeout)
	}
	return ds
}

// defaults are the default settings without jitter: pauses are their bounds.
func defaults() attempt {
	s := retry.Defaults()
	s.Jitter = 0
	return attempt{settings: s, random: func() float64 { return 0.5 }}
}

// run plays the steps inside a synctest bubble of the caller.
func (a attempt) run(ctx context.Context, steps ...modeltest.Step) outcome {
	p := modeltest.NewScripted(steps...)
	var o outcome
	h := a.hooks
	h.After = func(ctx context.Context, c model.Call) {
		o.records = append(o.records, c)
		if a.hooks.After != nil {
			a.hooks.After(ctx, c)
		}
	}
	start := time.Now()
	var until time.Time
	if a.within != 0 {
		until = start.Add(a.within).Round(0) // as from Redis: no monotonic part
	}
	o.resp, o.err = model.NewRetrying(p, a.settings, a.random).Generate(ctx, a.request, until, h)
	o.took, o.calls, o.received = time.Since(start), p.Calls(), p.Received()
	return o
}

func play(t *testing.T, a attempt, steps ...modeltest.Step) outcome {
	t.Helper()
	var o outcome
	synctest.Test(t, func(t *testing.T) { o = a.run(t.Context(), steps...) })
	return o
}

func wantSuccess(t *testing.T, o outcome, calls int) {
	t.Helper()
	if o.err != nil || len(o.resp.Content) == 0 {
		t.Errorf("failed: %v", o.err)
	}
	if o.calls != calls {
		t.Errorf("%d calls arrived, want %d", o.calls, calls)
	}
}

func wantFailure(t *testing.T, o outcome, calls int, kind retry.Kind) {
	t.Helper()
	var e *model.Error
	if !errors.As(o.err, &e) || e.Kind != kind {
		t.Errorf("error is %v, want kind %s", o.err, kind)
	}
	if o.calls != calls {
		t.Errorf("%d calls arrived, want %d", o.calls, calls)
	}
	if len(o.resp.Content) != 0 {
		t.Error("content after a failure")
	}
}

func wantPauses(t *testing.T, o outcome, want ...time.Duration) {
	t.Helper()
	if got := o.pauses(); !slices.Equal(got, want) {
		t.Errorf("pauses are %v, want %v", got, want)
	}
}

// -- Which errors, how often

func TestSuccessAfterA503(t *testing.T) {
	o := play(t, defaults(), modeltest.Status(503), modeltest.OK())
	wantSuccess(t, o, 2)
	wantPauses(t, o, time.Second)
}

func TestSuccessAfterA429(t *testing.T) {
	wantSuccess(t, play(t, defaults(), modeltest.Status(429), modeltest.OK()), 2)
}

func TestSuccessAfterA529(t *testing.T) {
	wantSuccess(t, play(t, defaults(), modeltest.Status(529), modeltest.OK()), 2)
}

func TestAlwaysA503(t *testing.T) {
	o := play(t, defaults(), modeltest.Status(503))
	wantFailure(t, o, 3, retry.Unavailable)
	wantPauses(t, o, time.Second, 2*time.Second)
}

func TestPermanentStatusIsOneCallAndNoWait(t *testing.T) {
	for status, kind := range map[int]retry.Kind{
		400: retry.InvalidInput, 401: retry.Auth, 403: retry.Auth, 404: retry.Misconfigured, 500: retry.Internal,
		402: retry.Quota, 413: retry.InvalidInput,
	} {
		o := play(t, defaults(), modeltest.Status(status), modeltest.OK())
		wantFailure(t, o, 1, kind)
		if o.took != 0 || o.records[0].Decision != model.DecisionFinal {
			t.Errorf("%d took %s and was decided %q, want no waiting and %q", status, o.took, o.records[0].Decision, model.DecisionFinal)
		}
	}
}

func TestTimeoutIsOneCall(t *testing.T) {
	wantFailure(t, play(t, defaults(), modeltest.Timeout(), modeltest.OK()), 1, retry.Timeout)
}

func TestNetworkErrorIsOneCall(t *testing.T) {
	for kind, step := range map[retry.Kind]modeltest.Step{
		retry.Network: modeltest.Network(), retry.StreamInterrupted: modeltest.Cut(),
		retry.Unavailable: modeltest.Status(502), retry.Timeout: modeltest.Status(504),
	} {
		o := play(t, defaults(), step, modeltest.OK())
		wantFailure(t, o, 1, kind)
		if o.records[0].Decision != model.DecisionQueue {
			t.Errorf("%s was decided %q, want it left to the queue", kind, o.records[0].Decision)
		}
	}
}

func TestHangingModelIsLeftToTheQueue(t *testing.T) {
	o := play(t, defaults(), modeltest.Hang(), modeltest.OK())
	wantFailure(t, o, 1, retry.Timeout)
	if o.took != 30*time.Second || o.records[0].Decision != model.DecisionQueue {
		t.Errorf("took %s, decided %q; want 30s, %q", o.took, o.records[0].Decision, model.DecisionQueue)
	}
}

func TestEachNumberOfCalls(t *testing.T) {
	for calls := 1; calls <= 5; calls++ {
		a := defaults()
		a.settings.Calls = calls
		wantFailure(t, play(t, a, modeltest.Status(503)), calls, retry.Unavailable)
	}
}

func TestFirstPauseAndCap(t *testing.T) {
	a := defaults()
	a.settings.Calls, a.settings.FirstPause = 5, 5*time.Second
	wantPauses(t, play(t, a, modeltest.Status(503)), seconds(5, 8, 8, 8)...)
}

func TestJitterFraction(t *testing.T) {
	a := defaults()
	a.settings.Jitter = 0.25
	a.random = func() float64 { return 0 }
	wantPauses(t, play(t, a, modeltest.Status(503)), seconds(0.75, 1.5)...)
}

// -- The budget

func TestAllCallsAndPausesShareOneBudget(t *testing.T) {
	// Each call fails after 15 s: 15 + 1 + 15 + 2 leave 12 s for the third.
	o := play(t, defaults(), modeltest.Status(503).After(15*time.Second), modeltest.Status(503).After(15*time.Second), modeltest.Hang())
	wantFailure(t, o, 3, retry.Timeout)
	if o.took != 45*time.Second {
		t.Errorf("took %s, want the budget of 45s", o.took)
	}
	if got, want := o.timeouts(), seconds(30, 29, 12); !slices.Equal(got, want) {
		t.Errorf("timeouts were %v, want %v", got, want)
	}
}

func TestEachLaterTimeoutIsSmaller(t *testing.T) {
	a := defaults()
	a.settings.PerCall = time.Minute // the budget rules
	o := play(t, a, modeltest.Status(503), modeltest.Status(503), modeltest.OK())
	wantSuccess(t, o, 3)
	if got, want := o.timeouts(), seconds(45, 44, 42); !slices.Equal(got, want) {
		t.Errorf("timeouts were %v, want %v", got, want)
	}
}

func TestTooLittleRestIsOneCall(t *testing.T) {
	// 45 - 34.5 - 1 leaves 9.5 s; the limit of one call is out of the way.
	a := defaults()
	a.settings.PerCall = time.Minute
	o := play(t, a, modeltest.Status(503).After(34500*time.Millisecond), modeltest.OK())
	wantFailure(t, o, 1, retry.Unavailable)
	if o.took != 34500*time.Millisecond {
		t.Errorf("took %s: it waited for a call that was never made", o.took)
	}
	if o.records[0].Decision != model.DecisionQueue {
		t.Errorf("decided %q, want %q", o.records[0].Decision, model.DecisionQueue)
	}
	var exhausted *model.Exhausted
	if errors.As(o.err, &exhausted) {
		t.Error("says that the calls are used up")
	}
}

func TestExactlyTheRestIsEnough(t *testing.T) {
	a := defaults()
	a.settings.PerCall = time.Minute
	o := play(t, a, modeltest.Status(503).After(34*time.Second), modeltest.OK())
	wantSuccess(t, o, 2)
	if got := o.timeouts()[1]; got != 10*time.Second {
		t.Errorf("second timeout is %s, want 10s", got)
	}
}

func TestHangingOnAllCallsCostsAtMostOneBudget(t *testing.T) {
	a := defaults()
	a.settings.Budget, a.settings.PerCall = 60*time.Second, 60*time.Second
	o := play(t, a, modeltest.Hang())
	wantFailure(t, o, 1, retry.Timeout)
	if o.took != 60*time.Second {
		t.Errorf("took %s, want 60s", o.took)
	}
}

func TestLongWorkloadsHaveTheirOwnLimits(t *testing.T) {
	a := defaults()
	a.request.Long = true
	o := play(t, a, modeltest.Status(503).After(59*time.Second), modeltest.Hang())
	wantFailure(t, o, 2, retry.Timeout)
	if got, want := o.timeouts(), seconds(60, 30); !slices.Equal(got, want) || o.took != 90*time.Second {
		t.Errorf("timeouts %v in %s, want %v in 90s", got, o.took, want)
	}
}

func TestTheDeadlineIsPartOfTheBudget(t *testing.T) {
	a := defaults()
	a.within = 20 * time.Second
	o := play(t, a, modeltest.Status(503).After(9500*time.Millisecond), modeltest.OK())
	wantFailure(t, o, 1, retry.Unavailable) // 9.5 s would be left after the pause
	if got := o.timeouts()[0]; got != 20*time.Second {
		t.Errorf("timeout is %s, want the 20s to the deadline", got)
	}

	o = play(t, a, modeltest.Hang())
	wantFailure(t, o, 1, retry.Timeout)
	if o.took != 20*time.Second {
		t.Errorf("took %s, want 20s", o.took)
	}
}

func TestNoTimeIsNoCall(t *testing.T) {
	for within, calls := range map[time.Duration]int{
		-time.Minute: 0, time.Millisecond: 0, 999 * time.Millisecond: 0, time.Second: 1, 5 * time.Second: 1,
	} {
		a := defaults()
		a.within = within
		asked := 0
		a.hooks.Before = func(context.Context, int) error { asked++; return nil }
		o := play(t, a, modeltest.OK())
		if o.calls != calls || asked != calls {
			t.Errorf("with %s left: %d calls, asked %d times; want %d", within, o.calls, asked, calls)
		}
		var none *model.NoTime
		if got := errors.As(o.err, &none); got != (calls == 0) {
			t.Errorf("with %s left: error is %v", within, o.err)
		} else if got && (none.Left != within || !errors.Is(o.err, context.DeadlineExceeded)) {
			t.Errorf("with %s left: error is %v", within, o.err)
		}
	}
}

func TestTheContextsDeadlineIsPartOfTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		o := defaults().run(ctx, modeltest.Status(503).After(5*time.Second), modeltest.OK())
		wantFailure(t, o, 1, retry.Unavailable)
		if o.took != 5*time.Second {
			t.Errorf("took %s, want to end at once with 10s left and a pause to come", o.took)
		}
	})
}

// -- Source 3

func TestOneAttemptHasNoPause(t *testing.T) {
	a := defaults()
	a.settings.Calls = 1
	o := play(t, a, modeltest.Status(503))
	wantFailure(t, o, 1, retry.Unavailable)
	if o.took != 0 {
		t.Errorf("took %s", o.took)
	}
}

func TestFourPausesForFiveFailuresAndNoFifth(t *testing.T) {
	a := defaults()
	a.settings.Calls, a.settings.Cap = 5, 4*time.Second
	o := play(t, a, modeltest.Status(503))
	wantFailure(t, o, 5, retry.Unavailable)
	wantPauses(t, o, seconds(1, 2, 4, 4)...)
	if o.took != 11*time.Second {
		t.Errorf("took %s, want 11s: no sleep after the last failure", o.took)
	}
}

func TestPausesAreDrawnFromTheInjectedSource(t *testing.T) {
	a := defaults()
	a.settings.Jitter = 1
	draws := []float64{0.5, 0.125}
	a.random = func() float64 { d := draws[0]; draws = draws[1:]; return d }
	wantPauses(t, play(t, a, modeltest.Status(503)), seconds(0.5, 0.25)...)
}

func TestTwoFailuresThenSuccess(t *testing.T) {
	o := play(t, defaults(), modeltest.Status(429), modeltest.Status(429), modeltest.OK())
	wantSuccess(t, o, 3)
	if o.took != 3*time.Second {
		t.Errorf("took %s, want 3s", o.took)
	}
}

func TestSuccessReturnsItsValue(t *testing.T) {
	o := play(t, defaults(), modeltest.Answer(`{"a":1}`).Using(7, 3))
	wantSuccess(t, o, 1)
	if string(o.resp.Content) != `{"a":1}` || *o.resp.Usage.InputTokens != 7 {
		t.Errorf("got %+v", o.resp)
	}
}

func TestAnythingElseComesOutUnchangedAtOnce(t *testing.T) {
	want := &model.Error{Kind: retry.InvalidOutput, Status: 200, Type: "refusal", RequestID: "req-1"} // S3-21
	o := play(t, defaults(), modeltest.Fail(want), modeltest.OK())
	wantFailure(t, o, 1, retry.InvalidOutput)
	var got *model.Error
	if errors.As(o.err, &got); got == nil || *got != *want || o.took != 0 {
		t.Errorf("got %+v after %s, want %+v at once", got, o.took, want)
	}
}

func TestExhaustedNamesTheCallsAndWrapsTheLastCause(t *testing.T) {
	last := &model.Error{Kind: retry.Overloaded, Status: 529, RequestID: "req-3", RetryAfter: 90 * time.Second}
	o := play(t, defaults(), modeltest.Status(503), modeltest.Status(429), modeltest.Fail(last))
	wantFailure(t, o, 3, retry.Overloaded)
	var exhausted *model.Exhausted
	if !errors.As(o.err, &exhausted) || exhausted.Calls != 3 || exhausted.Last.RequestID != "req-3" {
		t.Fatalf("error is %#v", o.err)
	}
	const want = "model: retries exhausted after 3 calls: model: overloaded (status 529), wait 1m30s"
	if o.err.Error() != want {
		t.Errorf("says %q, want %q", o.err, want)
	}
	var e *model.Error
	if !errors.As(o.err, &e) || e.RetryAfter != 90*time.Second {
		t.Errorf("the last hint is lost: %v", e)
	}
}

// S3-17: 200 clients hit by 429 at once come back spread out, and give up after
// few tries.
func TestManyClientsDoNotReturnTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients = 200
		p := modeltest.NewScripted(modeltest.Status(429))
		rng := rand.New(rand.NewPCG(3, 17))
		done := make(chan error)
		start := time.Now()
		for range clients {
			seed := rng.Uint64()
			go func() {
				random := rand.New(rand.NewPCG(seed, 0)).Float64
				_, err := model.NewRetrying(p, retry.Defaults(), random).Generate(t.Context(), model.Request{}, time.Time{}, model.Hooks{})
				done <- err
			}()
		}
		for range clients {
			var exhausted *model.Exhausted
			if err := <-done; !errors.As(err, &exhausted) || exhausted.Calls != 3 {
				t.Errorf("error is %v, want 3 calls", err)
			}
		}
		if p.Calls() != 3*clients {
			t.Errorf("%d calls arrived, want %d", p.Calls(), 3*clients)
		}
		back := map[int64]int{} // by 100 ms
		for _, r := range p.Received()[clients:] {
			back[r.At.Sub(start).Milliseconds()/100]++
		}
		for at, n := range back {
			if n > clients/5 {
				t.Errorf("%d of %d come back within %d00 ms", n, 2*clients, at)
			}
		}
		if len(back) < 20 {
			t.Errorf("all come back in %d slots of 100 ms, want over 20", len(back))
		}
	})
}

// S0-33: independent failures of one call in three become one operation in 27.
func TestFailureRateFallsFromAThirdToOneIn27(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const operations = 20_000
		p := modeltest.NewRandom(33, 1.0/3, modeltest.Status(503))
		r := model.NewRetrying(p, retry.Defaults(), rand.New(rand.NewPCG(1, 1)).Float64)
		failed := 0
		for range operations {
			if _, err := r.Generate(t.Context(), model.Request{}, time.Time{}, model.Hooks{}); err != nil {
				failed++
			}
		}
		if rate := float64(failed) / operations; rate < 0.033 || rate > 0.041 {
			t.Errorf("%.4f of operations failed, want about 1/27 = 0.037", rate)
		}
		if perOp := float64(p.Calls()) / operations; perOp < 1.42 || perOp > 1.47 {
			t.Errorf("%.3f calls per operation, want about 13/9 = 1.444", perOp)
		}
	})
}

func seconds(ss ...float64) []time.Duration {
	var ds []time.Duration
	for _, s := range ss {
		ds = append(ds, time.Duration(s*float64(time.Second)))
	}
	return ds
}
