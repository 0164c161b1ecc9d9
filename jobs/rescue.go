package jobs

import (
	"context"
	"log/slog"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/lifecycle"
	"github.com/tidings/tidings/jobs/retry"
	"github.com/tidings/tidings/jobs/store"
)

// The rescuer's times. With them and a lease of 15 s, a client hears of
//
//	a worker that died     within lease + CheckEvery + pause between rounds = 26 s
//	an operator's click    within CheckEvery + pause = 11 s
//
// plus what a round takes; the contract says 30 s and 15 s.
const (
	// CheckEvery is how often every open job is looked at (Store.CheckEvery). The
	// pause between rounds that found little is a tenth of it.
	CheckEvery = 10 * time.Second
	// Patience is how long a task may be on its way from one place to the next
	// before something is done about it (RescuerOptions.Patience).
	Patience = 5 * time.Second

	// onItsWay is the same for a job that may run at once: service and worker
	// move its task themselves, within moments.
	onItsWay = time.Second
	// rescueBatch is how many entries of the index one round takes.
	rescueBatch = 200
)

// RescuerOptions is what a Rescuer is made of.
type RescuerOptions struct {
	Store    *Store
	Queue    Queue
	Settings retry.Settings
	// Name and Slots say, with each round, on how many jobs this process works at
	// the same time. None: it does not work.
	Name  string
	Slots int
	// Patience is how long a task may be on its way; zero: the constant's.
	Patience time.Duration
	// Gate tells whether jobs that wait for it may go on; nil: they wait until the
	// time they were told.
	Gate *gate.Gate
	// Sweep deletes old archived tasks of a queue; nil if the queue has none.
	Sweep   func(ctx context.Context, queue string) (int, error)
	Metrics *Metrics
	Log     *slog.Logger
}

// Rescuer puts right what happened without a word: a worker that died, a task
// that an operator deleted, archived or ran, a paused queue, a crash between
// two steps of a submit. It compares the job record, the log and the queue's
// view of the current run's task (diagnose), and never touches an active task.
// Every process with Redis runs one; they share the index of open jobs, and
// every open job is looked at each CheckEvery by one of them.
type Rescuer struct{ RescuerOptions }

// NewRescuer makes a Rescuer.
func NewRescuer(o RescuerOptions) *Rescuer {
	if o.Patience == 0 {
		o.Patience = Patience
	}
	return &Rescuer{o}
}

// Run works until ctx ends.
func (r *Rescuer) Run(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	var tidied time.Time
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
		if time.Since(tidied) >= r.Store.CheckEvery {
			r.Tidy(ctx)
			tidied = time.Now()
		}
		if n < rescueBatch || err != nil {
			pause.Reset(r.Store.CheckEvery / 10)
		} else {
			pause.Reset(0)
		}
	}
}

// Round looks at the open jobs whose check is due, at most 200, and returns how
// many there were.
func (r *Rescuer) Round(ctx context.Context) (int, error) {
	checks, err := r.Store.due(ctx, rescueBatch, r.Name, r.Slots)
	if err != nil || len(checks.members) == 0 {
		return 0, err
	}
	for _, e := range r.examine(ctx, checks) {
		if e.err == nil {
			e.err = r.rescue(ctx, e)
		}
		if e.err != nil {
			if ctx.Err() != nil {
				return len(checks.members), ctx.Err()
			}
			r.Log.WarnContext(ctx, "a job could not be checked", "job", e.job, "error", e.err)
		}
	}
	return len(checks.members), nil
}

// Tidy does what is due for a queue as a whole: registers names that Asynq has
// lost, and deletes old failed tasks.
func (r *Rescuer) Tidy(ctx context.Context) {
	for _, queue := range append(QueueNames(), OutsideQueue) {
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

// rescue puts one job right.
func (r *Rescuer) rescue(ctx context.Context, e *entry) error {
	switch {
	case e.current:
		return r.carryOut(ctx, e, diagnose(e.found, r.Patience))
	case e.ended:
		// The worker, or whoever ended it, did not get to this step.
		keep := time.Duration(0)
		if e.found.last.CanRetry || e.found.last.Outcome == events.OutcomeUnknown {
			keep = r.Settings.InputRetention
		}
		return r.Store.leave(ctx, e.topic, e.job, keep, 0)
	case r.Store.young(e.job, e.found.now):
		return nil
	}
	// Replaced, or never stored: its submit was refused or crashed.
	return r.Store.leave(ctx, e.topic, e.job, 0, 0)
}

// carryOut does what diagnose found.
func (r *Rescuer) carryOut(ctx context.Context, e *entry, cure remedy) error {
	t, f := e.task, e.found
	if cure.action == "" {
		return nil
	}
	remedy := lifecycle.Remedy{Action: cure.action, JobID: t.JobID, Run: t.Run, Seq: f.last.Seq, Reason: cure.reason, Outcome: cure.outcome}
	if cure.action == enqueue {
		remedy.Action = lifecycle.Missing // counted first, so that two in vain end it
	}
	// The record was read before the queue was asked. What the queue said may be of a
	// later time than what the record said, so the record is read anew.
	var got lifecycle.Rescued
	_, _, err := r.Store.do(ctx, "rescue", t.Topic, store.Want{}, func(s lifecycle.State) (c lifecycle.Change) {
		c, got = r.rules().Rescue(s, remedy)
		return c
	})
	if err != nil || got.Code != lifecycle.OK {
		return err
	}
	r.done(ctx, t, cure)
	t.Run = got.Run
	switch {
	case cure.action == lifecycle.Wake, cure.action == lifecycle.RunTask:
		return r.Queue.RunNow(ctx, t)
	case got.End != nil:
		ending := Ending{Store: r.Store, Keep: r.Settings.InputRetention, Metrics: r.Metrics, Log: r.Log}
		ending.Ended(ctx, end{topic: t.Topic, job: t.JobID, End: *got.End})
		return nil
	case cure.action == enqueue && e.read.Job.Follows != "":
		// The crash came before the failed job's input could be taken off the count.
		if err := r.Store.leave(ctx, t.Topic, e.read.Job.Follows, 0, 0); err != nil {
			return err
		}
		fallthrough
	case cure.action == enqueue, cure.action == lifecycle.Rerun, cure.action == lifecycle.LostLease:
		at := time.Time{}
		if got.In > 0 {
			at = time.Now().Add(got.In)
		}
		return r.Store.place(ctx, r.Queue, t, at)
	}
	return nil
}

func (r *Rescuer) rules() lifecycle.Rules { return lifecycle.Rules{Settings: r.Settings} }

func (r *Rescuer) done(ctx context.Context, t Task, cure remedy) {
	r.Metrics.rescue(string(cure.action))
	r.Log.WarnContext(ctx, "job rescued", "job", t.JobID, "run", t.Run, "workload", t.Topic.Workload,
		"action", cure.action, "reason", string(cure.reason))
}
