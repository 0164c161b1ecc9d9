package events

import "context"

// Event is what a subscription delivers: a transition, or that there is none.
type Event struct {
	Transition
	// Idle: no job is known. The transition is zero.
	Idle bool
	// Reset: the reader's place is not in the log, which may have lost its
	// tail; this is the current state, and Seq may be lower than before.
	Reset bool
	// Live: it came after the subscription had caught up. What is not live
	// is the current state, or a replay of what was missed.
	Live bool
	// Newest: nothing newer was known when it was handed out. A terminal
	// status in the middle of a replay does not have it.
	Newest bool
}

// Subscription is one reader's view of a topic. Next is for one goroutine;
// Close is for any.
type Subscription struct {
	hub   *Hub
	watch *watch
	wake  chan struct{}

	// All below is guarded by hub.mu.

	queue []item // to be delivered: less than a hub's Buffer and one read of the log
	// tail is the last one that was put into queue, delivered or not: what
	// comes next must have it as its predecessor. Nil while starting.
	tail *Transition
	// starting: the log is being read for the first time and queue holds the
	// copies that came in meanwhile.
	starting bool
	// behind: the log has more than tail. Copies are no use until it has been
	// read.
	behind bool
	// stalled: and that waits until the reader has taken what is in queue, for
	// it was full. Reading for it earlier would fill it again at once.
	stalled bool
	// missed is the newest copy that came since the log was last asked.
	missed int64
	// resubscribed: the connection was lost while starting.
	resubscribed bool
	// before is tail as it was when the log was asked for its head.
	before *Transition
	closed bool
}

type item struct {
	t           *Transition // shared with other subscriptions: read only
	reset, live bool
}

// Next waits for the next event. Nothing is left out and nothing comes twice:
// each event is the successor of the one before, unless it is marked Reset.
// While the storage is away it waits. It fails when ctx ends, and with
// ErrClosed after Close or the end of the hub.
func (s *Subscription) Next(ctx context.Context) (Event, error) {
	for {
		if e, ok, err := s.pop(ctx); ok || err != nil {
			return e, err
		}
		select {
		case <-s.wake:
		case <-s.hub.ended:
		case <-ctx.Done():
		}
	}
}

func (s *Subscription) pop(ctx context.Context) (Event, bool, error) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if s.closed {
		return Event{}, false, ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return Event{}, false, err
	}
	if len(s.queue) == 0 {
		if s.hub.hasEnded() {
			return Event{}, false, ErrClosed
		}
		return Event{}, false, nil
	}
	next := s.queue[0]
	s.queue = s.queue[1:]
	if len(s.queue) == 0 {
		s.queue = nil
		if s.stalled {
			s.stalled = false
			s.hub.reread(s.watch, CauseLagged)
		}
	}
	return Event{
		Transition: *next.t,
		Idle:       next.t.Seq == 0,
		Reset:      next.reset,
		Live:       next.live,
		Newest:     len(s.queue) == 0 && !s.behind,
	}, true, nil
}

// Close ends the subscription and what Next waits for. Twice does no harm.
func (s *Subscription) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.queue = nil
	s.hub.leave(s)
	nudge(s.wake)
}

// start reads the log for the first time and goes on with the copies that came
// in meanwhile and are newer.
func (s *Subscription) start(ctx context.Context, after int64, resume bool) error {
	var (
		first []Transition
		known = true
		err   error
	)
	if resume {
		first, _, known, err = s.hub.log.After(ctx, s.watch.topic, after)
	} else {
		first, err = s.hub.log.Last(ctx, []Topic{s.watch.topic})
	}
	if err != nil {
		return err
	}

	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	copies := s.queue
	s.queue, s.starting = nil, false
	switch {
	case !known:
		s.reset(first, false)
	case len(first) == 0 && resume && after > 0:
		s.tail = &Transition{Seq: after} // all we know of it, and enough
	case len(first) == 0:
		s.push(item{t: &Transition{}})
	default:
		for i := range first {
			s.push(item{t: &first[i]})
		}
	}
	if s.behind { // more copies than fit
		s.fallBehind(CauseLagged)
	}
	for _, c := range copies {
		s.offer(c.t)
	}
	if s.resubscribed {
		s.hub.suspect(s.watch, CauseResubscribed)
	}
	return nil
}

// offer takes a live copy.
func (s *Subscription) offer(t *Transition) {
	room := len(s.queue) < s.hub.o.Buffer
	switch {
	case s.starting:
		if room && !s.behind {
			s.queue = append(s.queue, item{t: t})
		} else {
			s.behind = true
		}
	case t.Seq <= s.tail.Seq:
		// Seen already.
	case s.behind:
		s.missed = max(s.missed, t.Seq)
	case t.Prev != s.tail.Seq || !room:
		s.fallBehind(CauseGap)
	default:
		s.push(item{t: t, live: true})
	}
}

// fallBehind leaves it to the log to go on.
func (s *Subscription) fallBehind(why Cause) {
	s.behind = true
	if len(s.queue) < s.hub.o.Buffer {
		s.hub.reread(s.watch, why)
		return
	}
	s.stalled = true
	if s.hub.o.Observer.Lagged != nil {
		s.hub.o.Observer.Lagged()
	}
}

func (s *Subscription) push(i item) {
	s.queue = append(s.queue, i)
	s.tail = i.t
	nudge(s.wake)
}

// reset replaces all that is undelivered by the current state: the one newest
// transition, or none.
func (s *Subscription) reset(newest []Transition, live bool) {
	t := &Transition{}
	if len(newest) > 0 {
		t = &newest[len(newest)-1]
	}
	s.queue, s.behind, s.stalled = nil, false, false
	s.push(item{t: t, reset: true, live: live})
	if s.hub.o.Observer.Reset != nil {
		s.hub.o.Observer.Reset()
	}
}
