package jobs_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/model/modeltest"
	"github.com/tidings/tidings/jobs/retry"
)

// The bounds of the contract, with the settings of production, on virtual time:
// whatever the phase of the lease and of the rescuer, the client hears in time.
const (
	crashBound    = 30 * time.Second
	operatorBound = 15 * time.Second
)

// TestACrashIsToldWithin30Seconds: the worker is killed in the middle of a
// call, at any time between two renewals of its lease and two checks.
func TestACrashIsToldWithin30Seconds(t *testing.T) {
	var worst time.Duration
	for start := time.Duration(0); start < 10*time.Second; start += 3300 * time.Millisecond {
		for phase := 200 * time.Millisecond; phase < 6*time.Second; phase += 900 * time.Millisecond {
			m := modeltest.NewScripted(modeltest.Hang())
			inTestbed(t, m, nil, func(t *testing.T, h *testbed) {
				first, second := h.member("first"), h.member("second")
				defer first.close()
				defer second.close()
				defer second.rescue()()
				h.submit("some text to work on")
				passed(start)
				h.work(first)
				passed(phase)
				if l := h.last(); l.Status != events.Processing {
					t.Fatalf("before the crash it is %s", l.Status)
				}
				first.life.kill()
				killed := time.Now()
				passed(crashBound)
				lost := h.last()
				if lost.Status != events.Retrying || lost.Reason != events.WorkerLost {
					t.Fatalf("killed %s after its start at %s: %s later told\n%s", phase, start, crashBound, story(h.history()))
				}
				worst = max(worst, lost.At.Sub(killed))
			})
		}
	}
	t.Logf("told after %s at most", worst)
	if worst < 20*time.Second {
		t.Errorf("the worst case of %s is not among these", worst)
	}
}

// TestAfterACrash: the time that is told is kept, calls and attempts go on
// counting, and what the dead worker left in the queue is nobody's.
func TestAfterACrash(t *testing.T) {
	m := modeltest.NewScripted(modeltest.Hang())
	inTestbed(t, m, nil, func(t *testing.T, h *testbed) {
		first, second := h.member("first"), h.member("second")
		defer first.close()
		defer second.close()
		defer second.rescue()()
		h.work(first)
		h.submit("some text to work on")
		passed(7 * time.Second)
		first.life.kill()
		m.Play(good())
		h.work(second)
		passed(2 * time.Minute)
		h.queue.Recover(h.task(1)) // the latest that Asynq brings it back
		passed(time.Minute)
		want := "queued 0/4\nprocessing 1/4 call 1/3\nretrying 1/4 queue worker_lost next 2\nprocessing 2/4 call 1/3\ncompleted 2/4 version 1\n"
		all := h.history()
		if got := story(all); got != want || m.Calls() != 2 {
			t.Fatalf("%d calls, told\n%s", m.Calls(), got)
		}
		lost := all[2]
		if wait := lost.NextRetryAt.Sub(lost.At); wait != 30*time.Second {
			t.Errorf("waits %s", wait)
		}
		if late := all[3].At.Sub(lost.NextRetryAt); late < 0 || late > time.Second {
			t.Errorf("started %s after the time that was told", late)
		}
		record, err := h.store.Record(t.Context(), h.topic)
		if err != nil || record.Calls != 2 || record.Attempts != 2 {
			t.Errorf("record %+v %v", record, err)
		}
	})
}

// task is a run of the topic's newest job.
func (h *testbed) task(run int) jobs.Task {
	h.t.Helper()
	return jobs.Task{Topic: h.topic, JobID: h.last().JobID, Run: run, Queue: "summary"}
}

