package events

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed ends what a closed subscription or an ended hub is asked for.
var ErrClosed = errors.New("events: closed")

// Cause says what uncovered that live copies were missing.
type Cause string

// The four causes of a repair.
const (
	CauseGap          Cause = "gap"          // a copy's predecessor was not the last one seen
	CauseResubscribed Cause = "resubscribed" // the live connection had been lost
	CauseHeads        Cause = "heads"        // the regular comparison with the log
	CauseLagged       Cause = "lagged"       // a reader's buffer had been full
)

// Observer is told what a hub does, for metrics. Any of it may be nil. The
// functions are called with the hub's lock held: they must return at once and
// not call the hub.
type Observer struct {
	// Repaired: a topic's readers got something from the log that no live
	// copy had brought in time. A copy overtaken by the comparison counts too.
	Repaired func(Cause)
	// Reset: a reader lost its place and got the current state instead.
	Reset func()
	// Lagged: a reader's buffer was full; it goes on from the log.
	Lagged func()
	// Watching: so many topics have readers now.
	Watching func(topics int)
	// Trouble: reading the log failed in the background; it is tried again.
	Trouble func(error)
}

// HubOptions are a hub's settings; the zero value of each means its default.
type HubOptions struct {
	HeadsEvery  time.Duration // how often all watched topics are compared with the log; 10 s
	Buffer      int           // undelivered live copies per subscription; 16
	Patience    time.Duration // how long one question to the storage may take; 3 s
	ProbeWithin time.Duration // how long a probe may take from publish to delivery; 2 s
	Observer    Observer
	// Overdue is told, at each comparison of all topics, of those whose live job
	// should have been heard of three HeadsEvery ago: its newest transition, or
	// the time that this announced, is older. It is called without the lock and may
	// take its time; the next comparison waits. nil: nobody is told.
	Overdue func(ctx context.Context, topics []Topic, newest []Transition)
}

// Hub fans one live connection out to any number of subscriptions and makes up
// for every copy that the connection loses. See the package comment.
type Hub struct {
	log    Log
	o      HubOptions
	offset atomic.Int64  // storage clock minus ours, in ns
	ended  chan struct{} // closed when Run has returned
	seed   maphash.Seed  // of marks

	mu       sync.Mutex
	running  bool
	listener Listener // nil while there is none
	topics   map[Topic]*watch
	suspects []*watch      // to be compared with the log; each at most once
	unread   []*watch      // to be read from the log; each at most once
	starting []*reader     // confirmed, to be read for the first time
	compare  chan struct{} // suspects has grown
	read     chan struct{} // unread has grown
	start    chan struct{} // starting has grown
	probe    probe
}

// watch is a topic with at least one subscription.
type watch struct {
	hub       *Hub
	topic     Topic
	readers   []*reader
	unread    Cause // why it is in unread; "": it is not
	suspect   Cause // the same of suspects
	confirmed bool  // by the storage, once at least
}

const (
	repairers = 4 // topics that are repaired from the log at a time
	starters  = 2 // batches of first reads at a time
)

// NewHub makes a hub over log. It serves once Run runs.
func NewHub(log Log, o HubOptions) *Hub {
	o.HeadsEvery = or(o.HeadsEvery, 10*time.Second)
	o.Buffer = or(o.Buffer, 16)
	o.Patience = or(o.Patience, 3*time.Second)
	o.ProbeWithin = or(o.ProbeWithin, 2*time.Second)
	return &Hub{
		log:     log,
		o:       o,
		ended:   make(chan struct{}),
		seed:    maphash.MakeSeed(),
		topics:  make(map[Topic]*watch),
		compare: make(chan struct{}, 1),
		read:    make(chan struct{}, 1),
		start:   make(chan struct{}, 1),
		probe:   newProbe(),
	}
}

func or[T int | time.Duration](v, fallback T) T {
	if v > 0 {
		return v
	}
	return fallback
}

// Run serves until ctx ends and may be called once. Every goroutine of the hub
// has ended when it returns; subscriptions that are still open then deliver
// what they hold and end with ErrClosed.
func (h *Hub) Run(ctx context.Context) error {
	h.mu.Lock()
	again := h.running
	h.running = true
	h.mu.Unlock()
	if again {
		return errors.New("events: a hub runs once")
	}
	defer h.finished()
	ctx, cancel := context.WithCancel(ctx)
	var loops sync.WaitGroup
	defer loops.Wait()
	defer cancel()

	listener, err := h.listen(ctx)
	if err != nil {
		return nil // ctx ended before the storage was there
	}
	defer listener.Close()
	loops.Go(func() { h.compareLoop(ctx) })
	for range repairers {
		loops.Go(func() { h.readLoop(ctx) })
	}
	for range starters {
		loops.Go(func() { h.startLoop(ctx) })
	}
	for {
		s, err := listener.Receive(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("events: live connection: %w", err)
		}
		h.take(s)
	}
}

// finished tells everybody that nothing more will come.
func (h *Hub) finished() {
	close(h.ended)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.topics {
		for _, r := range w.readers {
			r.sub.waker.Wake()
		}
	}
}

