package jobs_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/jobstest"
	"github.com/tidings/tidings/jobs/model/modeltest"
)

// lossy is a process whose answers from Redis can be lost after what they answer
// was carried out. Its client sends nothing twice by itself.
func (l *line) lossy() (*process, *jobstest.Proxy) {
	l.Helper()
	proxy := jobstest.NewProxy(l, l.server.Addr)
	p := l.processAt(proxy.Addr, nil)
	l.must(p.store.Load(l.Context()))
	return p, proxy
}

// enqueueing marks Asynq's enqueue and schedule of a task.
const enqueueing = "tidings:attempt"

// TestAnAnswerLostAfterTheCommit loses the answer to each verb of a job's
// life once, and some twice in a row, which is more than the verb is repeated.
// One intended effect: one document, one transition each, and no second call.
func TestAnAnswerLostAfterTheCommit(t *testing.T) {
	t.Parallel()
	retried := []string{"queued 0/4", "processing 1/4 call 1/3", "retrying 1/4 call unavailable", "processing 1/4 call 2/3", "completed 1/4 version 1"}
	for _, tt := range []struct {
		verb string
		lost int
		// told and calls; nothing: as if no answer had been lost
		told  []string
		calls int
	}{
		{verb: "admit", lost: 1},
		{verb: "submit", lost: 1},
		{verb: "enqueue", lost: 1},
		{verb: "claim", lost: 1},
		// Nobody knows that it is claimed: a lost attempt, like a crash.
		{verb: "claim", lost: 2, calls: 2, told: []string{"queued 0/4", "processing 1/4 call 1/3", "retrying 1/4 queue worker_lost next 2",
			"processing 2/4 call 1/3", "retrying 2/4 call unavailable", "processing 2/4 call 2/3", "completed 2/4 version 1"}},
		{verb: "reserve", lost: 1},
		// Counted and not sent: the allowance is one less, and the queue goes on.
		{verb: "reserve", lost: 2, calls: 2, told: []string{"queued 0/4", "processing 1/4 call 1/3", "retrying 1/4 call unavailable",
			"processing 1/4 call 2/3", "retrying 1/4 queue storage next 2", "processing 2/4 call 1/3", "completed 2/4 version 1"}},
		{verb: "pause", lost: 1, calls: 2, told: []string{"queued 0/4", "processing 1/4 call 1/3", "retrying 1/4 call unavailable",
			"retrying 1/4 call unavailable", "processing 1/4 call 2/3", "completed 1/4 version 1"}},
		{verb: "settle", lost: 1},
		{verb: "settle", lost: 3}, // repeated for as long as the lease may live
		{verb: "leave", lost: 1},
	} {
		t.Run(fmt.Sprintf("%s, %d times", tt.verb, tt.lost), func(t *testing.T) {
			t.Parallel()
			l := newLine(t, modeltest.NewScripted(modeltest.Status(503), good()))
			p, proxy := l.lossy()
			l.process(nil).rescue()
			mark := enqueueing
			if tt.verb != "enqueue" {
				mark = p.store.Mark(tt.verb)
			}
			proxy.Lose(tt.lost, mark)
			p.work()
			ask := jobs.Submit{Topic: l.topic, Input: jobs.Input{Text: "some text"}, IdempotencyKey: "a key"}
			first, err := p.service.Submit(t.Context(), ask)
			if err != nil {
				t.Fatalf("submit: %v", err)
			}
			end := l.becomes("an end", func(t events.Transition) bool { return t.Status.Terminal() })
			l.until("all that was to be lost", func() bool { return proxy.Lost() == tt.lost })
			if tt.told == nil {
				tt.told, tt.calls = retried, 2
			}
			l.told(tt.told...)
			l.calls(tt.calls)
			l.tidy(0)
			discarded := func() float64 { return p.count("tidings_results_discarded_total") }
			l.until("the worker's word", func() bool { return p.count("tidings_attempts_total")+discarded() > 0 })
			if n := discarded(); n != 0 {
				t.Errorf("%v results were discarded", n)
			}
			if d, err := p.service.Document(t.Context(), l.topic); err != nil || d.Version != 1 || d.JobID != first.JobID || end.JobID != first.JobID {
				t.Errorf("document %+v %v of job %s", d, err, first.JobID)
			}
		})
	}
}

