package jobstest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
)

// Subject is a queue under test, with the operator's hands on it.
type Subject interface {
	jobs.Queue
	jobs.Consumer
}

// Suite checks what every queue must do. fresh makes an empty, unstarted queue;
// pause is what an operator does to the queue "summary" outside of it; slack is
// how much before its time the queue may bring a task, because of how it stores
// times (the claim checks them).
func Suite(t *testing.T, slack time.Duration, fresh func(t *testing.T) (q Subject, pause func(bool))) {
	run := func(name string, body func(b *bench)) {
		t.Run(name, func(t *testing.T) {
			q, pause := fresh(t)
			b := &bench{T: t, q: q, pause: pause, slack: slack, came: make(chan arrival, 100), plans: map[string][]jobs.Verdict{}}
			body(b)
		})
	}
	run("a task comes once and is done", (*bench).once)
	run("a task that is there is a success", (*bench).conflict)
	run("not before its time", (*bench).notBefore)
	run("again at the stored time", (*bench).again)
	run("uncounted, however often", (*bench).uncounted)
	run("final is archived and stays away", (*bench).final)
	run("run now", (*bench).runNow)
	run("who ran it", (*bench).ran)
	run("delete", (*bench).delete)
	run("paused", (*bench).paused)
	run("drained", (*bench).drained)
}

type arrival struct {
	task jobs.Task
	at   time.Time
}

type bench struct {
	*testing.T
	q     Subject
	pause func(bool)
	slack time.Duration
	came  chan arrival
	mu    sync.Mutex
	plans map[string][]jobs.Verdict
	next  int
	hold  chan struct{} // handlers wait for it to close; nil: they do not
}

// task makes a task that is answered with the verdicts in turn, then done.
func (b *bench) task(plan ...jobs.Verdict) jobs.Task {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	t := jobs.Task{Topic: events.NewTopic("", fmt.Sprintf("s-%d", b.next), "summary"), JobID: fmt.Sprintf("J%d", b.next), Run: 1, Queue: "summary"}
	b.plans[t.ID()] = plan
	return t
}

