package events_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/events/eventstest"
)

// Faults on the log in memory, in virtual time: what happens exactly when can
// be said here. The same on a real Redis: redis_fault_test.go.

// counts collects what a hub tells its observer.
type counts struct {
	mu       sync.Mutex
	repaired map[events.Cause]int
	reset    int
	lagged   int
}

func (c *counts) observer() events.Observer {
	c.repaired = make(map[events.Cause]int)
	count := func(n *int) func() {
		return func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			*n++
		}
	}
	return events.Observer{
		Repaired: func(why events.Cause) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.repaired[why]++
		},
		Reset:  count(&c.reset),
		Lagged: count(&c.lagged),
	}
}

// want checks that there was no other cause of repair.
func (c *counts) want(t *testing.T, why events.Cause, times int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if all := len(c.repaired); c.repaired[why] != times || all > 1 || (times == 0 && all != 0) {
		t.Errorf("repaired %v, want %d for %q and no other", c.repaired, times, why)
	}
}

// watchful tells when the log is read, and can do something in between.
type watchful struct {
	events.Log
	read   atomic.Int32
	within atomic.Pointer[func()]
}

// during lets f run within the next read, with the answer known and not given.
func (w *watchful) during(f func()) { w.within.Store(&f) }

func (w *watchful) After(ctx context.Context, topic events.Topic, seq int64) ([]events.Transition, int64, bool, error) {
	newer, head, known, err := w.Log.After(ctx, topic, seq)
	w.pass()
	return newer, head, known, err
}

func (w *watchful) Read(ctx context.Context, asks []events.Ask) ([]events.Answer, error) {
	answers, err := w.Log.Read(ctx, asks)
	w.pass()
	return answers, err
}

func (w *watchful) Last(ctx context.Context, topics []events.Topic) ([]events.Transition, error) {
	last, err := w.Log.Last(ctx, topics)
	w.pass()
	return last, err
}

func (w *watchful) pass() {
	w.read.Add(1)
	if f := w.within.Swap(nil); f != nil {
		(*f)()
	}
}

func TestLostFinalCopyIsFoundByTheHeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var observed counts
		log := eventstest.NewMemory(eventstest.MemoryOptions{Fate: func(_ events.Topic, x events.Transition) eventstest.Fate {
			if x.Status.Terminal() {
				return eventstest.Fate{}
			}
			return eventstest.Delivered()
		}})
		hub := run(t, log, events.HubOptions{Observer: observed.observer()})
		s := subscribe(t, hub, topicOf("s"), 0, false)
		s.next(t)
		eventstest.Append(t, log, topicOf("s"), "j1", events.Queued, events.Processing)
		s.next(t)
		s.next(t)
		want := eventstest.Append(t, log, topicOf("s"), "j1", events.Completed)[0]
		published := time.Now()
		if e := s.next(t); e.Transition != want || e.Reset || !e.Newest {
			t.Errorf("got %+v, want %+v", e, want)
		}
		if took := time.Since(published); took > 10*time.Second {
			t.Errorf("it took %v, want at most 10 s", took)
		}
		s.nothing(t)
		observed.want(t, events.CauseHeads, 1)
	})
}

func TestGapIsReadFromTheLogOnceForAllReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var observed counts
		var n int
		memory := eventstest.NewMemory(eventstest.MemoryOptions{Fate: func(events.Topic, events.Transition) eventstest.Fate {
			if n++; n%3 == 0 {
				return eventstest.Fate{} // every third message
			}
			return eventstest.Fate{Copies: 2}
		}})
		log := &watchful{Log: memory}
		hub := run(t, log, events.HubOptions{Observer: observed.observer()})
		var readers []reader
		for range 5 {
			s := subscribe(t, hub, topicOf("s"), 0, false)
			s.next(t)
			readers = append(readers, s)
		}
		before := log.read.Load()
		all := eventstest.Append(t, memory, topicOf("s"), "j1", events.Queued, events.Processing)
		synctest.Wait()
		all = append(all, eventstest.Append(t, memory, topicOf("s"), "j1", events.Retrying, events.Processing)...)
		start := time.Now()
		for _, s := range readers {
			for _, want := range all {
				if e := s.next(t); e.Transition != want || e.Reset {
					t.Errorf("got %+v, want %+v", e, want)
				}
			}
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("it took %v, want the gap found by the next copy", took)
		}
		if reads := log.read.Load() - before; reads != 1 {
			t.Errorf("the log was read %d times, want once", reads)
		}
		observed.want(t, events.CauseGap, 1)
	})
}

