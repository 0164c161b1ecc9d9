package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/model"
)

// settle ends the attempt with what it came to, and tells the queue what to do
// with its task.
func (a *attempt) settle(ctx context.Context, res model.Response, err, cause error) Verdict {
	s, blob := a.settlement(res, err, cause)
	if s == nil {
		reason := events.WorkerLost
		if errors.Is(cause, errCancelled) {
			reason = events.Cancelled
		}
		a.discarded(ctx, reason)
		return Dropped()
	}
	s["job"], s["token"], s["save_ms"] = a.t.JobID, a.token, ms(a.w.Settings.Saving)
	if _, set := s["input_ms"]; !set {
		s["input_ms"] = ms(a.w.Settings.InputRetention)
	}
	s["spent"] = a.spent
	if a.worst > 0 {
		s["worst"] = a.worst
	}
	s["lines"] = append(a.lines[:len(a.lines):len(a.lines)], a.attemptLine(hole, hole))
	got, serr := a.persist(ctx, s, blob)
	switch {
	case serr != nil:
		// What was stored is unknown. The lease runs out, and the rescuer goes on
		// from what the record says.
		a.w.Log.ErrorContext(ctx, "an attempt could not be settled", "job", a.t.JobID, "error", serr)
		return Uncounted(time.Now().Add(busyPause), string(events.StorageFault))
	case got.Code != "ok":
		a.discarded(ctx, events.WorkerLost)
		return Dropped()
	}
	a.w.Metrics.attempt(a.wl.Name, got.Status)
	a.w.Log.InfoContext(ctx, "attempt ended", "job", a.t.JobID, "workload", a.wl.Name, "attempt", a.claim.Attempt,
		"status", got.Status, "outcome", got.Outcome, "reason", got.Reason, "ms", time.Since(a.start).Milliseconds())
	return a.carryOut(ctx, got)
}

// carryOut does what follows a settlement outside the job's keys.
func (a *attempt) carryOut(ctx context.Context, got answer) Verdict {
	switch events.Status(got.Status) {
	case events.Completed:
		a.w.ending().Ended(ctx, got.end(a.t.Topic, a.t.JobID))
		return Done()
	case events.Failed:
		a.w.ending().Ended(ctx, got.end(a.t.Topic, a.t.JobID))
		return Final(got.Outcome + ": " + got.Reason)
	}
	// Redis's clock made the time; the queue's is this process's.
	next := time.Time{}
	if got.At > 0 {
		next = time.Now().Add(time.Duration(got.At-got.Now) * time.Millisecond)
	}
	if got.Run != a.t.Run {
		run := a.t
		run.Run = got.Run
		if err := a.w.Store.place(ctx, a.w.Queue, run, next); err != nil {
			a.w.Log.WarnContext(ctx, "a job waits for the rescuer to enqueue it", "job", run.JobID, "run", run.Run, "error", err)
		}
		return Dropped()
	}
	if events.Status(got.Status) == events.Retrying {
		return Again(next, got.Reason)
	}
	return Uncounted(next, got.Reason)
}

// settlement decides how the attempt ends. Nil means that it has nothing to
// say any more: its claim is lost or its job cancelled.
func (a *attempt) settlement(res model.Response, err, cause error) (args, []byte) {
	var failed *model.Error
	var refused refusedCall
	var closed gateClosed
	var late *model.NoTime
	switch {
	case err == nil: // whether it still counts, the script decides
		body, jerr := json.Marshal(a.document(res))
		if jerr != nil { // the content was checked to be JSON
			return a.end(events.OutcomeFailed, events.InvalidOutput, true), nil
		}
		return args{"kind": "completed", "document_ms": ms(a.w.Store.keep.Document)}, body
	case errors.Is(cause, errClaimLost), errors.Is(cause, errCancelled), errors.Is(err, errClaimLost):
		return nil, nil
	case errors.Is(cause, errDraining), errors.Is(err, errDraining):
		// Another process goes on, but not before this one would have.
		return args{"kind": "queued", "reason": string(events.Draining), "wait_ms": max(0, ms(time.Until(a.next)))}, nil
	case errors.As(err, &refused):
		outcome, reason := refused.end()
		// What not even one call may cost, another job with the same input may not.
		able := refused.code != "cost" || a.claim.Calls > 0 || a.made > 0
		return a.end(outcome, reason, able), nil
	case errors.As(err, &closed):
		return a.turnedAway(closed), nil
	case errors.As(err, &late):
		return a.end(events.OutcomeDeadlineExceeded, events.DeadlinePassed, true), nil
	case errors.As(err, &failed):
		if cause != nil {
			// The queue took its task back: another run carries on.
			s := a.again(events.Unavailable, 0)
			s["new_run"] = true
			return s, nil
		}
		if a.made == 0 { // no call's line will tell
			a.w.Log.Warn("a job's input was refused before a call", "job", a.t.JobID, "workload", a.wl.Name,
				"class", string(failed.Kind), "type", failed.Type, "advice", failed.Advice)
		}
		reason := events.Reason(failed.Kind)
		if failed.Queued() {
			s := a.again(reason, failed.RetryAfter)
			s["detail"] = failed.Type
			return s, nil
		}
		// A quota of which it is known when it is full again can be tried then.
		s := a.end(events.OutcomeFailed, reason, !reason.Lasting() || reason == events.Quota && failed.RetryAfter > 0)
		s["hint_ms"], s["detail"] = ms(failed.RetryAfter), failed.Type
		return s, nil
	case errors.Is(err, events.ErrUnavailable):
		return a.again(events.StorageFault, 0), nil
	}
	return a.end(events.OutcomeFailed, events.Internal, true), nil
}

