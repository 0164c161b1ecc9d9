package jobs_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/lifecycle"
	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/model/modeltest"
	"github.com/tidings/tidings/jobs/retry"
)

// drain takes a process down the way the program does, with a grace for calls.
func (p *process) drain(grace time.Duration) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		p.queue.Drain()
		p.worker.Drain(context.Background(), grace)
	}()
	return done
}

// TestDrainHandsBack: a running attempt that does not end in the grace is handed
// back uncounted, and goes on with another worker.
func TestDrainHandsBack(t *testing.T) {
	t.Parallel()
	m := newGated(false)
	l := newLine(t, m)
	one := l.process(nil).work()
	one.submit("some text")
	<-m.arrived
	<-one.drain(10 * time.Millisecond)
	l.told("queued 0/4", "processing 1/4 call 1/3", "queued 0/4 draining")
	two := l.process(nil).work().rescue()
	<-m.arrived
	m.answer("done")
	l.becomes("completed", is(events.Completed))
	l.told("queued 0/4", "processing 1/4 call 1/3", "queued 0/4 draining", "processing 1/4 call 1/3", "completed 1/4 version 1")
	record, err := two.store.Record(t.Context(), l.topic)
	if err != nil || record.Attempts != 1 || record.Calls != 2 || record.Run != 1 {
		t.Errorf("record %+v %v", record, err)
	}
	l.tidy(0)
}

// TestDrainWaitsForARunningCall: one that ends in the grace counts, and Drain
// returns at its end.
func TestDrainWaitsForARunningCall(t *testing.T) {
	t.Parallel()
	m := newGated(false)
	l := newLine(t, m)
	p := l.process(nil).work()
	p.submit("some text")
	<-m.arrived
	done := p.drain(time.Minute)
	select {
	case <-done:
		t.Fatal("Drain did not wait")
	case <-time.After(50 * time.Millisecond):
	}
	m.answer("done")
	<-done
	l.told("queued 0/4", "processing 1/4 call 1/3", "completed 1/4 version 1")
}

// TestDrainBetweenTwoCalls: an attempt that would only wait for its next call
// does not wait for the grace.
func TestDrainBetweenTwoCalls(t *testing.T) {
	t.Parallel()
	l := newLine(t, modeltest.NewScripted(modeltest.Status(503).After(300*time.Millisecond), good()))
	p := l.process(nil).work()
	p.submit("some text")
	l.becomes("at work", is(events.Processing))
	<-p.drain(time.Minute)
	l.told("queued 0/4", "processing 1/4 call 1/3", "queued 0/4 draining")
	l.calls(1)
	l.process(nil).work()
	l.becomes("completed", is(events.Completed))
	l.calls(2)
}

// TestDrainShortensNoWait: what the provider asked to wait before the next
// call holds for the process that goes on as well.
func TestDrainShortensNoWait(t *testing.T) {
	t.Parallel()
	asks := modeltest.Fail(&model.Error{Kind: retry.Unavailable, Status: 503, RetryAfter: 20 * time.Second})
	for name, wait := range map[string]events.Status{"before the wait": events.Processing, "within the wait": events.Retrying} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, modeltest.NewScripted(asks.After(300*time.Millisecond), good()))
			p := l.process(nil).work()
			p.submit("some text")
			l.becomes("at that point", is(wait))
			<-p.drain(500 * time.Millisecond)
			all := l.history()
			told := all[len(all)-1]
			if rest := told.NotBefore.Sub(told.At); told.Reason != events.Draining || rest < 15*time.Second || rest > 21*time.Second {
				t.Errorf("handed back as %+v, to wait %s", told, rest)
			}
			l.calls(1)
		})
	}
}

// TestDrainWhileAClaimIsUnderWay: Drain does not overlook it.
func TestDrainWhileAClaimIsUnderWay(t *testing.T) {
	t.Parallel()
	m := newGated(false)
	l := newLine(t, m)
	p := l.process(nil)
	claiming, drained := make(chan struct{}), make(chan struct{})
	p.life.look(func(c redis.Cmder) {
		if p.store.Sends(c, "claim") {
			close(claiming)
			<-drained
		}
	})
	p.work().submit("some text")
	<-claiming
	done := p.drain(10 * time.Millisecond)
	select {
	case <-done:
		t.Error("Drain returned before the claim")
	case <-time.After(100 * time.Millisecond): // the grace is over, too
	}
	close(drained)
	<-done
	l.told("queued 0/4", "processing 1/4 call 1/3", "queued 0/4 draining")
}

// TestDrainDoesNotClaimWhatWaits: a task that came a little early waits in the
// worker; it does not begin when the process is to end.
func TestDrainDoesNotClaimWhatWaits(t *testing.T) {
	t.Parallel()
	l, job := waiting(t, modeltest.NewScripted(good()), modeltest.Timeout(), "30s")
	l.must(jobs.Alter(t.Context(), l.client, l.topic, func(j *lifecycle.Job) { j.NextRetryAt = time.Now().Add(1500 * time.Millisecond) }))
	p := l.process(nil)
	asked := make(chan struct{}, 10)
	p.life.look(func(c redis.Cmder) {
		if p.store.Reads(c) {
			asked <- struct{}{}
		}
	})
	p.work()
	l.must(l.operator.RunTask("summary", job+":1"))
	<-asked
	<-p.drain(time.Minute)
	if n := len(l.history()); n != 3 {
		t.Errorf("told\n%s", story(l.history()))
	}
	l.calls(1)
}
