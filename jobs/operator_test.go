package jobs_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/model/modeltest"
)

// waiting makes a job that waits for its second attempt, with nobody at work.
func waiting(t *testing.T, m model.Provider, first modeltest.Step, delay string) (l *line, job string) {
	t.Helper()
	steps := modeltest.NewScripted(first)
	l = newLine(t, steps)
	l.setting.Plan = plan(t, delay)
	p := l.process(nil)
	if err := p.queue.Start(p.worker.Attempt); err != nil {
		t.Fatal(err)
	}
	job = p.submit("some text").JobID
	l.becomes("a wait", inQueue)
	l.until("waiting", func() bool { return l.state(l.task(job, 1)) == "retry" })
	p.queue.Drain()
	p.queue.Stop()
	l.model.swap(m)
	return l, job
}

// TestDeletedOrArchived: the row retrying, missing or archived. The task is
// gone for good, and a user may try again.
func TestDeletedOrArchived(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		do   func(l *line, id string) error
	}{
		{"deleted", func(l *line, id string) error { return l.operator.DeleteTask("summary", id) }},
		{"archived", func(l *line, id string) error { return l.operator.ArchiveTask("summary", id) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l, job := waiting(t, modeltest.NewScripted(good()), modeltest.Timeout(), "60s")
			l.must(tt.do(l, job+":1"))
			p := l.process(nil).work().rescue()
			l.becomes("removed", is(events.Failed))
			l.told("queued 0/4", "processing 1/4 call 1/3", "retrying 1/4 queue timeout next 2", "error 1/4 failed removed retry=true")
			l.tidy(int64(len(`{"text":"some text"}`)))
			if p.count("tidings_rescues_total") != 1 {
				t.Error("the rescue was not counted")
			}
			a, err := p.service.Retry(t.Context(), l.topic)
			if err != nil || a.JobID == job {
				t.Fatalf("retry: %+v %v", a, err)
			}
			l.becomes("completed", is(events.Completed))
			l.tidy(0)
		})
	}
}

// TestArchivedBeforeItRan: the row queued, archived.
func TestArchivedBeforeItRan(t *testing.T) {
	t.Parallel()
	l := newLine(t, modeltest.NewScripted(good()))
	p := l.process(nil)
	job := p.submit("some text").JobID
	l.must(l.operator.ArchiveTask("summary", job+":1"))
	p.rescuer.Tidy(t.Context()) // does not take it for an old one
	p.rescue()
	l.becomes("removed", is(events.Failed))
	l.told("queued 0/4", "error 0/4 failed removed retry=true")
}

// TestRunByAnOperator: told at the claim, and by the rescuer when no worker
// has a free hand. The next failure waits again.
func TestRunByAnOperator(t *testing.T) {
	t.Parallel()
	want := []string{"queued 0/4", "processing 1/4 call 1/3", "retrying 1/4 queue timeout next 2", "queued 1/4 run_by_operator",
		"processing 2/4 call 1/3", "completed 2/4 version 1"}
	t.Run("a worker takes it", func(t *testing.T) {
		t.Parallel()
		l, job := waiting(t, modeltest.NewScripted(good()), modeltest.Timeout(), "60s")
		l.process(nil).work()
		l.must(l.operator.RunTask("summary", job+":1"))
		l.becomes("completed", is(events.Completed))
		l.told(want...)
		l.tidy(0)
	})
	t.Run("nobody takes it yet", func(t *testing.T) {
		t.Parallel()
		l, job := waiting(t, modeltest.NewScripted(good()), modeltest.Timeout(), "60s")
		l.must(l.operator.RunTask("summary", job+":1"))
		l.process(nil).rescue()
		l.becomes("told", because(events.Queued, events.RunByOperator))
		l.process(nil).work()
		l.becomes("completed", is(events.Completed))
		l.told(want...)
		l.tidy(0)
	})
	t.Run("a task that was scheduled", func(t *testing.T) {
		t.Parallel()
		m := newGated(true)
		l := newLine(t, m)
		l.setting.Plan = plan(t, "60s")
		dead := l.process(nil).work()
		job := dead.submit("some text").JobID
		<-m.arrived
		dead.life.kill()
		l.process(nil).work().rescue()
		l.until("placed", func() bool { return l.state(l.task(job, 2)) == "scheduled" })
		l.must(l.operator.RunTask("summary", job+":2"))
		<-m.arrived
		m.answer("done")
		m.answer("for nobody")
		l.becomes("completed", is(events.Completed))
		l.told("queued 0/4", "processing 1/4 call 1/3", "retrying 1/4 queue worker_lost next 2", "queued 1/4 run_by_operator",
			"processing 2/4 call 1/3", "completed 2/4 version 1")
	})
}

