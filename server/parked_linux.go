package server

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gin-gonic/gin"
	"golang.org/x/sys/unix"
)

// parking holds the connections that were taken over from net/http. One that is
// idle has no goroutine, buffer, timer or request: it is a socket and a parked.
//
//	writers  a few goroutines; each writes to its share of the connections, never
//	         waiting for one, and walks their heartbeats and ends (a wheel)
//	peers    one goroutine that hears from epoll of connections that were closed
//	         by the other side, or that take bytes again
//
// All of them begin with the first connection.
type parking struct {
	log       *slog.Logger
	heartbeat time.Duration
	timeout   time.Duration // for a reader to take what was written
	tick      time.Duration // how exact heartbeats and ends are
	origin    time.Time     // what times in ms count from
	turn      atomic.Uint32 // spreads connections over the writers

	begin   sync.Once
	writers []*writer
	peers   *peers
	broken  error // why streams are served by their handlers
}

func newParking(log *slog.Logger, heartbeat, timeout time.Duration) *parking {
	tick := min(max(min(heartbeat, timeout)/8, time.Millisecond), 50*time.Millisecond).Truncate(time.Millisecond)
	return &parking{log: log, heartbeat: heartbeat, timeout: timeout, tick: tick, origin: time.Now()}
}

type connKey struct{}

