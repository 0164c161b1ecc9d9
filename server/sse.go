package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/r3labs/sse/v2"
)

// No blank line follows what is no event: some readers would make an empty one
// of a block that has only a retry or a comment. The next event's block takes
// these lines in.
const (
	preamble  = "retry: 2000\n" // a stream's first bytes
	heartbeat = "alive"         // as a comment: it is no event and has no id
)

// padding is a comment for readers that hold back the first 512 bytes. Apple's
// URLSession does, whatever the headers say, and names CFNetwork as its agent.
func padding(r *http.Request) string {
	if !strings.Contains(r.UserAgent(), "CFNetwork/") {
		return ""
	}
	return ":" + strings.Repeat(" ", 512-len(preamble)-2) + "\n"
}

// source is what a stream sends, frame by frame: a feed, or a probe.
type source interface {
	// next waits for the next frame. It fails with ctx, after which it may be
	// asked again, or for good.
	next(ctx context.Context) (frame, error)
	// took is told of each frame that the response has taken.
	took(frame)
}

// emitter writes sources to responses by means of r3labs/sse.
//
// Each connection has an r3labs stream of its own. A shared one waits for its
// slowest reader, keeps every event for ever and numbers them itself; all three
// are ours to do (see the hub). What r3labs does here is the framing and the
// delivery to one response; what it lacks is in response.
type emitter struct {
	log       *slog.Logger
	server    *sse.Server
	ids       atomic.Uint64
	heartbeat time.Duration
	timeout   time.Duration
}

func newEmitter(log *slog.Logger, heartbeat, timeout time.Duration) *emitter {
	s := sse.New()
	s.AutoReplay = false
	s.SplitData = true // a newline in data must not forge a field
	s.BufferSize = 1   // one frame is in flight; the hub's subscription is the queue
	return &emitter{log: log, server: s, heartbeat: heartbeat, timeout: timeout}
}

// emit writes the source to the response until the stream's context ends, and
// ends that itself after the last frame and when the reader fails. It returns
// the number of bytes written.
//
// The order at the end matters. r3labs leaks a goroutine for each stream that
// is removed under its reader, so the context ends first; that makes ServeHTTP
// return, and only then the stream goes.
func (e *emitter) emit(w http.ResponseWriter, r *http.Request, st *stream, src source) (written int64) {
	id := strconv.FormatUint(e.ids.Add(1), 36)
	out := &response{preamble: preamble + padding(r), w: w, rc: http.NewResponseController(w), timeout: e.timeout, fail: st.failed, taken: make(chan struct{}, 1)}
	// r3labs gets a request of our making: it would read the client's
	// Last-Event-ID, and refuse what is not a number.
	asked := (&http.Request{Method: http.MethodGet, URL: &url.URL{RawQuery: "stream=" + id}, Header: http.Header{}}).WithContext(st.ctx)

	pumped := make(chan struct{})
	e.server.CreateStream(id)
	go func() { // ends with st.ctx
		defer close(pumped)
		defer e.recovered(st)
		e.pump(st, src, out.taken, func(ev *sse.Event) bool { return e.server.TryPublish(id, ev) })
	}()
	e.server.ServeHTTP(out, asked) // ends with st.ctx
	<-pumped
	e.server.RemoveStream(id)
	out.close(st.why())
	return out.written
}

// pump hands over one frame after the other, each when its predecessor has
// been taken, and a comment when there was nothing to send for a while.
func (e *emitter) pump(st *stream, src source, taken <-chan struct{}, publish func(*sse.Event) bool) {
	await := func() bool {
		select {
		case <-taken:
			return true
		case <-st.ctx.Done():
			return false
		}
	}
	if !await() { // the preamble
		return
	}
	for {
		fr, err := e.next(st.ctx, src)
		ev := &sse.Event{ID: []byte(fr.id), Event: []byte(fr.event), Data: fr.data}
		switch {
		case st.ctx.Err() != nil:
			return
		case errors.Is(err, context.DeadlineExceeded):
			ev = &sse.Event{Comment: []byte(heartbeat)}
		case err != nil:
			st.end(goingDown()) // the hub has ended, as it does with the process
			return
		}
		if !publish(ev) {
			st.end(&ending{why: endFault}) // nothing else is in flight, so this cannot be for want of room
			return
		}
		if !await() {
			return
		}
		if fr.event != "" {
			src.took(fr)
		}
		if fr.last {
			st.end(&ending{why: endTerminal})
			return
		}
	}
}

