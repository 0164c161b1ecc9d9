package jobs_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/model/modeltest"
	"github.com/tidings/tidings/jobs/retry"
)

// TestWhatFollowsFromAFailure, with the
// settings of production: how many calls, which waits of the queue, which end.
func TestWhatFollowsFromAFailure(t *testing.T) {
	plan := []time.Duration{30 * time.Second, 60 * time.Second, 120 * time.Second}
	quota := modeltest.Fail(&model.Error{Kind: retry.Quota, Status: 429})
	part := modeltest.Cut()
	part.Content = good().Content
	for _, tt := range []struct {
		name    string
		steps   []modeltest.Step
		calls   int
		waits   []time.Duration
		outcome events.Outcome
		reason  events.Reason
	}{
		{"S4-36 no connection", []modeltest.Step{modeltest.Network()}, 4, plan, events.OutcomeRetriesExhausted, events.AttemptsUsedUp},
		{"S4-36 no connection, then good", []modeltest.Step{modeltest.Network(), good()}, 2, plan[:1], events.OutcomeCompleted, ""},
		{"S4-37 overloaded", []modeltest.Step{modeltest.Status(529)}, 12, plan, events.OutcomeRetriesExhausted, events.AttemptsUsedUp},
		{"S4-37 rate limited", []modeltest.Step{modeltest.Status(429)}, 12, plan, events.OutcomeRetriesExhausted, events.AttemptsUsedUp},
		{"S4-38 a wrong key", []modeltest.Step{modeltest.Status(401)}, 1, nil, events.OutcomeFailed, events.Auth},
		{"S4-38 no permission", []modeltest.Step{modeltest.Status(403)}, 1, nil, events.OutcomeFailed, events.Auth},
		{"S4-38 a bad request", []modeltest.Step{modeltest.Status(400)}, 1, nil, events.OutcomeFailed, events.InvalidInput},
		{"S4-38 against the schema", []modeltest.Step{modeltest.Answer(`{"title":1}`)}, 1, nil, events.OutcomeFailed, events.InvalidOutput},
		{"S4-40 a stream that breaks off", []modeltest.Step{part}, 4, plan, events.OutcomeRetriesExhausted, events.AttemptsUsedUp},
		{"S4-42 a fault of the provider's", []modeltest.Step{modeltest.Status(500)}, 1, nil, events.OutcomeFailed, events.Internal},
		{"S4-42 a 429 that means the purse", []modeltest.Step{quota}, 1, nil, events.OutcomeFailed, events.Quota},
		{"S4-43 a hint longer than the plan", []modeltest.Step{modeltest.RateLimited(200 * time.Second), good()}, 2,
			[]time.Duration{200 * time.Second}, events.OutcomeCompleted, ""},
		{"S4-43 a hint beyond the deadline", []modeltest.Step{modeltest.RateLimited(700 * time.Second), good()}, 1, nil,
			events.OutcomeDeadlineExceeded, events.DeadlinePassed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := modeltest.NewScripted(tt.steps...)
			inTestbed(t, m, nil, func(t *testing.T, h *testbed) {
				h.start()
				job := h.submit("some text to work on").JobID
				passed(9 * time.Minute)
				all := h.history()
				end := all[len(all)-1]
				if end.Outcome != tt.outcome || end.Reason != tt.reason || m.Calls() != tt.calls || !slices.Equal(waits(all), tt.waits) {
					t.Errorf("%d calls, waits %v, told\n%s", m.Calls(), waits(all), story(all))
				}
				for _, n := range all { // S4-46
					if n.JobID != job {
						t.Errorf("%s is told of %s, the job is %s", n.Status, n.JobID, job)
					}
				}
				_, err := h.service.Document(t.Context(), h.topic)
				if (err == nil) != (tt.outcome == events.OutcomeCompleted) {
					t.Errorf("a document: %v", err)
				}
			})
		})
	}
}

