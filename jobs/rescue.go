package jobs

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/retry"
)

// Bounds of the rescuer, in time since something went wrong.
const (
	// overdue is how long after its time a waiting task may still be on its way.
	overdue = 5 * time.Second
	// unserved is how long a task may be pending before a missing worker is told.
	unserved = 5 * time.Second
	// rescueBatch is how many entries of the index one round takes.
	rescueBatch = 200
	// rescueRound is the pause between rounds that found nothing due.
	rescueRound = time.Second
)

// RescuerOptions is what a Rescuer is made of.
type RescuerOptions struct {
	Store    *Store
	Queue    Queue
	Settings retry.Settings
	// Sweep deletes old archived tasks of a queue; nil if the queue has none.
	Sweep   func(ctx context.Context, queue string) (int, error)
	Metrics *Metrics
	Log     *slog.Logger
}

// Rescuer puts right what happened without a word: a worker that died, a task
// that an operator deleted, archived or ran, a paused queue, a crash between
// two steps of a submit. It compares the job record, the log and the queue's
// view of the current run's task, and never touches an active task. Every
// process with Redis runs one; they share the index of open jobs, and every
// open job is looked at each 10 s by one of them.
type Rescuer struct{ RescuerOptions }

// NewRescuer makes a Rescuer.
func NewRescuer(o RescuerOptions) *Rescuer { return &Rescuer{o} }

// Run works until ctx ends.
func (r *Rescuer) Run(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	var swept time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		n, err := r.Round(ctx)
		if err != nil && ctx.Err() == nil {
			r.Log.WarnContext(ctx, "a rescue round failed and is repeated", "error", err)
		}
		if time.Since(swept) > time.Minute {
			r.sweep(ctx)
			swept = time.Now()
		}
		if n < rescueBatch || err != nil {
			pause.Reset(rescueRound)
		} else {
			pause.Reset(0)
		}
	}
}

// Round looks at the open jobs whose check is due, at most 200, and returns how
// many there were.
func (r *Rescuer) Round(ctx context.Context) (int, error) {
	due, err := r.Store.due(ctx, rescueBatch)
	if err != nil || len(due) == 0 {
		return 0, err
	}
	q := &queueView{queue: r.Queue, paused: map[string]bool{}, workers: map[string]int{}}
	for _, m := range due {
		topic, job, err := parseMember(m)
		if err == nil {
			err = r.rescue(ctx, topic, job, q)
		}
		if err != nil {
			if ctx.Err() != nil {
				return len(due), ctx.Err()
			}
			r.Log.WarnContext(ctx, "a job could not be checked", "job", job, "error", err)
		}
	}
	return len(due), nil
}

func (r *Rescuer) sweep(ctx context.Context) {
	for _, queue := range QueueNames() {
		if err := r.Queue.Restore(ctx, queue); err != nil {
			r.Log.WarnContext(ctx, "a queue's name could not be restored", "queue", queue, "error", err)
		}
		if r.Sweep == nil {
			continue
		}
		if n, err := r.Sweep(ctx, queue); err != nil {
			r.Log.WarnContext(ctx, "old failed tasks could not be deleted", "queue", queue, "error", err)
		} else if n > 0 {
			r.Log.InfoContext(ctx, "old failed tasks deleted", "queue", queue, "count", n)
		}
	}
}

// queueView asks the queue once per round what is the same for all its tasks.
type queueView struct {
	queue   Queue
	paused  map[string]bool
	workers map[string]int
}

func (v *queueView) isPaused(ctx context.Context, name string) (bool, error) {
	if p, ok := v.paused[name]; ok {
		return p, nil
	}
	p, err := v.queue.Paused(ctx, name)
	if err == nil {
		v.paused[name] = p
	}
	return p, err
}

func (v *queueView) liveWorkers(ctx context.Context, name string) (int, error) {
	if n, ok := v.workers[name]; ok {
		return n, nil
	}
	n, err := v.queue.Workers(ctx, name)
	if err == nil {
		v.workers[name] = n
	}
	return n, err
}

// found is what the rescuer sees of one open job.
type found struct {
	last      events.Transition
	now       time.Time
	run       int
	claimed   bool // a lease lives
	task      TaskState
	paused    bool // the queue
	told      bool // that it is paused
	workers   int
	nextRetry time.Time
	notBefore time.Time
	missing   int  // times the task was missing before
	unplaced  bool // nobody has confirmed that the run's task was enqueued
}

// remedy is what to do about it; the zero value is nothing.
type remedy struct {
	action  string // of rescue.lua, or "run" or "enqueue"
	reason  events.Reason
	outcome events.Outcome
}