// TestAUsersRequestWhoseAnswerIsLost: retry and cancel.
func TestAUsersRequestWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	t.Run("retry of a failed job", func(t *testing.T) {
		t.Parallel()
		l := newLine(t, modeltest.NewScripted(modeltest.Status(500), good()))
		p, proxy := l.lossy()
		p.work().rescue()
		p.submit("some text")
		l.becomes("a failure", is(events.Failed))
		proxy.Lose(1, p.store.Mark("retry"))
		a, err := p.service.Retry(t.Context(), l.topic)
		if err != nil {
			t.Errorf("retry: %+v %v", a, err)
		}
		l.becomes("completed", is(events.Completed))
		l.told("queued 0/4", "processing 1/4 call 1/3", "error 1/4 failed internal retry=true",
			"queued 0/4 run_by_user", "processing 1/4 call 1/3", "completed 1/4 version 1")
		l.calls(2)
		l.tidy(0)
	})
	t.Run("retry of a waiting job", func(t *testing.T) {
		t.Parallel()
		l, _ := waiting(t, modeltest.NewScripted(good()), modeltest.Timeout(), "60s")
		p, proxy := l.lossy()
		p.work().rescue()
		proxy.Lose(1, p.store.Mark("retry"))
		a, err := p.service.Retry(t.Context(), l.topic)
		if err != nil {
			t.Errorf("retry: %+v %v", a, err)
		}
		l.becomes("completed", is(events.Completed))
		l.told("queued 0/4", "processing 1/4 call 1/3", "retrying 1/4 queue timeout next 2",
			"queued 1/4 run_by_user", "processing 2/4 call 1/3", "completed 2/4 version 1")
		l.calls(2)
		l.tidy(0)
	})
	t.Run("cancel", func(t *testing.T) {
		t.Parallel()
		m := newGated(false)
		l := newLine(t, m)
		p, proxy := l.lossy()
		p.work().rescue()
		p.submit("some text")
		<-m.arrived
		proxy.Lose(1, p.store.Mark("cancel"))
		a, err := p.service.Cancel(t.Context(), l.topic)
		if err != nil || a.Status != events.Failed {
			t.Errorf("cancel: %+v %v", a, err)
		}
		l.told("queued 0/4", "processing 1/4 call 1/3", "error 1/4 failed cancelled retry=false")
		l.tidy(0)
		l.calls(1)
	})
}

// TestTheRescuersAnswersAreLost: what it did is done, once.
func TestTheRescuersAnswersAreLost(t *testing.T) {
	t.Parallel()
	all := []struct {
		name, mark string
	}{
		{"the verb", "rescue"},
		{"the enqueue", enqueueing},
		{"that it was placed", "placed"},
		{"the look", "hmget"},
		{"what is due", "due"},
	}
	for _, tt := range all[:3+2*slow] {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := newGated(true)
			l := newLine(t, m)
			dead := l.process(nil).work()
			dead.submit("some text")
			<-m.arrived
			dead.life.kill()
			p, proxy := l.lossy()
			if tt.mark != enqueueing && tt.mark != "hmget" {
				tt.mark = p.store.Mark(tt.mark)
			}
			proxy.Lose(1, tt.mark)
			p.work().rescue()
			<-m.arrived
			m.answer("done")
			m.answer("for nobody")
			l.becomes("completed", is(events.Completed))
			l.told("queued 0/4", "processing 1/4 call 1/3", "retrying 1/4 queue worker_lost next 2", "processing 2/4 call 1/3", "completed 2/4 version 1")
			if proxy.Lost() != 1 {
				t.Errorf("%d answers were lost", proxy.Lost())
			}
		})
	}
}

// TestASettlementOfUnknownFate: the wait was stored, no answer ever came
// back, and the worker gave up. Its task comes back at once; the stored time
// holds all the same.
func TestASettlementOfUnknownFate(t *testing.T) {
	t.Parallel()
	l := newLine(t, modeltest.NewScripted(modeltest.Timeout(), good()))
	l.setting.Plan = plan(t, "5s")
	p, proxy := l.lossy()
	proxy.Lose(1000, p.store.Mark("settle"))
	job := p.work().submit("some text").JobID
	at := l.becomes("a wait", inQueue).NextRetryAt
	l.until("given up", func() bool { return p.book.has("an attempt could not be settled", job) == 1 })
	l.process(nil).work()
	l.becomes("the second attempt", func(t events.Transition) bool { return t.Attempt == 2 })
	if started := l.history()[3].At; started.Before(at) {
		t.Errorf("started %s before its time", at.Sub(started))
	}
	l.until("completed", func() bool {
		d, err := p.service.Document(context.Background(), l.topic)
		return err == nil && d.Version == 1
	})
	l.calls(2)
}