// The head was asked for before a copy came and is answered after it.
func TestOldHeadIsNoLostTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var observed counts
		memory := eventstest.NewMemory(eventstest.MemoryOptions{})
		log := &watchful{Log: memory}
		hub := run(t, log, events.HubOptions{Observer: observed.observer()})
		eventstest.Append(t, memory, topicOf("s"), "j1", events.Queued)
		s := subscribe(t, hub, topicOf("s"), 0, false)
		s.next(t)
		within := make(chan []events.Transition, 1)
		log.during(func() {
			within <- eventstest.Append(t, memory, topicOf("s"), "j1", events.Processing)
			synctest.Wait()
		})
		want := (<-within)[0]
		if e := s.next(t); e.Transition != want || e.Reset {
			t.Errorf("got %+v, want %+v", e, want)
		}
		s.nothing(t)
		if observed.reset != 0 {
			t.Error("an old answer was taken for lost data")
		}
	})
}

// A copy comes while the log is being read for a gap before it.
func TestCopyDuringARepairIsNotForgotten(t *testing.T) {
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
		s := subscribe(t, hub, topicOf("s"), 0, false)
		s.next(t)
		lost.Store(true)
		all := eventstest.Append(t, memory, topicOf("s"), "j1", events.Queued)
		lost.Store(false)
		within := make(chan []events.Transition, 1)
		log.during(func() {
			within <- eventstest.Append(t, memory, topicOf("s"), "j1", events.Completed)
			time.Sleep(time.Millisecond) // the copy is there
		})
		all = append(all, eventstest.Append(t, memory, topicOf("s"), "j1", events.Processing)...)
		start := time.Now()
		for _, want := range append(all, <-within...) {
			if e := s.next(t); e.Transition != want || e.Reset {
				t.Errorf("got %+v, want %+v", e, want)
			}
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("it took %v, want it read again at once", took)
		}
		s.nothing(t)
	})
}

func TestLateCopiesChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := eventstest.NewMemory(eventstest.MemoryOptions{Fate: func(_ events.Topic, x events.Transition) eventstest.Fate {
			if x.Status == events.Processing {
				return eventstest.Fate{Copies: 3, Delay: 5 * time.Second}
			}
			return eventstest.Delivered()
		}})
		hub := run(t, log, events.HubOptions{})
		s := subscribe(t, hub, topicOf("s"), 0, false)
		s.next(t)
		for _, want := range eventstest.Append(t, log, topicOf("s"), "j1", events.Queued, events.Processing, events.Completed) {
			if e := s.next(t); e.Transition != want {
				t.Errorf("got %+v, want %+v", e, want)
			}
		}
		s.nothing(t)
	})
}

func TestBlockedReaderDelaysNobody(t *testing.T) {
	for _, c := range []struct {
		events int
		reset  bool // more than the log keeps
	}{{100, false}, {500, true}} {
		synctest.Test(t, func(t *testing.T) {
			var observed counts
			log := eventstest.NewMemory(eventstest.MemoryOptions{})
			hub := run(t, log, events.HubOptions{Observer: observed.observer()})
			blocked, lively := subscribe(t, hub, topicOf("s"), 0, false), subscribe(t, hub, topicOf("s"), 0, false)
			other := subscribe(t, hub, topicOf("other"), 0, false)
			blocked.next(t)
			lively.next(t)
			other.next(t)

			start := time.Now()
			all := eventstest.Append(t, log, topicOf("s"), "j1", events.Queued)
			for len(all) < c.events {
				all = append(all, eventstest.Append(t, log, topicOf("s"), "j1", statusAfter(len(all)))...)
				synctest.Wait()
				for _, want := range all[max(0, len(all)-1):] {
					if len(all) == 2 {
						lively.next(t) // the first
					}
					if e := lively.next(t); e.Transition != want {
						t.Fatalf("got %+v, want %+v", e, want)
					}
				}
			}
			want := eventstest.Append(t, log, topicOf("other"), "j1", events.Queued)[0]
			if e := other.next(t); e.Transition != want {
				t.Errorf("another topic: got %+v, want %+v", e, want)
			}
			if took := time.Since(start); took != 0 {
				t.Errorf("others waited %v", took)
			}
			if observed.lagged != 1 {
				t.Errorf("lagged %d times, want once", observed.lagged)
			}

			got := []events.Event{blocked.next(t)}
			for got[len(got)-1].Transition != all[len(all)-1] {
				got = append(got, blocked.next(t))
			}
			last := len(got) - 1
			if c.reset {
				if len(got) != 17 || !got[16].Reset {
					t.Errorf("got %d events, the last %+v; want what was buffered and the newest marked reset", len(got), got[last])
				}
				got = got[:16]
			} else if len(got) != len(all) {
				t.Errorf("got %d events, want all %d", len(got), len(all))
			}
			for i, e := range got {
				if e.Transition != all[i] || e.Reset {
					t.Fatalf("event %d: got %+v, want %+v", i, e, all[i])
				}
			}
			observed.want(t, events.CauseLagged, 1)
			want = eventstest.Append(t, log, topicOf("s"), "j1", statusAfter(len(all)))[0]
			if e := blocked.next(t); e.Transition != want || !e.Live {
				t.Errorf("back to live: got %+v, want %+v", e, want)
			}
		})
	}
}

