package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/events/eventstest"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/retry"
	"github.com/tidings/tidings/jobs/store"
)

// outsideLine is the part of the testbed where outside workers get their jobs, on a
// real Redis and a real Asynq.
type outsideLine struct {
	*testing.T
	client  redis.UniversalClient
	log     *events.RedisLog
	store   *jobs.Store
	queue   *jobs.Asynq
	service *jobs.Service
	outside *jobs.Outside
	topic   events.Topic
}

const outsideContent = `{"title":"A title","summary":"A summary.","key_points":[]}`

func newOutsideLine(t *testing.T, change func(*retry.Settings)) *outsideLine {
	t.Helper()
	c := eventstest.StartRedis(t).Client()
	s := retry.Defaults()
	s.Plan, _ = retry.ParsePlan("1s")
	if change != nil {
		change(&s)
	}
	store := jobs.NewStore(c, store.Kept{Record: time.Hour, Document: time.Hour, Key: time.Hour}, store.Sync{}, nil)
	quiet := slog.New(slog.DiscardHandler)
	queue := jobs.NewAsynq(jobs.AsynqOptions{Client: c, Concurrency: 100, Queues: []string{jobs.OutsideQueue}, Poll: 5 * time.Millisecond,
		MaxRetry: 24, Timeout: func(string) time.Duration { return time.Hour }, Grace: time.Second, Log: quiet})
	log := events.NewRedisLog(c, time.Hour)
	hub := events.NewHub(log, events.HubOptions{})
	o, err := jobs.NewOutside(jobs.OutsideOptions{Store: store, Queue: queue, Settings: s, Workloads: []string{"summary", "classification"}, Gate: gate.New(c, wide()), Waiting: 10, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	var parts sync.WaitGroup
	parts.Go(func() { _ = hub.Run(ctx) })
	parts.Go(func() { o.Listen(ctx) })
	drain, stop := context.WithCancel(ctx)
	if err := queue.Start(o.Dispatcher(drain, hub)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); queue.Stop(); end(); parts.Wait() })
	return &outsideLine{T: t, client: c, store: store, queue: queue, log: log, outside: o, topic: events.NewTopic("", "s-1", "summary"),
		service: jobs.NewService(jobs.ServiceOptions{Store: store, Queue: queue, Settings: s, Outside: jobs.Routes{"summary", "classification"},
			Limits: jobs.Limits{OpenJobs: 100, InputBytes: 1 << 20}, Dependency: "outside", Log: quiet})}
}

func (a *outsideLine) submit() string {
	a.Helper()
	got, err := a.service.Submit(a.Context(), jobs.Submit{Topic: a.topic, Input: jobs.Input{Text: "material"}})
	if err != nil {
		a.Fatal(err)
	}
	return got.JobID
}

func (a *outsideLine) claim() (*jobs.Assignment, jobs.Report) {
	a.Helper()
	got, err := a.outside.Claim(a.Context(), "w1", []string{"summary", "classification"}, 20*time.Second)
	if err != nil || got == nil {
		a.Fatalf("claim: %+v %v", got, err)
	}
	return got, jobs.Report{JobID: got.JobID, Attempt: got.Attempt, Worker: "w1", Token: got.ClaimToken}
}

func (a *outsideLine) last() events.Transition {
	a.Helper()
	l, err := a.log.Last(a.Context(), []events.Topic{a.topic})
	if err != nil {
		a.Fatal(err)
	}
	return l[0]
}

func (a *outsideLine) refused(err error, want jobs.Code) {
	a.Helper()
	var r *jobs.Refusal
	if !errors.As(err, &r) || r.Code != want {
		a.Errorf("got %v, want %s", err, want)
	}
}

func TestAnOutsideWorkerDoesAJob(t *testing.T) {
	a := newOutsideLine(t, nil)
	job := a.submit()
	got, r := a.claim()
	if got.JobID != job || got.Attempt != 1 || string(got.Input) != `{"text":"material"}` || !strings.Contains(got.Prompt, "material") || !json.Valid(got.Schema) {
		t.Errorf("assignment %+v", got)
	}
	if l := a.last(); l.Status != events.Processing || l.Attempt != 1 {
		t.Errorf("told %+v", l)
	}
	if lease, err := a.outside.Heartbeat(t.Context(), r); err != nil || lease <= 0 {
		t.Errorf("heartbeat %s %v", lease, err)
	}
	_, err := a.outside.Complete(t.Context(), r, json.RawMessage(`{"title":1}`), "theirs", model.Usage{})
	a.refused(err, jobs.CodeInvalidField)
	if l := a.last(); l.Status != events.Processing {
		t.Errorf("bad output changed the status: %+v", l)
	}
	first, err := a.outside.Complete(t.Context(), r, json.RawMessage(outsideContent), "theirs", model.Usage{})
	if err != nil || first.Status != events.Completed || first.Version != 1 {
		t.Fatalf("complete %+v %v", first, err)
	}
	again, err := a.outside.Complete(t.Context(), r, json.RawMessage(outsideContent), "theirs", model.Usage{})
	if err != nil || again != first {
		t.Errorf("repeat %+v %v, want %+v", again, err, first)
	}
	_, err = a.outside.Fail(t.Context(), r, "model_timeout", "")
	a.refused(err, jobs.CodeAttemptConflict)
	if d, err := a.service.Document(t.Context(), a.topic); err != nil || string(d.Content) != outsideContent || d.Model != "theirs" {
		t.Errorf("document %+v %v", d, err)
	}
}

