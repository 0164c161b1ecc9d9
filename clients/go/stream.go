package tidings

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// subscribe drops the stream and opens a new one after the machine's position.
func (s *Session) subscribe() {
	if s.stream != nil {
		s.stream.replace()
	}
	cursor, seed := s.machine.State().LastEventID, s.seed
	if s.fresh {
		cursor, seed, s.fresh = "", "", false
	}
	s.generation++
	st := &stream{session: s, generation: s.generation, parser: NewParser(seed), via: s.client.http.newest()}
	st.ctx, st.replace = context.WithCancel(s.ctx)
	st.request, st.close = context.WithCancel(st.ctx)
	s.stream = st
	s.spawn(func() {
		defer st.replace()
		st.run(cursor)
	})
}

// stream is one connection. It reads until the end and tells the session what it
// has read, ending with one OnDisconnect.
type stream struct {
	session    *Session
	generation int
	parser     *Parser
	via        *http.Client
	ctx        context.Context // ends when a newer stream takes over: nobody listens any more
	replace    context.CancelFunc
	// request ends when nothing more is to be read. What has been read by then is
	// still told: a completed right behind an error counts.
	request context.Context
	close   context.CancelFunc
}

func (st *stream) run(cursor string) {
	c := st.session.client
	watchdog := time.AfterFunc(c.watchdog, st.close)
	defer watchdog.Stop()

	resp, err := c.do(st.request, request{
		method: http.MethodGet, path: st.session.address, via: st.via, begin: headerTimeout,
		header: map[string]string{
			"Accept":          "text/event-stream",
			"Accept-Encoding": "identity", // the transport would ask for gzip, which holds events back
			"Cache-Control":   "no-cache",
			"Last-Event-ID":   cursor,
		},
	})
	if err != nil {
		c.log.Debug("no stream", "session", st.session.id, "error", err)
		st.end(0, nil)
		return
	}
	defer resp.Body.Close()
	status := resp.StatusCode
	if status == http.StatusOK && mediaType(resp) != "text/event-stream" {
		status = http.StatusNotAcceptable
	}
	if status != http.StatusOK {
		c.log.Debug("stream refused", "session", st.session.id, "status", status)
		problem := c.problem(resp)
		problem.Status = status
		st.end(status, problem)
		return
	}
	st.tell(Input{Kind: OnOpen})
	st.end(st.read(resp, watchdog), nil)
}

// read feeds the parser until the stream ends and returns the status to report: 200
// for an orderly end, 0 for anything else.
func (st *stream) read(resp *http.Response, watchdog *time.Timer) int {
	c := st.session.client
	st.parser.OnMessage = func(m Message) { st.tell(Input{Kind: OnEvent, Message: m}) }
	st.parser.OnRetry = func(ms int) { st.tell(Input{Kind: OnRetryHint, Millis: ms}) }
	buf := make([]byte, 4096)
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			watchdog.Reset(c.watchdog)
			if err := st.parser.Feed(buf[:n]); err != nil {
				c.log.Debug("stream given up", "session", st.session.id, "error", err)
				return 0
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return http.StatusOK
		default:
			c.log.Debug("stream lost", "session", st.session.id, "error", err)
			return 0
		}
	}
}

// tell hands an input to the session unless a newer stream has taken over.
func (st *stream) tell(in Input) {
	id := st.parser.LastEventID()
	st.session.do(st.ctx, func() {
		if st.generation != st.session.generation {
			return
		}
		st.session.seed = id
		if in.Kind == OnOpen {
			st.session.problem, st.session.checking = nil, false
		}
		st.session.apply(in)
	})
}

func (st *stream) end(status int, problem *HTTPError) {
	id := st.parser.LastEventID()
	st.session.do(st.ctx, func() {
		if st.generation != st.session.generation {
			return
		}
		st.session.seed = id
		if status == 0 {
			st.session.client.http.renew(st.via)
		}
		if refused(status) {
			st.session.problem = problem
		} else if problem != nil && problem.RetryAfter > 0 {
			// As a retry line would: the server says how far apart connections shall be.
			st.session.apply(Input{Kind: OnRetryHint, Millis: int(min(problem.RetryAfter.Milliseconds(), maxRetry))})
		}
		st.session.apply(Input{Kind: OnDisconnect, Status: status})
	})
}
