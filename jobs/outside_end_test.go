package jobs_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/lifecycle"
	"github.com/tidings/tidings/jobs/retry"
)

// TestTheLastAttemptEndsTheJob though its failure is worth another try.
func TestTheLastAttemptEndsTheJob(t *testing.T) {
	a := newOutsideLine(t, func(s *retry.Settings) { s.Attempts = 2 })
	a.submit()
	for n := 1; n <= 2; n++ {
		_, r := a.claim()
		got, err := a.outside.Fail(t.Context(), r, "model_timeout", "")
		if err != nil || got.Attempt != n || got.NextRetryAt.IsZero() != (n == 2) {
			t.Errorf("attempt %d: %+v %v", n, got, err)
		}
	}
	if l := a.last(); l.Outcome != events.OutcomeRetriesExhausted || l.Reason != events.AttemptsUsedUp || !l.CanRetry {
		t.Errorf("ended as %+v", l)
	}
}

// before does something right before a claim is sent, once.
type before struct {
	store *jobs.Store
	do    func()
}

func (b *before) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b *before) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (b *before) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if b.store.Sends(cmd, "claim") && b.do != nil {
			do := b.do
			b.do = nil
			do()
		}
		return next(ctx, cmd)
	}
}

// An outside claim whose call may no longer be made ends its job, and says so.
func TestAnOutsideClaimThatMayNotCallEndsItsJob(t *testing.T) {
	for _, tt := range []struct {
		name    string
		alter   func(*lifecycle.Job)
		outcome events.Outcome
		reason  events.Reason
	}{
		{"deadline", func(j *lifecycle.Job) { j.DeadlineAt = time.UnixMilli(1000) }, events.OutcomeDeadlineExceeded, events.DeadlinePassed},
		{"allowance", func(j *lifecycle.Job) { j.Allowance = 0 }, events.OutcomeRetriesExhausted, events.CallAllowance},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newOutsideLine(t, nil)
			a.client.AddHook(&before{a.store, func() {
				if err := jobs.Alter(a.Context(), a.client, a.topic, tt.alter); err != nil {
					a.Error(err)
				}
			}})
			a.submit()
			if got, err := a.outside.Claim(t.Context(), "w1", []string{"summary"}, 2*time.Second); got != nil || err != nil {
				t.Fatalf("claimed %+v, %v", got, err)
			}
			if l := a.last(); l.Outcome != tt.outcome || l.Reason != tt.reason || !l.CanRetry {
				t.Errorf("told %+v", l)
			}
			if ledger, err := a.service.Attempts(t.Context(), a.topic); err != nil || len(ledger.Attempts) != 0 { // none began
				t.Errorf("ledger %+v %v", ledger, err)
			}
			if open, _, err := jobs.Counted(t.Context(), a.client); open != 0 || err != nil {
				t.Errorf("%d open, %v", open, err)
			}
		})
	}
}

// A job whose input is gone ends at an outside claim, and nothing of it is counted any more.
func TestAnOutsideClaimWithoutAnInputLeavesNothing(t *testing.T) {
	a := newOutsideLine(t, nil)
	a.submit()
	if err := a.client.Del(a.Context(), a.topic.Key("input")).Err(); err != nil {
		a.Fatal(err)
	}
	if got, err := a.outside.Claim(t.Context(), "w1", []string{"summary"}, 2*time.Second); got != nil || err != nil {
		t.Fatalf("claimed %+v, %v", got, err)
	}
	if l := a.last(); l.Outcome != events.OutcomeFailed || l.Reason != events.StorageFault {
		t.Errorf("told %+v", l)
	}
	if open, bytes, err := jobs.Counted(t.Context(), a.client); open != 0 || bytes != 0 || err != nil {
		t.Errorf("%d open with %d bytes, %v", open, bytes, err)
	}
}

// TestNobodyIsOfferedWhatHasEnded: without workers, offers do not pile up.
func TestNobodyIsOfferedWhatHasEnded(t *testing.T) {
	a := newOutsideLine(t, nil)
	a.submit()
	for want := int64(1); want >= 0; want-- {
		for deadline := time.Now().Add(20 * time.Second); ; {
			n, err := a.client.ZCard(t.Context(), "tidings:{outside/summary}:offers").Result()
			if err != nil || time.Now().After(deadline) {
				t.Fatalf("%d offers, want %d: %v", n, want, err)
			}
			if n == want {
				break
			}
			<-time.After(5 * time.Millisecond)
		}
		if _, err := a.service.Cancel(t.Context(), a.topic); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTheKillSwitchHoldsOutsideAsWell: an attempt that repeats is not
// handed out while retries are off; its job ends and says why.
func TestTheKillSwitchHoldsOutsideAsWell(t *testing.T) {
	a := newOutsideLine(t, nil)
	g := gate.New(a.client, wide())
	a.submit()
	_, r := a.claim()
	if _, err := a.outside.Fail(t.Context(), r, "model_timeout", ""); err != nil {
		t.Fatal(err)
	}
	order := gate.Order{Owner: "ops", Until: time.Now().Add(time.Hour)}
	if err := g.SwitchOff(t.Context(), gate.Scope{Workload: "summary"}, order); err != nil {
		t.Fatal(err)
	}
	if l := a.last(); l.Status != events.Retrying {
		t.Errorf("a waiting job did not keep its status: %+v", l)
	}
	got, err := a.outside.Claim(t.Context(), "w1", []string{"summary"}, 5*time.Second)
	if l := a.last(); got != nil || err != nil || l.Outcome != events.OutcomeRetriesExhausted || l.Reason != events.RetriesDisabled || !l.CanRetry {
		t.Errorf("claimed %+v, %v; told %+v", got, err, l)
	}
	if ledger, err := a.service.Attempts(t.Context(), a.topic); err != nil || len(ledger.Attempts) != 1 {
		t.Errorf("ledger %+v %v", ledger, err)
	}
	a.topic = events.NewTopic("", "s-2", "summary")
	a.submit()
	if _, r := a.claim(); r.Attempt != 1 {
		t.Errorf("a first attempt was not handed out: %+v", r)
	}
}
