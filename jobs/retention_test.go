package jobs

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/events/eventstest"
	"github.com/tidings/tidings/jobs/lifecycle"
	"github.com/tidings/tidings/jobs/retry"
	"github.com/tidings/tidings/jobs/store"
)

// TestNothingStaysAfterItsRetention: whatever way jobs end, Redis holds no
// key of theirs when its time is over, so its memory is flat.
func TestNothingStaysAfterItsRetention(t *testing.T) {
	c := eventstest.StartRedis(t).Client()
	s := NewStore(c, store.Kept{Record: time.Second, Document: time.Second, Key: time.Second}, store.Sync{}, nil)
	var most int64
	for i := range 60 {
		b := &fixture{t, s, events.NewRedisLog(c, time.Second), events.NewTopic("", fmt.Sprint("s-", i), "summary")}
		job := fmt.Sprint("J", i)
		if got, err := s.admit(t.Context(), place{topic: b.topic, job: job, bytes: 10, hold: time.Second},
			Limits{OpenJobs: 1000, InputBytes: 1 << 20}); err != nil || got.refused != "" {
			t.Fatalf("admit: %v %v", got, err)
		}
		settings := retry.Defaults()
		settings.InputRetention, settings.Deadline = time.Second, 0
		rules := lifecycle.Rules{Settings: settings}
		b.do("submit", store.Want{Key: "k"}, func(_ lifecycle.Rules, state lifecycle.State) lifecycle.Change {
			c, _ := rules.Submit(state, lifecycle.Submission{Terms: lifecycle.Terms{JobID: job}, Fingerprint: job, Input: []byte("in"), Keyed: true})
			c.Job.DeadlineAt = state.Now.Add(time.Hour)
			return c
		})
		b.claim(job, "T")
		b.do("end", store.Want{}, func(_ lifecycle.Rules, state lifecycle.State) (c lifecycle.Change) {
			switch {
			case i%3 == 0:
				c, _ = rules.Cancel(state)
			case i%2 == 0:
				c, _, _ = rules.Settle(state, job, "T", lifecycle.Attempt{Kind: lifecycle.Finished, Document: []byte("{}")})
			default:
				c, _, _ = rules.Settle(state, job, "T", lifecycle.Attempt{Outcome: events.OutcomeFailed, Reason: events.Auth, CanRetry: true})
			}
			return c
		})
		if err := s.leave(t.Context(), b.topic, job, time.Duration(i%2)*time.Second, 0); err != nil {
			t.Fatal(err)
		}
		most = max(most, c.DBSize(t.Context()).Val())
	}
	if most < 100 {
		t.Fatalf("at most %d keys: this test has seen nothing", most)
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(20 * time.Second); ; {
		if _, err := s.due(t.Context(), 200, "", 0); err != nil { // the rescuer's round forgets the bytes of expired inputs
			t.Fatal(err)
		}
		keys := c.Keys(t.Context(), "*").Val()
		if len(keys) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%d keys stay, such as %v", len(keys), keys[:min(5, len(keys))])
		}
	}
}