// turnedAway is what a refusal of the gate means (docs/retries.md): a wait gives
// the attempt back and counts none; without a token for a further call the
// attempt ends and the queue's plan applies; without one for an attempt's first
// call the job ends.
func (a *attempt) turnedAway(c gateClosed) args {
	switch {
	case c.Verdict == gate.Wait:
		// Should the wait pass the deadline, the work was accepted and can no
		// longer be served.
		// An operator may lift a pause before that.
		return args{"kind": "queued", "reason": string(c.Reason), "wait_ms": max(1, ms(c.In)),
			"outcome": string(events.OutcomeAdmissionDenied), "may_end": c.Reason == gate.DependencyPaused}
	case a.made > 0:
		return a.again(events.Reason(a.last), 0)
	}
	s := a.end(events.OutcomeRetriesExhausted, events.Reason(c.Reason), true)
	if c.Reason == gate.RetryBudget {
		s["retry_ms"] = ms(c.In)
	}
	return s
}

// again asks for the queue's next attempt. The script ends the job instead if
// attempts, allowance or deadline do not allow one.
func (a *attempt) again(reason events.Reason, hint time.Duration) args {
	s := a.w.Settings
	delay := s.Plan.Jittered(a.claim.Attempt, a.t.JobID, a.claim.Attempt, s.QueueJitter)
	return args{"kind": "retrying", "reason": string(reason), "delay_ms": ms(delay), "hint_ms": ms(hint)}
}

func (a *attempt) end(o events.Outcome, r events.Reason, canRetry bool) args {
	return args{"kind": "error", "outcome": string(o), "reason": string(r), "can_retry": canRetry}
}

func (a *attempt) document(res model.Response) Document {
	d := Document{Model: res.Model, Language: a.claim.Language, Usage: res.Usage, Content: res.Content}
	if a.paid {
		d.Cost = &a.cost
	}
	return d
}

// attemptLine is the attempt's line in the ledger. What it came to is for the
// script to say, which fills in the holes.
func (a *attempt) attemptLine(status events.Status, reason events.Reason) string {
	return ledgerLine{Attempt: &AttemptLine{Attempt: a.claim.Attempt, Run: a.t.Run, Worker: a.w.Name,
		StartedAt: a.start.UTC(), EndedAt: time.Now().UTC(), Status: status, Reason: reason}}.text()
}

// persist repeats the settlement while the storage is away, for as long as the
// lease may live: the token makes it safe, and giving up early would cost the
// document of a call that was paid for.
func (a *attempt) persist(ctx context.Context, s args, blob []byte) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, a.w.Settings.Lease)
	defer cancel()
	pause := 50 * time.Millisecond
	for {
		got, _, err := a.w.Store.run(ctx, "settle", a.t.Topic, s, blob)
		if err == nil || !errors.Is(err, events.ErrUnavailable) {
			return got, err
		}
		select {
		case <-ctx.Done():
			return got, err
		case <-time.After(pause):
			pause = min(2*pause, time.Second)
		}
	}
}

// discarded tells of a result that came too late to count.
func (a *attempt) discarded(ctx context.Context, reason events.Reason) {
	a.w.Metrics.discard(a.wl.Name)
	a.w.Log.WarnContext(ctx, "an attempt lost its claim, its result is discarded", "event", "lease_lost", "job", a.t.JobID,
		"workload", a.wl.Name, "attempt", a.claim.Attempt)
	// What it has cost is still owed to its job's ledger.
	lines := append(a.lines, a.attemptLine(events.Failed, reason))
	if _, _, err := a.w.Store.run(ctx, "account", a.t.Topic, args{"job": a.t.JobID, "lines": lines}, nil); err != nil {
		a.w.Log.WarnContext(ctx, "a discarded attempt is not in the ledger", "job", a.t.JobID, "error", err)
	}
}