// TestAnOperatorsClickIsToldWithin15Seconds, whenever it comes.
func TestAnOperatorsClickIsToldWithin15Seconds(t *testing.T) {
	ctx := context.Background()
	do := map[string]func(h *testbed){
		"delete":  func(h *testbed) { _ = h.queue.Delete(ctx, h.task(1)) },
		"archive": func(h *testbed) { h.queue.Archive(h.task(1)) },
		"run":     func(h *testbed) { _ = h.queue.RunNow(ctx, h.task(1)) },
		"pause":   func(h *testbed) { h.queue.Pause("summary", true) },
	}
	for _, tt := range []struct {
		action string
		nobody bool // works
		want   string
	}{
		{"delete", false, "error 1/4 failed removed retry=true"},
		{"archive", false, "error 1/4 failed removed retry=true"},
		{"run", false, "queued 1/4 run_by_operator"},
		{"run", true, "queued 1/4 run_by_operator"},
		{"pause", false, "queued 1/4 queue_paused"},
	} {
		t.Run(fmt.Sprintf("%s, worker %v", tt.action, !tt.nobody), func(t *testing.T) {
			var worst time.Duration
			for phase := 200 * time.Millisecond; phase < 11*time.Second; phase += 700 * time.Millisecond {
				m := modeltest.NewScripted(modeltest.Timeout(), good())
				inTestbed(t, m, func(s *retry.Settings) { s.Attempts, s.Plan, s.Allowance = 4, plan(t, "100s"), 12 }, func(t *testing.T, h *testbed) {
					one := h.member("one")
					defer one.close()
					defer one.rescue()()
					h.work(one)
					h.submit("some text to work on")
					passed(phase)
					if tt.nobody {
						h.queue.Drain()
					}
					before := len(h.history())
					do[tt.action](h)
					clicked := time.Now()
					passed(operatorBound)
					all := h.history()
					if len(all) == before || story(all[before:before+1]) != tt.want+"\n" {
						t.Fatalf("%s at %s: told\n%s", tt.action, phase, story(all))
					}
					worst = max(worst, all[before].At.Sub(clicked))
					if tt.action != "pause" {
						return
					}
					h.queue.Pause("summary", false)
					resumed, before := time.Now(), len(all)
					passed(operatorBound)
					all = h.history()
					if len(all) != before+1 || story(all[before:]) != "queued 1/4\n" || !all[before].NotBefore.Equal(all[2].NextRetryAt) {
						t.Fatalf("resumed after %s: told\n%s", phase, story(all))
					}
					worst = max(worst, all[before].At.Sub(resumed))
				})
			}
			t.Logf("told after %s at most", worst)
		})
	}
}

// TestALongCallIsNotRescued: it outlives many leases and checks.
func TestALongCallIsNotRescued(t *testing.T) {
	m := modeltest.NewScripted(good().After(55 * time.Second))
	inTestbed(t, m, nil, func(t *testing.T, h *testbed) {
		h.topic = events.NewTopic("", "abc-123", "guidance") // may take a minute a call
		m.Play(modeltest.Answer(`{"steps":[{"title":"a","detail":"b"}]}`).After(55 * time.Second))
		one, two := h.member("one"), h.member("two")
		defer one.close()
		defer two.close()
		defer two.rescue()()
		defer one.rescue()()
		h.work(one)
		h.submit("some text to work on")
		passed(2 * time.Minute)
		if got := story(h.history()); got != "queued 0/4\nprocessing 1/4 call 1/3\ncompleted 1/4 version 1\n" || m.Calls() != 1 {
			t.Errorf("%d calls, told\n%s", m.Calls(), got)
		}
	})
}

// TestACrashCountsAsAnAttempt: and as nothing else, whatever the queue's own
// counter says; the last one ends the job.
func TestACrashCountsAsAnAttempt(t *testing.T) {
	m := modeltest.NewScripted(modeltest.Hang())
	inTestbed(t, m, nil, func(t *testing.T, h *testbed) {
		healer := h.member("healer")
		defer healer.close()
		defer healer.rescue()()
		h.submit("some text to work on")
		for n := range 4 {
			doomed := h.member(fmt.Sprint("doomed ", n))
			defer doomed.close()
			h.work(doomed)
			for end := time.Now().Add(5 * time.Minute); m.Calls() == n; time.Sleep(time.Second) {
				if time.Now().After(end) {
					t.Fatalf("no attempt %d:\n%s", n+1, story(h.history()))
				}
			}
			doomed.life.kill()
			passed(crashBound)
		}
		end := h.last()
		if end.Outcome != events.OutcomeRetriesExhausted || end.Reason != events.AttemptsUsedUp || end.Attempt != 4 || m.Calls() != 4 {
			t.Errorf("after %d calls\n%s", m.Calls(), story(h.history()))
		}
		if n, bytes, err := jobs.Counted(t.Context(), h.client); err != nil || n != 0 || bytes == 0 {
			t.Errorf("%d open, %d bytes, %v", n, bytes, err)
		}
		synctest.Wait()
	})
}
