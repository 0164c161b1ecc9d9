package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/store"
)

// entry is one member of the index, and what was found about it.
type entry struct {
	topic events.Topic
	job   string
	task  Task
	read  store.Snapshot
	found found
	// current: the record is this job's and it has not ended. ended: it is this
	// job's and has. Neither: it was replaced, or never stored.
	current, ended bool
	err            error
}

// examine reads the records and logs of members of the index, all in one round
// trip, and asks the queue about those whose record leaves something open.
func (r *Rescuer) examine(ctx context.Context, checks dueChecks) []*entry {
	entries := make([]*entry, 0, len(checks.members))
	for _, m := range checks.members {
		topic, job, err := parseMember(m)
		entries = append(entries, &entry{topic: topic, job: job, err: err})
	}
	r.readRecords(ctx, checks.now, entries)
	var open []*entry
	for _, e := range entries {
		if e.err == nil && e.current && e.found.asks() {
			open = append(open, e)
		}
	}
	r.askQueue(ctx, open)
	r.askGates(ctx, open)
	return entries
}

func (r *Rescuer) readRecords(ctx context.Context, now time.Time, entries []*entry) {
	var readable []*entry
	var topics []events.Topic
	for _, e := range entries {
		if e.err == nil {
			readable, topics = append(readable, e), append(topics, e.topic)
		}
	}
	read, errs := r.Store.Records.ReadAll(ctx, topics, now)
	for i, e := range readable {
		e.err = errs[i]
		if e.err == nil {
			e.see(read[i], now)
		}
	}
}

func (e *entry) see(read store.Snapshot, now time.Time) {
	e.read, e.found.now = read, now
	j, last := read.Job, read.Last
	e.ended = last.JobID == e.job && last.Status.Terminal()
	e.current = last.JobID == e.job && !e.ended
	e.found = found{last: last, now: now, lost: j.ID != e.job, claimed: j.Claimed(now), nextRetry: j.NextRetryAt, notBefore: j.NotBefore,
		hint: j.HintUntil, told: j.PauseTold, missing: j.Missing, unplaced: j.Unplaced}
	wl, known := WorkloadNamed(e.topic.Workload)
	if !known && e.current { // of another version of this program, which looks after it
		e.err = fmt.Errorf("jobs: unknown workload %q", e.topic.Workload)
	}
	e.task = Task{Topic: e.topic, JobID: e.job, Run: j.Run, Queue: queueOf(j.Queue, wl)}
}

// askQueue completes what was found of waiting jobs, one queue after the other.
func (r *Rescuer) askQueue(ctx context.Context, entries []*entry) {
	byQueue := map[string][]*entry{}
	for _, e := range entries {
		byQueue[e.task.Queue] = append(byQueue[e.task.Queue], e)
	}
	for queue, entries := range byQueue {
		if err := r.askOne(ctx, queue, entries); err != nil {
			for _, e := range entries {
				e.err = err
			}
		}
	}
}

func (r *Rescuer) askOne(ctx context.Context, queue string, entries []*entry) error {
	tasks := make([]Task, len(entries))
	for i, e := range entries {
		tasks[i] = e.task
	}
	states, err := r.Queue.States(ctx, tasks)
	if err != nil {
		return err
	}
	paused, err := r.Queue.Paused(ctx, queue)
	if err != nil {
		return err
	}
	offered := make([]bool, len(tasks))
	if queue == OutsideQueue {
		if offered, err = r.Store.offered(ctx, tasks); err != nil {
			return err
		}
	}
	workers := -1 // not asked yet
	for i, e := range entries {
		f := &e.found
		f.task, f.paused, f.offered = states[i], paused, offered[i]
		if f.task == TaskPending && workers < 0 {
			if workers, err = r.Queue.Workers(ctx, queue); err != nil {
				return err
			}
		}
		f.workers = workers
		if f.tooEarly() {
			f.ran, e.err = r.Queue.Ran(ctx, e.task, localTime(f.due(), f.now))
		}
	}
	return nil
}

// askGates completes what was found of jobs that wait for a gate. While a breaker
// tests its dependency, only as many may go on as tests are wanted.
func (r *Rescuer) askGates(ctx context.Context, entries []*entry) {
	if r.Gate == nil {
		return
	}
	room := map[string]int{}
	for _, e := range entries {
		if e.err != nil || !e.found.heldBack() {
			continue
		}
		free, known := room[e.read.Job.Dependency]
		if !known {
			if state, err := r.Gate.Inspect(ctx, e.read.Job.Dependency); err != nil {
				r.Log.WarnContext(ctx, "a gate could not be asked", "dependency", e.read.Job.Dependency, "error", err)
			} else {
				free = r.Gate.Room(state)
			}
		}
		e.found.gateOpen = free > 0
		room[e.read.Job.Dependency] = free - 1
	}
}

// localTime is a time of Redis's clock on this process's, which is the queue's.
// now is what Redis's clock showed a moment ago.
func localTime(t, now time.Time) time.Time {
	if !t.After(now) {
		return time.Time{}
	}
	return time.Now().Add(t.Sub(now))
}