// TestThePolicyOfEachFailure: one row each; the worker never decides.
func TestThePolicyOfEachFailure(t *testing.T) {
	a := newOutsideLine(t, nil)
	for _, tc := range []struct {
		kind    jobs.FailureType
		status  events.Status
		outcome events.Outcome
		reason  events.Reason
		retry   bool
	}{
		{"storage_unavailable", events.Retrying, "", events.StorageFault, false},
		{"input_invalid", events.Failed, events.OutcomeFailed, events.InvalidInput, false},
		{"model_unavailable", events.Retrying, "", events.Unavailable, false},
		{"model_rate_limited", events.Retrying, "", events.RateLimited, false},
		{"model_timeout", events.Retrying, "", events.Timeout, false},
		{"model_output_invalid", events.Failed, events.OutcomeFailed, events.InvalidOutput, true},
		{"model_auth", events.Failed, events.OutcomeFailed, events.Auth, false},
		{"state_inconsistent", events.Failed, events.OutcomeFailed, events.Internal, true},
		{"worker_internal_error", events.Retrying, "", events.Internal, false},
		{"outcome_unknown", events.Failed, events.OutcomeUnknown, events.Internal, false},
	} {
		a.topic = events.NewTopic("", string(tc.kind), "summary")
		a.submit()
		_, r := a.claim()
		got, err := a.outside.Fail(t.Context(), r, tc.kind, "the model is not available: Olav Nordmann")
		l := a.last()
		if err != nil || got.Status != tc.status || l.Status != tc.status || l.Outcome != tc.outcome || l.Reason != tc.reason || l.CanRetry != tc.retry {
			t.Errorf("%s: %v, %+v, told %+v", tc.kind, err, got, l)
		}
		if want := string(tc.kind); l.Status == events.Failed && l.Detail != want {
			t.Errorf("%s: the event's detail is %q", tc.kind, l.Detail)
		}
		ledger, err := a.service.Attempts(t.Context(), a.topic)
		if err != nil || len(ledger.Attempts) != 1 || ledger.Attempts[0].FailureType != string(tc.kind) || ledger.Attempts[0].Message != "the model is not available: …" {
			t.Errorf("%s: the ledger has %+v, %v", tc.kind, ledger.Attempts, err)
		}
		if (tc.status == events.Retrying) != (!got.NextRetryAt.IsZero() && got.NextRetryAt.Equal(l.NextRetryAt)) {
			t.Errorf("%s: next at %s, told %s", tc.kind, got.NextRetryAt, l.NextRetryAt)
		}
	}
	_, err := a.outside.Fail(t.Context(), jobs.Report{}, "bad_luck", "")
	a.refused(err, jobs.CodeUnknownFailureType)
}

