package jobs_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/model/modeltest"
)

// life is a way through a job's life, walked by a process that may be killed
// between any two of its steps.
type life struct {
	name  string
	steps []modeltest.Step
	walk  func(h *testbed, m *member) // requests of a user; attempts go on beside it
	takes time.Duration               // until nothing happens any more
	calls int                         // without a crash
	story string                      // without a crash
}

func lives() []life {
	submit := func(h *testbed, m *member, text string, replace bool) {
		_, _ = m.service.Submit(h.t.Context(), jobs.Submit{Topic: h.topic, Input: jobs.Input{Text: text}, Replace: replace})
	}
	return []life{{
		name:  "submit, a call that fails, one that succeeds",
		steps: []modeltest.Step{modeltest.Status(503), good()},
		walk:  func(h *testbed, m *member) { submit(h, m, "some text", false) },
		takes: 10 * time.Second, calls: 2,
		story: "queued 0/4\nprocessing 1/4 call 1/3\nretrying 1/4 call unavailable\nprocessing 1/4 call 2/3\ncompleted 1/4 version 1\n",
	}, {
		name:  "a wait in the queue",
		steps: []modeltest.Step{modeltest.Timeout(), good()},
		walk:  func(h *testbed, m *member) { submit(h, m, "some text", false) },
		takes: 40 * time.Second, calls: 2,
		story: "queued 0/4\nprocessing 1/4 call 1/3\nretrying 1/4 queue timeout next 2\nprocessing 2/4 call 1/3\ncompleted 2/4 version 1\n",
	}, {
		name:  "a manual retry after the end",
		steps: []modeltest.Step{modeltest.Answer(`{"title":1}`), good()},
		walk: func(h *testbed, m *member) {
			submit(h, m, "some text", false)
			passed(time.Second)
			_, _ = m.service.Retry(h.t.Context(), h.topic)
		},
		takes: 10 * time.Second, calls: 2,
		story: "queued 0/4\nprocessing 1/4 call 1/3\nerror 1/4 failed invalid_output retry=true\n" +
			"queued 0/4 run_by_user\nprocessing 1/4 call 1/3\ncompleted 1/4 version 1\n",
	}, {
		name:  "a manual retry of a waiting job",
		steps: []modeltest.Step{modeltest.Timeout(), good()},
		walk: func(h *testbed, m *member) {
			submit(h, m, "some text", false)
			passed(time.Second)
			_, _ = m.service.Retry(h.t.Context(), h.topic)
		},
		takes: 10 * time.Second, calls: 2,
		story: "queued 0/4\nprocessing 1/4 call 1/3\nretrying 1/4 queue timeout next 2\nqueued 1/4 run_by_user\n" +
			"processing 2/4 call 1/3\ncompleted 2/4 version 1\n",
	}, {
		name:  "replaced while it waits",
		steps: []modeltest.Step{modeltest.Timeout(), good()},
		walk: func(h *testbed, m *member) {
			submit(h, m, "some text", false)
			passed(time.Second)
			submit(h, m, "another text", true)
		},
		takes: 10 * time.Second, calls: 2,
		story: "queued 0/4\nprocessing 1/4 call 1/3\nretrying 1/4 queue timeout next 2\nerror 1/4 failed cancelled retry=false\n" +
			"queued 0/4\nprocessing 1/4 call 1/3\ncompleted 1/4 version 1\n",
	}}
}

// TestACrashBetweenAnyTwoSteps kills the process after each of its steps;
// the slow run does it again where it dies only when it tries the next one, having
// done what comes in between (a call, say). Another process goes on from what
// is stored: one chain lives, nothing is forgotten, nothing counted twice, and
// the client hears within the bound.
func TestACrashBetweenAnyTwoSteps(t *testing.T) {
	for _, l := range lives() {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			steps := l.whole(t)
			for n := range steps {
				for _, late := range []bool{false, true}[:1+slow] {
					t.Run(fmt.Sprintf("after step %d of %d, late %v", n, steps, late), func(t *testing.T) { l.killed(t, n, late) })
				}
			}
		})
	}
}

// whole walks without a crash and returns how many steps there were.
func (l life) whole(t *testing.T) (steps int) {
	m := modeltest.NewScripted(l.steps...)
	inTestbed(t, m, nil, func(t *testing.T, h *testbed) {
		one := h.member("one")
		defer one.close()
		if err := one.store.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := one.life.commands()
		h.work(one)
		l.walk(h, one)
		passed(l.takes)
		steps = one.life.commands() - before
		if got := story(h.history()); got != l.story || m.Calls() != l.calls {
			t.Fatalf("%d calls, told\n%s", m.Calls(), got)
		}
		h.nothingOpen(0)
	})
	return steps
}

