package events

import (
	"context"
	"slices"
	"time"
)

// suspect lets a topic be compared with the log. A more telling cause stays.
func (h *Hub) suspect(w *watch, why Cause) {
	for _, r := range w.readers {
		if r.starting && why == CauseResubscribed {
			r.resubscribed = true
		}
	}
	if w.suspect == "" {
		h.suspects = append(h.suspects, w)
	}
	if w.suspect != CauseResubscribed {
		w.suspect = why
	}
	nudge(h.compare)
}

// gather is how long suspects may gather before the log is asked: a
// reconnection confirms all topics, one after the other.
const gather = 10 * time.Millisecond

// compareLoop compares suspects with the log, and every HeadsEvery all topics.
func (h *Hub) compareLoop(ctx context.Context) {
	h.measure(ctx)
	heads := time.NewTicker(h.o.HeadsEvery)
	defer heads.Stop()
	again := time.NewTimer(0)
	defer again.Stop()
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-heads.C:
			h.measure(ctx)
			h.suspectAll()
		case <-h.compare:
			if failures > 0 {
				continue // again will ring
			}
			pause(ctx, nil, gather)
		case <-again.C:
		}
		if h.compareSuspects(ctx) {
			failures = 0
		} else {
			again.Reset(backoff(failures))
			failures++
		}
	}
}

func (h *Hub) suspectAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.topics {
		h.suspect(w, CauseHeads)
	}
}

// measure compares the storage's clock with ours. A slow answer says little,
// so it counts only while nothing better is known.
func (h *Hub) measure(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, h.o.Patience)
	defer cancel()
	sent := time.Now()
	theirs, err := h.log.Now(ctx)
	took := time.Since(sent)
	if err != nil || (took > 250*time.Millisecond && h.offset.Load() != 0) {
		return
	}
	h.offset.Store(int64(theirs.Sub(sent.Add(took / 2))))
}

// compareSuspects works the suspects off, a batch and one question to the log
// at a time, and tells whether the log answered.
func (h *Hub) compareSuspects(ctx context.Context) bool {
	for {
		watches, topics, causes := h.takeSuspects()
		if len(topics) == 0 {
			return true
		}
		newest, err := h.Last(ctx, topics)
		h.mu.Lock()
		if err != nil && ctx.Err() == nil {
			h.trouble(err)
		}
		for i, w := range watches {
			switch {
			case h.topics[w.topic] != w:
			case err == nil:
				h.compareTopic(w, newest[i], causes[i])
			default:
				h.suspect(w, causes[i])
			}
		}
		h.mu.Unlock()
		if err != nil {
			return false
		}
		h.tellOverdue(ctx, topics, newest, causes)
	}
}

// tellOverdue passes on what stands still. A log knows nothing of the queue, so
// somebody else has to find out why.
func (h *Hub) tellOverdue(ctx context.Context, topics []Topic, newest []Transition, causes []Cause) {
	if h.o.Overdue == nil {
		return
	}
	var late []Topic
	var last []Transition
	limit := time.Now().Add(time.Duration(h.offset.Load()) - 3*h.o.HeadsEvery)
	for i, t := range newest {
		if causes[i] == CauseHeads && t.Seq > 0 && !t.Status.Terminal() && t.expected().Before(limit) {
			late, last = append(late, topics[i]), append(last, t)
		}
	}
	if len(late) > 0 {
		h.o.Overdue(ctx, late, last)
	}
}

// expected is when something should follow: the time that was announced, or its own.
func (t *Transition) expected() time.Time {
	at := t.At
	for _, announced := range []time.Time{t.NextRetryAt, t.NotBefore} {
		if announced.After(at) {
			at = announced
		}
	}
	return at
}

// takeSuspects takes a batch of them and notes where their readers are.
func (h *Hub) takeSuspects() (watches []*watch, topics []Topic, causes []Cause) {
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := 0
	for _, w := range h.suspects {
		if len(watches) == batch {
			break
		}
		taken++
		if h.topics[w.topic] != w {
			continue // its last reader has left
		}
		watches, topics, causes = append(watches, w), append(topics, w.topic), append(causes, w.suspect)
		w.suspect = ""
		for _, r := range w.readers {
			r.asked = !r.starting
		}
	}
	if h.suspects = h.suspects[taken:]; len(h.suspects) == 0 {
		h.suspects = nil
	}
	return watches, topics, causes
}

