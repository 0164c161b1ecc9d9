package jobs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/model/modeltest"
)

// TestARoundIsAFewTrips: 200 jobs cost hardly more than one.
func TestARoundIsAFewTrips(t *testing.T) {
	t.Parallel()
	l := newLine(t, modeltest.NewScripted(good()))
	fill(l, 200)
	p := l.process(nil)
	p.rescuer.Patience = time.Hour
	l.must(p.store.Load(t.Context()))
	before := p.life.commands()
	if n, err := p.rescuer.Round(t.Context()); n != 200 || err != nil {
		t.Fatalf("%d jobs, %v", n, err)
	}
	if trips := p.life.commands() - before; trips > 10 {
		t.Errorf("%d round trips for 200 jobs", trips)
	}
}

// TestARetriedJobHasItsPlace: the job failed between the service's look and its
// script, so a new one starts that was never admitted. It is taken in above the
// limit rather than left where no rescuer finds it.
func TestARetriedJobHasItsPlace(t *testing.T) {
	t.Parallel()
	l, job := waiting(t, modeltest.NewScripted(good()), modeltest.Timeout(), "60s")
	healer, p := l.process(nil), l.process((&failingQueue{enqueue: true}).through)
	p.service.Limits.OpenJobs = 0
	p.life.look(func(c redis.Cmder) {
		if p.store.Sends(c, "retry") && l.operator.DeleteTask("summary", job+":1") == nil {
			l.look(healer)
		}
	})
	a, err := p.service.Retry(t.Context(), l.topic)
	if err != nil || a.JobID == job {
		t.Fatalf("retry: %+v %v", a, err)
	}
	if open, _, err := jobs.Counted(t.Context(), l.client); err != nil || open != 1 {
		t.Errorf("%d open, %v", open, err)
	}
	l.process(nil).work().rescue() // it was not enqueued either
	l.becomes("completed", is(events.Completed))
	l.tidy(0)
}

// TestAFailedJobsInputMakesWay: for that of the next submit, on the count too.
func TestAFailedJobsInputMakesWay(t *testing.T) {
	t.Parallel()
	l := newLine(t, modeltest.NewScripted(modeltest.Status(401), modeltest.Status(401), good()))
	p := l.process(nil).work()
	for _, text := range []string{"a long text that fails", "short"} {
		job := p.submit(text).JobID
		l.becomes("a failure", func(n events.Transition) bool { return n.JobID == job && n.Status == events.Failed })
		l.tidy(int64(len(`{"text":""}`) + len(text)))
	}
	p.submit("a third")
	l.becomes("completed", is(events.Completed))
	l.tidy(0)
}

// TestAStoredDocumentCounts: Redis has kept a job's document and lost its
// end. The document is the confirmed result: it is told, and not paid for again.
func TestAStoredDocumentCounts(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("when its worker is lost", func(t *testing.T) {
		t.Parallel()
		l := newLine(t, modeltest.NewScripted(good()))
		l.setting.Plan = plan(t, "1s")
		p := l.process(nil).work()
		p.submit("some text")
		end := l.becomes("completed", is(events.Completed))
		l.tidy(0)
		l.must(jobs.LoseEnd(ctx, l.client, l.topic, end))
		l.must(p.store.Admit(ctx, l.topic, end.JobID, 0))
		l.look(p)
		l.becomes("completed again", func(n events.Transition) bool { return n.Status == events.Completed && n.Seq > end.Seq })
		l.calls(1)
	})
	t.Run("at the claim", func(t *testing.T) {
		t.Parallel()
		l := newLine(t, modeltest.NewScripted(good()))
		p := l.process(nil)
		job := p.submit("some text").JobID
		l.must(l.client.HSet(ctx, l.topic.Key("document"), "version", 1, "job", job, "body", "{}").Err())
		p.work()
		l.becomes("completed", is(events.Completed))
		l.calls(0)
		l.tidy(0)
	})
}

// TestAKeyOutlivesTheReplayHorizon: a job can be delayed for as long as its
// deadline, and a caller may then still ask what became of its request.
func TestAKeyOutlivesTheReplayHorizon(t *testing.T) {
	m := modeltest.NewScripted(modeltest.Timeout())
	inTestbed(t, m, nil, func(t *testing.T, h *testbed) {
		h.start()
		ask := jobs.Submit{Topic: h.topic, Input: jobs.Input{Text: "some text"}, IdempotencyKey: "a key"}
		first, err := h.service.Submit(t.Context(), ask)
		if err != nil {
			t.Fatal(err)
		}
		passed(23 * time.Hour)
		if l := h.last(); !l.Status.Terminal() {
			t.Fatalf("still %s", l.Status)
		}
		again, err := h.service.Submit(t.Context(), ask)
		if err != nil || again.JobID != first.JobID || again.Status != first.Status || !again.Replayed {
			t.Errorf("asked again: %+v %v, first %+v", again, err, first)
		}
		ask.Input.Text = "another text"
		var no *jobs.Refusal
		if _, err := h.service.Submit(t.Context(), ask); !errors.As(err, &no) || no.Code != jobs.CodeIdempotencyKeyReused {
			t.Errorf("with another input: %v", err)
		}
		if n, _, err := jobs.Counted(t.Context(), h.client); err != nil || n != 0 {
			t.Errorf("%d open jobs, %v", n, err)
		}
	})
}