// diagnose is the rescuer's table.
func diagnose(f found) remedy {
	due := f.nextRetry
	if f.notBefore.After(due) {
		due = f.notBefore
	}
	late := f.now.Sub(due) > overdue && f.now.Sub(f.last.At) > overdue
	waiting := f.last.Status == events.Queued || f.last.Status == events.Retrying && f.last.Layer == events.QueueLayer
	switch {
	case !f.last.DeadlineAt.IsZero() && f.now.After(f.last.DeadlineAt):
		return remedy{"error", events.DeadlinePassed, events.OutcomeDeadlineExceeded}
	case f.claimed:
		return remedy{}
	case !waiting:
		return remedy{action: "lost"}
	case f.task == TaskArchived:
		return remedy{"error", events.Removed, events.OutcomeFailed}
	case f.task == TaskMissing && f.unplaced:
		return remedy{action: "enqueue"}
	case f.task == TaskMissing && f.last.Status == events.Retrying:
		return remedy{"error", events.Removed, events.OutcomeFailed}
	case f.task == TaskMissing || f.task == TaskDone:
		// Between the record and the queue a submit may have crashed, or still be.
		if f.missing >= 2 {
			return remedy{"error", events.Removed, events.OutcomeFailed}
		}
		return remedy{action: "enqueue"}
	case f.paused && !f.told:
		return remedy{action: "queued", reason: events.QueuePaused}
	case f.paused:
		return remedy{}
	case f.told:
		return remedy{action: "queued"}
	case f.task == TaskScheduled && due.IsZero() && f.now.Sub(f.last.At) > time.Second:
		return remedy{action: "run"}
	case f.task == TaskPending && f.workers == 0 && f.now.Sub(f.last.At) > unserved && late:
		if f.last.Reason == events.NoWorker {
			return remedy{}
		}
		return remedy{action: "queued", reason: events.NoWorker}
	case !due.IsZero() && late && (f.task == TaskScheduled || f.task == TaskActive):
		return remedy{action: "rerun"}
	}
	return remedy{}
}

// rescue looks at one job and puts it right.
func (r *Rescuer) rescue(ctx context.Context, topic events.Topic, job string, q *queueView) error {
	record, last, err := r.Store.look(ctx, topic)
	if err != nil {
		return err
	}
	now, err := r.Store.now(ctx)
	if err != nil {
		return err
	}
	if record["job"] != job || last.JobID != job || last.Status.Terminal() {
		// Ended, replaced, or never stored: a submit that was refused or crashed.
		// One that is between its two steps has stored nothing yet either, so a
		// job is given a deadline's grace by its own id.
		if record["job"] != job && young(job, now) {
			return nil
		}
		keep := time.Duration(0)
		if record["job"] == job && last.Status == events.Failed && last.CanRetry {
			keep = r.Settings.InputRetention
		}
		return r.Store.leave(ctx, topic, job, keep)
	}
	wl, ok := WorkloadNamed(topic.Workload)
	if !ok {
		return nil
	}
	task := Task{Topic: topic, JobID: job, Run: int(number(record["run"])), Queue: wl.Queue}
	f := found{last: last, now: now, run: task.Run, missing: int(number(record["missing"])), told: record["paused"] == "1", unplaced: record["unplaced"] == "1",
		claimed:   record["token"] != "" && fromMS(number(record["lease"])).After(now),
		nextRetry: fromMS(number(record["next_retry"])), notBefore: fromMS(number(record["not_before"]))}
	if !f.claimed {
		if f.task, err = r.Queue.State(ctx, task); err != nil {
			return err
		}
		if f.paused, err = q.isPaused(ctx, wl.Queue); err != nil {
			return err
		}
		if f.task == TaskPending {
			if f.workers, err = q.liveWorkers(ctx, wl.Queue); err != nil {
				return err
			}
		}
	}
	return r.carryOut(ctx, task, f, diagnose(f))
}

// carryOut does what diagnose found.
func (r *Rescuer) carryOut(ctx context.Context, t Task, f found, cure remedy) error {
	switch cure.action {
	case "":
		return nil
	case "run":
		r.done(ctx, t, cure)
		return r.Queue.RunNow(ctx, t)
	}
	action := cure.action
	if action == "enqueue" {
		action = "missing" // counted first, so that two in vain end it
	}
	delay := r.Settings.Plan.Jittered(max(1, f.last.Attempt), t.JobID, max(1, f.last.Attempt), r.Settings.QueueJitter)
	got, _, err := r.Store.run(ctx, "rescue", t.Topic, args{
		"job": t.JobID, "seq": strconv.FormatInt(f.last.Seq, 10), "action": action, "reason": string(cure.reason),
		"outcome": string(cure.outcome), "can_retry": true, "delay_ms": ms(delay), "save_ms": ms(r.Settings.Saving),
		"input_ms": ms(r.Settings.InputRetention), "cancels": cancels,
	}, nil)
	if err != nil || got.Code != "ok" {
		return err
	}
	r.done(ctx, t, cure)
	switch {
	case got.Status == string(events.Failed):
		r.Metrics.ended(t.Topic.Workload, events.Outcome(got.Outcome), events.Reason(got.Reason))
		if err := r.Store.leave(ctx, t.Topic, t.JobID, r.Settings.InputRetention); err != nil {
			return err
		}
		return nil
	case cure.action == "lost":
		t.Run = got.Run
		return r.Store.place(ctx, r.Queue, t, time.Now().Add(fromMS(got.At).Sub(f.now)))
	case cure.action == "rerun", cure.action == "enqueue":
		t.Run = got.Run
		return r.Store.place(ctx, r.Queue, t, later(f))
	}
	return nil
}

func (r *Rescuer) done(ctx context.Context, t Task, cure remedy) {
	r.Metrics.rescue(cure.action)
	r.Log.WarnContext(ctx, "job rescued", "job", t.JobID, "run", t.Run, "workload", t.Topic.Workload,
		"action", cure.action, "reason", string(cure.reason))
}

// later is when a task that has to be enqueued anew is due: zero for at once.
func later(f found) time.Time {
	due := f.nextRetry
	if f.notBefore.After(due) {
		due = f.notBefore
	}
	if due.After(f.now) { // Redis's clock made it; the queue's is this process's
		return time.Now().Add(due.Sub(f.now))
	}
	return time.Time{}
}
