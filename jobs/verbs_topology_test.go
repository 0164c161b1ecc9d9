package jobs_test

import (
	"errors"
	"time"

	"encoding/json"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/retry"
)

func isAway(err error) bool { return errors.Is(err, events.ErrUnavailable) }

func session(name string) events.Topic { return events.NewTopic("anna", name, "summary") }

// everyVerb does all that can be done to a job, once: on a Cluster each step
// must find all its keys on one node.
func everyVerb(e *deployment) {
	ctx := e.Context()
	refused := func(err error, want jobs.Code) {
		e.Helper()
		var r *jobs.Refusal
		if !errors.As(err, &r) || r.Code != want {
			e.Errorf("got %v, want %s", err, want)
		}
	}
	must := func(err error) {
		e.Helper()
		if err != nil {
			e.Fatal(err)
		}
	}

	// Submit, its repeat, the live job, another input, replace, cancel.
	v := session("submit")
	hold, release := heldBack()
	defer release()
	e.sessionModel.plays(v, hold, hold)
	r := e.follow(v)
	first := e.submit(v, "one")
	r.comes(events.Processing)
	if again := e.submit(v, "one"); again.JobID != first.JobID || !again.Replayed || again.Unreplicated {
		e.Errorf("repeat %+v, want %s again", again, first.JobID)
	}
	live, err := e.service.Submit(ctx, jobs.Submit{Topic: v, Input: jobs.Input{Text: "one"}})
	if err != nil || !live.Live || live.JobID != first.JobID {
		e.Errorf("the same again: %+v %v", live, err)
	}
	_, err = e.service.Submit(ctx, jobs.Submit{Topic: v, Input: jobs.Input{Text: "two"}})
	refused(err, jobs.CodeJobRunning)
	second, err := e.service.Submit(ctx, jobs.Submit{Topic: v, Input: jobs.Input{Text: "two"}, Replace: true})
	if err != nil || second.JobID == first.JobID {
		e.Errorf("replaced by %+v %v", second, err)
	}
	r.sees("the second job at work", func(ev events.Event) bool {
		return ev.JobID == second.JobID && ev.Status == events.Processing
	})
	if c, err := e.service.Cancel(ctx, v); err != nil || c.Status != events.Failed {
		e.Errorf("cancelled %+v %v", c, err)
	}
	r.sees("cancelled", func(ev events.Event) bool { return ev.JobID == second.JobID && ev.Reason == events.Cancelled })

	// An attempt that fails, run at once by the user, one that fails for good, and
	// a new job from its input.
	v = session("retry")
	e.sessionModel.plays(v, fails(retry.Overloaded), fails(retry.InvalidOutput))
	r = e.follow(v)
	first = e.submit(v, "one")
	r.comes(events.Retrying)
	if a, err := e.service.Retry(ctx, v); err != nil || a.JobID != first.JobID {
		e.Errorf("retried %+v %v", a, err)
	}
	r.comes(events.Failed)
	second, err = e.service.Retry(ctx, v)
	if err != nil || second.JobID == first.JobID || second.Unreplicated {
		e.Errorf("retried %+v %v", second, err)
	}
	r.comes(events.Completed)
	if d, err := e.service.Document(ctx, v); err != nil || d.JobID != second.JobID || d.Version != 1 {
		e.Errorf("document %+v %v", d, err)
	}
	if l, err := e.service.Attempts(ctx, v); err != nil || len(l.Attempts) != 1 || len(l.Calls) != 1 {
		e.Errorf("ledger %+v %v", l, err)
	}
	if n := e.sessionModel.count(v); n != 3 {
		e.Errorf("%d calls, want 3", n)
	}

	// Outside workers.
	claim := func(name string) jobs.Report {
		e.Helper()
		_, err := e.let.Submit(ctx, jobs.Submit{Topic: session(name), Input: jobs.Input{Text: name}})
		must(err)
		a, err := e.outside.Claim(ctx, "theirs", []string{"summary"}, 20*time.Second)
		if err != nil || a == nil {
			e.Fatalf("claim of %s: %+v %v", name, a, err)
		}
		return jobs.Report{JobID: a.JobID, Attempt: a.Attempt, Worker: "theirs", Token: a.ClaimToken}
	}
	report := claim("outside-completes")
	_, err = e.outside.Heartbeat(ctx, report)
	must(err)
	for range 2 {
		if s, err := e.outside.Complete(ctx, report, json.RawMessage(outsideContent), "theirs", model.Usage{}); err != nil || s.Status != events.Completed {
			e.Errorf("completed %+v %v", s, err)
		}
	}
	if s, err := e.outside.Fail(ctx, claim("outside-fails"), "model_auth", ""); err != nil || s.Status != events.Failed {
		e.Errorf("failed %+v %v", s, err)
	}
	report = claim("outside-unknown")
	_, err = e.outside.Fail(ctx, report, "outcome_unknown", "")
	must(err)
	if s, err := e.outside.Resolve(ctx, report.JobID, json.RawMessage(outsideContent)); err != nil || s != events.Completed {
		e.Errorf("resolved %s %v", s, err)
	}

	// The gate's orders.
	order := gate.Order{Owner: "anna", Note: "a test", Until: time.Now().Add(time.Minute)}
	must(e.gate.Pause(ctx, "sessionModel", order))
	must(e.gate.Resume(ctx, "sessionModel", order))
	for _, s := range []gate.Scope{{}, {Dependency: "sessionModel"}, {Workload: "summary"}} {
		must(e.gate.SwitchOff(ctx, s, order))
		must(e.gate.SwitchOn(ctx, s, order))
	}
	_, err = e.gate.Switches(ctx)
	must(err)
	_, err = e.gate.Inspect(ctx, "sessionModel")
	must(err)

	// The rescuer's view of the queue, and what it does for it as a whole.
	for _, q := range jobs.QueueNames() {
		if n, err := e.queue.Workers(ctx, q); err != nil || n != 1 {
			e.Errorf("%s: %d workers, %v", q, n, err)
		}
		_, err := e.queue.Sweep(ctx, q)
		must(err)
	}
	e.rescuer.Tidy(ctx)
	e.empty()
}
