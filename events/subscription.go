package events

import (
	"context"
	"hash/maphash"
	"slices"
)

// Event is what a subscription delivers: a transition, or that there is none.
type Event struct {
	Transition
	Topic Topic
	// Idle: no job is known. The transition is zero.
	Idle bool
	// Reset: the reader's place is not in the log, which may have lost its
	// tail; this is the current state, and Seq may be lower than before.
	Reset bool
	// Live: it came after the subscription had caught up. What is not live
	// is the current state, or a replay of what was missed.
	Live bool
	// Shared: others follow the topic too, and get the same.
	Shared bool
	// Newest: nothing newer was known when it was handed out. A terminal
	// status in the middle of a replay does not have it.
	Newest bool
}

// Waker is told when a subscription has something to take. It is called with
// the hub's lock held: it must return at once and not call the hub.
type Waker interface{ Wake() }

// bell is the Waker of Next.
type bell chan struct{}

// Wake implements Waker.
func (b bell) Wake() { nudge(b) }

// Subscription is one client's view of a topic, or of many. Next and Take are
// for one goroutine; Close is for any.
//
// It has no goroutine and no channel, and there may be a hundred thousand of
// them: what is here and in reader is what an idle stream costs.
type Subscription struct {
	hub     *Hub
	waker   Waker
	started chan struct{} // closed when the log has been read for all readers; then nil

	// All below is guarded by hub.mu.

	readers []reader // one for each topic; never grows, so that others may point into it
	waiting int      // readers whose first read is not done
	err     error    // of a first read
	closed  bool
}

// reader is a subscription's place in one topic.
type reader struct {
	sub   *Subscription
	watch *watch
	queue []item // to be delivered: less than a hub's Buffer and one read of the log
	// tail is the last one that was put into queue, delivered or not: what
	// comes next must have it as its predecessor.
	tail mark
	// seq is where the reader begins, as how has it; later the newest copy that
	// came since the log was last asked.
	seq int64
	how How
	// starting: the log is being read for the first time and queue holds the
	// copies that came in meanwhile.
	starting bool
	// behind: the log has more than tail. Copies are no use until it has been
	// read.
	behind bool
	// stalled: and that waits until the client has taken what is in queue, for
	// it was full. Reading for it earlier would fill it again at once.
	stalled bool
	// resubscribed: the connection was lost while starting.
	resubscribed bool
	// asked: the log is being asked for its head, and tail is as it was then.
	asked bool
	// ended: nothing was newer than the place it began at, and a job had ended there.
	ended bool
}

// mark is what is remembered of a transition: enough to tell it from another one
// that a log which has lost its tail gives the same place.
type mark struct {
	seq int64
	sum uint64 // 0: only the place is known
}

func (h *Hub) mark(t *Transition) mark {
	if t.Status == "" {
		return mark{seq: t.Seq}
	}
	return mark{t.Seq, maphash.Comparable(h.seed, *t) | 1}
}

// is reports whether both are of the same transition, as far as is known.
func (m mark) is(o mark) bool {
	return m.seq == o.seq && (m.sum == 0 || o.sum == 0 || m.sum == o.sum)
}

type item struct {
	t           *Transition // shared with other subscriptions: read only
	reset, live bool
}

// Next waits for the next event. Nothing is left out and nothing comes twice:
// each event is the successor of its topic's one before, unless it is marked
// Reset. While the storage is away it waits. It fails when ctx ends, and with
// ErrClosed after Close or the end of the hub. It is for subscriptions without a
// Waker.
func (s *Subscription) Next(ctx context.Context) (Event, error) {
	wake, ok := s.waker.(bell)
	if !ok {
		panic("events: Next of a subscription with a Waker of its own")
	}
	for {
		if err := ctx.Err(); err != nil {
			return Event{}, err
		}
		if e, ok, err := s.Take(); ok || err != nil {
			return e, err
		}
		select {
		case <-wake:
		case <-s.hub.ended:
		case <-ctx.Done():
		}
	}
}

