package jobs_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/model/modeltest"
)

// passed sleeps in virtual time and lets everything that is due happen.
func passed(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// TestNoTokenEndsTheAttemptThenTheJob: a further call without a token ends
// the attempt, and the queue's plan applies; an attempt's first call without one
// ends the job.
func TestNoTokenEndsTheAttemptThenTheJob(t *testing.T) {
	m := modeltest.NewScripted(modeltest.Status(529))
	narrow := wide()
	narrow.RetryBurst, narrow.RetryPerFirst, narrow.RetryPerSecond, narrow.ManualShare = 1, 0, 0.001, 1
	inTestbed(t, m, nil, func(t *testing.T, h *testbed) {
		h.gated(narrow)
		h.start()
		h.submit("some text to work on")
		passed(10 * time.Second)
		want := "queued 0/4\nprocessing 1/4 call 1/3\nretrying 1/4 call overloaded\nprocessing 1/4 call 2/3\n" +
			"retrying 1/4 call overloaded\nretrying 1/4 queue overloaded next 2\n"
		if got := story(h.history()); got != want {
			t.Fatalf("got\n%swant\n%s", got, want)
		}
		passed(time.Minute)
		end := h.last()
		if end.Outcome != events.OutcomeRetriesExhausted || end.Reason != events.RetryBudget || !end.CanRetry {
			t.Errorf("ended as %+v", end)
		}
		if end.RetryAvailableAt.Before(end.At) {
			t.Errorf("a manual retry is offered from %s, before the end", end.RetryAvailableAt)
		}
		if m.Calls() != 2 {
			t.Errorf("the model received %d calls, want the first and the one the budget had", m.Calls())
		}
	})
}

// TestAPausedDependencyIsWaitedFor: the job says why and until when, burns no
// attempt, and goes on by itself.
func TestAPausedDependencyIsWaitedFor(t *testing.T) {
	m := modeltest.NewScripted(good())
	inTestbed(t, m, nil, func(t *testing.T, h *testbed) {
		g := h.gated(wide())
		if err := g.Pause(t.Context(), "scripted", gate.Order{Owner: "ops", Note: "maintenance", Until: time.Now().Add(40 * time.Second)}); err != nil {
			t.Fatal(err)
		}
		h.start()
		h.submit("some text to work on")
		passed(time.Second)
		l := h.last()
		if l.Status != events.Queued || l.Reason != events.DependencyPaused || l.Attempt != 0 {
			t.Fatalf("told %+v", l)
		}
		// The gate spreads those who wait for one moment over two seconds after it.
		if wait := l.NotBefore.Sub(l.At); wait < 39*time.Second || wait > 43*time.Second {
			t.Errorf("told to wait %s", wait)
		}
		passed(44 * time.Second)
		if l := h.last(); l.Status != events.Completed || l.Attempt != 1 {
			t.Errorf("ended as %+v", l)
		}
		if m.Calls() != 1 {
			t.Errorf("%d calls", m.Calls())
		}
		if n := len(h.queue.Starts()); n > 3 {
			t.Errorf("it was looked after %d times in one wait", n)
		}
	})
}

// TestAPauseKeepsJobs: accepted work waits for the end of a pause, however long
// that was ordered for. It goes on when the pause is lifted, and ends at its own
// deadline else, and says so.
func TestAPauseKeepsJobs(t *testing.T) {
	for lifted, want := range map[time.Duration]events.Outcome{15 * time.Second: events.OutcomeCompleted, 9 * time.Minute: events.OutcomeCompleted,
		20 * time.Minute: events.OutcomeAdmissionDenied} {
		t.Run(lifted.String(), func(t *testing.T) {
			m := modeltest.NewScripted(good())
			inTestbed(t, m, nil, func(t *testing.T, h *testbed) {
				g := h.gated(wide())
				h.rescuer.Gate = g
				ctx, end := context.WithCancel(t.Context())
				var rescuing sync.WaitGroup
				rescuing.Go(func() { h.rescuer.Run(ctx) })
				defer rescuing.Wait()
				defer end()
				if err := g.Pause(t.Context(), "scripted", gate.Order{Owner: "ops", Until: time.Now().Add(time.Hour)}); err != nil {
					t.Fatal(err)
				}
				h.start()
				h.submit("some text to work on")
				passed(time.Second)
				l := h.last()
				if l.Status != events.Queued || l.Reason != events.DependencyPaused || l.NotBefore.After(l.DeadlineAt) {
					t.Fatalf("told %+v", l)
				}
				deadline := l.DeadlineAt
				passed(lifted - time.Second)
				if err := g.Resume(t.Context(), "scripted", gate.Order{Owner: "ops"}); err != nil {
					t.Fatal(err)
				}
				passed(12 * time.Second)
				l = h.last()
				if l.Outcome != want || (m.Calls() == 1) != (want == events.OutcomeCompleted) {
					t.Errorf("ended as %+v after %d calls\n%s", l, m.Calls(), story(h.history()))
				}
				if want != events.OutcomeCompleted && (l.Reason != events.DependencyPaused || l.At.Before(deadline.Add(-6*time.Second)) || l.At.After(deadline.Add(11*time.Second))) {
					t.Errorf("ended %s after its deadline because of %s", l.At.Sub(deadline), l.Reason)
				}
			})
		})
	}
}

// TestAClosedGateRefusesWhatCannotBeDone: during a pause or a hold that outlasts a
// job's deadline a submit is not accepted, and told when it will be.
func TestAClosedGateRefusesWhatCannotBeDone(t *testing.T) {
	inTestbed(t, modeltest.NewScripted(good()), nil, func(t *testing.T, h *testbed) {
		g := h.gated(wide())
		h.service.Gate = g
		h.start()
		first := h.submit("some text")
		passed(2 * time.Second)
		pause := func(d time.Duration) {
			if err := g.Pause(t.Context(), "scripted", gate.Order{Owner: "ops", Until: time.Now().Add(d)}); err != nil {
				t.Fatal(err)
			}
		}
		send := func(session string) error {
			_, err := h.service.Submit(t.Context(), jobs.Submit{Topic: events.NewTopic("", session, "summary"), Input: jobs.Input{Text: "text"}})
			return err
		}
		pause(time.Hour)
		before := h.client.DBSize(t.Context()).Val()
		r := refusal(send("a"))
		// The deadline is 10 min, 5 s of it for saving.
		if want := time.Hour - 595*time.Second; r == nil || r.Code != jobs.CodeAdmissionDenied || (r.RetryAfter-want).Abs() > time.Second {
			t.Fatalf("during a pause of an hour: %+v", r)
		}
		if n := h.client.DBSize(t.Context()).Val(); n != before {
			t.Errorf("%d keys, %d before", n, before)
		}
		passed(r.RetryAfter - time.Second)
		if err := send("a"); refusal(err) == nil {
			t.Errorf("a second too soon: %v", err)
		}
		passed(time.Second)
		if err := send("a"); err != nil {
			t.Errorf("when it was told to: %v", err)
		}
		pause(time.Hour)
		if err := g.Resume(t.Context(), "scripted", gate.Order{Owner: "ops"}); err != nil {
			t.Fatal(err)
		}
		if err := send("b"); err != nil || first.JobID == "" {
			t.Errorf("after it was lifted: %v", err)
		}
	})
}

// TestRetriesSwitchedOff: first calls go on, a waiting job ends at its own
// time.
func TestRetriesSwitchedOff(t *testing.T) {
	m := modeltest.NewScripted(modeltest.Status(529))
	inTestbed(t, m, nil, func(t *testing.T, h *testbed) {
		g := h.gated(wide())
		h.start()
		h.submit("some text to work on")
		passed(10 * time.Second)
		if err := g.SwitchOff(t.Context(), gate.Scope{}, gate.Order{Owner: "ops", Note: "incident", Until: time.Now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		waiting := h.last()
		if waiting.Status != events.Retrying || waiting.Layer != events.QueueLayer {
			t.Fatalf("waits as %+v", waiting)
		}
		passed(5 * time.Second)
		if h.last() != waiting {
			t.Error("a waiting job did not keep its status")
		}
		passed(30 * time.Second)
		if l := h.last(); l.Outcome != events.OutcomeRetriesExhausted || l.Reason != events.RetriesDisabled || m.Calls() != 3 {
			t.Errorf("ended as %+v after %d calls", l, m.Calls())
		}
		h.topic = events.NewTopic("", "another", "summary")
		m.Play(good())
		h.submit("another text")
		passed(time.Second)
		if l := h.last(); l.Status != events.Completed {
			t.Errorf("a first call was refused: %+v", l)
		}
	})
}

// TestAnOpenBreakerHoldsJobsBack: jobs wait without burning attempts, the
// probes of the whole fleet are as many as set, and then all complete.
func TestAnOpenBreakerHoldsJobsBack(t *testing.T) {
	m := modeltest.NewScripted(modeltest.Status(503))
	inTestbed(t, m, nil, func(t *testing.T, h *testbed) {
		g := h.gated(gate.Defaults())
		h.start()
		var topics []events.Topic
		for i := range 20 {
			h.topic = events.NewTopic("", string(rune('a'+i)), "summary")
			topics = append(topics, h.topic)
			h.submit("some text to work on")
		}
		passed(12 * time.Second)
		s, err := g.Inspect(t.Context(), "scripted")
		if err != nil {
			t.Fatal(err)
		}
		open := 0
		last, _ := h.log.Last(t.Context(), topics)
		for _, l := range last {
			if l.Status == events.Queued && l.Reason == events.BreakerOpen && !l.NotBefore.IsZero() {
				open++
			}
		}
		if open == 0 {
			t.Fatalf("no job waits for the breaker, which is %+v", s)
		}
		m.Play(good())
		passed(5 * time.Minute)
		last, _ = h.log.Last(t.Context(), topics)
		for _, l := range last {
			if l.Status != events.Completed {
				t.Errorf("a job ended as %s %s %s", l.Status, l.Outcome, l.Reason)
			}
		}
	})
}

// gateAway is a Redis whose part with the gates does not answer while it is set.
type gateAway struct {
	redis.Scripter
	set atomic.Bool
}

func (g *gateAway) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	if g.set.Load() {
		return redis.NewCmdResult(nil, errors.New("CLUSTERDOWN"))
	}
	return g.Scripter.EvalSha(ctx, sha, keys, args...)
}

// TestNoGateNoCall: the job's own keys can be written, and only the gate
// cannot be asked. No call is made, and the job goes on when it can.
func TestNoGateNoCall(t *testing.T) {
	m := modeltest.NewScripted(good())
	inTestbed(t, m, nil, func(t *testing.T, h *testbed) {
		away := &gateAway{Scripter: h.client}
		away.set.Store(true)
		h.worker.Gate = gate.New(away, wide())
		h.start()
		h.submit("some text to work on")
		passed(20 * time.Second)
		if n, last := m.Calls(), h.last(); n != 0 || last.Status.Terminal() {
			t.Errorf("%d calls without the gate\n%s", n, story(h.history()))
		}
		away.set.Store(false)
		passed(3 * time.Minute)
		if n, last := m.Calls(), h.last(); n != 1 || last.Status != events.Completed {
			t.Errorf("%d calls, 1 is wanted\n%s", n, story(h.history()))
		}
	})
}