// TestAProvidersWaitIsKept: an operator does not shorten it.
func TestAProvidersWaitIsKept(t *testing.T) {
	t.Parallel()
	l, job := waiting(t, modeltest.NewScripted(good()), modeltest.RateLimited(time.Minute), "1s")
	p := l.process(nil)
	l.must(l.operator.RunTask("summary", job+":1"))
	l.look(p)
	p.work()
	l.until("put back", func() bool { return l.state(l.task(job, 1)) == "retry" })
	info, err := l.operator.GetTaskInfo("summary", job+":1")
	if err != nil || time.Until(info.NextProcessAt) < 50*time.Second {
		t.Errorf("comes again at %v (%v)", info.NextProcessAt, err)
	}
	l.told("queued 0/4", "processing 1/4 call 1/3", "retrying 1/4 queue rate_limited next 2")
	l.calls(1)
}

// TestWhoeverEndsAJobAProvidersWaitIsKept: an operator who removes its task does
// not let its user call earlier.
func TestWhoeverEndsAJobAProvidersWaitIsKept(t *testing.T) {
	t.Parallel()
	l, job := waiting(t, modeltest.NewScripted(good()), modeltest.RateLimited(time.Minute), "1s")
	l.must(l.operator.DeleteTask("summary", job+":1"))
	p := l.process(nil).work().rescue()
	l.becomes("removed", is(events.Failed))
	all := l.history()
	if end := all[len(all)-1]; end.Reason != events.Removed || !end.CanRetry || end.RetryAvailableAt.Sub(end.At) < 40*time.Second {
		t.Errorf("ended as %+v", end)
	}
	_, err := p.service.Retry(t.Context(), l.topic)
	refused(t, err, "wait_required", 40*time.Second)
}

// TestPausedAndResumed: told once each, and a planned time is kept.
func TestPausedAndResumed(t *testing.T) {
	t.Parallel()
	t.Run("queued", func(t *testing.T) {
		t.Parallel()
		l := newLine(t, modeltest.NewScripted(good()))
		p := l.process(nil)
		l.must(l.client.SAdd(t.Context(), "asynq:queues", "summary").Err())
		l.must(l.operator.PauseQueue("summary"))
		p.submit("some text")
		p.work()
		for range 3 {
			l.look(p)
		}
		l.told("queued 0/4", "queued 0/4 queue_paused")
		l.must(l.operator.UnpauseQueue("summary"))
		p.rescue()
		l.becomes("completed", is(events.Completed))
		l.calls(1)
		l.tidy(0)
	})
	t.Run("retrying", func(t *testing.T) {
		t.Parallel()
		l, _ := waiting(t, modeltest.NewScripted(good()), modeltest.Timeout(), "60s")
		planned := l.history()[2].NextRetryAt
		p := l.process(nil)
		l.must(l.operator.PauseQueue("summary"))
		for range 2 {
			l.look(p)
		}
		l.must(l.operator.UnpauseQueue("summary"))
		for range 2 {
			l.look(p)
		}
		l.told("queued 0/4", "processing 1/4 call 1/3", "retrying 1/4 queue timeout next 2", "queued 1/4 queue_paused", "queued 1/4")
		for _, n := range l.history()[3:] {
			if !n.NotBefore.Equal(planned) {
				t.Errorf("planned for %s, told %s", planned, n.NotBefore)
			}
		}
	})
	t.Run("a running job goes on", func(t *testing.T) {
		t.Parallel()
		m := newGated(false)
		l := newLine(t, m)
		p := l.process(nil).work()
		p.submit("some text")
		<-m.arrived
		l.must(l.operator.PauseQueue("summary"))
		l.look(p)
		m.answer("done")
		l.becomes("completed", is(events.Completed))
		l.told("queued 0/4", "processing 1/4 call 1/3", "completed 1/4 version 1")
	})
}

