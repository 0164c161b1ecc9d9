package jobs_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/model/modeltest"
)

// failingQueue is a queue whose verbs fail while they are failingQueue, as when the process
// ends before that step.
type failingQueue struct {
	jobs.Queue
	mu           sync.Mutex
	enqueue, run bool
}

func (q *failingQueue) set(enqueue, run bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.enqueue, q.run = enqueue, run
}

func (q *failingQueue) Enqueue(ctx context.Context, t jobs.Task, at time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.enqueue {
		return events.ErrUnavailable
	}
	return q.Queue.Enqueue(ctx, t, at)
}

func (q *failingQueue) RunNow(ctx context.Context, t jobs.Task) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.run {
		return events.ErrUnavailable
	}
	return q.Queue.RunNow(ctx, t)
}

// through puts the failingQueue queue before the real one.
func (q *failingQueue) through(real jobs.Queue) jobs.Queue {
	q.Queue = real
	return q
}

// TestStoredButNotEnqueued: the row queued, missing. A submit that ended before
// its third step.
func TestStoredButNotEnqueued(t *testing.T) {
	t.Parallel()
	l := newLine(t, modeltest.NewScripted(good()))
	l.process((&failingQueue{enqueue: true}).through).submit("some text")
	l.process(nil).work().rescue()
	l.becomes("completed", is(events.Completed))
	l.told("queued 0/4", "processing 1/4 call 1/3", "completed 1/4 version 1")
	l.calls(1)
	l.tidy(0)
}

// TestADeletedQueuedTask: the row queued, missing, twice in vain. An operator
// who insists gets what he wants.
func TestADeletedQueuedTask(t *testing.T) {
	t.Parallel()
	l := newLine(t, modeltest.NewScripted(good()))
	p := l.process(nil)
	job := p.submit("some text").JobID
	p.rescue()
	deleted := 0
	l.until("removed", func() bool {
		if l.operator.DeleteTask("summary", job+":1") == nil {
			deleted++
		}
		all := l.history()
		return all[len(all)-1].Status == events.Failed
	})
	l.told("queued 0/4", "error 0/4 failed removed retry=true")
	if deleted != 3 {
		t.Errorf("it took %d deletions, want 3: enqueued again twice", deleted)
	}
	l.calls(0)
}

// TestRunNowThatDidNotReachTheQueue: the row queued, waiting without a time. A
// user's tap was stored, and the process ended before the task was run.
func TestRunNowThatDidNotReachTheQueue(t *testing.T) {
	t.Parallel()
	l := newLine(t, modeltest.NewScripted(modeltest.Timeout(), good()))
	l.setting.Plan = plan(t, "60s")
	q := &failingQueue{}
	p := l.process(q.through).work()
	p.submit("some text")
	l.becomes("a wait", inQueue)
	q.set(false, true)
	if a, err := p.service.Retry(t.Context(), l.topic); err != nil || a.Status != events.Queued {
		t.Fatalf("retry: %+v %v", a, err)
	}
	l.process(nil).rescue()
	l.becomes("completed", is(events.Completed))
	l.told("queued 0/4", "processing 1/4 call 1/3", "retrying 1/4 queue timeout next 2", "queued 1/4 run_by_user",
		"processing 2/4 call 1/3", "completed 2/4 version 1")
	l.tidy(0)
}

// TestNoWorker: the row queued, pending, no live worker; and back.
func TestNoWorker(t *testing.T) {
	t.Parallel()
	l := newLine(t, modeltest.NewScripted(good()))
	p := l.process(nil)
	p.rescuer.Patience = 100 * time.Millisecond
	p.submit("some text")
	p.rescue()
	l.becomes("no worker", because(events.Queued, events.NoWorker))
	l.process(nil).work()
	l.becomes("completed", is(events.Completed))
	l.told("queued 0/4", "queued 0/4 no_worker", "processing 1/4 call 1/3", "completed 1/4 version 1")
	l.tidy(0)
}

