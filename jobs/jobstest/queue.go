// Package jobstest holds a queue for tests that waits in virtual time, and the
// suite that it and the real one pass.
package jobstest

import (
	"context"
	"sync"
	"time"

	"github.com/tidings/tidings/jobs"
)

// Queue is an in-memory queue and its consumer. In a testing/synctest bubble
// its waits cost no real time. It follows the real one where that matters: a
// task comes at least once, not before its time, and is forgotten when done.
type Queue struct {
	mu      sync.Mutex
	tasks   map[string]*task
	paused  map[string]bool
	handler jobs.Handler
	drained bool
	running sync.WaitGroup
	started []Start
}

// Start tells when a task was handed to the handler.
type Start struct {
	Task jobs.Task
	At   time.Time
}

type task struct {
	jobs.Task
	state jobs.TaskState
	timer *time.Timer
	ran   bool // before its time, by RunNow
	taken int  // hand-outs, so that the verdict of a lost one is not heard
}

// NewQueue makes an empty queue.
func NewQueue() *Queue {
	return &Queue{tasks: map[string]*task{}, paused: map[string]bool{}}
}

// Starts returns every hand-out so far, in order.
func (q *Queue) Starts() []Start {
	q.mu.Lock()
	defer q.mu.Unlock()
	return append([]Start(nil), q.started...)
}

// Enqueue implements jobs.Queue.
func (q *Queue) Enqueue(_ context.Context, t jobs.Task, at time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.tasks[t.ID()] != nil {
		return nil
	}
	n := &task{Task: t}
	q.tasks[t.ID()] = n
	q.schedule(n, at)
	return nil
}

// schedule makes a task wait until at. The caller holds the lock.
func (q *Queue) schedule(n *task, at time.Time) {
	n.ran = false
	wait := time.Until(at)
	if at.IsZero() || wait <= 0 {
		n.state = jobs.TaskPending
		q.start(n)
		return
	}
	n.state = jobs.TaskScheduled
	n.timer = time.AfterFunc(wait, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if n.state == jobs.TaskScheduled && q.tasks[n.ID()] == n {
			n.state = jobs.TaskPending
			q.start(n)
		}
	})
}

// start hands a pending task out, if anybody takes it. The caller holds the
// lock.
func (q *Queue) start(n *task) {
	if n.state != jobs.TaskPending || q.handler == nil || q.drained || q.paused[n.Queue] {
		return
	}
	n.state = jobs.TaskActive
	n.taken++
	taken := n.taken
	q.started = append(q.started, Start{n.Task, time.Now()})
	handle := q.handler
	q.running.Add(1)
	go func() {
		defer q.running.Done()
		v := handle(context.Background(), n.Task)
		q.mu.Lock()
		defer q.mu.Unlock()
		if n.taken != taken {
			return
		}
		switch next, at := v.Next(); next {
		case jobs.NextDone:
			n.state = jobs.TaskDone
		case jobs.NextFinal:
			n.state = jobs.TaskArchived
		case jobs.NextAgain, jobs.NextUncounted:
			q.schedule(n, at)
		}
	}()
}

// RunNow implements jobs.Queue.
func (q *Queue) RunNow(_ context.Context, t jobs.Task) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.tasks[t.ID()]
	switch {
	case n == nil:
		return jobs.ErrTaskGone
	case n.state == jobs.TaskPending || n.state == jobs.TaskActive:
		return nil
	case n.state != jobs.TaskScheduled:
		return jobs.ErrTaskGone
	}
	n.timer.Stop()
	n.state, n.ran = jobs.TaskPending, true
	q.start(n)
	return nil
}

// Delete implements jobs.Queue.
func (q *Queue) Delete(_ context.Context, t jobs.Task) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := q.tasks[t.ID()]; n != nil && n.state != jobs.TaskActive {
		if n.timer != nil {
			n.timer.Stop()
		}
		delete(q.tasks, t.ID())
	}
	return nil
}

// States implements jobs.Queue.
func (q *Queue) States(_ context.Context, tasks []jobs.Task) ([]jobs.TaskState, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	states := make([]jobs.TaskState, len(tasks))
	for i, t := range tasks {
		states[i] = jobs.TaskMissing
		if n := q.tasks[t.ID()]; n != nil {
			states[i] = n.state
		}
	}
	return states, nil
}

// Ran implements jobs.Queue.
func (q *Queue) Ran(_ context.Context, t jobs.Task, _ time.Time) (bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.tasks[t.ID()]
	return n != nil && n.ran, nil
}

// Archive is what an operator does to a task that is not active.
func (q *Queue) Archive(t jobs.Task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := q.tasks[t.ID()]; n != nil && n.state != jobs.TaskActive {
		if n.timer != nil {
			n.timer.Stop()
		}
		n.state = jobs.TaskArchived
	}
}

// Recover brings a task back whose handler has not returned, as the real queue
// does when it takes a worker for dead.
func (q *Queue) Recover(t jobs.Task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := q.tasks[t.ID()]; n != nil && n.state == jobs.TaskActive {
		n.taken++
		q.schedule(n, time.Time{})
	}
}

// Pause stops handing out tasks of a queue; running ones go on.
func (q *Queue) Pause(queue string, paused bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.paused[queue] = paused
	if !paused {
		for _, n := range q.tasks {
			q.start(n)
		}
	}
}

// Paused implements jobs.Queue.
func (q *Queue) Paused(_ context.Context, queue string) (bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.paused[queue], nil
}

// Restore implements jobs.Queue; there is nothing to lose.
func (q *Queue) Restore(context.Context, string) error { return nil }

// Workers implements jobs.Queue.
func (q *Queue) Workers(context.Context, string) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.handler == nil || q.drained {
		return 0, nil
	}
	return 1, nil
}

// Start implements jobs.Consumer.
func (q *Queue) Start(h jobs.Handler) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.handler = h
	for _, n := range q.tasks {
		q.start(n)
	}
	return nil
}

// Drain implements jobs.Consumer.
func (q *Queue) Drain() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.drained = true
}

// Stop implements jobs.Consumer. It waits for running handlers.
func (q *Queue) Stop() {
	q.Drain()
	q.running.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, n := range q.tasks {
		if n.timer != nil {
			n.timer.Stop()
		}
	}
}

// RecoverAll does the same with every such task.
func (q *Queue) RecoverAll() {
	for _, t := range q.active() {
		q.Recover(t)
	}
}

func (q *Queue) active() (all []jobs.Task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, n := range q.tasks {
		if n.state == jobs.TaskActive {
			all = append(all, n.Task)
		}
	}
	return all
}
