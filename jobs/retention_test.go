package jobs

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/events/eventstest"
)

// TestI15_NothingStaysAfterItsRetention: whatever way jobs end, Redis holds no
// key of theirs when its time is over, so its memory is flat.
func TestI15_NothingStaysAfterItsRetention(t *testing.T) {
	c := eventstest.StartRedis(t).Client()
	s, err := NewStore(c, Keep{Job: time.Second, Input: time.Second, Document: time.Second, Key: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	var most int64
	for i := range 60 {
		b := &bench{t, s, events.NewRedisLog(c, time.Second), events.NewTopic("", fmt.Sprint("s-", i), "summary")}
		job := fmt.Sprint("J", i)
		if got, err := s.admit(t.Context(), place{topic: b.topic, job: job, bytes: 10, hold: time.Second},
			Limits{OpenJobs: 1000, InputBytes: 1 << 20}); err != nil || got.refused != "" {
			t.Fatalf("admit: %v %v", got, err)
		}
		a := submitArgs(job)
		a["input_ms"], a["idem_ms"] = 1000, 1000
		if _, _, err := s.run(t.Context(), "submit", b.topic, a, []byte("in"), idempotencyKey(b.topic, "k")); err != nil {
			t.Fatal(err)
		}
		b.do("claim", claimArgs(job, "T"))
		end := settleArgs(job, "T", []string{"completed", "error"}[i%2])
		end["input_ms"], end["document_ms"], end["outcome"], end["reason"], end["can_retry"] = 1000, 1000, "failed", "auth", true
		if i%3 == 0 {
			b.do("cancel", args{"cancels": cancels})
		} else {
			b.do("settle", end, []byte(`{}`)...)
		}
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