// recovered keeps a fault in one stream from being every stream's.
func (e *emitter) recovered(st *stream) {
	if v := recover(); v != nil {
		e.log.Error("panic in a stream", "value", v, "stack", string(debug.Stack()))
		st.end(&ending{why: endFault})
	}
}

func (e *emitter) next(ctx context.Context, src source) (frame, error) {
	ctx, cancel := context.WithTimeout(ctx, e.heartbeat)
	defer cancel()
	return src.next(ctx)
}

// response is what r3labs writes to. It collects each frame and passes it on
// in one write with a deadline, in the order id, event, data.
type response struct {
	preamble string
	w        http.ResponseWriter
	rc       *http.ResponseController
	timeout  time.Duration
	fail     func(*ending) // told once, of a write that failed
	taken    chan struct{} // told once for each frame taken; has room for one

	frame   bytes.Buffer
	started bool
	broken  bool
	written int64
}

// Header implements http.ResponseWriter.
func (o *response) Header() http.Header { return o.w.Header() }

// WriteHeader implements http.ResponseWriter.
func (o *response) WriteHeader(status int) {
	streamHeaders(o.w.Header())
	o.w.WriteHeader(status)
}

// streamHeaders say that this is a stream, to be kept by nobody, changed by
// nobody, and held back by no proxy.
func streamHeaders(h http.Header) {
	h.Del("Connection") // r3labs sets it; it is not ours to set, and unknown to HTTP/2
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	h.Set("X-Content-Type-Options", "nosniff")
}

// Write implements http.ResponseWriter. It only collects.
func (o *response) Write(b []byte) (int, error) { return o.frame.Write(b) }

// Flush implements http.Flusher: r3labs calls it after the header and after
// each frame.
func (o *response) Flush() {
	b := []byte(o.preamble)
	if o.started {
		b = arrange(o.frame.Bytes())
	}
	o.started = true
	o.frame.Reset()
	if o.broken || !o.send(b) {
		return
	}
	select {
	case o.taken <- struct{}{}:
	default:
	}
}

// send writes and flushes within the time limit. The limit is lifted again:
// on HTTP/2 it would end the stream when it passes, written or not.
func (o *response) send(b []byte) bool {
	err := o.rc.SetWriteDeadline(time.Now().Add(o.timeout))
	if err == nil {
		var n int
		n, err = o.w.Write(b)
		o.written += int64(n)
	}
	if err == nil {
		err = o.rc.Flush()
	}
	if err == nil {
		err = o.rc.SetWriteDeadline(time.Time{})
	}
	if err == nil {
		return true
	}
	o.broken = true
	why := endGone
	if errors.Is(err, os.ErrDeadlineExceeded) {
		why = endSlow
	}
	o.fail(&ending{why: why})
	return false
}

// close says why, where the server ends a stream that works, and when to come
// back. These lines make no event.
func (o *response) close(e *ending) {
	if o.broken || !o.started {
		return
	}
	switch e.why {
	case endExpired, endMaxAge, endDrain:
	default:
		return
	}
	b := fmt.Appendf(nil, ": %s\n", e.why)
	if e.retry > 0 {
		b = fmt.Appendf(b, "retry: %d\n", e.retry.Milliseconds())
	}
	o.send(b)
}

// arrange puts the event's name before its data, as the contract has it, and
// drops an id line without an id, which would clear the client's cursor, and the
// blank line after a comment.
func arrange(frame []byte) []byte {
	out := make([]byte, 0, len(frame))
	var data [][]byte
	for line := range bytes.Lines(frame) {
		switch {
		case bytes.Equal(line, []byte("id: \n")):
		case bytes.HasPrefix(line, []byte("data: ")):
			data = append(data, line)
		case bytes.Equal(line, []byte("\n")) && data == nil:
		case bytes.Equal(line, []byte("\n")):
			out = append(out, bytes.Join(data, nil)...)
			out = append(out, line...)
		default:
			out = append(out, line...)
		}
	}
	return out
}