// TestTakenAndNeverClaimed: the row active without a claim. A worker took
// the task and died before its claim, and Asynq has lost its lease as well, so
// that it will never bring the task back.
func TestTakenAndNeverClaimed(t *testing.T) {
	t.Parallel()
	l := newLine(t, modeltest.NewScripted(good()))
	taken := make(chan struct{})
	dead := l.process(nil)
	dead.workAs(func(context.Context, jobs.Task) jobs.Verdict {
		close(taken)
		<-dead.life.over
		return jobs.Done()
	})
	job := dead.submit("some text").JobID
	<-taken
	dead.life.kill()
	l.must(l.client.ZRem(t.Context(), "asynq:{summary}:lease", job+":1").Err())
	p := l.process(nil).work()
	p.rescuer.Patience = 100 * time.Millisecond
	p.rescue()
	l.becomes("completed", is(events.Completed))
	if s := l.state(l.task(job, 1)); s != "active" {
		t.Errorf("the dead worker's task is %q: it was to be left alone", s)
	}
	l.calls(1)
	l.tidy(0)
}

// diedInACall is a line whose only process was killed while its job was in a call.
func diedInACall(t *testing.T) (l *line, m *gated, job string) {
	t.Helper()
	m = newGated(true)
	l = newLine(t, m)
	dead := l.process(nil).work()
	job = dead.submit("some text").JobID
	<-m.arrived
	dead.life.kill()
	return l, m, job
}

// TestALostClaimWithoutALease: the same with a claim, in the middle of a
// call: told as retrying, and done again by another run.
func TestALostClaimWithoutALease(t *testing.T) {
	t.Parallel()
	l, m, job := diedInACall(t)
	l.must(l.client.ZRem(t.Context(), "asynq:{summary}:lease", job+":1").Err())
	l.process(nil).work().rescue()
	at := l.becomes("lost", because(events.Retrying, events.WorkerLost)).NextRetryAt
	<-m.arrived
	m.answer("of the second")
	m.answer("of the first, for nobody")
	l.becomes("completed", is(events.Completed))
	if started := l.history()[3].At; started.Before(at) || started.Sub(at) > 3*time.Second {
		t.Errorf("told %s, started %s", at, started)
	}
	l.told("queued 0/4", "processing 1/4 call 1/3", "retrying 1/4 queue worker_lost next 2", "processing 2/4 call 1/3", "completed 2/4 version 1")
	if s := l.state(l.task(job, 1)); s != "active" {
		t.Errorf("the dead worker's task is %q: it was to be left alone", s)
	}
}

// TestItsTimePassed: the row retrying, T passed, still waiting. Nobody moves
// waiting tasks while no worker lives.
func TestItsTimePassed(t *testing.T) {
	t.Parallel()
	l := newLine(t, modeltest.NewScripted(modeltest.Timeout(), good()))
	p := l.process(nil)
	if err := p.queue.Start(p.worker.Attempt); err != nil {
		t.Fatal(err)
	}
	job := p.submit("some text").JobID
	l.becomes("a wait", inQueue)
	l.until("waiting", func() bool { return l.state(l.task(job, 1)) == "retry" })
	p.queue.Drain()
	p.queue.Stop()
	r := l.process(nil)
	r.rescuer.Patience = 100 * time.Millisecond
	r.rescue()
	l.until("another run", func() bool { return l.state(l.task(job, 2)) == "pending" })
	l.process(nil).work()
	l.becomes("completed", is(events.Completed))
	l.until("the old task dropped", func() bool { return l.state(l.task(job, 1)) == "completed" })
	l.calls(2)
	l.tidy(0)
}

