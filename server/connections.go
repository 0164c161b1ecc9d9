package server

import (
	"log/slog"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// connections bounds how many of a listener's connections are open, so that the
// process has files left for Redis, the providers and the operators' port. One
// too many is closed at once: its client tries again, and a balancer elsewhere.
type connections struct {
	net.Listener
	limit int64
	name  string
	log   *slog.Logger

	open atomic.Int64
	told atomic.Int64 // when the log last heard of it, Unix seconds
}

const (
	// fileReserve is kept for everything that is not a connection of the API: some
	// dozens to Redis and the providers, opsConnections, logs.
	fileReserve = 256
	// opsConnections is far above what probes, Prometheus and operators open.
	opsConnections = 100
)

// apiConnections is how many connections the API may have open.
func (s *Server) apiConnections() int64 {
	switch {
	case s.o.Files == 0:
		return math.MaxInt64
	case s.o.Files < 2*fileReserve:
		return int64(s.o.Files / 2)
	}
	return int64(s.o.Files - fileReserve)
}

// tellEvery is how often a full listener is logged.
const tellEvery = 10 * time.Second

// Accept implements net.Listener.
func (l *connections) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= l.limit {
			return &connection{Conn: c, done: sync.OnceFunc(func() { l.open.Add(-1) })}, nil
		}
		l.open.Add(-1)
		_ = c.Close() // there is nobody to tell
		now := time.Now().Unix()
		if last := l.told.Load(); now-last >= int64(tellEvery/time.Second) && l.told.CompareAndSwap(last, now) {
			l.log.Warn("refused a connection: too many are open", "listener", l.name, "limit", l.limit,
				"advice", "raise the limit of open files, or run more processes")
		}
	}
}

// connection gives its place back when it is closed.
type connection struct {
	net.Conn
	done func()
}

// Close implements net.Conn.
func (c *connection) Close() error {
	defer c.done()
	return c.Conn.Close()
}

// NetConn is the connection below, for what only a TCP connection can do. Close
// this one all the same.
func (c *connection) NetConn() net.Conn { return c.Conn }

// withoutPlace closes a connection and leaves its place taken, for whoever goes on
// with its file. done gives the place back.
func withoutPlace(conn net.Conn) (done func(), err error) {
	if c, ok := conn.(*connection); ok {
		return c.done, c.Conn.Close()
	}
	return func() {}, conn.Close()
}
