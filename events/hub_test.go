package events_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/events/eventstest"
)

// These tests are about what a reader is promised on a good day. Faults are in
// fault_test.go and redis_fault_test.go.

func TestFirstEventIsTheCurrentState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := eventstest.NewMemory(eventstest.MemoryOptions{})
		hub := run(t, log, events.HubOptions{})

		idle := subscribe(t, hub, topicOf("new"), 0, false)
		e := idle.next(t)
		if !e.Idle || e.Seq != 0 || e.Reset || e.Live || !e.Newest {
			t.Errorf("no job: got %+v, want idle", e)
		}
		want := eventstest.Append(t, log, topicOf("new"), "j1", events.Queued)[0]
		if e = idle.next(t); e.Transition != want || !e.Live || e.Idle {
			t.Errorf("a job appears: got %+v, want %+v live", e, want)
		}

		all := eventstest.Append(t, log, topicOf("old"), "j1", events.Queued, events.Processing)
		if e = subscribe(t, hub, topicOf("old"), 99, false).next(t); e.Transition != all[1] || e.Live || e.Reset {
			t.Errorf("got %+v, want the newest %+v, not live", e, all[1])
		}
	})
}

func TestResumeReplaysWhatWasMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := eventstest.NewMemory(eventstest.MemoryOptions{})
		hub := run(t, log, events.HubOptions{})
		all := eventstest.Append(t, log, topicOf("s"), "j1", events.Queued, events.Processing, events.Completed)
		all = append(all, eventstest.Append(t, log, topicOf("s"), "j2", events.Queued)...)

		s := subscribe(t, hub, topicOf("s"), all[0].Seq, true)
		for i, want := range all[1:] {
			e := s.next(t)
			if e.Transition != want || e.Live || e.Reset || e.Newest != (i == 2) {
				t.Errorf("replay %d: got %+v, want %+v", i, e, want)
			}
		}
		caughtUp := subscribe(t, hub, topicOf("s"), all[3].Seq, true)
		caughtUp.nothing(t)
		want := eventstest.Append(t, log, topicOf("s"), "j2", events.Processing)[0]
		for _, s := range []reader{s, caughtUp} {
			if e := s.next(t); e.Transition != want || !e.Live || !e.Newest {
				t.Errorf("got %+v, want %+v live", e, want)
			}
		}
	})
}

func TestUnknownCursorGetsTheCurrentStateReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := eventstest.NewMemory(eventstest.MemoryOptions{})
		hub := run(t, log, events.HubOptions{})
		all := eventstest.Append(t, log, topicOf("s"), "j1", events.Queued, events.Processing)
		newest := all[1]
		for _, cursor := range []int64{-1, 1, all[0].Seq - 1, newest.Seq + 1, 1<<53 - 1, 1<<63 - 1} {
			e := subscribe(t, hub, topicOf("s"), cursor, true).next(t)
			if e.Transition != newest || !e.Reset || e.Idle || e.Live {
				t.Errorf("cursor %d: got %+v, want %+v marked reset", cursor, e, newest)
			}
		}
		flushed := subscribe(t, hub, topicOf("flushed"), all[0].Seq, true)
		if e := flushed.next(t); !e.Idle || !e.Reset {
			t.Errorf("a cursor from before a flush: got %+v, want idle, reset", e)
		}
		want := eventstest.Append(t, log, topicOf("flushed"), "j1", events.Queued)[0]
		if e := flushed.next(t); e.Transition != want || e.Reset {
			t.Errorf("after the reset: got %+v, want %+v", e, want)
		}
	})
}

func TestHubTellsWatchedTopicsAndUnwatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := eventstest.NewMemory(eventstest.MemoryOptions{})
		var told []int
		hub := run(t, log, events.HubOptions{Observer: events.Observer{
			Watching: func(n int) { told = append(told, n) },
		}})
		a, b := subscribe(t, hub, topicOf("s"), 0, false), subscribe(t, hub, topicOf("s"), 0, false)
		c := subscribe(t, hub, topicOf("t"), 0, false)
		if got := hub.Watching(); got != 2 {
			t.Errorf("watching %d, want 2", got)
		}
		a.Close()
		a.Close()
		if got := hub.Watching(); got != 2 {
			t.Errorf("one of two readers left: watching %d, want 2", got)
		}
		b.Close()
		c.Close()
		if got := log.Watched(); hub.Watching() != 0 || got != 1 {
			t.Errorf("watching %d, in the log %d, want 0 and the probe", hub.Watching(), got)
		}
		if want := []int{1, 2, 1, 0}; fmt.Sprint(told) != fmt.Sprint(want) {
			t.Errorf("told %v, want %v", told, want)
		}
	})
}

func TestNextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := eventstest.NewMemory(eventstest.MemoryOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		hub := events.NewHub(log, events.HubOptions{})
		ended := make(chan error)
		go func() { ended <- hub.Run(ctx) }()

		s := subscribe(t, hub, topicOf("s"), 0, false)
		s.next(t)
		gone, leave := context.WithCancel(t.Context())
		ends := make(chan error)
		wait := func(ctx context.Context) {
			_, err := s.Next(ctx)
			ends <- err
		}
		go wait(gone)
		synctest.Wait()
		leave()
		if err := <-ends; !errors.Is(err, context.Canceled) {
			t.Errorf("context ended: got %v", err)
		}
		other := subscribe(t, hub, topicOf("s"), 0, false)
		other.next(t)
		go wait(t.Context())
		synctest.Wait()
		s.Close()
		if err := <-ends; !errors.Is(err, events.ErrClosed) {
			t.Errorf("closed: got %v, want ErrClosed", err)
		}

		want := eventstest.Append(t, log, topicOf("s"), "j1", events.Queued)[0]
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the hub's end: got %v", err)
		}
		if e, err := other.Next(t.Context()); err != nil || e.Transition != want {
			t.Errorf("what it held at the end: got %+v, %v, want %+v", e, err, want)
		}
		if _, err := other.Next(t.Context()); !errors.Is(err, events.ErrClosed) {
			t.Errorf("after the end: got %v, want ErrClosed", err)
		}
		if _, err := hub.Subscribe(t.Context(), topicOf("s"), 0, false); !errors.Is(err, events.ErrClosed) {
			t.Errorf("subscribe after the end: got %v, want ErrClosed", err)
		}
		if err := hub.Run(t.Context()); err == nil {
			t.Error("a hub runs twice")
		}
	})
}

func TestSubscribeBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := eventstest.NewMemory(eventstest.MemoryOptions{})
		hub := events.NewHub(log, events.HubOptions{})
		var early sync.WaitGroup
		early.Go(func() {
			if e := subscribe(t, hub, topicOf("s"), 0, false).next(t); !e.Idle {
				t.Errorf("got %+v, want idle", e)
			}
		})
		synctest.Wait()
		go hub.Run(t.Context())
		early.Wait()
	})
}

func TestNowFollowsTheStoragesClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := ahead{eventstest.NewMemory(eventstest.MemoryOptions{}), time.Hour}
		hub := run(t, log, events.HubOptions{})
		synctest.Wait()
		if got := time.Until(hub.Now()); got != time.Hour {
			t.Errorf("got %v ahead, want an hour", got)
		}
	})
}

type ahead struct {
	events.Log
	by time.Duration
}

func (a ahead) Now(ctx context.Context) (time.Time, error) {
	now, err := a.Log.Now(ctx)
	return now.Add(a.by), err
}

// run runs a hub until the test ends.
func run(t *testing.T, log events.Log, o events.HubOptions) *events.Hub {
	t.Helper()
	hub := events.NewHub(log, o)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- hub.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the hub ended with %v", err)
		}
	})
	return hub
}

// reader is a subscription with a patience.
type reader struct{ *events.Subscription }

func subscribe(t *testing.T, hub *events.Hub, topic events.Topic, after int64, resume bool) reader {
	t.Helper()
	s, err := hub.Subscribe(t.Context(), topic, after, resume)
	if err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	t.Cleanup(s.Close)
	return reader{s}
}

func (r reader) next(t *testing.T) events.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	e, err := r.Next(ctx)
	if err != nil {
		t.Fatalf("next: %v", err)
	}
	return e
}

// nothing checks, in virtual time, that a minute passes without an event.
func (r reader) nothing(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if e, err := r.Next(ctx); err == nil {
		t.Errorf("got %+v, want nothing", e)
	}
}

func topicOf(session string) events.Topic { return events.NewTopic("anna", session, "summary") }