func (l life) killed(t *testing.T, n int, late bool) {
	m := modeltest.NewScripted(l.steps...)
	inTestbed(t, m, nil, func(t *testing.T, h *testbed) {
		one, two := h.member("one"), h.member("two")
		defer one.close()
		defer two.close()
		if err := one.store.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop := two.rescueSeldom()
		one.life.cutAfter(n, late)
		h.work(one)
		go l.walk(h, one)
		select {
		case <-one.life.cut:
		case <-time.After(l.takes): // late, and there was no next step
			one.life.kill()
		}
		killed, before := time.Now(), h.history()
		h.work(two)
		passed(time.Minute)
		h.queue.RecoverAll() // what Asynq does at the latest
		for range 20 {
			passed(6 * time.Second)
			if open, _, _ := jobs.Counted(t.Context(), h.client); open == 0 {
				break
			}
		}
		passed(6 * time.Second)
		stop()
		all := h.history()
		defer func() {
			if t.Failed() {
				t.Logf("killed after\n%swent on to\n%s", story(before), story(all))
			}
		}()
		h.chained(all)
		h.inTime(before, all, killed)
		if got := m.Calls(); got > l.calls+1 {
			t.Errorf("%d calls, at most one more than %d may be made", got, l.calls)
		}
		record, err := h.store.Record(t.Context(), h.topic)
		if err != nil {
			t.Fatal(err)
		}
		if record.Calls > 12 {
			t.Errorf("%d calls counted, the allowance is 12", record.Calls)
		}
		if len(all) == 0 {
			h.nothingOpen(0)
			return
		}
		end := all[len(all)-1]
		asked := end.Status == events.Failed && end.JobID == all[0].JobID && end.Reason == events.InvalidOutput // the retry was never stored
		if end.Status != events.Completed && !asked {
			t.Errorf("ended as %s %s %s", end.Status, end.Outcome, end.Reason)
		}
		if end.Status == events.Completed {
			h.nothingOpen(0)
			if d, err := two.service.Document(t.Context(), h.topic); err != nil || d.Version != 1 || d.JobID != end.JobID {
				t.Errorf("document %+v %v", d, err)
			}
			return
		}
		passed(25 * time.Hour)
		if _, err := two.rescuer.Round(t.Context()); err != nil { // forgets expired inputs
			t.Fatal(err)
		}
		h.nothingOpen(0)
	})
}

// rescueSeldom is rescue with fewer rounds, for the sake of the test's time. The
// bounds hold with them as well.
func (m *member) rescueSeldom() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(3 * time.Second)
		defer tick.Stop()
		for {
			_, _ = m.rescuer.Round(ctx)
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}

// nothingOpen checks that the index has come back to empty.
func (h *testbed) nothingOpen(bytes int64) {
	h.t.Helper()
	if open, counted, err := jobs.Counted(h.t.Context(), h.client); err != nil || open != 0 || counted != bytes {
		h.t.Errorf("%d open jobs, %d bytes of inputs, %v", open, counted, err)
	}
}

// chained checks that transitions follow each other, that each attempt was
// claimed once, and that attempts only go up within a job.
func (h *testbed) chained(all []events.Transition) {
	h.t.Helper()
	claimed := map[string]bool{}
	for i, n := range all {
		if i > 0 && (n.Prev != all[i-1].Seq || n.Seq <= all[i-1].Seq) {
			h.t.Errorf("transition %d does not follow its predecessor", i)
		}
		if i > 0 && n.JobID == all[i-1].JobID && (n.Attempt < all[i-1].Attempt || !n.DeadlineAt.Equal(all[i-1].DeadlineAt)) {
			h.t.Errorf("transition %d goes back", i)
		}
		if n.Status == events.Processing && n.Call == 1 {
			key := fmt.Sprint(n.JobID, n.Attempt)
			if claimed[key] {
				h.t.Errorf("attempt %d was claimed twice", n.Attempt)
			}
			claimed[key] = true
		}
	}
}

// inTime checks that what was told when the process was killed became true, or
// was corrected, within the bound.
func (h *testbed) inTime(before, all []events.Transition, killed time.Time) {
	h.t.Helper()
	if len(before) == 0 {
		return
	}
	last := before[len(before)-1]
	if last.Status.Terminal() {
		return
	}
	if len(all) == len(before) {
		h.t.Error("nothing was told any more")
		return
	}
	from := killed
	if last.NextRetryAt.After(from) {
		from = last.NextRetryAt
	}
	if next := all[len(before)].At; next.Sub(from) > crashBound {
		h.t.Errorf("the next transition came %s after the crash", next.Sub(from))
	}
	for i, n := range all {
		if i > 0 && n.Status == events.Processing && all[i-1].Layer == events.QueueLayer && n.At.Before(all[i-1].NextRetryAt) {
			h.t.Errorf("attempt %d started %s before its time", n.Attempt, all[i-1].NextRetryAt.Sub(n.At))
		}
	}
}
