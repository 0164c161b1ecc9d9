//go:build go1.25

package tidings_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	tidings "github.com/tidings/tidings/clients/go"
)

func TestSpinnerStopsAfterThirtySecondsWhateverHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := open(t)
		stream := f.next(t).stream(t)
		pass(29999 * time.Millisecond)
		if !s.Status().Spinner {
			t.Error("no spinner before 30 s")
		}
		pass(time.Millisecond)
		if got := s.Status(); got.Spinner || got.MessageKey != tidings.TakingLongerKey("summary") || got.Connection != tidings.Open {
			t.Errorf("at 30 s: %+v", got.State)
		}
		stream.event("retrying", "{}")
		if s.Status().Spinner {
			t.Error("an event brings the spinner back")
		}
	})
}

func TestASlowReaderGetsTheNewestState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := open(t)
		stream := f.next(t).stream(t)
		for attempt := 1; attempt <= 100; attempt++ {
			stream.event("retrying", fmt.Sprintf(`{"seq":%d,"attempt":%d}`, attempt, attempt))
		}
		if got := <-s.Updates(); got.RetryAttempt != 100 {
			t.Errorf("attempt %d was kept for the reader", got.RetryAttempt)
		}
		select {
		case got := <-s.Updates():
			t.Errorf("one more: %+v", got.State)
		default:
		}
	})
}

// The server's clock is years off; what was left is what counts.
func TestCountdownRunsOnTheClientsClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := open(t)
		stream := f.next(t).stream(t)
		stream.event("retrying", `{"retry_in_ms":28500,"next_retry_at":"2031-01-01T00:00:30.000Z","server_time":"2031-01-01T00:00:00.000Z"}`)
		if got := time.Until(s.Status().NextTry); got != 28500*time.Millisecond {
			t.Errorf("%v left, want 28.5 s", got)
		}
		pass(8500 * time.Millisecond)
		if got := time.Until(s.Status().NextTry); got != 20*time.Second {
			t.Errorf("%v left after 8.5 s", got)
		}
		stream.event("retrying", `{"next_retry_at":"2031-01-01T00:01:00.000Z","server_time":"2031-01-01T00:00:30.000Z"}`)
		if got := time.Until(s.Status().NextTry); got != 30*time.Second {
			t.Errorf("without retry_in_ms: %v left, want 30 s", got)
		}
		stream.event("processing", "{}")
		if got := s.Status().NextTry; !got.IsZero() {
			t.Errorf("a countdown to %v while it works", got)
		}
		stream.event("error", `{"retry_available_at":"2031-01-01T00:02:00.000Z","server_time":"2031-01-01T00:01:00.000Z"}`)
		if got := time.Until(s.Status().RetryFrom); got != time.Minute {
			t.Errorf("retry possible in %v, want a minute", got)
		}
	})
}

func TestARefusedStreamEndsTheCountdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := open(t)
		stream := f.next(t).stream(t)
		stream.event("retrying", `{"retry_in_ms":28500}`)
		stream.breakOff()
		f.next(t).reply(403, "{}")
		synctest.Wait()
		if got := s.Status(); got.Phase != tidings.Failed || !got.NextTry.IsZero() {
			t.Errorf("phase %s with a countdown to %v", got.Phase, got.NextTry)
		}
	})
}

func TestRetryGivesUpAfterTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := open(t)
		f.next(t).stream(t).event("error", "{}")
		start := time.Now()
		answer := make(chan error)
		go func() { answer <- s.Retry(t.Context()) }()
		request := f.next(t)
		synctest.Wait()
		if got := s.Status(); got.Phase != tidings.Loading || !got.Spinner {
			t.Errorf("while it waits: %+v", got.State)
		}
		if request.Method != "POST" || request.URL.Path != "/api/v1/sessions/abc-123/summary/retry" {
			t.Errorf("%s %s", request.Method, request.URL)
		}
		if err := <-answer; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Retry: %v", err)
		}
		if waited := time.Since(start); waited != 10*time.Second {
			t.Errorf("gave up after %v", waited)
		}
		if got := s.Status(); got.Phase != tidings.Failed || !got.CanRetry || got.Problem != nil {
			t.Errorf("afterwards: %+v", got)
		}
	})
}

func TestRetryOnlyWhereItIsOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := open(t)
		stream := f.next(t).stream(t)
		if err := s.Retry(t.Context()); !errors.Is(err, tidings.ErrNothingToRetry) {
			t.Errorf("while it loads: %v", err)
		}
		stream.event("error", `{"can_retry":false}`)
		if err := s.Retry(t.Context()); !errors.Is(err, tidings.ErrNothingToRetry) {
			t.Errorf("against can_retry false: %v", err)
		}
		f.quiet(t, time.Minute)
	})
}

func TestADateInRetryAfterIsRelativeToTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := open(t)
		f.next(t).stream(t).event("error", "{}")
		answer := make(chan error)
		go func() { answer <- s.Retry(t.Context()) }()
		f.next(t).reply(429, "", "Date", "Tue, 07 Apr 2026 12:00:00 GMT", "Retry-After", "Tue, 07 Apr 2026 12:00:12 GMT")
		var problem *tidings.HTTPError
		if err := <-answer; !errors.As(err, &problem) || problem.RetryAfter != 12*time.Second {
			t.Errorf("Retry: %#v", err)
		}
	})
}

func TestAnotherTapForgetsWhyTheLastOneWasRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := open(t)
		f.next(t).stream(t).event("error", "{}")
		answer := make(chan error)
		tap := func() { answer <- s.Retry(t.Context()) }
		go tap()
		f.next(t).reply(429, "", "Retry-After", "12")
		<-answer
		if got := s.Status(); got.Problem == nil || got.RetryFrom.IsZero() {
			t.Errorf("refused: %+v", got)
		}
		go tap()
		second := f.next(t)
		synctest.Wait()
		if got := s.Status(); got.Problem != nil || !got.RetryFrom.IsZero() {
			t.Errorf("while the second is under way: %+v", got)
		}
		second.reply(202, "{}")
		<-answer
		f.next(t).reply(204, "")
	})
}

func TestRequestsGiveUpAfterThirtySeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, f := newClient(t)
		for name, ask := range map[string]func() error{
			"submit": func() error {
				_, err := client.Submit(t.Context(), "abc-123", tidings.Submission{Text: "hei"})
				return err
			},
			"document": func() error { _, err := client.Document(t.Context(), "abc-123"); return err },
			"texts":    func() error { return client.Texts().Load(t.Context()) },
		} {
			answer, start := make(chan error), time.Now()
			go func() { answer <- ask() }()
			f.next(t) // never answered
			if err := <-answer; !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 30*time.Second {
				t.Errorf("%s: %v after %v", name, err, time.Since(start))
			}
		}
	})
}

func TestTheWaitOfARefusedRetryIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := open(t)
		f.next(t).stream(t).event("error", "{}")
		answer := make(chan error)
		go func() { answer <- s.Retry(t.Context()) }()
		f.next(t).reply(429, `{"code":"wait_required","detail":"Wait."}`, "Retry-After", "12")
		var problem *tidings.HTTPError
		if err := <-answer; !errors.As(err, &problem) || problem.RetryAfter != 12*time.Second || problem.Detail != "Wait." {
			t.Errorf("Retry: %#v", err)
		}
		got := s.Status()
		if got.Problem == nil || got.Problem.Code != "wait_required" || time.Until(got.RetryFrom) != 12*time.Second {
			t.Errorf("status: %+v", got)
		}
	})
}

func TestSubmitFollowsTheNewJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := open(t)
		f.next(t).stream(t).send("id: 7\nevent: completed\ndata: {\"seq\":7}\n\n")
		pass(time.Minute)
		go func() {
			if _, err := s.Submit(t.Context(), tidings.Submission{Text: "hei", Replace: true}); err != nil {
				t.Error(err)
			}
		}()
		post := f.next(t)
		if post.Header.Get("Idempotency-Key") == "" || post.URL.RawQuery != "replace=true" {
			t.Errorf("key %q, query %q", post.Header.Get("Idempotency-Key"), post.URL.RawQuery)
		}
		if want := `{"input":{"text":"hei"}}`; post.body != want {
			t.Errorf("body %s, want %s", post.body, want)
		}
		post.reply(202, `{"job_id":"J","status":"queued"}`)
		request := f.next(t)
		if got := request.Header.Values("Last-Event-ID"); got != nil {
			t.Errorf("the new job is asked for after %q", got)
		}
		request.stream(t).send("id: 3\nevent: processing\ndata: {\"seq\":3}\n\n")
		got := s.Status()
		if got.Phase != tidings.Loading || !got.Spinner || got.Outcome != tidings.ResultPending || got.LastEventID != "3" {
			t.Errorf("after submitting: %+v", got.State)
		}
	})
}

func TestASubmissionOvertakesARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := open(t)
		f.next(t).stream(t).event("error", "{}")
		retried := make(chan error, 2)
		go func() { retried <- s.Retry(t.Context()) }()
		late := f.next(t)
		go func() { _, _ = s.Submit(t.Context(), tidings.Submission{Text: "hei"}) }()
		f.next(t).reply(202, "{}")
		f.next(t).stream(t).event("error", "{}")
		if err := <-retried; !errors.Is(err, tidings.ErrNothingToRetry) {
			t.Errorf("the overtaken retry: %v", err)
		}
		go func() { retried <- s.Retry(t.Context()) }()
		f.next(t) // the second retry, still without an answer
		late.reply(202, "{}")
		f.quiet(t, time.Second) // the first one's answer opens no stream
		if got := s.Status().Connection; got != tidings.Closed {
			t.Errorf("connection %s", got)
		}
	})
}

func TestWatchEndsWithTheJob(t *testing.T) {
	tests := []struct {
		name   string
		answer func(*testing.T, *fakeRequest)
		phase  tidings.Phase
		status int // of the error
	}{
		{"completed", func(t *testing.T, r *fakeRequest) { r.stream(t).event("completed", "{}") }, tidings.Done, 0},
		{"error", func(t *testing.T, r *fakeRequest) { r.stream(t).event("error", "{}") }, tidings.Failed, 0},
		{"refused", func(_ *testing.T, r *fakeRequest) { r.reply(403, "{}") }, tidings.Failed, 403},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, f := newClient(t)
				go func() { tt.answer(t, f.next(t)) }()
				var last tidings.Status
				var failure error
				for status, err := range client.Watch(t.Context(), "abc-123") {
					last, failure = status, err
				}
				if last.Phase != tt.phase {
					t.Errorf("last phase %s, want %s", last.Phase, tt.phase)
				}
				var problem *tidings.HTTPError
				if errors.As(failure, &problem) != (tt.status != 0) || problem != nil && problem.Status != tt.status {
					t.Errorf("error %v", failure)
				}
			})
		})
	}
}

func TestWatchEndsWithItsContextAndItsLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, f := newClient(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() { f.next(t).stream(t).event("processing", "{}") }()
		var failure error
		for _, err := range client.Watch(ctx, "abc-123") {
			failure = err
		}
		if !errors.Is(failure, context.DeadlineExceeded) {
			t.Errorf("at the end of the context: %v", failure)
		}
		for range client.Watch(t.Context(), "abc-123") {
			break // the bubble fails if this leaves anything running
		}
	})
}

func TestStatusesAreThoseAskedForInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, f := newClient(t)
		var events []tidings.Event
		var err error
		go func() { events, err = client.For("guidance").Statuses(t.Context(), "b", "a") }()
		r := f.next(t)
		if got := r.URL.String(); got != "https://api.test/api/v1/status?sessions=b%2Ca&workload=guidance" {
			t.Errorf("asks %s", got)
		}
		r.reply(200, `{"statuses":[{"event":"retrying","session_id":"b","attempt":2},{"event":"idle","session_id":"a"}]}`)
		synctest.Wait()
		if err != nil || len(events) != 2 || events[0].Name != "retrying" || events[0].SessionID != "b" || events[0].Attempt != 2 || events[1].Name != "idle" {
			t.Errorf("%+v, %v", events, err)
		}
	})
}
