package jobs_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/model/modeltest"
)

// A fail-over of one master of a Cluster can lose a job's place in the index and
// its task, and nothing of the job itself. Who watches it must not look at a
// status that stands still for ever.
func TestWhatAFailOverLostAloneIsFoundByWhoWatches(t *testing.T) {
	m := modeltest.NewScripted(modeltest.Timeout(), good())
	inTestbed(t, m, nil, func(t *testing.T, h *testbed) {
		h.start()
		hub := events.NewHub(h.log, events.HubOptions{Overdue: h.rescuer.Overdue})
		ctx, end := context.WithCancel(t.Context())
		var loops sync.WaitGroup
		loops.Go(func() { _ = hub.Run(ctx) })
		loops.Go(func() { h.rescuer.Run(ctx) })
		defer loops.Wait()
		defer end()
		watching, err := hub.Subscribe(t.Context(), h.topic, 0, false)
		if err != nil {
			t.Fatal(err)
		}
		defer watching.Close()

		a := h.submit("some text")
		passed(time.Second)
		if l := h.last(); l.Status != events.Retrying {
			t.Fatalf("told %+v", l)
		}
		index, err := h.client.Keys(t.Context(), "tidings:{open}:*").Result()
		if err != nil || len(index) == 0 {
			t.Fatalf("index %v %v", index, err)
		}
		h.client.Del(t.Context(), index...)
		if err := h.queue.Delete(t.Context(), jobs.Task{Topic: h.topic, JobID: a.JobID, Run: 1, Queue: "summary"}); err != nil {
			t.Fatal(err)
		}

		passed(50 * time.Second) // 20 s after the announced time, which is not late
		if n := h.client.Exists(t.Context(), index[0]).Val(); n != 0 || h.last().Status != events.Retrying {
			t.Errorf("before its time: %d, %+v", n, h.last())
		}
		passed(70 * time.Second)
		if l := h.last(); l.Status != events.Completed || l.JobID != a.JobID || l.Attempt != 2 {
			t.Errorf("in the end\n%s", story(h.history()))
		}
		passed(20 * time.Second)
		if n := h.client.ZCard(t.Context(), "tidings:{open}:index").Val(); n != 0 {
			t.Errorf("%d jobs in the index in the end", n)
		}
	})
}