// compareTopic brings a topic's readers to its newest transition, as it was
// some moments ago.
func (h *Hub) compareTopic(w *watch, newest Transition, why Cause) {
	repaired := false
	there := h.mark(&newest)
	for _, r := range w.readers {
		unmoved := r.asked
		r.asked = false
		// Whoever was not there when the log was asked, or reads it anyway,
		// has nothing to learn from the answer.
		if r.starting || r.behind {
			continue
		}
		switch {
		case newest.Seq > r.tail.seq && newest.Prev == r.tail.seq && len(r.queue) < h.o.Buffer:
			r.push(item{t: &newest, live: true})
			repaired = true
		case newest.Seq > r.tail.seq:
			r.fallBehind(why)
		case unmoved && !there.is(r.tail):
			// The log had tail before, and now it has not.
			r.reset([]Transition{newest}, true)
			repaired = true
		}
	}
	if repaired {
		h.repaired(why)
	}
}

func (h *Hub) repaired(why Cause) {
	if h.o.Observer.Repaired != nil {
		h.o.Observer.Repaired(why)
	}
}

// reread lets the log be read for the readers of w that are behind.
func (h *Hub) reread(w *watch, why Cause) {
	if w.unread != "" {
		return
	}
	w.unread = why
	h.unread = append(h.unread, w)
	nudge(h.read)
}

// readLoop is one of the readers.
func (h *Hub) readLoop(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		w, why := h.takeUnread()
		if w == nil {
			select {
			case <-ctx.Done():
			case <-h.read:
			}
			continue
		}
		if err := h.readTopic(ctx, w, why); err != nil {
			pause(ctx, nil, backoff(failures))
			failures++
			continue
		}
		failures = 0
	}
}

func (h *Hub) takeUnread() (*watch, Cause) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.unread) == 0 {
		return nil, ""
	}
	w := h.unread[0]
	h.unread[0], h.unread = nil, h.unread[1:]
	if len(h.unread) > 0 {
		nudge(h.read) // another reader may help
	}
	why := w.unread
	w.unread = ""
	return w, why
}

// readTopic reads the log once for all readers of w that are behind and have
// room.
func (h *Hub) readTopic(ctx context.Context, w *watch, why Cause) error {
	places := make(map[*reader]int64)
	from := int64(-1)
	h.mu.Lock()
	for _, r := range w.readers {
		if !r.starting && r.behind && !r.stalled {
			places[r] = r.tail.seq
			r.seq = 0
			if from < 0 || r.tail.seq < from {
				from = r.tail.seq
			}
		}
	}
	h.mu.Unlock()
	if len(places) == 0 {
		return nil
	}
	asked, cancel := context.WithTimeout(ctx, h.o.Patience)
	newer, _, known, err := h.log.After(asked, w.topic, from)
	cancel()

	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil {
			h.trouble(err)
		}
		if h.topics[w.topic] == w {
			h.reread(w, why)
		}
		return err
	}
	repaired := false
	for r, place := range places {
		if r.sub.closed || !r.behind || r.stalled || r.tail.seq != place {
			continue // it has moved on by other means
		}
		if r.goOn(newer, place, known && place == from) {
			repaired = true
		}
		if r.seq > r.tail.seq {
			// It was appended while we read.
			r.fallBehind(why)
		}
	}
	if repaired {
		h.repaired(why)
	}
	return nil
}

// goOn fills the queue of a reader that is behind with what is newer than its
// place and reports whether anything was. known tells whether newer begins
// right after the place; otherwise the place must be in it.
func (r *reader) goOn(newer []Transition, place int64, known bool) bool {
	if !known {
		at := slices.IndexFunc(newer, func(t Transition) bool { return t.Seq == place })
		// What is there as the only one left is where a lost reader goes.
		if at < 0 {
			r.reset(newer, true)
			return true
		}
		newer = newer[at+1:]
	}
	r.behind = false
	for i := range newer {
		r.push(item{t: &newer[i], live: true})
	}
	return len(newer) > 0
}