func (b *bench) start() {
	b.Helper()
	err := b.q.Start(func(_ context.Context, t jobs.Task) jobs.Verdict {
		now := time.Now()
		if b.hold != nil {
			<-b.hold
		}
		b.mu.Lock()
		v := jobs.Done()
		if p := b.plans[t.ID()]; len(p) > 0 {
			v, b.plans[t.ID()] = p[0], p[1:]
		}
		b.mu.Unlock()
		b.came <- arrival{t, now}
		return v
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(b.q.Stop)
}

func (b *bench) enqueue(t jobs.Task, at time.Time) {
	b.Helper()
	if err := b.q.Enqueue(b.Context(), t, at); err != nil {
		b.Fatal(err)
	}
}

// arrives waits for the next hand-out.
func (b *bench) arrives() arrival {
	b.Helper()
	select {
	case a := <-b.came:
		return a
	case <-time.After(20 * time.Second):
		b.Fatal("no task came within 20 s")
		return arrival{}
	}
}

// none looks for d that nothing comes.
func (b *bench) none(d time.Duration) {
	b.Helper()
	select {
	case a := <-b.came:
		b.Fatalf("task %s came", a.task.ID())
	case <-time.After(d):
	}
}

// becomes waits until the queue has the task in that state.
func (b *bench) becomes(t jobs.Task, want jobs.TaskState) {
	b.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.After(10 * time.Second)
	for {
		states, err := b.q.States(b.Context(), []jobs.Task{t})
		if err != nil {
			b.Fatal(err)
		}
		got := states[0]
		if got == want {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			b.Fatalf("task is %s, want %s", got, want)
		}
	}
}

func (b *bench) once() {
	b.start()
	t := b.task()
	b.enqueue(t, time.Time{})
	if got := b.arrives().task; got != t {
		b.Errorf("came %+v, want %+v", got, t)
	}
	b.becomes(t, jobs.TaskDone)
	if n, err := b.q.Workers(b.Context(), "summary"); err != nil || n != 1 {
		b.Errorf("%d workers, %v", n, err)
	}
	b.none(100 * time.Millisecond)
}

func (b *bench) conflict() {
	t := b.task()
	b.enqueue(t, time.Time{})
	b.enqueue(t, time.Now().Add(time.Hour))
	b.start()
	b.arrives()
	b.becomes(t, jobs.TaskDone)
	b.enqueue(t, time.Time{})
	b.none(200 * time.Millisecond)
}

func (b *bench) early(a arrival, at time.Time) {
	b.Helper()
	if early := at.Sub(a.at); early > b.slack {
		b.Errorf("came %s before its time", early)
	}
	if late := a.at.Sub(at); late > 5*time.Second {
		b.Errorf("came %s after its time", late)
	}
}

func (b *bench) notBefore() {
	b.start()
	t, at := b.task(), time.Now().Add(2*time.Second)
	b.enqueue(t, at)
	b.becomes(t, jobs.TaskScheduled)
	b.early(b.arrives(), at)
}

func (b *bench) again() {
	at := time.Now().Add(2 * time.Second)
	t := b.task(jobs.Again(at, "overloaded"))
	b.start()
	b.enqueue(t, time.Time{})
	b.arrives()
	b.becomes(t, jobs.TaskScheduled)
	b.early(b.arrives(), at)
	b.becomes(t, jobs.TaskDone)
}

func (b *bench) uncounted() {
	plan := make([]jobs.Verdict, 8)
	for i := range plan {
		plan[i] = jobs.Uncounted(time.Now(), "draining")
	}
	t := b.task(plan...)
	b.start()
	b.enqueue(t, time.Time{})
	for range 9 {
		b.arrives()
	}
	b.becomes(t, jobs.TaskDone)
}

func (b *bench) final() {
	t := b.task(jobs.Final("auth"))
	b.start()
	b.enqueue(t, time.Time{})
	b.arrives()
	b.becomes(t, jobs.TaskArchived)
	if err := b.q.RunNow(b.Context(), t); !errors.Is(err, jobs.ErrTaskGone) {
		b.Errorf("running it again: %v", err)
	}
	b.none(200 * time.Millisecond)
}

func (b *bench) runNow() {
	t := b.task(jobs.Again(time.Now().Add(time.Hour), "overloaded"))
	hold := make(chan struct{})
	b.hold = hold
	b.start()
	if err := b.q.RunNow(b.Context(), t); !errors.Is(err, jobs.ErrTaskGone) {
		b.Errorf("running an unknown task: %v", err)
	}
	b.enqueue(t, time.Now().Add(time.Hour))
	b.becomes(t, jobs.TaskScheduled)
	var wg sync.WaitGroup
	for range 20 { // all of them before the first run ends
		wg.Go(func() {
			if err := b.q.RunNow(b.Context(), t); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	close(hold)
	b.arrives()
	b.becomes(t, jobs.TaskScheduled) // it asked for another hour
	b.none(200 * time.Millisecond)
	if err := b.q.RunNow(b.Context(), t); err != nil {
		b.Error(err)
	}
	b.arrives()
	b.becomes(t, jobs.TaskDone)
	if err := b.q.RunNow(b.Context(), t); !errors.Is(err, jobs.ErrTaskGone) {
		b.Errorf("running a finished task: %v", err)
	}
	b.none(200 * time.Millisecond)
}

// ran tells a task that somebody ran from one that came by itself.
func (b *bench) ran() {
	check := func(what string, t jobs.Task, due time.Time, want bool) {
		b.Helper()
		if got, err := b.q.Ran(b.Context(), t, due); err != nil || got != want {
			b.Errorf("%s: ran is %v (%v), want %v", what, got, err, want)
		}
	}
	due := time.Now().Add(time.Hour).Truncate(time.Second)
	scheduled, again := b.task(), b.task(jobs.Again(due, "overloaded"))
	back := b.task(jobs.Uncounted(time.Now().Add(time.Second), "storage"))
	b.start()
	check("an unknown task", scheduled, due, false)
	for _, t := range []jobs.Task{scheduled, again, back} {
		b.enqueue(t, map[bool]time.Time{true: due}[t == scheduled])
	}
	b.arrives()
	b.arrives()
	b.becomes(again, jobs.TaskScheduled)
	b.becomes(back, jobs.TaskScheduled)
	b.pause(true) // so that they stay where they are
	for _, t := range []jobs.Task{scheduled, again} {
		if err := b.q.RunNow(b.Context(), t); err != nil {
			b.Fatal(err)
		}
	}
	b.becomes(back, jobs.TaskPending) // by itself
	check("a scheduled task", scheduled, due, true)
	check("a task that waits after a try", again, due, true)
	check("a task that came at another time", back, due, false)
	b.pause(false)
	for range 3 {
		b.arrives()
	}
}

func (b *bench) delete() {
	b.hold = make(chan struct{})
	b.start()
	active := b.task()
	b.enqueue(active, time.Time{})
	b.becomes(active, jobs.TaskActive)
	if err := b.q.Delete(b.Context(), active); err != nil {
		b.Errorf("deleting an active task: %v", err)
	}
	close(b.hold)
	b.arrives()
	b.becomes(active, jobs.TaskDone)
	t := b.task()
	if err := b.q.Delete(b.Context(), t); err != nil {
		b.Errorf("deleting an unknown task: %v", err)
	}
	b.enqueue(t, time.Now().Add(2*time.Second))
	if err := b.q.Delete(b.Context(), t); err != nil {
		b.Fatal(err)
	}
	b.becomes(t, jobs.TaskMissing)
	b.none(3 * time.Second)
}

func (b *bench) paused() {
	b.start()
	b.enqueue(b.task(), time.Time{}) // so that the queue is known
	b.arrives()
	b.pause(true)
	t := b.task()
	b.enqueue(t, time.Time{})
	if p, err := b.q.Paused(b.Context(), "summary"); err != nil || !p {
		b.Errorf("paused %v, %v", p, err)
	}
	b.becomes(t, jobs.TaskPending)
	b.none(200 * time.Millisecond)
	b.pause(false)
	if p, err := b.q.Paused(b.Context(), "summary"); err != nil || p {
		b.Errorf("paused %v, %v", p, err)
	}
	b.arrives()
}

func (b *bench) drained() {
	b.start()
	b.enqueue(b.task(), time.Time{})
	b.arrives()
	b.q.Drain()
	t := b.task()
	b.enqueue(t, time.Time{})
	b.none(300 * time.Millisecond)
	b.becomes(t, jobs.TaskPending)
}
