package jobs

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/gate"
)

// chaperoneLook is how often a chaperone looks although nothing was published;
// an offer that got lost is made anew then.
const chaperoneLook = 5 * time.Second

// Chaperone is the handler of an outside job's task: it offers the job, waits
// until the attempt is settled, and tells the queue what the record says is
// next. It holds no model slot; hub tells it of transitions. When ctx ends (the
// process drains) it hands the task back for another process to take.
func (o *Outside) Chaperone(drain context.Context, hub *events.Hub) Handler {
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
				wait = chaperoneLook
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
	record, last, err := o.Store.look(ctx, t.Topic)
	var now time.Time
	if err == nil {
		now, err = o.Store.now(ctx)
	}
	if err != nil {
		return Verdict{}, false, 0
	}
	due := fromMS(max(number(record["next_retry"]), number(record["not_before"])))
	wait := due.Sub(now)
	switch {
	case record["job"] != t.JobID || last.JobID != t.JobID || number(record["run"]) != int64(t.Run):
		return Dropped(), true, 0
	case last.Status == events.Completed:
		return Done(), true, 0
	case last.Status == events.Failed:
		return Final(string(last.Outcome) + ": " + string(last.Reason)), true, 0
	case record["token"] != "": // claimed; the rescuer looks after a lost lease
		return Verdict{}, false, 0
	case due.IsZero() || wait <= 0:
		o.offer(ctx, t, now)
		return Verdict{}, false, 0
	case !arrived:
		return Again(time.Now().Add(wait), string(last.Reason)), true, 0
	case wait <= early:
		return Verdict{}, false, wait // the queue cuts times to whole seconds
	case number(record["hint"]) > now.UnixMilli() || number(record["not_before"]) > now.UnixMilli():
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
	_, _, err = o.Store.run(ctx, "rescue", t.Topic, args{"job": t.JobID, "seq": strconv.FormatInt(last.Seq, 10), "action": "adopt"}, nil)
	if err == nil {
		o.offer(ctx, t, now)
	}
	return Verdict{}, false, 0
}

// offer lets outside workers claim the task's job. Repeating it changes nothing.
func (o *Outside) offer(ctx context.Context, t Task, now time.Time) {
	pipe := o.Store.client.Pipeline()
	pipe.ZAddNX(ctx, offersKey(t.Topic.Workload), redis.Z{Score: float64(now.UnixMilli()), Member: member(t.Topic, t.ID())})
	pipe.Publish(ctx, offers, t.Topic.Workload)
	if _, err := pipe.Exec(ctx); err != nil {
		o.Log.WarnContext(ctx, "an offer waits for the next look", "job", t.JobID, "error", err)
	}
}

// offered tells which of the tasks' jobs wait for an outside worker to claim
// them, with a chaperone or without.
func (s *Store) offered(ctx context.Context, tasks []Task) ([]bool, error) {
	pipe := s.client.Pipeline()
	cmds := make([]*redis.FloatCmd, len(tasks))
	for i, t := range tasks {
		cmds[i] = pipe.ZScore(ctx, offersKey(t.Topic.Workload), member(t.Topic, t.ID()))
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	out := make([]bool, len(tasks))
	for i, cmd := range cmds {
		err := cmd.Err()
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, storageError("offered", err)
		}
		out[i] = err == nil
	}
	return out, nil
}

// oldestOffer is since when an outside worker is waited for, by any of the
// workloads; zero when none is.
func (s *Store) oldestOffer(ctx context.Context) (oldest time.Time, err error) {
	pipe := s.client.Pipeline()
	var cmds []*redis.ZSliceCmd
	for _, w := range Workloads() {
		cmds = append(cmds, pipe.ZRangeWithScores(ctx, offersKey(w.Name), 0, 0))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return oldest, storageError("offered", err)
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
	if err := o.Store.client.ZRem(ctx, offersKey(t.Topic.Workload), member(t.Topic, t.ID())).Err(); err != nil {
		o.Log.WarnContext(ctx, "an offer outlives its chaperone", "job", t.JobID, "error", err)
	}
}

// stopped ends a claimed job whose next attempt the kill switch forbids.
func (o *Outside) stopped(ctx context.Context, worker string, t Task, token string, got answer) (bool, error) {
	if got.Attempt == 1 {
		return false, nil
	}
	off, err := o.Gate.Switched(ctx, "", t.Topic.Workload)
	if err != nil {
		return false, storageError("kill switch", err)
	}
	if off.Verdict == gate.Go {
		return false, nil
	}
	return true, o.endUnsent(ctx, worker, t, token, got.Attempt, events.OutcomeRetriesExhausted, events.Reason(off.Reason))
}

// endUnsent ends a claimed job of which no worker hears any more.
func (o *Outside) endUnsent(ctx context.Context, worker string, t Task, token string, attempt int, outcome events.Outcome, reason events.Reason) error {
	s, now := o.Settings, time.Now().UTC()
	got, err := repeat(ctx, func() (answer, error) {
		got, _, err := o.Store.run(ctx, "settle", t.Topic, args{"job": t.JobID, "token": token, "kind": "error",
			"lines": []string{ledgerLine{Attempt: &AttemptLine{Attempt: attempt, Run: t.Run, Worker: worker, StartedAt: now, EndedAt: now,
				Status: hole, Reason: hole}}.text()},
			"outcome": string(outcome), "reason": string(reason), "can_retry": true,
			"save_ms": ms(s.Saving), "input_ms": ms(s.InputRetention)}, nil)
		return got, err
	})
	if err != nil || got.Code != "ok" {
		return err
	}
	o.Metrics.attempt(t.Topic.Workload, got.Status)
	o.ending().Ended(ctx, got.end(t.Topic, t.JobID))
	return nil
}
