package events_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/events/eventstest"
)

// The storage is away, or deaf.

func TestStorageAwayWhileStreaming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := eventstest.NewMemory(eventstest.MemoryOptions{})
		hub := run(t, log, events.HubOptions{})
		s := subscribe(t, hub, topicOf("s"), 0, false)
		s.next(t)
		log.Stop()
		start := time.Now()
		for _, topic := range []events.Topic{topicOf("s"), topicOf("new")} {
			if _, err := hub.Subscribe(t.Context(), topic, 0, false); !errors.Is(err, events.ErrUnavailable) {
				t.Errorf("subscribe: got %v, want ErrUnavailable", err)
			}
		}
		if _, err := hub.Last(t.Context(), []events.Topic{topicOf("s")}); !errors.Is(err, events.ErrUnavailable) {
			t.Errorf("last: got %v, want ErrUnavailable", err)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("it took %v to know", took)
		}
		if hub.Watching() != 1 {
			t.Errorf("watching %d, want the open stream's alone", hub.Watching())
		}
		s.nothing(t) // a minute, and the stream is still open
		log.Start()
		want := eventstest.Append(t, log, topicOf("s"), "j1", events.Queued)[0]
		if e := s.next(t); e.Transition != want {
			t.Errorf("got %+v, want %+v", e, want)
		}
	})
}

// The log is away just when a reader has to go on from it.
func TestStorageAwayDuringARepair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n int
		log := eventstest.NewMemory(eventstest.MemoryOptions{Fate: func(events.Topic, events.Transition) eventstest.Fate {
			n++
			return eventstest.Fate{Copies: n % 2} // every second message
		}})
		hub := run(t, log, events.HubOptions{Buffer: 1})
		s := subscribe(t, hub, topicOf("s"), 0, false)
		s.next(t)
		all := eventstest.Append(t, log, topicOf("s"), "j1", events.Queued, events.Processing, events.Retrying, events.Processing)
		log.Stop()
		go func() {
			time.Sleep(45 * time.Second)
			log.Start()
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, want := range all {
			if e, err := s.Next(ctx); err != nil || e.Transition != want {
				t.Fatalf("got %+v, %v, want %+v", e, err, want)
			}
		}
	})
}

func TestUnconfirmedSubscriptionFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := eventstest.NewMemory(eventstest.MemoryOptions{})
		hub := run(t, log, events.HubOptions{})
		synctest.Wait()
		log.HoldConfirmations()
		start := time.Now()
		if _, err := hub.Subscribe(t.Context(), topicOf("s"), 0, false); !errors.Is(err, events.ErrUnavailable) {
			t.Errorf("got %v, want ErrUnavailable", err)
		}
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("it took %v, want at most Patience", took)
		}
		if hub.Watching() != 0 {
			t.Error("the topic is still watched")
		}
	})
}

func TestProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var deaf atomic.Bool
		log := eventstest.NewMemory(eventstest.MemoryOptions{Fate: func(events.Topic, events.Transition) eventstest.Fate {
			if deaf.Load() {
				return eventstest.Fate{}
			}
			return eventstest.Delivered()
		}})
		hub := run(t, log, events.HubOptions{})
		for range 3 {
			if err := hub.Probe(t.Context()); err != nil {
				t.Errorf("all is well: %v", err)
			}
		}
		deaf.Store(true)
		start := time.Now()
		if err := hub.Probe(t.Context()); !errors.Is(err, events.ErrDeaf) {
			t.Errorf("deaf: got %v, want ErrDeaf", err)
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("it took %v, want at most ProbeWithin", took)
		}
		deaf.Store(false)
		if err := hub.Probe(t.Context()); err != nil {
			t.Errorf("all is well again: %v", err)
		}
		log.Stop()
		if err := hub.Probe(t.Context()); !errors.Is(err, events.ErrUnavailable) || errors.Is(err, events.ErrDeaf) {
			t.Errorf("away: got %v, want ErrUnavailable", err)
		}
		if hub.Watching() != 0 {
			t.Error("the probe counts as a reader")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		hub := events.NewHub(eventstest.NewMemory(eventstest.MemoryOptions{}), events.HubOptions{})
		if err := hub.Probe(t.Context()); !errors.Is(err, events.ErrDeaf) {
			t.Errorf("a hub that does not run: got %v, want ErrDeaf", err)
		}
	})
}