// TestARecoveredTaskIsNotAnOperators: the worker died after it had stored
// the wait and before Asynq heard of it. Asynq brings the task back long before
// the time, and the stored time holds.
func TestARecoveredTaskIsNotAnOperators(t *testing.T) {
	t.Parallel()
	l := newLine(t, modeltest.NewScripted(modeltest.Timeout(), good()))
	l.setting.Plan = plan(t, "6s")
	dead := l.process(nil)
	dead.workAs(func(ctx context.Context, task jobs.Task) jobs.Verdict {
		v := dead.worker.Attempt(ctx, task)
		dead.life.kill()
		<-dead.life.over
		return v
	})
	job := dead.submit("some text").JobID
	at := l.becomes("a wait", inQueue).NextRetryAt
	if s := l.state(l.task(job, 1)); s != "active" {
		t.Fatalf("the task is %s", s)
	}
	l.expireAsynqLease(job + ":1")
	l.process(nil).work().rescue() // its Asynq recovers such tasks as it starts
	l.until("brought back", func() bool { return l.state(l.task(job, 1)) == "retry" })
	l.becomes("completed", is(events.Completed))
	l.told("queued 0/4", "processing 1/4 call 1/3", "retrying 1/4 queue timeout next 2", "processing 2/4 call 1/3", "completed 2/4 version 1")
	if started := l.history()[3].At; started.Before(at) {
		t.Errorf("started %s before its time", at.Sub(started))
	}
	l.calls(2)
}

// expireAsynqLease makes Asynq take the task's worker for dead, as it does by
// itself after half a minute or more.
func (l *line) expireAsynqLease(id string) {
	l.Helper()
	l.must(l.client.ZAddXX(l.Context(), "asynq:{summary}:lease",
		redis.Z{Score: float64(time.Now().Add(-time.Minute).Unix()), Member: id}).Err())
}

// TestARecoveredTaskOfAReplacedRun: Asynq brings the dead worker's task back when
// another run has taken over: it is dropped at the claim.
func TestARecoveredTaskOfAReplacedRun(t *testing.T) {
	t.Parallel()
	m := newGated(true)
	l := newLine(t, m)
	dead := l.process(nil).work()
	job := dead.submit("some text").JobID
	<-m.arrived
	dead.life.kill()
	l.process(nil).rescue()
	l.until("placed", func() bool { return l.state(l.task(job, 2)) == "scheduled" })
	l.expireAsynqLease(job + ":1")
	p := l.process(nil).work()
	<-m.arrived
	l.until("the old task dropped", func() bool { return p.book.has("a task was dropped", `"run":1`, `"because":"stale"`) == 1 })
	m.answer("done")
	m.answer("for nobody")
	l.becomes("completed", is(events.Completed))
	l.told("queued 0/4", "processing 1/4 call 1/3", "retrying 1/4 queue worker_lost next 2", "processing 2/4 call 1/3", "completed 2/4 version 1")
	if all, _ := l.model.counts(); all != 2 {
		t.Errorf("%d calls, want the lost one and another", all)
	}
}