// statusAfter lets a job go back and forth for as long as one likes.
func statusAfter(n int) events.Status {
	if n%2 == 1 {
		return events.Processing
	}
	return events.Retrying
}

func TestResubscriptionIsComparedInOneQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var observed counts
		var deaf atomic.Bool
		memory := eventstest.NewMemory(eventstest.MemoryOptions{Fate: func(events.Topic, events.Transition) eventstest.Fate {
			if deaf.Load() {
				return eventstest.Fate{}
			}
			return eventstest.Delivered()
		}})
		log := &watchful{Log: memory}
		hub := run(t, log, events.HubOptions{Observer: observed.observer()})
		readers, topics := hundred(t, hub, memory)
		before := log.read.Load()
		start := time.Now()

		deaf.Store(true)
		missed := make(map[int]events.Transition)
		for i := range 10 {
			missed[i*7] = eventstest.Append(t, memory, topics[i*7], "j1", events.Processing)[0]
		}
		deaf.Store(false)
		memory.Disconnect()
		for i, want := range missed {
			if e := readers[i].next(t); e.Transition != want || e.Reset {
				t.Errorf("got %+v, want %+v", e, want)
			}
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("it took %v", took)
		}
		if reads := log.read.Load() - before; reads != 1 {
			t.Errorf("the log was asked %d times for 100 topics", reads)
		}
		for i, s := range readers {
			if _, ok := missed[i]; !ok {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				if e, err := s.Next(ctx); err == nil {
					t.Errorf("reader %d has missed nothing and got %+v", i, e)
				}
				cancel()
			}
		}
		observed.want(t, events.CauseResubscribed, 10)
	})
}

// hundred subscribes to a hundred topics with a queued job each.
func hundred(t *testing.T, hub *events.Hub, log events.Log) (readers []reader, topics []events.Topic) {
	t.Helper()
	for i := range 100 {
		topic := topicOf("s" + string(rune('A'+i/10)) + string(rune('0'+i%10)))
		want := eventstest.Append(t, log, topic, "j1", events.Queued)[0]
		s := subscribe(t, hub, topic, 0, false)
		if e := s.next(t); e.Transition != want {
			t.Fatalf("got %+v, want %+v", e, want)
		}
		readers, topics = append(readers, s), append(topics, topic)
	}
	return readers, topics
}

func TestLostTailIsAReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			what string
			lose int
			then []events.Status // appended after the loss
		}{
			{"the tail is lost", 1, nil},
			{"all is lost", 3, nil},
			{"lost, and another way taken", 1, []events.Status{events.Retrying}},
			{"lost, and further on another way", 1, []events.Status{events.Retrying, events.Processing, events.Completed}},
			{"all lost, a new beginning", 3, []events.Status{events.Queued}},
		} {
			var observed counts
			log := eventstest.NewMemory(eventstest.MemoryOptions{})
			hub := run(t, log, events.HubOptions{Observer: observed.observer()})
			topic := topicOf("s")
			all := eventstest.Append(t, log, topic, "j1", events.Queued, events.Processing)
			s := subscribe(t, hub, topic, 0, false)
			s.next(t)
			all = append(all, eventstest.Append(t, log, topic, "j1", events.Failed)...)
			s.next(t)
			log.LoseTail(topic, c.lose)
			want := events.Transition{}
			if left := len(all) - c.lose; left > 0 {
				want = all[left-1]
			}
			if len(c.then) > 0 {
				// A place that is given again is told apart at the head, not
				// further back: a moment must have passed, as it has.
				if len(c.then) > 1 {
					time.Sleep(5 * time.Millisecond)
				}
				stored := eventstest.Append(t, log, topic, "j1", c.then...)
				want = stored[len(stored)-1]
			}
			e := s.next(t)
			if !e.Reset || e.Idle != (want.Seq == 0) {
				t.Errorf("%s: got %+v, want a reset first", c.what, e)
			}
			for e.Transition != want {
				e = s.next(t)
			}
			s.nothing(t)
			if observed.reset != 1 {
				t.Errorf("%s: %d resets, want 1", c.what, observed.reset)
			}
		}
	})
}