// TestReportsAndTheirRepeats: the first report counts, its repeat gets the
// same answer after the lease has been given back, another one is refused.
func TestReportsAndTheirRepeats(t *testing.T) {
	a := newOutsideLine(t, nil)
	job := a.submit()
	_, r := a.claim()
	first, err := a.outside.Fail(t.Context(), r, "model_timeout", "slow")
	if err != nil {
		t.Fatal(err)
	}
	before := a.last()
	again, err := a.outside.Fail(t.Context(), r, "model_timeout", "slow")
	if err != nil || again != first {
		t.Errorf("repeat %+v %v, want %+v", again, err, first)
	}
	_, err = a.outside.Fail(t.Context(), r, "model_timeout", "other words")
	a.refused(err, jobs.CodeAttemptConflict)
	_, err = a.outside.Complete(t.Context(), r, json.RawMessage(outsideContent), "", model.Usage{})
	a.refused(err, jobs.CodeAttemptConflict)
	if a.last() != before {
		t.Error("a repeat changed the status")
	}
	// S2-35, S2-36: not before its time, then a new claim with a new token.
	next, r2 := a.claim()
	if now := time.Now(); now.Before(first.NextRetryAt) {
		t.Errorf("claimed %s before its time", first.NextRetryAt.Sub(now))
	}
	if next.JobID != job || next.Attempt != 2 || next.ClaimToken == r.Token {
		t.Errorf("second assignment %+v", next)
	}
	again, err = a.outside.Fail(t.Context(), r, "model_timeout", "slow")
	if err != nil || again != first {
		t.Errorf("repeat after the next claim %+v %v, want %+v", again, err, first)
	}
	for name, bad := range map[string]jobs.Report{
		"another worker":  {JobID: job, Attempt: 2, Worker: "w2", Token: r2.Token},
		"another token":   {JobID: job, Attempt: 2, Worker: "w1", Token: "x"},
		"another attempt": {JobID: job, Attempt: 3, Worker: "w1", Token: r2.Token},
	} {
		_, err := a.outside.Fail(t.Context(), bad, "model_timeout", "")
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		a.refused(err, jobs.CodeClaimLost)
		if _, err := a.outside.Heartbeat(t.Context(), bad); err == nil {
			t.Errorf("%s: heartbeat accepted", name)
		}
	}
	if _, err := a.outside.Fail(t.Context(), r2, "model_auth", ""); err != nil {
		t.Errorf("the claim's own report: %v", err)
	}
}

func TestCompleteAndFailInARace(t *testing.T) {
	a := newOutsideLine(t, nil)
	for i := range 20 {
		a.topic = events.NewTopic("", string(rune('a'+i)), "summary")
		a.submit()
		_, r := a.claim()
		var errs [2]error
		var wg sync.WaitGroup
		wg.Go(func() {
			_, errs[0] = a.outside.Complete(t.Context(), r, json.RawMessage(outsideContent), "", model.Usage{})
		})
		wg.Go(func() { _, errs[1] = a.outside.Fail(t.Context(), r, "model_auth", "") })
		wg.Wait()
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Fatalf("both or none won: %v", errs)
		}
		want := events.Completed
		if errs[0] != nil {
			want = events.Failed
			a.refused(errs[0], jobs.CodeAttemptConflict)
		} else {
			a.refused(errs[1], jobs.CodeAttemptConflict)
		}
		all, _, _, _ := a.log.After(t.Context(), a.topic, 0)
		if len(all) != 3 || all[2].Status != want {
			t.Errorf("history %s", story(all))
		}
		_, err := a.service.Document(t.Context(), a.topic)
		if (err == nil) != (want == events.Completed) {
			t.Errorf("ended %s, document: %v", want, err)
		}
	}
}

func TestAClaimWithoutHeartbeatsEnds(t *testing.T) {
	a := newOutsideLine(t, func(s *retry.Settings) { s.Lease = 300 * time.Millisecond })
	a.submit()
	_, r := a.claim()
	<-time.After(400 * time.Millisecond)
	_, err := a.outside.Heartbeat(t.Context(), r)
	a.refused(err, jobs.CodeClaimLost)
	_, err = a.outside.Complete(t.Context(), r, json.RawMessage(outsideContent), "", model.Usage{})
	a.refused(err, jobs.CodeClaimLost)
}

func TestACancelledJobsClaimIsLost(t *testing.T) {
	a := newOutsideLine(t, nil)
	a.submit()
	_, r := a.claim()
	if _, err := a.service.Cancel(t.Context(), a.topic); err != nil {
		t.Fatal(err)
	}
	_, err := a.outside.Heartbeat(t.Context(), r)
	a.refused(err, jobs.CodeClaimLost)
	_, err = a.outside.Complete(t.Context(), r, json.RawMessage(outsideContent), "", model.Usage{})
	a.refused(err, jobs.CodeClaimLost)
	if l := a.last(); l.Reason != events.Cancelled {
		t.Errorf("ended as %+v", l)
	}
}

func TestClaimsWaitAndAreBounded(t *testing.T) {
	a := newOutsideLine(t, nil)
	if got, err := a.outside.Claim(t.Context(), "w", []string{"summary"}, time.Millisecond); got != nil || err != nil {
		t.Fatalf("claim of nothing: %+v %v", got, err)
	}
	var wg sync.WaitGroup
	got := make(chan string, 10)
	for range 10 {
		wg.Go(func() {
			for {
				a1, err := a.outside.Claim(t.Context(), "w1", []string{"summary"}, 10*time.Second)
				var no *jobs.Refusal
				if errors.As(err, &no) && no.Code == jobs.CodeTooOften {
					continue
				}
				if err != nil || a1 == nil {
					t.Errorf("claim: %+v %v", a1, err)
					return
				}
				got <- a1.JobID
				return
			}
		})
	}
	for i := range 10 {
		a.topic = events.NewTopic("", string(rune('a'+i)), "summary")
		a.submit()
	}
	wg.Wait()
	seen := map[string]bool{}
	for range 10 {
		seen[<-got] = true
	}
	if len(seen) != 10 {
		t.Errorf("%d jobs claimed, want each of 10 once", len(seen))
	}
}