// TestAHintThatDoesNotFitIsToldAndKept: it is neither shortened nor
// forgotten when it ends the job.
func TestAHintThatDoesNotFitIsToldAndKept(t *testing.T) {
	m := modeltest.NewScripted(modeltest.RateLimited(700*time.Second), good())
	inTestbed(t, m, nil, func(t *testing.T, h *testbed) {
		h.start()
		h.submit("some text to work on")
		passed(time.Second)
		end := h.last()
		if wait := end.RetryAvailableAt.Sub(end.At); wait < 699*time.Second || wait > 701*time.Second {
			t.Errorf("a retry is offered after %s", wait)
		}
		passed(100 * time.Second)
		var no *jobs.Refusal
		if _, err := h.service.Retry(t.Context(), h.topic); !errors.As(err, &no) || no.Code != jobs.CodeWaitRequired ||
			no.RetryAfter < 595*time.Second || no.RetryAfter > 601*time.Second {
			t.Errorf("a tap: %v", err)
		}
		passed(601 * time.Second)
		if _, err := h.service.Retry(t.Context(), h.topic); err != nil {
			t.Errorf("a tap after it: %v", err)
		}
	})
}

// TestABrokenStreamIsAStateOfItsOwn: it is told as such, its part is
// nowhere, and the next attempt begins anew.
func TestABrokenStreamIsAStateOfItsOwn(t *testing.T) {
	part := modeltest.Cut().Using(100, 7)
	part.Content = modeltest.Answer(`{"title":"half","summary":"a part","key_points":[]}`).Content
	m := modeltest.NewScripted(part, good())
	inTestbed(t, m, nil, func(t *testing.T, h *testbed) {
		h.start()
		h.submit("some text to work on")
		passed(10 * time.Second)
		if l := h.last(); l.Status != events.Retrying || l.Reason != events.StreamInterrupted {
			t.Errorf("told %+v", l)
		}
		if _, err := h.service.Document(t.Context(), h.topic); err == nil {
			t.Error("a part was stored")
		}
		ledger, err := h.service.Attempts(t.Context(), h.topic)
		if err != nil || len(ledger.Calls) != 1 || ledger.Calls[0].OutputTokens == nil || *ledger.Calls[0].OutputTokens != 7 {
			t.Errorf("what it cost is not kept: %+v %v", ledger.Calls, err)
		}
		passed(time.Minute)
		if d, err := h.service.Document(t.Context(), h.topic); err != nil || string(d.Content) != string(good().Content) {
			t.Errorf("document %s %v", d.Content, err)
		}
	})
}

// TestAJobKeepsItsIdentity over crashes, the queue's retries and a tap that
// runs it now; its key answers with the same id at the end.
func TestAJobKeepsItsIdentity(t *testing.T) {
	m := modeltest.NewScripted(modeltest.Hang())
	inTestbed(t, m, nil, func(t *testing.T, h *testbed) {
		doomed := h.member("doomed")
		defer doomed.close()
		defer h.member("healer").rescue()()
		ask := jobs.Submit{Topic: h.topic, Input: jobs.Input{Text: "some text"}, IdempotencyKey: "k"}
		first, err := h.service.Submit(t.Context(), ask)
		if err != nil {
			t.Fatal(err)
		}
		h.work(doomed)
		passed(time.Second)
		m.Play(modeltest.Timeout(), good())
		doomed.life.kill()
		h.start()
		passed(70 * time.Second) // the second attempt fails
		if a, err := h.service.Retry(t.Context(), h.topic); err != nil || a.JobID != first.JobID {
			t.Errorf("run now: %+v %v", a, err)
		}
		passed(time.Second)
		all := h.history()
		if end := all[len(all)-1]; end.Status != events.Completed || end.Attempt != 3 {
			t.Errorf("told\n%s", story(all))
		}
		for _, n := range all {
			if n.JobID != first.JobID {
				t.Errorf("%s is told of %s", n.Status, n.JobID)
			}
		}
		for _, s := range h.queue.Starts() {
			if s.Task.JobID != first.JobID {
				t.Errorf("a task of %s", s.Task.JobID)
			}
		}
		if again, err := h.service.Submit(t.Context(), ask); err != nil || again.JobID != first.JobID {
			t.Errorf("the key: %+v %v", again, err)
		}
	})
}
