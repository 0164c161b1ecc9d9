package server

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/r3labs/sse/v2"
)

// emitter makes lines for every protocol that net/http speaks, by means of
// r3labs/sse.
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

// served is a line within its request's handler.
type served struct {
	*emitter
	ctx     context.Context // the stream's life; its cause is an *ending, or the peer's going
	cancel  context.CancelCauseFunc
	bell    chan struct{}          // the source may have something
	failure atomic.Pointer[ending] // of a write, see failed
}

func (e *emitter) line(r *http.Request) *served {
	l := &served{emitter: e, bell: make(chan struct{}, 1)}
	l.ctx, l.cancel = context.WithCancelCause(r.Context())
	return l
}

// Wake implements line.
func (l *served) Wake() {
	select {
	case l.bell <- struct{}{}:
	default: // it will look anyway
	}
}

// end implements line.
func (l *served) end(e *ending) { l.cancel(e) }

// failed ends the stream because a write has failed. net/http has cancelled the
// request by then, as if the peer had gone, so the reason is kept apart.
func (l *served) failed(e *ending) {
	l.failure.CompareAndSwap(nil, e)
	l.end(e)
}

// why returns the reason the stream ended, once its context has.
func (l *served) why() *ending {
	if e := l.failure.Load(); e != nil {
		return e
	}
	var e *ending
	if errors.As(context.Cause(l.ctx), &e) {
		return e
	}
	return &ending{why: endGone}
}

// open implements line: it writes the stream to the response until it ends, and
// ends it after the last frame and when the reader fails.
//
// The order at the end matters. r3labs leaks a goroutine for each stream that
// is removed under its reader, so the context ends first; that makes ServeHTTP
// return, and only then the stream goes.
func (l *served) open(gw gin.ResponseWriter, r *http.Request, st *stream) {
	w := raw(gw)
	defer func() {
		l.end(&ending{why: endFault}) // a no-op unless a panic got here first
		st.ended(l.why().why)
	}()
	over := time.AfterFunc(time.Until(st.until), func() { l.end(&ending{why: st.over}) })
	defer over.Stop()
	id := strconv.FormatUint(l.ids.Add(1), 36)
	out := &response{preamble: preamble + padding(r), w: w, rc: http.NewResponseController(w), timeout: l.timeout, fail: l.failed, taken: make(chan struct{}, 1)}
	// r3labs gets a request of our making: it would read the client's
	// Last-Event-ID, and refuse what is not a number.
	asked := (&http.Request{Method: http.MethodGet, URL: &url.URL{RawQuery: "stream=" + id}, Header: http.Header{}}).WithContext(l.ctx)

	pumped := make(chan struct{})
	l.server.CreateStream(id)
	go func() { // ends with the stream
		defer close(pumped)
		defer l.recovered()
		l.pump(st, out.taken, func(ev *sse.Event) bool { return l.server.TryPublish(id, ev) })
	}()
	l.server.ServeHTTP(out, asked) // ends with the stream
	<-pumped
	l.server.RemoveStream(id)
	out.close(l.why())
	st.written = out.written
	if l.why().why == endCut {
		panic(http.ErrAbortHandler) // net/http drops the connection in the middle of the answer
	}
}

// pump hands over one frame after the other, each when its predecessor has
// been taken, and a comment when there was nothing to send for a while.
func (l *served) pump(st *stream, taken <-chan struct{}, publish func(*sse.Event) bool) {
	await := func() bool {
		select {
		case <-taken:
			return true
		case <-l.ctx.Done():
			return false
		}
	}
	if !await() { // the preamble
		return
	}
	silence := time.NewTimer(l.heartbeat)
	defer silence.Stop()
	for {
		fr, ok, err := st.src.next()
		ev := &sse.Event{ID: []byte(fr.id), Event: []byte(fr.event), Data: fr.data}
		switch {
		case l.ctx.Err() != nil:
			return
		case err != nil:
			l.end(goingDown()) // the hub has ended, as it does with the process
			return
		case !ok:
			select {
			case <-l.ctx.Done():
				return
			case <-l.bell:
				continue
			case <-silence.C:
				ev = &sse.Event{Comment: []byte(heartbeat)}
			}
		}
		if !publish(ev) {
			l.end(&ending{why: endFault}) // nothing else is in flight, so this cannot be for want of room
			return
		}
		if !await() {
			return
		}
		silence.Reset(l.heartbeat)
		if ok {
			st.took(fr)
		}
		if fr.last {
			l.end(&ending{why: endTerminal})
			return
		}
	}
}

// recovered keeps a fault in one stream from being every stream's.
func (l *served) recovered() {
	if v := recover(); v != nil {
		l.log.Error("panic in a stream", "value", v, "stack", string(debug.Stack()))
		l.end(&ending{why: endFault})
	}
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
	o.w.Header().Del("Connection") // r3labs sets it; it is not ours to set, and unknown to HTTP/2
	streamHeaders(o.w.Header())
	o.w.WriteHeader(status)
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

func (o *response) close(e *ending) {
	if last := e.lastBytes(); last != "" && o.started && !o.broken {
		o.send([]byte(last))
	}
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
