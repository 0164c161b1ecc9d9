package jobs_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
)

// late checks what a process leaves of an attempt that was replaced: a line, a
// count, and nothing else.
func (p *process) late(job string) {
	p.Helper()
	p.until("discarded", func() bool { return p.count("tidings_results_discarded_total") == 1 })
	if p.book.has("lease_lost", job) != 1 {
		p.Error("no lease_lost line with the job's id")
	}
}

// title is the current document's.
func (p *process) title() string {
	p.Helper()
	d, err := p.service.Document(p.Context(), p.topic)
	if err != nil {
		p.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(d.Content), `"title":"`)
	title, _, _ := strings.Cut(rest, `"`)
	return title
}

// TestI49_AFrozenWorkerThaws: past its lease, after it was replaced. Nothing
// from its attempt is stored or seen, whether its answer comes first or not.
func TestI49_AFrozenWorkerThaws(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		replace func(m *gated) // the second worker's progress, before the thaw
		end     []string
	}{
		{"after the second has completed", func(m *gated) { m.answer("second") }, []string{"completed 2/4 version 1"}},
		{"while the second is at work", func(*gated) {}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := newGated(true)
			l := newLine(t, m)
			frozen, second := l.process(nil).work(), l.process(nil)
			job := frozen.submit("some text").JobID
			<-m.arrived
			frozen.life.freeze()
			second.rescue()
			l.becomes("replaced", because(events.Retrying, events.WorkerLost))
			second.work()
			<-m.arrived
			told := []string{"queued 0/4", "processing 1/4 call 1/3", "retrying 1/4 queue worker_lost next 2", "processing 2/4 call 1/3"}
			if tt.end != nil {
				// Two calls wait at the gate: let both through and see which wins.
				m.answer("late")
				m.answer("late")
				l.becomes("completed", is(events.Completed))
				frozen.life.thaw()
				frozen.late(job)
				l.told(append(told, tt.end...)...)
			} else {
				m.answer("late") // one of the two is the frozen worker's
				m.answer("late")
				frozen.life.thaw()
				frozen.late(job)
				l.becomes("completed", is(events.Completed))
				l.told(append(told, "completed 2/4 version 1")...)
			}
		})
	}
}

// TestI59_CancelledWhileTheCallIsInFlight: the end is told at once, also when
// the provider does not notice, and a late result is discarded.
func TestI59_CancelledWhileTheCallIsInFlight(t *testing.T) {
	t.Parallel()
	m := newGated(true)
	l := newLine(t, m)
	p := l.process(nil).work().listen()
	p.rescue()
	job := p.submit("some text").JobID
	<-m.arrived
	a, err := p.service.Cancel(t.Context(), l.topic)
	if err != nil || a.Status != events.Failed {
		t.Fatalf("cancel: %+v %v", a, err)
	}
	l.told("queued 0/4", "processing 1/4 call 1/3", "error 1/4 failed cancelled retry=false")
	if p.book.has("job cancelled", job) != 1 {
		t.Error("the cancelling is not in the log")
	}
	m.answer("late")
	p.late(job)
	l.told("queued 0/4", "processing 1/4 call 1/3", "error 1/4 failed cancelled retry=false")
	l.tidy(0)
	l.calls(1)
	if _, err := p.service.Document(t.Context(), l.topic); err == nil {
		t.Error("a document was stored")
	}
	// The session is free for another job.
	m.answer("another")
	p.submit("another text")
	l.becomes("completed", is(events.Completed))
	if got := p.title(); got != "another" {
		t.Errorf("the document is %q", got)
	}
}

// TestReplacedWhileTheCallIsInFlight: ?replace=true. The old job's late result
// does not become the new one's.
func TestReplacedWhileTheCallIsInFlight(t *testing.T) {
	t.Parallel()
	m := newGated(true)
	l := newLine(t, m)
	old, p := l.process(nil).work().listen(), l.process(nil)
	p.rescue()
	first := old.submit("one text").JobID
	<-m.arrived
	// The old process takes nothing more, so that each call is known by its process.
	old.queue.Drain()
	p.work()
	a, err := p.service.Submit(t.Context(), jobs.Submit{Topic: l.topic, Input: jobs.Input{Text: "another text"}, Replace: true})
	if err != nil || a.JobID == first {
		t.Fatalf("replace: %+v %v", a, err)
	}
	<-m.arrived
	m.answer("x")
	m.answer("x")
	l.becomes("completed", is(events.Completed))
	old.late(first)
	l.told("queued 0/4", "processing 1/4 call 1/3", "error 1/4 failed cancelled retry=false",
		"queued 0/4", "processing 1/4 call 1/3", "completed 1/4 version 1")
	if d, err := p.service.Document(t.Context(), l.topic); err != nil || d.JobID != a.JobID || d.Version != 1 {
		t.Errorf("document %+v %v", d, err)
	}
	if replaced := l.history()[2].ReplacedBy; replaced != a.JobID {
		t.Errorf("replaced by %q, want %q", replaced, a.JobID)
	}
	l.calls(2)
}

// TestACancelReachesTheCall: at once through the channel, and through the
// renewal of the lease when that message is lost.
func TestACancelReachesTheCall(t *testing.T) {
	t.Parallel()
	for _, hears := range []bool{true, false} {
		name := "by the message"
		if !hears {
			name = "by the renewal"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newGated(false)
			l := newLine(t, m)
			if hears {
				l.setting.Lease = time.Minute // no renewal could tell it in time
			}
			p := l.process(nil).work()
			if hears {
				p.listen()
			}
			job := p.submit("some text").JobID
			<-m.arrived
			if _, err := p.service.Cancel(t.Context(), l.topic); err != nil {
				t.Fatal(err)
			}
			cancelled := time.Now()
			l.until("the call ended", func() bool { return l.model.running() == 0 })
			// A third of the lease, and what a busy machine adds.
			if took := time.Since(cancelled); took > lease/3+lease/2 {
				t.Errorf("the call went on for %s", took)
			}
			p.late(job)
			l.told("queued 0/4", "processing 1/4 call 1/3", "error 1/4 failed cancelled retry=false")
			l.tidy(0)
		})
	}
}

// TestAClaimAgainstALiveClaim: Asynq takes a slow worker for dead and gives the
// task to another one. There are never two calls at once, and one is made.
func TestAClaimAgainstALiveClaim(t *testing.T) {
	t.Parallel()
	m := newGated(false)
	l := newLine(t, m)
	one, two := l.process(nil).work(), l.process(nil)
	job := one.submit("some text").JobID
	<-m.arrived
	one.queue.Drain()
	l.expireAsynqLease(job + ":1")
	two.work().rescue() // its Asynq recovers such tasks as it starts
	l.until("refused at the claim", func() bool {
		info, err := l.operator.GetTaskInfo("summary", job+":1")
		return err == nil && strings.HasPrefix(info.LastErr, "claimed elsewhere")
	})
	m.answer("done")
	l.becomes("completed", is(events.Completed))
	l.told("queued 0/4", "processing 1/4 call 1/3", "completed 1/4 version 1")
	l.calls(1)
	l.until("the task dropped", func() bool { return two.book.has("a task was dropped", `"because":"ended"`) == 1 })
	l.tidy(0)
}
