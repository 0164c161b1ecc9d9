package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/lifecycle"
	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/store"
)

// settle ends the attempt with what it came to, and tells the queue what to do
// with its task.
func (a *attempt) settle(ctx context.Context, res model.Response, err, cause error) Verdict {
	came, ok := a.cameTo(res, err, cause)
	if !ok {
		reason := events.WorkerLost
		if errors.Is(cause, errCancelled) {
			reason = events.Cancelled
		}
		a.discarded(ctx, reason)
		return Dropped()
	}
	came.Spent, came.Worst, came.Lines, came.Line = a.spent, a.worst, a.lines, a.line()
	code, got, err := a.persist(ctx, came)
	switch {
	case err != nil:
		// What was stored is unknown. The lease runs out, and the rescuer goes on
		// from what the record says.
		a.w.Log.ErrorContext(ctx, "an attempt could not be settled", "job", a.t.JobID, "error", err)
		return Uncounted(time.Now().Add(busyPause), string(events.StorageFault))
	case code != lifecycle.OK:
		a.discarded(ctx, events.WorkerLost)
		return Dropped()
	}
	a.w.Metrics.attempt(a.wl.Name, string(got.Status))
	a.w.Log.InfoContext(ctx, "attempt ended", "job", a.t.JobID, "workload", a.wl.Name, "attempt", a.number,
		"status", got.Status, "outcome", got.Outcome, "reason", got.Reason, "ms", time.Since(a.start).Milliseconds())
	return a.carryOut(ctx, got)
}

// carryOut does what follows a settlement outside the job's keys.
func (a *attempt) carryOut(ctx context.Context, got lifecycle.Settled) Verdict {
	if e := got.End(); e != nil {
		a.w.ending().Ended(ctx, end{topic: a.t.Topic, job: a.t.JobID, End: *e})
		return verdictOf(*e)
	}
	// Redis's clock made the time; the queue's is this process's.
	next := localTime(got.Next, a.kept.At().Now)
	if got.Run != a.t.Run {
		run := a.t
		run.Run = got.Run
		if err := a.w.Store.place(ctx, a.w.Queue, run, next); err != nil {
			a.w.Log.WarnContext(ctx, "a job waits for the rescuer to enqueue it", "job", run.JobID, "run", run.Run, "error", err)
		}
		return Dropped()
	}
	if got.Status == events.Retrying {
		return Again(next, string(got.Reason))
	}
	return Uncounted(next, string(got.Reason))
}

// cameTo decides how the attempt ends. Not ok means that it has nothing to say any
// more: its claim is lost or its job cancelled.
func (a *attempt) cameTo(res model.Response, err, cause error) (came lifecycle.Attempt, ok bool) {
	var failed *model.Error
	var refused refusedCall
	var closed gateClosed
	var late *model.NoTime
	switch {
	case err == nil: // whether it still counts, the rules decide
		body, jerr := json.Marshal(a.document(res))
		if jerr != nil { // the content was checked to be JSON
			return ends(events.OutcomeFailed, events.InvalidOutput, true), true
		}
		return lifecycle.Attempt{Kind: lifecycle.Finished, Document: body}, true
	case errors.Is(cause, errClaimLost), errors.Is(cause, errCancelled), errors.Is(err, errClaimLost):
		return came, false
	case errors.Is(cause, errDraining), errors.Is(err, errDraining):
		// Another process goes on, but not before this one would have.
		return lifecycle.Attempt{Kind: lifecycle.HandBack, Hold: lifecycle.Hold{Reason: events.Draining, For: max(0, time.Until(a.next))}}, true
	case errors.As(err, &refused):
		return refused.Attempt, true
	case errors.As(err, &closed) && closed.Verdict == gate.Wait:
		return lifecycle.Attempt{Kind: lifecycle.HandBack, Hold: holdOf(closed.Answer)}, true
	case errors.As(err, &closed):
		// Without a token for a further call the attempt ends and the plan applies.
		return tryAgain(events.Reason(a.last), 0), true
	case errors.As(err, &late):
		return ends(events.OutcomeDeadlineExceeded, events.DeadlinePassed, true), true
	case errors.As(err, &failed):
		return a.failed(failed, cause), true
	case errors.Is(err, events.ErrUnavailable):
		return tryAgain(events.StorageFault, 0), true
	}
	return ends(events.OutcomeFailed, events.Internal, true), true
}