// remembering lets fit find a request's connection.
func remembering(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// fit is a request's connection if it may be taken over, or nil: HTTP/1.1 on a TCP
// connection of its own, without TLS.
func (p *parking) fit(r *http.Request) syscall.RawConn {
	if r.TLS != nil || r.ProtoMajor != 1 || r.ProtoMinor < 1 {
		return nil
	}
	conn, _ := r.Context().Value(connKey{}).(net.Conn)
	for {
		inner, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		conn = inner.NetConn()
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	p.begin.Do(p.start)
	raw, err := tcp.SyscallConn()
	if err != nil || p.broken != nil {
		return nil
	}
	return raw
}

func (p *parking) start() {
	if p.peers, p.broken = newPeers(); p.broken != nil {
		p.log.Warn("connections of streams are not taken over", "error", p.broken)
		return
	}
	go p.peers.run()
	for range min(runtime.GOMAXPROCS(0), 8) {
		w := newWriter(p)
		p.writers = append(p.writers, w)
		go w.run()
	}
}

// stop ends all that is still open, and returns when nothing is left running:
// within the time that a reader has to take what is written.
func (p *parking) stop() {
	p.begin.Do(func() { p.broken = errors.New("stopped") })
	if p.broken != nil {
		return
	}
	for _, w := range p.writers {
		w.stop()
	}
	for _, w := range p.writers {
		<-w.ended
	}
	p.peers.stop()
	<-p.peers.ended
}

// line makes the line of a request on a connection.
func (p *parking) line(conn syscall.RawConn) line {
	return &parked{writer: p.writers[p.turn.Add(1)%uint32(len(p.writers))], conn: conn, fd: -1}
}

// now is the time in ms since the parking's origin.
func (p *parking) now() int64 { return p.at(time.Now()) }

func (p *parking) at(t time.Time) int64 { return t.Sub(p.origin).Milliseconds() }

// parked is a line without a handler: what an idle stream costs, its
// subscription aside.
type parked struct {
	*writer
	st   *stream
	conn syscall.RawConn // until it is open
	fd   int             // ours; -1: none
	done func()          // gives its place among the connections back
	key  uint32          // tells connections apart that have the same fd in turn

	// Guarded by writer.mu.
	marks   marks
	reason  *ending
	queued  bool // in writer.ready
	adopted bool // the writer has it

	// The writer's own, or the handler's before it is adopted.
	closing bool    // the last bytes are written or in rest
	stalled bool    // in writer.stuck
	rest    []byte  // written and not yet taken by the socket; less than two chunks
	blocked int64   // since when rest waits, ms
	wrote   int64   // when bytes were last taken, ms
	until   int64   // when the stream ends at the latest, ms
	after   *parked // the next one in the same slot of the wheel
}

// marks say why a writer should look at a connection.
type marks uint8

const (
	markWoken    marks = 1 << iota // the source may have something
	markNew                        // it was adopted just now
	markWritable                   // the socket takes bytes again
	markGone                       // the peer has closed it
	markEnd                        // there is a reason to end
)

// A chunk is closed when it has maxChunk bytes. A frame is below 4 KiB.
const maxChunk = 12 << 10

// Wake implements line.
func (c *parked) Wake() { c.mark(markWoken, nil) }

// end implements line.
func (c *parked) end(e *ending) { c.mark(markEnd, e) }

func (c *parked) mark(m marks, e *ending) {
	w := c.writer
	w.mu.Lock()
	defer w.mu.Unlock()
	c.marks |= m
	if c.reason == nil {
		c.reason = e
	}
	if c.adopted {
		w.queue(c)
	}
}

// open implements line: it takes the connection over, sends what there is, and
// leaves the rest to the writer.
func (c *parked) open(w gin.ResponseWriter, r *http.Request, st *stream) {
	streamHeaders(w.Header())
	head := responseHead(w.Header())
	conn, _, err := w.Hijack()
	if err == nil {
		// The socket lives on in a descriptor of ours, without deadlines and Go's poller.
		var dup error
		err = c.conn.Control(func(fd uintptr) { c.fd, dup = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
		var closed error
		c.done, closed = withoutPlace(conn)
		err = errors.Join(err, dup, closed)
	}
	c.conn = nil
	if err != nil {
		c.log.Warn("a connection was not taken over", "error", err)
		if c.fd >= 0 {
			_ = unix.Close(c.fd)
		}
		if c.done != nil {
			c.done()
		}
		st.ended(endFault)
		return
	}
	c.st, c.until, c.wrote = st, c.at(st.until), c.now()
	c.first(head, preamble+padding(r))
	if !c.adopt(c) {
		c.close(goingDown())
	}
}

// first sends the head of the answer and what there is.
func (c *parked) first(head []byte, preamble string) {
	defer c.recovered(c)
	c.pass(head, append(make([]byte, 0, 1<<10), preamble...))
}

// responseHead is what net/http would have written. The connection serves no
// other request afterwards, and says so.
func responseHead(h http.Header) []byte {
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 200 OK\r\nDate: ")
	b.WriteString(time.Now().UTC().Format(http.TimeFormat))
	b.WriteString("\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n")
	h.Del("Connection")
	_ = h.Write(&b) // a buffer takes everything
	b.WriteString("\r\n")
	return b.Bytes()
}

// pass gives the socket all that the source has, behind head, which is no part
// of the body, and body, which is. Nothing must be waiting for the socket.
func (c *parked) pass(head, body []byte) {
	for {
		full, last := false, false
		for !full && !last {
			fr, ok, err := c.st.src.next()
			if err != nil {
				c.end(goingDown()) // the hub has ended, as it does with the process
			}
			if !ok || err != nil {
				break
			}
			body = appendFrame(body, fr)
			c.st.took(fr)
			full, last = len(body) >= maxChunk, fr.last
		}
		if last {
			c.end(&ending{why: endTerminal})
		}
		if len(body) == 0 || !c.write(appendChunk(head, body)) || !full {
			return
		}
		head, body = head[:0], body[:0]
	}
}

// appendChunk adds a chunk of the answer's body.
func appendChunk(b, body []byte) []byte {
	b = strconv.AppendUint(b, uint64(len(body)), 16)
	b = append(append(b, "\r\n"...), body...)
	return append(b, "\r\n"...)
}

// write gives the socket what it takes without waiting, keeps the rest, and tells
// whether there is none.
func (c *parked) write(b []byte) bool {
	n, err := unix.Write(c.fd, b)
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Write(c.fd, b)
	}
	n = max(n, 0)
	c.st.written += int64(n)
	switch {
	case err != nil && !errors.Is(err, unix.EAGAIN):
		c.mark(markGone, nil)
		return false
	case n < len(b):
		if c.rest == nil {
			c.blocked = c.now()
		}
		c.rest = bytes.Clone(b[n:])
		return false
	}
	c.rest, c.wrote = nil, c.now()
	return true
}

// close gives the connection up.
func (c *parked) close(e *ending) {
	c.peers.remove(c)
	// Unread bytes would make the end a reset, which loses what was written last.
	var unread [1 << 10]byte
	_, _ = unix.Read(c.fd, unread[:])
	_ = unix.Close(c.fd)
	c.fd = -1
	c.done()
	c.st.ended(e.why)
	c.st, c.done, c.rest = nil, nil, nil
}