// TestAnUnknownOutcomeIsResolvedByAnOperator, one way and the other.
func TestAnUnknownOutcomeIsResolvedByAnOperator(t *testing.T) {
	a := newOutsideLine(t, nil)
	for _, tc := range []struct {
		session string
		content json.RawMessage
		want    events.Status
		outcome events.Outcome
	}{
		{"done", json.RawMessage(outsideContent), events.Completed, events.OutcomeCompleted},
		{"not", nil, events.Failed, events.OutcomeFailed},
	} {
		a.topic = events.NewTopic("", tc.session, "summary")
		job := a.submit()
		_, r := a.claim()
		_, err := a.outside.Resolve(t.Context(), job, tc.content)
		a.refused(err, jobs.CodeNotResolvable)
		if _, err := a.outside.Fail(t.Context(), r, "outcome_unknown", ""); err != nil {
			t.Fatal(err)
		}
		_, err = a.service.Retry(t.Context(), a.topic)
		a.refused(err, jobs.CodeNotRetryable)
		for range 2 {
			if got, err := a.outside.Resolve(t.Context(), job, tc.content); err != nil || got != tc.want {
				t.Errorf("%s: resolved as %s, %v", tc.session, got, err)
			}
		}
		if l := a.last(); l.Status != tc.want || l.Outcome != tc.outcome || tc.content == nil && !l.CanRetry {
			t.Errorf("%s: ended as %+v", tc.session, l)
		}
	}
	_, err := a.outside.Resolve(t.Context(), "nobody", nil)
	a.refused(err, jobs.CodeNotFound)
}

// TestARescuerLeavesAnOfferAlone: a job that waits for an outside worker longer
// than a task may be on its way is not given another run each time.
func TestARescuerLeavesAnOfferAlone(t *testing.T) {
	a := newOutsideLine(t, nil)
	a.store.CheckEvery = 50 * time.Millisecond
	rescuer := jobs.NewRescuer(jobs.RescuerOptions{Store: a.store, Queue: a.queue, Settings: a.outside.Settings,
		Patience: 10 * time.Millisecond, Log: slog.New(slog.DiscardHandler)})
	job := a.submit()
	key := "tidings:{outside/summary}:offers"
	for n := int64(0); n == 0; n, _ = a.client.ZCard(t.Context(), key).Result() {
		<-time.After(5 * time.Millisecond)
	}
	<-time.After(1100 * time.Millisecond) // so that every limit has passed
	for range 3 {
		<-time.After(60 * time.Millisecond)
		if n, err := rescuer.Round(t.Context()); n != 1 || err != nil {
			t.Fatalf("looked at %d jobs, %v", n, err)
		}
	}
	if job, err := a.store.Record(t.Context(), a.topic); job.Run != 1 || err != nil {
		t.Errorf("run %d, %v", job.Run, err)
	}
	if got, _ := a.claim(); got.JobID != job {
		t.Errorf("claimed %s", got.JobID)
	}
}

// TestTheLedgerTellsOfOutsideAttempts as it does of our own.
func TestTheLedgerTellsOfOutsideAttempts(t *testing.T) {
	a := newOutsideLine(t, nil)
	a.submit()
	_, r := a.claim()
	for range 2 { // a repeat has no second line (S2-41)
		if _, err := a.outside.Fail(t.Context(), r, "model_auth", ""); err != nil {
			t.Fatal(err)
		}
	}
	l, err := a.service.Attempts(t.Context(), a.topic)
	if err != nil || len(l.Attempts) != 1 {
		t.Fatalf("ledger %+v %v", l, err)
	}
	if got := l.Attempts[0]; got.Run != 1 || got.Worker != "w1" || time.Since(got.StartedAt) > time.Minute || got.Reason != events.Auth {
		t.Errorf("line %+v", got)
	}
}

func TestOnlyWorkloadsDoneOutsideCanBeClaimed(t *testing.T) {
	a := newOutsideLine(t, nil)
	_, err := a.outside.Claim(t.Context(), "w", []string{"summary", "guidance"}, time.Second)
	a.refused(err, jobs.CodeInvalidField)
}
