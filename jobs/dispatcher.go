package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/lifecycle"
	"github.com/tidings/tidings/jobs/store"
)

// dispatcherLook is how often a dispatcher looks although nothing was published;
// an offer that got lost is made anew then.
const dispatcherLook = 5 * time.Second

// Dispatcher is the handler of an outside job's task: it offers the job, waits
// until the attempt is settled, and tells the queue what the record says is
// next. It holds no model slot; hub tells it of transitions. When ctx ends (the
// process drains) it hands the task back for another process to take.
func (o *Outside) Dispatcher(drain context.Context, hub *events.Hub) Handler {
	return func(ctx context.Context, t Task) Verdict {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(drain, cancel)()
		sub, err := hub.Subscribe(ctx, t.Topic, 0, false)
		if err != nil {
			return Uncounted(time.Now().Add(busyPause), string(events.StorageFault))
		}
		defer sub.Close()
		for arrived := true; ; {
			v, over, wait := o.watch(ctx, t, arrived)
			if over {
				o.withdraw(context.WithoutCancel(ctx), t) // nobody may have taken it
				return v
			}
			arrived = wait > 0
			if !arrived {
				wait = dispatcherLook
			}
			look, done := context.WithTimeout(ctx, wait)
			_, err := sub.Next(look)
			done()
			if ctx.Err() != nil {
				o.withdraw(context.WithoutCancel(ctx), t)
				return Uncounted(time.Now().Add(busyPause), string(events.Draining))
			}
			if err != nil && look.Err() == nil {
				return Uncounted(time.Now().Add(busyPause), string(events.StorageFault))
			}
		}
	}
}

// watch looks at the job once: over with a verdict, or still to be waited for, and
// for how long if the task came a little early. arrived is set when the task has
// just come, or was early then.
func (o *Outside) watch(ctx context.Context, t Task, arrived bool) (v Verdict, over bool, soon time.Duration) {
	read, err := o.Store.Records.Read(ctx, t.Topic, store.Want{})
	if err != nil {
		return Verdict{}, false, 0
	}
	job, last, now := read.Job, read.Last, read.Now
	wait := job.Due().Sub(now)
	switch {
	case job.ID != t.JobID || job.Run != t.Run:
		return Dropped(), true, 0
	case last.Status == events.Completed:
		return Done(), true, 0
	case last.Status == events.Failed:
		return Final(string(last.Outcome) + ": " + string(last.Reason)), true, 0
	case job.Claim != nil: // the rescuer looks after a lost lease
		o.withdraw(ctx, t) // it may have been made anew while the claim was on its way
		return Verdict{}, false, 0
	case wait <= 0:
		o.offer(ctx, t, now)
		return Verdict{}, false, 0
	case !arrived:
		return Again(time.Now().Add(wait), string(last.Reason)), true, 0
	case wait <= lifecycle.Early:
		return Verdict{}, false, wait // the queue cuts times to whole seconds
	case job.HintUntil.After(now) || job.NotBefore.After(now):
		return Uncounted(time.Now().Add(wait), "early"), true, 0
	}
	// Somebody ran the task before its planned time: it is the operator's to
	// shorten, and it is told. A queue that brings it back by itself shortens
	// nothing.
	ran, err := o.Queue.Ran(ctx, t, time.Now().Add(wait))
	if err != nil {
		return Uncounted(time.Now().Add(busyPause), string(events.StorageFault)), true, 0
	}
	if !ran {
		return Uncounted(time.Now().Add(wait), "early"), true, 0
	}
	_, err = o.Store.goOn(ctx, "rescue", t.Topic, read, func(s lifecycle.State) lifecycle.Change {
		c, _ := o.rules().Rescue(s, lifecycle.Remedy{Action: lifecycle.Adopt, JobID: t.JobID, Seq: last.Seq})
		return c
	})
	if err == nil {
		o.offer(ctx, t, now)
	}
	return Verdict{}, false, 0
}

// offer lets outside workers claim the task's job. Repeating it changes nothing.
func (o *Outside) offer(ctx context.Context, t Task, now time.Time) {
	pipe := o.Store.Client.Pipeline()
	pipe.ZAddNX(ctx, offersKey(t.Topic.Workload), redis.Z{Score: float64(now.UnixMilli()), Member: member(t.Topic, t.ID())})
	pipe.Publish(ctx, offers, t.Topic.Workload)
	if _, err := pipe.Exec(ctx); err != nil {
		o.Log.WarnContext(ctx, "an offer waits for the next look", "job", t.JobID, "error", err)
	}
}

// offered tells which of the tasks' jobs wait for an outside worker to claim
// them, with a dispatcher or without.
func (s *Store) offered(ctx context.Context, tasks []Task) ([]bool, error) {
	pipe := s.Client.Pipeline()
	cmds := make([]*redis.FloatCmd, len(tasks))
	for i, t := range tasks {
		cmds[i] = pipe.ZScore(ctx, offersKey(t.Topic.Workload), member(t.Topic, t.ID()))
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	out := make([]bool, len(tasks))
	for i, cmd := range cmds {
		err := cmd.Err()
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, store.Error("offered", err)
		}
		out[i] = err == nil
	}
	return out, nil
}

// oldestOffer is since when an outside worker is waited for, by any of the
// workloads; zero when none is.
func (s *Store) oldestOffer(ctx context.Context) (oldest time.Time, err error) {
	pipe := s.Client.Pipeline()
	var cmds []*redis.ZSliceCmd
	for _, w := range Workloads() {
		cmds = append(cmds, pipe.ZRangeWithScores(ctx, offersKey(w.Name), 0, 0))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return oldest, store.Error("offered", err)
	}
	for _, cmd := range cmds {
		for _, first := range cmd.Val() {
			if at := fromMS(int64(first.Score)); oldest.IsZero() || at.Before(oldest) {
				oldest = at
			}
		}
	}
	return oldest, nil
}

func (o *Outside) withdraw(ctx context.Context, t Task) {
	if err := o.Store.Client.ZRem(ctx, offersKey(t.Topic.Workload), member(t.Topic, t.ID())).Err(); err != nil {
		o.Log.WarnContext(ctx, "an offer outlives its dispatcher", "job", t.JobID, "error", err)
	}
}

// switchedOff is why the kill switch forbids the job's next attempt; "" if it does
// not. First attempts go on.
func (o *Outside) switchedOff(ctx context.Context, t Task, j lifecycle.Job) (events.Reason, error) {
	if j.Attempts == 0 {
		return "", nil
	}
	off, err := o.Gate.Switched(ctx, "", t.Topic.Workload)
	if err != nil {
		return "", store.Error("kill switch", err)
	}
	if off.Verdict == gate.Go {
		return "", nil
	}
	return events.Reason(off.Reason), nil
}