// Take returns the next event if there is one. Of many topics' events it is the
// oldest, and those of idle topics come first. It fails with ErrClosed after
// Close, and after the end of the hub when nothing is left.
func (s *Subscription) Take() (Event, bool, error) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if s.closed {
		return Event{}, false, ErrClosed
	}
	var r *reader
	for i := range s.readers {
		c := &s.readers[i]
		if len(c.queue) > 0 && !c.starting && (r == nil || c.queue[0].t.Seq < r.queue[0].t.Seq) {
			r = c
		}
	}
	if r == nil {
		if s.hub.hasEnded() {
			return Event{}, false, ErrClosed
		}
		return Event{}, false, nil
	}
	next := r.queue[0]
	r.queue = r.queue[1:]
	if len(r.queue) == 0 {
		r.queue = nil
		if r.stalled {
			r.stalled = false
			s.hub.reread(r.watch, CauseLagged)
		}
	}
	return Event{
		Transition: *next.t,
		Topic:      r.watch.topic,
		Idle:       next.t.Seq == 0,
		Reset:      next.reset,
		Live:       next.live,
		Shared:     len(r.watch.readers) > 1,
		Newest:     len(r.queue) == 0 && !r.behind,
	}, true, nil
}

// Ended tells that the client has seen the end already: it came back to the
// place where the job had ended, and nothing was newer.
func (s *Subscription) Ended() bool {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return !slices.ContainsFunc(s.readers, func(r reader) bool { return !r.ended })
}

// Follows tells whether the subscription is to a topic.
func (s *Subscription) Follows(topic Topic) bool {
	for i := range s.readers {
		if s.readers[i].watch.topic == topic {
			return true
		}
	}
	return false
}

// Close ends the subscription and what Next waits for. Twice does no harm.
func (s *Subscription) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	for i := range s.readers {
		r := &s.readers[i]
		r.queue = nil
		if r.watch != nil {
			s.hub.leave(r)
		}
	}
	s.waker.Wake()
}

// start begins with the log's answer and goes on with the copies that came in
// meanwhile and are newer.
func (r *reader) start(a Answer) {
	copies := r.queue
	r.queue, r.starting, r.seq = nil, false, 0
	switch {
	case !a.Known:
		r.reset(a.Newer, false)
	case len(a.Newer) == 0 && a.Head.Seq > 0:
		r.tail = r.watch.hub.mark(&a.Head)
		r.ended = r.how == Resume && a.Head.Status.Terminal()
	case len(a.Newer) == 0:
		r.push(item{t: &Transition{}})
	default:
		for i := range a.Newer {
			r.push(item{t: &a.Newer[i]})
		}
	}
	if r.behind { // more copies than fit
		r.fallBehind(CauseLagged)
	}
	for _, c := range copies {
		r.offer(c.t)
	}
	if r.resubscribed {
		r.watch.hub.suspect(r.watch, CauseResubscribed)
	}
}

// offer takes a live copy.
func (r *reader) offer(t *Transition) {
	room := len(r.queue) < r.watch.hub.o.Buffer
	switch {
	case r.starting:
		if room && !r.behind {
			r.queue = append(r.queue, item{t: t})
		} else {
			r.behind = true
		}
	case t.Seq <= r.tail.seq:
		// Seen already.
	case r.behind:
		r.seq = max(r.seq, t.Seq)
	case t.Prev != r.tail.seq || !room:
		r.fallBehind(CauseGap)
	default:
		r.push(item{t: t, live: true})
	}
}

// fallBehind leaves it to the log to go on.
func (r *reader) fallBehind(why Cause) {
	hub := r.watch.hub
	r.behind = true
	if len(r.queue) < hub.o.Buffer {
		hub.reread(r.watch, why)
		return
	}
	r.stalled = true
	if hub.o.Observer.Lagged != nil {
		hub.o.Observer.Lagged()
	}
}

func (r *reader) push(i item) {
	r.queue = append(r.queue, i)
	r.tail = r.watch.hub.mark(i.t)
	r.asked, r.ended = false, false
	r.sub.waker.Wake()
}

// reset replaces all that is undelivered by the current state: the one newest
// transition, or none.
func (r *reader) reset(newest []Transition, live bool) {
	t := &Transition{}
	if len(newest) > 0 {
		t = &newest[len(newest)-1]
	}
	r.queue, r.behind, r.stalled = nil, false, false
	r.push(item{t: t, reset: true, live: live})
	if o := r.watch.hub.o.Observer; o.Reset != nil {
		o.Reset()
	}
}
