package server

import (
	"bytes"
	"context"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	headerTimeout  = 5 * time.Second
	headerBytes    = 16 << 10
	idleTimeout    = 2 * time.Minute
	answerTimeout  = 30 * time.Second // a whole answer; streams set their own for each write
	profileTimeout = 5 * time.Minute  // the operators' answers: profiles take their time
	shutdownGrace  = 5 * time.Second  // after the drain, for requests under way
	peerTimeout    = 20 * time.Second // unacknowledged bytes: then the peer is gone
	sendBuffer     = 32 << 10         // the kernel's, per connection
	pingAfter      = 15 * time.Second // HTTP/2: silence before a ping
	maxH2Streams   = 250
	maxH2FrameSize = 16 << 10
)

// Serve answers on both listeners until ctx ends, then takes the server down:
// no longer ready, streams closed one by one over Options.Drain, requests
// finished. It closes the listeners and returns when nothing is left running.
// Either may be nil.
func (s *Server) Serve(ctx context.Context, api, ops net.Listener) error {
	// base is every request's context. Shutdown would wait for streams without
	// ever telling them, so whatever is left after the drain is told by base.
	base, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()

	var servers []*http.Server
	var listeners []net.Listener
	if api != nil {
		servers = append(servers, s.httpServer(base, s.api, answerTimeout))
		listeners = append(listeners, &connections{Listener: tunedListener{api}, limit: s.apiConnections(), name: "api", log: s.log})
	}
	if ops != nil { // last: it is what says that we are draining
		servers = append(servers, s.httpServer(base, s.ops, profileTimeout))
		listeners = append(listeners, &connections{Listener: ops, limit: opsConnections, name: "ops", log: s.log})
	}

	var wg sync.WaitGroup
	failed := make(chan error, len(servers))
	for i, hs := range servers {
		wg.Go(func() {
			if err := hs.Serve(listeners[i]); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		})
	}

	var err error
	select {
	case <-ctx.Done():
		s.Drain(base)
	case err = <-failed:
	}
	s.closed()
	s.parking.stop()
	for _, hs := range servers {
		err = errors.Join(err, s.shutdown(base, hs))
		kill()
	}
	wg.Wait()
	return err
}

// Drain closes every open stream, evenly over Options.Drain, each with its own
// time to come back. From its start the server is not ready and takes no new
// streams. It returns early when ctx ends.
func (s *Server) Drain(ctx context.Context) {
	s.leave()
	open := s.streams.shut()
	s.log.Info("draining", "streams", len(open), "window", s.o.Drain)
	s.streams.drain(ctx, open, s.o.Drain)
}

func (s *Server) shutdown(base context.Context, hs *http.Server) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(base), shutdownGrace)
	defer cancel()
	if err := hs.Shutdown(ctx); err != nil {
		s.log.Warn("requests that took too long were cut at the end", "error", err)
		return hs.Close()
	}
	return nil
}

// httpServer bounds everything a peer could drag out. WriteTimeout covers whole
// answers; a stream renews its own deadline for each write.
func (s *Server) httpServer(base context.Context, h http.Handler, answer time.Duration) *http.Server {
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(s.o.H2C)
	return &http.Server{
		Handler:           s.bounded(h),
		Protocols:         &p,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxH2Streams, MaxReadFrameSize: maxH2FrameSize, SendPingTimeout: pingAfter, PingTimeout: peerTimeout, WriteByteTimeout: peerTimeout},
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		WriteTimeout:      answer,
		MaxHeaderBytes:    headerBytes,
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnContext:       remembering,
		ErrorLog:          log.New(quietLog{s.log}, "", 0),
	}
}

// quietLog keeps what net/http says about broken peers out of the way, and
// passes on what an operator has to know: that a handler panicked, or that no
// connection can be accepted.
type quietLog struct{ log *slog.Logger }

func (q quietLog) Write(b []byte) (int, error) {
	level := slog.LevelDebug
	if bytes.HasPrefix(b, []byte("http: panic serving")) || bytes.HasPrefix(b, []byte("http: Accept error")) {
		level = slog.LevelWarn
	}
	q.log.Log(context.Background(), level, "http", "text", string(b))
	return len(b), nil
}

// tunedListener sets on each accepted connection what finds a dead peer and
// bounds what the kernel buffers for a slow one.
type tunedListener struct{ net.Listener }

// Accept implements net.Listener.
func (l tunedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		// Both are best effort: a connection without them still works.
		_ = tcp.SetWriteBuffer(sendBuffer)
		_ = setUserTimeout(tcp, peerTimeout)
	}
	return c, nil
}
