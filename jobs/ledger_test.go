package jobs_test

import (
	"errors"
	"testing"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/model/modeltest"
	"github.com/tidings/tidings/jobs/retry"
)

// TestTheLedgerMissesNoCall: an attempt is there while it runs, and a cancelled
// one with the call that it made.
func TestTheLedgerMissesNoCall(t *testing.T) {
	m := modeltest.NewScripted(modeltest.Hang())
	inTestbed(t, m, nil, func(t *testing.T, h *testbed) {
		h.start()
		h.submit("some text to work on")
		passed(time.Second)
		l, err := h.service.Attempts(t.Context(), h.topic)
		if err != nil || len(l.Attempts) != 1 || l.Attempts[0].Status != events.Processing || l.Attempts[0].StartedAt.IsZero() || !l.Attempts[0].EndedAt.IsZero() {
			t.Errorf("while it runs: %+v %v", l, err)
		}
		if _, err := h.service.Cancel(t.Context(), h.topic); err != nil {
			t.Fatal(err)
		}
		passed(10 * time.Second) // the next renewal of the lease finds out at the latest
		l, err = h.service.Attempts(t.Context(), h.topic)
		if err != nil || len(l.Attempts) != 1 || l.Attempts[0].Status != events.Failed || len(l.Calls) != m.Calls() || m.Calls() != 1 {
			t.Errorf("after the cancel: %+v %v", l, err)
		}
	})
}

// TestTheLedgerSaysWhatAnAttemptCameTo: the last one of a job that is out of
// attempts has led to its end, not to another wait.
func TestTheLedgerSaysWhatAnAttemptCameTo(t *testing.T) {
	inTestbed(t, modeltest.NewScripted(modeltest.Status(529)), func(s *retry.Settings) { s.Attempts = 2 }, func(t *testing.T, h *testbed) {
		h.start()
		h.submit("some text to work on")
		passed(2 * time.Minute)
		l, err := h.service.Attempts(t.Context(), h.topic)
		if err != nil || len(l.Attempts) != 2 || len(l.Calls) != 6 {
			t.Fatalf("%+v %v", l, err)
		}
		if a := l.Attempts[0]; a.Status != events.Retrying || a.Reason != events.Overloaded {
			t.Errorf("first %+v", a)
		}
		if a := l.Attempts[1]; a.Status != events.Failed || a.Reason != events.AttemptsUsedUp {
			t.Errorf("last %+v", a)
		}
	})
}

// TestATapIsToldThatTheProviderAskedForTheWait, also after the hint has ended
// the job.
func TestATapIsToldThatTheProviderAskedForTheWait(t *testing.T) {
	inTestbed(t, modeltest.NewScripted(modeltest.RateLimited(time.Hour)), nil, func(t *testing.T, h *testbed) {
		h.start()
		h.submit("some text to work on")
		passed(10 * time.Second)
		if l := h.last(); l.Outcome != events.OutcomeDeadlineExceeded || l.RetryAvailableAt.Sub(l.At) < 59*time.Minute {
			t.Fatalf("ended as %+v", l)
		}
		_, err := h.service.Retry(t.Context(), h.topic)
		refused(t, err, "wait_required", 59*time.Minute)
	})
}

// TestATapDoesNotShortenAProvidersWait, while the job waits for it in the
// queue.
func TestATapDoesNotShortenAProvidersWait(t *testing.T) {
	inTestbed(t, modeltest.NewScripted(modeltest.RateLimited(100*time.Second), good()), nil, func(t *testing.T, h *testbed) {
		h.start()
		h.submit("some text to work on")
		passed(10 * time.Second)
		told := h.last()
		if told.Status != events.Retrying || told.NextRetryAt.Sub(told.At) < 99*time.Second {
			t.Fatalf("it waits as %+v", told)
		}
		_, err := h.service.Retry(t.Context(), h.topic)
		refused(t, err, "wait_required", 85*time.Second)
		if l := h.last(); l.Seq != told.Seq {
			t.Errorf("the tap made it %+v", l)
		}
	})
}

// TestAHintOutlivesTheLastAttempt: what the provider asks for holds for a tap as
// well when nothing else is left of the job, whatever has ended it.
func TestAHintOutlivesTheLastAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		kind   retry.Kind
		change func(*retry.Settings)
	}{
		"attempts used up":  {retry.Unavailable, func(s *retry.Settings) { s.Attempts = 1 }},
		"allowance used up": {retry.Overloaded, func(s *retry.Settings) { s.Allowance = 1 }},
		"never repeated":    {retry.Quota, nil},
	} {
		t.Run(name, func(t *testing.T) {
			asks := modeltest.Fail(&model.Error{Kind: c.kind, Status: 503, RetryAfter: 100 * time.Second})
			inTestbed(t, modeltest.NewScripted(asks, good()), c.change, func(t *testing.T, h *testbed) {
				h.start()
				h.submit("some text to work on")
				passed(10 * time.Second)
				end := h.last()
				if wait := end.RetryAvailableAt.Sub(end.At); end.Status != events.Failed || !end.CanRetry || wait < 99*time.Second || wait > 102*time.Second {
					t.Fatalf("ended as %+v, a retry is offered after %s", end, wait)
				}
				_, err := h.service.Retry(t.Context(), h.topic)
				refused(t, err, "wait_required", 85*time.Second)
				passed(100 * time.Second)
				if _, err := h.service.Retry(t.Context(), h.topic); err != nil {
					t.Errorf("a tap after it: %v", err)
				}
			})
		})
	}
}

// What fails for good says why, in the event and in the ledger, and offers no retry
// where only somebody else can put it right.
func TestWhatFailedIsKept(t *testing.T) {
	for kind, again := range map[retry.Kind]bool{
		retry.Auth: false, retry.Misconfigured: false, retry.Quota: false, retry.InvalidInput: false,
		retry.InvalidOutput: true, retry.Internal: true,
	} {
		t.Run(string(kind), func(t *testing.T) {
			fails := modeltest.Fail(&model.Error{Kind: kind, Status: 400, Type: "some_type", RequestID: "req_1", Message: "not supported", Advice: "change it"})
			inTestbed(t, modeltest.NewScripted(fails), nil, func(t *testing.T, h *testbed) {
				h.start()
				h.submit("some text to work on")
				passed(10 * time.Second)
				if end := h.last(); end.Status != events.Failed || end.Reason != events.Reason(kind) || end.Detail != "some_type" || end.CanRetry != again {
					t.Errorf("ended as %+v", end)
				}
				ledger, err := h.service.Attempts(t.Context(), h.topic)
				if err != nil || len(ledger.Calls) != 1 {
					t.Fatalf("%+v, %v", ledger, err)
				}
				if c := ledger.Calls[0]; c.ProviderType != "some_type" || c.RequestID != "req_1" || c.Message != "not supported" || c.Advice != "change it" {
					t.Errorf("the ledger has %+v", c)
				}
			})
		})
	}
}

// refused checks a refusal and that it tells to wait at least so long.
func refused(t *testing.T, err error, want jobs.Code, wait time.Duration) {
	t.Helper()
	var r *jobs.Refusal
	if !errors.As(err, &r) || r.Code != want || r.RetryAfter < wait {
		t.Errorf("got %v, want %s and to wait %s", err, want, wait)
	}
}