// TestARunThatWasNeverPlaced: the record has started another run, and the
// process ended before its task was enqueued. That is not a deleted task.
func TestARunThatWasNeverPlaced(t *testing.T) {
	t.Parallel()
	l, m, job := diedInACall(t)
	half := l.process((&failingQueue{enqueue: true}).through)
	l.until("lost", func() bool {
		_, err := half.rescuer.Round(t.Context())
		l.must(err)
		return inQueue(l.history()[len(l.history())-1])
	})
	if s := l.state(l.task(job, 2)); s != "" {
		t.Fatalf("the second run's task is %s", s)
	}
	l.process(nil).work().rescue()
	<-m.arrived
	m.answer("done")
	m.answer("for nobody")
	l.becomes("completed", is(events.Completed))
	l.told("queued 0/4", "processing 1/4 call 1/3", "retrying 1/4 queue worker_lost next 2", "processing 2/4 call 1/3", "completed 2/4 version 1")
}

// enqueued is a queue whose process is killed when it has enqueued a task.
type enqueued struct {
	jobs.Queue
	kill func()
}

func (q *enqueued) Enqueue(ctx context.Context, t jobs.Task, at time.Time) error {
	err := q.Queue.Enqueue(ctx, t, at)
	q.kill()
	return err
}

// TestAClaimProvesThatItWasPlaced: the record never got to know that the new
// run's task was enqueued. Once it was claimed, a missing task is a deleted one.
func TestAClaimProvesThatItWasPlaced(t *testing.T) {
	t.Parallel()
	l, m, job := diedInACall(t)
	q := &enqueued{}
	half := l.process(func(real jobs.Queue) jobs.Queue { q.Queue = real; return q })
	q.kill = half.life.kill
	half.rescue()
	l.until("enqueued", func() bool { return l.state(l.task(job, 2)) == "scheduled" })
	l.model.swap(modeltest.NewScripted(modeltest.RateLimited(time.Minute)))
	healer := l.process(nil).work()
	l.becomes("the second wait", func(n events.Transition) bool { return inQueue(n) && n.Attempt == 2 })
	l.until("waiting", func() bool { return l.state(l.task(job, 2)) == "retry" })
	l.must(l.operator.DeleteTask("summary", job+":2"))
	l.look(healer)
	l.becomes("removed", because(events.Failed, events.Removed))
	m.answer("for nobody")
}

// TestTheDeadlineEndsAWaitingJob: the row deadline passed.
func TestTheDeadlineEndsAWaitingJob(t *testing.T) {
	t.Parallel()
	l := newLine(t, modeltest.NewScripted(good()))
	l.setting.Deadline = 200 * time.Millisecond
	p := l.process(nil)
	p.submit("some text")
	p.rescue()
	l.becomes("an end", is(events.Failed))
	l.told("queued 0/4", "error 0/4 deadline_exceeded deadline retry=true")
	l.process(nil).work() // its task comes and is dropped
	l.tidy(int64(len(`{"text":"some text"}`)))
	l.calls(0)
	if n := p.count("tidings_jobs_ended_total"); n != 1 {
		t.Errorf("%v ends counted", n)
	}
}

// TestOldFailedTasksAreDeleted: the row ended, archived over 24 h. Running one
// from the archive does nothing, and leaves a line.
func TestOldFailedTasksAreDeleted(t *testing.T) {
	t.Parallel()
	l := newLine(t, modeltest.NewScripted(modeltest.Status(500)))
	p := l.process(nil).work()
	job := p.submit("some text").JobID
	l.becomes("an end", is(events.Failed))
	ended := l.task(job, 1)
	l.until("archived", func() bool { return l.state(ended) == "archived" })

	before := story(l.history())
	l.must(l.operator.RunTask("summary", ended.ID()))
	l.until("dropped", func() bool { return l.state(ended) == "completed" })
	if p.book.has("a task was dropped", job, `"because":"ended"`) != 1 || story(l.history()) != before {
		t.Errorf("running a failed task: %s", story(l.history()))
	}

	// Two that an operator archived and that never ran: a day ago, and just now.
	old, fresh := l.task("J-old", 1), l.task("J-fresh", 1)
	for _, task := range []jobs.Task{old, fresh} {
		l.must(p.queue.Enqueue(t.Context(), task, time.Now().Add(time.Hour)))
		l.must(l.operator.ArchiveTask("summary", task.ID()))
	}
	l.must(l.client.ZAddXX(t.Context(), "asynq:{summary}:archived",
		redis.Z{Score: float64(time.Now().Add(-24*time.Hour - time.Minute).Unix()), Member: old.ID()}).Err())
	p.rescuer.Tidy(t.Context())
	if s := l.state(old); s != "" {
		t.Errorf("after a day it is %s", s)
	}
	if s := l.state(fresh); s != "archived" {
		t.Errorf("at once it is %q", s)
	}
}

