package server

import (
	"runtime/debug"
	"sync"
	"time"
)

// writer writes to its share of the parked connections. Its goroutine alone
// touches them once they are adopted; whoever wants something of one marks it.
type writer struct {
	*parking
	bell  chan struct{} // ready has something
	ended chan struct{} // closed when run has returned

	mu       sync.Mutex
	ready    []*parked // marked, each once
	open     int       // connections that it has
	stopping bool

	// The goroutine's own.
	spare    []*parked // the list that ready was before
	out      []byte    // room for what is written
	body     []byte    // room for frames
	stuck    []*parked // with a rest
	wheel    []*parked // lists of what is due, one per tick; a little longer than a heartbeat
	position int64     // the last tick that was looked at
}

// keptRoom is how many entries of a list's room are kept for the next time.
const keptRoom = 1 << 10

func newWriter(p *parking) *writer {
	return &writer{
		parking: p, bell: make(chan struct{}, 1), ended: make(chan struct{}),
		out: make([]byte, 0, 2*maxChunk), body: make([]byte, 0, 2*maxChunk),
		wheel: make([]*parked, p.heartbeat/p.tick+2), position: p.ticks(p.now()),
	}
}

// ticks is a time in ms as a place on the wheel.
func (p *parking) ticks(ms int64) int64 { return ms / p.tick.Milliseconds() }

// queue lets the goroutine look at a connection. The lock is held.
func (w *writer) queue(c *parked) {
	if c.queued {
		return
	}
	c.queued = true
	w.ready = append(w.ready, c)
	if len(w.ready) == 1 {
		w.ring()
	}
}

func (w *writer) ring() {
	select {
	case w.bell <- struct{}{}:
	default: // it is awake
	}
}

// adopt takes a connection over from its handler. false: there are no more taken.
func (w *writer) adopt(c *parked) bool {
	if w.peers.add(c) != nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopping {
		return false
	}
	w.open++
	c.adopted = true
	c.marks |= markNew
	w.queue(c)
	return true
}

// stop ends what is open; run returns when it has ended.
func (w *writer) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopping = true
	w.ring()
}

func (w *writer) run() {
	defer close(w.ended)
	tick := time.NewTicker(w.tick)
	defer tick.Stop()
	for told := false; ; {
		select {
		case <-w.bell:
		case <-tick.C:
			w.walk()
		}
		w.serveReady()
		w.mu.Lock()
		stopping, open := w.stopping, w.open
		w.mu.Unlock()
		switch {
		case stopping && open == 0:
			return
		case stopping && !told:
			told = true
			w.endAll()
		}
	}
}

// endAll ends what nobody has ended. All connections are on the wheel.
func (w *writer) endAll() {
	for _, c := range w.wheel {
		for ; c != nil; c = c.after {
			c.end(goingDown())
		}
	}
}

func (w *writer) serveReady() {
	w.mu.Lock()
	list := w.ready
	w.ready = w.spare
	w.mu.Unlock()
	for _, c := range list {
		w.serve(c)
	}
	clear(list)
	w.spare = list[:0]
	if cap(list) > keptRoom {
		w.spare = nil
	}
}

// serve does what a connection was marked for.
func (w *writer) serve(c *parked) {
	w.mu.Lock()
	m, reason := c.marks, c.reason
	c.marks, c.queued = 0, false
	w.mu.Unlock()
	if c.fd < 0 {
		return
	}
	defer w.recovered(c)
	if m&markNew != 0 {
		w.arm(c)
	}
	if m&markGone != 0 {
		w.drop(c, &ending{why: endGone})
		return
	}
	if m&markWritable != 0 && c.rest != nil {
		c.write(c.rest)
	}
	if c.rest == nil && reason == nil && m&markWoken != 0 {
		c.pass(w.out[:0], w.body[:0])
	}
	if c.rest == nil && reason != nil {
		if !c.closing {
			c.closing = true
			c.write(w.lastChunks(reason))
		}
		if c.rest == nil {
			w.drop(c, reason)
			return
		}
	}
	w.watch(c)
}

// lastChunks end the body, except of a stream that is to look broken.
func (w *writer) lastChunks(e *ending) []byte {
	b := w.out[:0]
	if last := e.lastBytes(); last != "" {
		b = appendChunk(b, []byte(last))
	}
	if e.why != endCut {
		b = append(b, "0\r\n\r\n"...)
	}
	return b
}

// watch keeps an eye on a connection whose socket is full.
func (w *writer) watch(c *parked) {
	if c.rest == nil || c.stalled {
		return
	}
	c.stalled = true
	w.stuck = append(w.stuck, c)
	w.peers.awaitRoom(c)
}

// drop closes a connection.
func (w *writer) drop(c *parked, e *ending) {
	c.close(e)
	w.mu.Lock()
	w.open--
	w.mu.Unlock()
}

// arm puts a connection on the wheel: at its next heartbeat, or its end.
func (w *writer) arm(c *parked) {
	due := w.ticks(min(c.wrote+w.heartbeat.Milliseconds(), c.until))
	due = min(max(due, w.position+1), w.position+int64(len(w.wheel))-1)
	slot := &w.wheel[due%int64(len(w.wheel))]
	c.after, *slot = *slot, c
}

// walk looks at all that has become due.
func (w *writer) walk() {
	now := w.now()
	for to := w.ticks(now); w.position < to; {
		w.position++
		slot := &w.wheel[w.position%int64(len(w.wheel))]
		c := *slot
		*slot = nil
		for c != nil {
			next := c.after
			c.after = nil
			w.visit(c, now)
			c = next
		}
	}
	// A reader is cut before its time is over rather than after it.
	limit := now + w.tick.Milliseconds() - w.timeout.Milliseconds()
	kept := w.stuck[:0]
	for _, c := range w.stuck {
		switch {
		case c.fd < 0:
		case c.rest == nil:
			c.stalled = false
		case c.blocked <= limit:
			w.drop(c, &ending{why: endSlow})
		default:
			kept = append(kept, c)
		}
	}
	clear(w.stuck[len(kept):])
	w.stuck = kept
}

// visit sends a heartbeat or an end that is due, and arms the next one.
func (w *writer) visit(c *parked, now int64) {
	if c.fd < 0 {
		return // closed since
	}
	switch {
	case now >= c.until:
		c.end(&ending{why: c.st.over})
		c.until = 1 << 62 // it is told
	case now >= c.wrote+w.heartbeat.Milliseconds() && c.rest == nil && !c.closing:
		c.write(append(w.out[:0], heartbeatChunk...))
		w.watch(c)
	}
	w.arm(c)
}

// recovered keeps a fault in one stream from being every stream's.
func (w *writer) recovered(c *parked) {
	if v := recover(); v != nil {
		w.log.Error("panic in a stream", "value", v, "stack", string(debug.Stack()))
		c.end(&ending{why: endFault})
	}
}
