package jobs_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/model/modeltest"
)

// TestTheFleetLearnsItsPace: workers say how long jobs held a slot, in all
// their attempts and without their waits, and how many slots there are; a submit
// that cannot be served in time is refused by it, and told when to come again.
func TestTheFleetLearnsItsPace(t *testing.T) {
	const enough = 32 // and some more: a rescuer may take a job out first, which does not know
	m := modeltest.NewScripted()
	inTestbed(t, m, nil, func(t *testing.T, h *testbed) {
		one := h.member("one")
		defer one.close()
		one.rescuer.Name, one.rescuer.Slots = "one", 1
		defer one.rescue()()
		h.work(one)
		for i := range enough + 18 {
			h.topic = events.NewTopic("", fmt.Sprint("s-", i), "summary")
			m.Play(modeltest.Timeout().After(8*time.Second), good().After(12*time.Second))
			h.submit("some text to work on")
			passed(time.Minute)
			if l := h.last(); l.Status != events.Completed || l.Attempt != 2 {
				t.Fatalf("%+v", l)
			}
		}
		mean, seen, err := jobs.Pace(t.Context(), h.client, "summary")
		if err != nil || seen < enough || mean < 19_900 || mean > 20_200 {
			t.Fatalf("%v jobs of %v ms, %v: want %d of 20 s", seen, mean, err, enough)
		}
		h.queue.Drain() // nobody takes a job any more
		taken := 0
		for ; ; taken++ {
			_, err = h.service.Submit(t.Context(), jobs.Submit{Topic: events.NewTopic("", fmt.Sprint("more-", taken), "summary"), Input: jobs.Input{Text: "more"}})
			if err != nil {
				break
			}
		}
		var no *jobs.Refusal
		// 10 min less 5 s for saving hold 28 jobs of 20 s and its own, and 15 s more.
		if !errors.As(err, &no) || no.Code != jobs.CodeAdmissionDenied || taken != 29 {
			t.Fatalf("after %d: %v", taken, err)
		}
		if no.RetryAfter < 4*time.Second || no.RetryAfter > 15*time.Second {
			t.Errorf("told to come again after %s", no.RetryAfter)
		}
	})
}
