package simulation

import (
	"context"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/jobs"
)

// queue brings tasks to workers at least once. It loses the word of processes that
// died, and brings their tasks again.
type queue struct {
	w     *world
	tasks map[string]*task
}

type task struct {
	jobs.Task
	state jobs.TaskState
	at    time.Time
	ran   bool     // before its time, by an operator
	with  *process // who has it
	taken int      // how often it was handed out
}

// processQueue is the queue as one process sees it.
type processQueue struct {
	*queue
	p *process
}

func (q processQueue) do(what string, do func() error) error {
	_, err := through(q.p, what, func() (struct{}, error) { return struct{}{}, do() })
	return err
}

func (q processQueue) Enqueue(_ context.Context, t jobs.Task, at time.Time) error {
	return q.do("enqueue", func() error {
		if q.tasks[t.ID()] == nil {
			q.tasks[t.ID()] = &task{Task: t, state: jobs.TaskPending, at: at}
			if at.After(time.Now()) {
				q.tasks[t.ID()].state = jobs.TaskScheduled
			}
		}
		return nil
	})
}

func (q processQueue) RunNow(_ context.Context, t jobs.Task) error {
	return q.do("run now", func() error {
		k := q.tasks[t.ID()]
		if k == nil || k.state == jobs.TaskDone || k.state == jobs.TaskArchived {
			return jobs.ErrTaskGone
		}
		if k.state == jobs.TaskScheduled {
			k.state, k.ran = jobs.TaskPending, true
		}
		return nil
	})
}

func (q processQueue) Delete(_ context.Context, t jobs.Task) error {
	return q.do("delete", func() error {
		if k := q.tasks[t.ID()]; k != nil && k.state != jobs.TaskActive {
			delete(q.tasks, t.ID())
		}
		return nil
	})
}

func (q processQueue) States(_ context.Context, tasks []jobs.Task) ([]jobs.TaskState, error) {
	return through(q.p, "states", func() ([]jobs.TaskState, error) {
		states := make([]jobs.TaskState, len(tasks))
		for i, t := range tasks {
			states[i] = jobs.TaskMissing
			if k := q.tasks[t.ID()]; k != nil {
				states[i] = k.state
			}
		}
		return states, nil
	})
}

func (q processQueue) Ran(_ context.Context, t jobs.Task, _ time.Time) (bool, error) {
	return through(q.p, "ran", func() (bool, error) {
		k := q.tasks[t.ID()]
		return k != nil && k.ran, nil
	})
}

func (q processQueue) Paused(context.Context, string) (bool, error) { return false, nil }
func (q processQueue) Restore(context.Context, string) error        { return nil }
func (q processQueue) Workers(context.Context, string) (int, error) { return 1, nil }

// sorted are the tasks in an order that does not depend on their ids' random part.
func (q *queue) sorted(of func(*task) bool) []*task {
	var found []*task
	for _, k := range q.tasks {
		if of(k) {
			found = append(found, k)
		}
	}
	slices.SortFunc(found, func(a, b *task) int { return strings.Compare(a.ID(), b.ID()) })
	return found
}

// due are the tasks that may be handed out. A queue that cuts times to seconds brings
// them up to a second early.
func (q *queue) due() []*task {
	return q.sorted(func(k *task) bool {
		return k.state == jobs.TaskPending || k.state == jobs.TaskScheduled && !k.at.After(time.Now().Add(time.Second))
	})
}

// hand gives a task to a process. Another one may have it still: at least once.
func (q *queue) hand(k *task, p *process) {
	w := q.w
	w.note("%s: takes task %d", p.name, k.Run)
	k.state, k.with = jobs.TaskActive, p
	k.taken++
	taken := k.taken
	go func() {
		v := p.worker.Attempt(p.ctx, k.Task)
		w.mu.Lock()
		defer w.mu.Unlock()
		if p.dead || taken != k.taken || q.tasks[k.ID()] != k {
			return
		}
		next, at := v.Next()
		k.with, k.ran = nil, false
		switch next {
		case jobs.NextDone:
			k.state = jobs.TaskDone
		case jobs.NextFinal:
			k.state = jobs.TaskArchived
		default:
			k.state, k.at = jobs.TaskScheduled, at
		}
	}()
	synctest.Wait()
}

// recover brings back the tasks of processes that died.
func (q *queue) recover() {
	for _, k := range q.sorted(func(k *task) bool { return k.state == jobs.TaskActive && k.with != nil && k.with.dead }) {
		k.state, k.with = jobs.TaskPending, nil
	}
}