// TestAQueueNameThatWasLost: the row queue name lost. Jobs are left alone, and
// the name comes back.
func TestAQueueNameThatWasLost(t *testing.T) {
	t.Parallel()
	l := newLine(t, modeltest.NewScripted(modeltest.Timeout(), good()))
	l.setting.Plan = plan(t, "60s")
	p := l.process(nil).work()
	job := p.submit("some text").JobID
	l.becomes("a wait", inQueue)
	l.must(l.client.Del(t.Context(), "asynq:queues").Err())
	if _, err := l.operator.GetTaskInfo("summary", job+":1"); !errors.Is(err, asynq.ErrQueueNotFound) {
		t.Fatalf("the name is not lost: %v", err)
	}
	for range 3 {
		l.look(p)
	}
	if got := l.history(); !inQueue(got[len(got)-1]) {
		t.Errorf("told\n%s", story(got))
	}
	p.rescue()
	l.until("the name", func() bool { return l.state(l.task(job, 1)) == "retry" })
	if _, err := p.service.Retry(t.Context(), l.topic); err != nil {
		t.Fatal(err)
	}
	l.becomes("completed", is(events.Completed))
}

// TestAnEntryWithoutAJobIsPruned: a submit that ended after its admission. Not
// at once: a submit may take its time, and keeps its place if it took too long.
func TestAnEntryWithoutAJobIsPruned(t *testing.T) {
	t.Parallel()
	l := newLine(t, modeltest.NewScripted(good()))
	p := l.process(nil)
	open := func() int64 {
		n, _, err := jobs.Counted(t.Context(), l.client)
		l.must(err)
		return n
	}
	job := ulidNow()
	l.must(p.store.Admit(t.Context(), l.topic, job, 100))
	patient := l.process(nil)
	patient.store.CheckEvery = time.Minute
	l.look(patient)
	if open() != 1 {
		t.Error("an entry was pruned at once")
	}

	// A submit hangs between its steps until a rescuer has pruned its entry.
	hung, admitted, pruned := l.process(nil), make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(admitted) })
	hung.life.look(func(c redis.Cmder) {
		if hung.store.Sends(c, "submit") {
			once()
			<-pruned
		}
	})
	l.look(p) // and is due again soon
	p.rescue()
	done := make(chan struct{})
	go func() {
		defer close(done)
		hung.submit("some text")
	}()
	<-admitted
	l.until("pruned", func() bool { return open() == 0 })
	close(pruned)
	<-done
	if open() != 1 {
		t.Error("a live job is not in the index")
	}
	l.process(nil).work()
	l.becomes("completed", is(events.Completed))
	l.tidy(0)
}

// TestAnEndedJobLeavesTheIndex: a worker that ended between its last two steps.
func TestAnEndedJobLeavesTheIndex(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		step modeltest.Step
		end  events.Status
		left int64
	}{
		{"completed", good(), events.Completed, 0},
		{"failed", modeltest.Status(500), events.Failed, int64(len(`{"text":"some text"}`))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, modeltest.NewScripted(tt.step))
			p := l.process(nil)
			p.life.look(func(c redis.Cmder) {
				if p.store.Sends(c, "leave") {
					p.life.kill()
				}
			})
			p.work().submit("some text")
			l.becomes("an end", is(tt.end))
			l.process(nil).rescue()
			l.tidy(tt.left)
		})
	}
}
