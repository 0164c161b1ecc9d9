package events_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/events/eventstest"
)

// The race between the first read of the log and the subscription.

// The job completes while the subscription is not confirmed yet: no copy will
// ever arrive, so the log must not have been read before.
func TestCompletedBeforeTheConfirmation(t *testing.T) {
	for _, resume := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			memory := eventstest.NewMemory(eventstest.MemoryOptions{})
			log := &watchful{Log: memory}
			hub := run(t, log, events.HubOptions{})
			synctest.Wait()
			seen := eventstest.Append(t, memory, topicOf("s"), "j1", events.Queued, events.Processing)[1]

			memory.HoldConfirmations()
			subscribed := make(chan reader)
			go func() { subscribed <- subscribe(t, hub, topicOf("s"), seen.Seq, resume) }()
			synctest.Wait()
			if n := log.read.Load(); n != 0 {
				t.Errorf("the log was read %d times before the confirmation", n)
			}
			want := eventstest.Append(t, memory, topicOf("s"), "j1", events.Completed)[0]
			time.Sleep(200 * time.Millisecond)
			memory.ReleaseConfirmations()

			s := <-subscribed
			if e := s.next(t); e.Transition != want {
				t.Errorf("got %+v, want %+v", e, want)
			}
			s.nothing(t)
		})
	}
}

// The job completes after the log was read and before Subscribe has returned.
func TestCompletedWithinTheFirstRead(t *testing.T) {
	for _, resume := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var observed counts
			memory := eventstest.NewMemory(eventstest.MemoryOptions{})
			log := &watchful{Log: memory}
			hub := run(t, log, events.HubOptions{Observer: observed.observer()})
			synctest.Wait()
			first := eventstest.Append(t, memory, topicOf("s"), "j1", events.Queued, events.Processing)
			var completed []events.Transition
			log.during(func() {
				completed = eventstest.Append(t, memory, topicOf("s"), "j1", events.Completed)
				synctest.Wait() // the copy is there before the answer
			})
			s := subscribe(t, hub, topicOf("s"), first[0].Seq, resume)
			for _, want := range []events.Transition{first[1], completed[0]} {
				if e := s.next(t); e.Transition != want || e.Reset {
					t.Errorf("got %+v, want %+v", e, want)
				}
			}
			s.nothing(t)
			observed.want(t, "", 0)
		})
	}
}

// More copies than a buffer holds arrive within the first read.
func TestFloodWithinTheFirstRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := eventstest.NewMemory(eventstest.MemoryOptions{})
		log := &watchful{Log: memory}
		hub := run(t, log, events.HubOptions{Buffer: 4})
		synctest.Wait()
		all := eventstest.Append(t, memory, topicOf("s"), "j1", events.Queued, events.Processing)
		log.during(func() {
			for range 20 {
				all = append(all, eventstest.Append(t, memory, topicOf("s"), "j1", events.Processing)...)
			}
			synctest.Wait()
		})
		s := subscribe(t, hub, topicOf("s"), 0, false)
		for _, want := range all[1:] {
			if e := s.next(t); e.Transition != want {
				t.Fatalf("got %+v, want %+v", e, want)
			}
		}
		s.nothing(t)
	})
}

// The connection is lost and back within the first read; the copy in between
// is gone and the comparison came too early for this reader.
func TestReconnectWithinTheFirstRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lost atomic.Bool
		memory := eventstest.NewMemory(eventstest.MemoryOptions{Fate: func(events.Topic, events.Transition) eventstest.Fate {
			if lost.Load() {
				return eventstest.Fate{}
			}
			return eventstest.Delivered()
		}})
		log := &watchful{Log: memory}
		hub := run(t, log, events.HubOptions{})
		synctest.Wait()
		first := eventstest.Append(t, memory, topicOf("s"), "j1", events.Queued)
		var completed []events.Transition
		log.during(func() {
			lost.Store(true)
			completed = eventstest.Append(t, memory, topicOf("s"), "j1", events.Processing)
			lost.Store(false)
			memory.Disconnect()
			time.Sleep(time.Second) // the comparison is over
		})
		s := subscribe(t, hub, topicOf("s"), 0, false)
		start := time.Now()
		for _, want := range []events.Transition{first[0], completed[0]} {
			if e := s.next(t); e.Transition != want {
				t.Errorf("got %+v, want %+v", e, want)
			}
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("it took %v, want it found by the resubscription", took)
		}
	})
}