// failed is what a failed call comes to.
func (a *attempt) failed(failed *model.Error, cause error) lifecycle.Attempt {
	if cause != nil {
		// The queue took its task back: another run carries on.
		came := tryAgain(events.Unavailable, 0)
		came.NewRun = true
		return came
	}
	if len(a.lines) == 0 && a.made <= 1 { // no call's line will tell
		a.w.Log.Warn("a job's input was refused before a call", "job", a.t.JobID, "workload", a.wl.Name,
			"class", string(failed.Kind), "type", failed.Type, "advice", failed.Advice)
	}
	reason := events.Reason(failed.Kind)
	if failed.Queued() {
		came := tryAgain(reason, failed.RetryAfter)
		came.Detail = failed.Type
		return came
	}
	// A quota of which it is known when it is full again can be tried then.
	came := ends(events.OutcomeFailed, reason, !reason.Lasting() || reason == events.Quota && failed.RetryAfter > 0)
	came.Hint, came.Detail = failed.RetryAfter, failed.Type
	return came
}

// tryAgain asks for the queue's next attempt. The rules end the job instead if
// attempts, allowance or deadline do not allow one.
func tryAgain(reason events.Reason, hint time.Duration) lifecycle.Attempt {
	return lifecycle.Attempt{Kind: lifecycle.TryAgain, Reason: reason, Hint: hint}
}

func ends(o events.Outcome, r events.Reason, canRetry bool) lifecycle.Attempt {
	return lifecycle.Attempt{Outcome: o, Reason: r, CanRetry: canRetry}
}

func (a *attempt) document(res model.Response) Document {
	d := Document{Model: res.Model, Language: a.job.Language, Usage: res.Usage, Content: res.Content}
	if a.paid {
		d.Cost = &a.cost
	}
	return d
}

// line is the attempt's line in the ledger, but for what it came to.
func (a *attempt) line() lifecycle.AttemptLine {
	return lifecycle.AttemptLine{Attempt: a.number, Run: a.t.Run, Worker: a.w.Name, StartedAt: a.start.UTC(), EndedAt: time.Now().UTC()}
}

// persist repeats the settlement while the storage is away, for as long as the
// lease may live: the token makes it safe, and giving up early would cost the
// document of a call that was paid for.
func (a *attempt) persist(ctx context.Context, came lifecycle.Attempt) (code lifecycle.Code, got lifecycle.Settled, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.w.Settings.Lease)
	defer cancel()
	pause := 50 * time.Millisecond
	for {
		err := a.do(ctx, "settle", func(s lifecycle.State) (c lifecycle.Change) {
			c, code, got = a.w.rules().Settle(s, a.t.JobID, a.token, came)
			return c
		})
		if err == nil || !errors.Is(err, events.ErrUnavailable) {
			return code, got, err
		}
		select {
		case <-ctx.Done():
			return code, got, err
		case <-time.After(pause):
			pause = min(2*pause, time.Second)
		}
	}
}

// discarded tells of a result that came too late to count.
func (a *attempt) discarded(ctx context.Context, reason events.Reason) {
	a.w.Metrics.discard(a.wl.Name)
	a.w.Log.WarnContext(ctx, "an attempt lost its claim, its result is discarded", "event", "lease_lost", "job", a.t.JobID,
		"workload", a.wl.Name, "attempt", a.number)
	// What it has cost is still owed to its job's ledger.
	line := a.line()
	line.Status, line.Reason = events.Failed, reason
	lines := append(a.lines, line.Text())
	_, _, err := a.w.Store.do(ctx, "account", a.t.Topic, store.Want{}, func(s lifecycle.State) lifecycle.Change {
		c, _ := a.w.rules().Account(s, a.t.JobID, lines)
		return c
	})
	if err != nil {
		a.w.Log.WarnContext(ctx, "a discarded attempt is not in the ledger", "job", a.t.JobID, "error", err)
	}
}