// listen opens the live connection and asks it for all that subscribers have
// come for already.
func (h *Hub) listen(ctx context.Context) (Listener, error) {
	for failures := 0; ; failures++ {
		listener, err := h.log.Listen(ctx)
		if err == nil {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.listener = listener
			_ = listener.Watch(h.probe.topic) // fails only when closed
			for topic := range h.topics {
				_ = listener.Watch(topic)
			}
			return listener, nil
		}
		h.trouble(err)
		pause(ctx, nil, backoff(failures))
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// take handles one signal of the live connection. It never waits for anybody.
func (h *Hub) take(s Signal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.Topic == h.probe.topic {
		h.probe.take(s)
		return
	}
	w := h.topics[s.Topic]
	switch {
	case w == nil: // its last reader has left
	case !s.Watching:
		t := s.Transition
		for _, r := range w.readers {
			r.offer(&t)
		}
	case w.confirmed:
		h.suspect(w, CauseResubscribed)
	default:
		w.confirmed = true
		for _, r := range w.readers {
			h.begin(r)
		}
	}
}

// Subscribe follows a topic. It is subscribed to first, then the log is read,
// so that nothing falls in between. Without resume the first event is the
// current state. With resume it is whatever is newer than after: nothing, if
// after is the newest; all that the log has, if after is 0; or, if the log does
// not know after, the current state marked Reset. ErrUnavailable when the storage does not answer in time.
func (h *Hub) Subscribe(ctx context.Context, topic Topic, after int64, resume bool) (*Subscription, error) {
	ask := Ask{Topic: topic}
	if resume {
		ask = Ask{Topic: topic, How: Resume, Seq: after}
	}
	return h.Follow(ctx, nil, ask)
}

// Follow is Subscribe to different topics at once. A waker is for a client that
// takes without waiting; nil: it waits with Next. An Ask with How Since begins with what is
// newer than a time; if the log has lost some of that, or knows of no job, with
// the current state marked Reset.
func (h *Hub) Follow(ctx context.Context, waker Waker, asks ...Ask) (*Subscription, error) {
	ctx, cancel := context.WithTimeout(ctx, h.o.Patience)
	defer cancel()
	if waker == nil {
		waker = make(bell, 1)
	}
	s := &Subscription{hub: h, waker: waker, started: make(chan struct{}), readers: make([]reader, len(asks)), waiting: len(asks)}
	err := h.join(s, asks)
	if err == nil {
		err = h.await(ctx, s.started)
	}
	if err == nil {
		err = s.err
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	s.started = nil
	return s, nil
}

// join adds a subscription's readers to their topics, and asks for those topics
// that they are the first of.
func (h *Hub) join(s *Subscription, asks []Ask) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hasEnded() {
		return ErrClosed
	}
	for i, ask := range asks {
		w := h.topics[ask.Topic]
		if w == nil {
			w = &watch{hub: h, topic: ask.Topic}
			if h.listener != nil {
				if err := h.listener.Watch(w.topic); err != nil {
					return err
				}
			}
			h.topics[w.topic] = w
			h.told()
		}
		r := &s.readers[i]
		*r = reader{sub: s, watch: w, how: ask.How, seq: ask.Seq, starting: true}
		w.readers = append(w.readers, r)
		if w.confirmed {
			h.begin(r)
		}
	}
	return nil
}

// leave undoes join for one reader.
func (h *Hub) leave(r *reader) {
	w := r.watch
	w.readers = slices.DeleteFunc(w.readers, func(other *reader) bool { return other == r })
	if len(w.readers) > 0 || h.topics[w.topic] != w {
		return
	}
	delete(h.topics, w.topic) // where it is listed, it is passed over
	if len(h.topics) == 0 {
		h.topics = make(map[Topic]*watch) // a map that was large stays so
	}
	if h.listener != nil {
		_ = h.listener.Unwatch(w.topic) // fails only when closed, and then it is unwatched
	}
	h.told()
}

func (h *Hub) told() {
	if h.o.Observer.Watching != nil {
		h.o.Observer.Watching(len(h.topics))
	}
}

func (h *Hub) trouble(err error) {
	if h.o.Observer.Trouble != nil {
		h.o.Observer.Trouble(err)
	}
}

// askAfter is how long a confirmation may take before the storage is asked
// whether it is there at all, so that its absence is known soon.
const askAfter = 200 * time.Millisecond

// await waits for a subscription's start: a confirmation and an answer of the
// storage.
func (h *Hub) await(ctx context.Context, started <-chan struct{}) error {
	ask := time.NewTimer(askAfter)
	defer ask.Stop()
	for {
		select {
		case <-started:
			return nil
		case <-h.ended:
			return ErrClosed
		case <-ctx.Done():
			return fmt.Errorf("%w: a live subscription was not confirmed and read: %w", ErrUnavailable, ctx.Err())
		case <-ask.C:
			if _, err := h.log.Now(ctx); err != nil {
				return err
			}
		}
	}
}

// Last returns each topic's newest transition; see Log.
func (h *Hub) Last(ctx context.Context, topics []Topic) ([]Transition, error) {
	ctx, cancel := context.WithTimeout(ctx, h.o.Patience)
	defer cancel()
	return h.log.Last(ctx, topics)
}

// Now is the storage's clock as far as it is known: our own, corrected by the
// difference that the last comparison has measured.
func (h *Hub) Now() time.Time {
	return time.Now().Add(time.Duration(h.offset.Load())).UTC()
}

// Watching is how many topics have readers.
func (h *Hub) Watching() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.topics)
}

func (h *Hub) hasEnded() bool {
	select {
	case <-h.ended:
		return true
	default:
		return false
	}
}

// backoff is how long to wait after so many failures in a row.
func backoff(failures int) time.Duration {
	return min(100*time.Millisecond<<min(failures, 5), 2*time.Second)
}

// nudge wakes the loop that reads from c, if it sleeps.
func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it will look anyway
	}
}
