package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/events/eventstest"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/lifecycle"
	"github.com/tidings/tidings/locales"
)

var _ Jobs = (*jobs.Service)(nil)

// testbed is a whole server over a log in memory: the real hub, the real texts,
// real HTTP. Only the jobs are scripted.
type testbed struct {
	*Server
	log    *eventstest.Memory
	hub    *events.Hub
	jobs   *script
	client *http.Client
	api    net.Listener
	ops    net.Listener
	stop   context.CancelFunc // begins the way down
	served chan error         // what Serve returned
}

// newTestbed starts one on pipes, which work in a synctest bubble.
func newTestbed(t *testing.T, change ...func(*Options)) *testbed {
	return startTestbed(t, newPipes(), newPipes(), change...)
}

// newTCPTestbed starts one on real connections.
func newTCPTestbed(t *testing.T, change ...func(*Options)) *testbed {
	return startTestbed(t, listen(t), listen(t), change...)
}

func listen(t *testing.T) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func startTestbed(t *testing.T, api, ops net.Listener, change ...func(*Options)) *testbed {
	t.Helper()
	texts, err := locales.Load()
	if err != nil {
		t.Fatal(err)
	}
	h := &testbed{log: eventstest.NewMemory(eventstest.MemoryOptions{}), jobs: &script{document: jobs.Document{Version: 1, JobID: "J", Content: []byte("{}")}}, api: api, ops: ops, served: make(chan error, 1)}
	h.hub = events.NewHub(h.log, events.HubOptions{})
	o := Options{Jobs: h.jobs, Hub: h.hub, Texts: texts, Hosts: []string{"api", "page"}}
	for _, f := range change {
		f(&o)
	}
	if h.Server, err = New(o); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	hubCtx, stopHub := context.WithCancel(context.Background())
	h.stop = stop
	hubDone := make(chan error, 1)
	go func() { hubDone <- h.hub.Run(hubCtx) }()
	go func() { h.served <- h.Serve(ctx, api, ops) }()
	h.client = &http.Client{
		Transport:     &http.Transport{DialContext: dialer(api, ops), DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.Cleanup(func() {
		h.client.CloseIdleConnections()
		stop()
		if err := <-h.served; err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Serve: %v", err)
		}
		stopHub()
		if err := <-hubDone; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return h
}

func dialer(api, ops net.Listener) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, addr string) (net.Conn, error) {
		to := api
		if strings.HasPrefix(addr, "ops:") {
			to = ops
		}
		if p, ok := to.(*pipes); ok {
			return p.dial()
		}
		var d net.Dialer
		return d.DialContext(ctx, "tcp", to.Addr().String())
	}
}

// openNow is how many streams are registered.
func (h *testbed) openNow() int {
	h.streams.mu.Lock()
	defer h.streams.mu.Unlock()
	return len(h.streams.open)
}

// answer is a whole response.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// do sends a request to the API; headers are "Name: value".
func (h *testbed) do(t *testing.T, method, path, body string, headers ...string) answer {
	t.Helper()
	return h.send(t, "http://api"+path, method, body, headers...)
}

// doOps sends one to the operators' listener.
func (h *testbed) doOps(t *testing.T, method, path string, headers ...string) answer {
	t.Helper()
	return h.send(t, "http://ops"+path, method, "", headers...)
}

func (h *testbed) send(t *testing.T, url, method, body string, headers ...string) answer {
	t.Helper()
	r := request(t, method, url, body, headers...)
	resp, err := h.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := answer{resp.StatusCode, resp.Header, b}
	if r.URL.Host == "api" {
		promises(t).kept(t, r, a)
	}
	return a
}

// inTestbed runs a test with a testbed in virtual time.
func inTestbed(t *testing.T, test func(*testing.T, *testbed), change ...func(*Options)) {
	t.Helper()
	promises(t) // read outside of the bubble
	synctest.Test(t, func(t *testing.T) { test(t, newTestbed(t, change...)) })
}

func request(t *testing.T, method, url, body string, headers ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body == "" {
		r.Body = http.NoBody
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	if body != "" && r.Header["Content-Type"] == nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
	}
	return r
}

// json reads an answer's body.
func (a answer) json(t *testing.T) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(a.body, &m); err != nil {
		t.Fatalf("%v in %q", err, a.body)
	}
	return m
}

// reader is an SSE reader of our own, so that a fault in the writer cannot hide
// behind the same fault in the reader.
type reader struct {
	status int
	header http.Header
	body   io.ReadCloser
	lines  *bufio.Reader
	raw    bytes.Buffer // all bytes so far
	lastID string
	retry  string
}

func newReader(from io.Reader) *reader {
	r := &reader{}
	r.lines = bufio.NewReader(io.TeeReader(from, &r.raw))
	return r
}

// message is one dispatched event. A block without data is none.
type message struct {
	id, event, data string
	err             error // io.EOF: the stream ended cleanly
}

func (h *testbed) open(t *testing.T, path string, headers ...string) *reader {
	t.Helper()
	resp, err := h.client.Do(request(t, http.MethodGet, "http://api"+path, "", headers...))
	if err != nil {
		t.Fatal(err)
	}
	r := newReader(resp.Body)
	r.status, r.header, r.body = resp.StatusCode, resp.Header, resp.Body
	t.Cleanup(func() { resp.Body.Close() })
	return r
}

// next blocks for the next event or the stream's end.
func (r *reader) next() message {
	var m message
	var data []string
	for {
		line, err := r.lines.ReadString('\n')
		if err != nil {
			return message{err: err}
		}
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && data != nil:
			m.id, m.data = r.lastID, strings.Join(data, "\n")
			return m
		case line == "":
			m.event = ""
		case name == "id":
			r.lastID = value
		case name == "event":
			m.event = value
		case name == "data":
			data = append(data, value)
		case name == "retry":
			r.retry = value
		}
	}
}

// all reads to the end and returns the events' names. It may run beside the test.
func (r *reader) all(t *testing.T) (names []string) {
	t.Helper()
	for {
		m := r.next()
		if errors.Is(m.err, io.EOF) {
			return names
		}
		if m.err != nil {
			t.Errorf("the stream ended with %v after %q", m.err, names)
			return names
		}
		promises(t).matches(t, m.event, []byte(m.data))
		names = append(names, m.event)
	}
}

func (m message) json(t *testing.T) map[string]any {
	t.Helper()
	if m.err != nil {
		t.Fatal(m.err)
	}
	return answer{body: []byte(m.data)}.json(t)
}

// want reads an event and checks its name.
func (r *reader) want(t *testing.T, event string) message {
	t.Helper()
	m := r.next()
	if m.event != event || m.err != nil {
		t.Fatalf("got event %q (%v), want %q; so far:\n%s", m.event, m.err, event, r.raw.String())
	}
	promises(t).matches(t, event, []byte(m.data))
	return m
}

const session = "abc-123"

const statusPath = "/api/v1/sessions/" + session + "/summary/status"

func summary(session string) events.Topic { return events.NewTopic("", session, "summary") }

// happen appends a transition to the log, filling in what all have in common.
func (h *testbed) happen(t *testing.T, topic events.Topic, tr events.Transition) events.Transition {
	t.Helper()
	if tr.JobID == "" {
		tr.JobID = "01JTEST0000000000000000001"
	}
	if tr.MaxAttempts == 0 {
		tr.MaxAttempts = 4
	}
	if tr.DeadlineAt.IsZero() {
		tr.DeadlineAt = time.Now().Add(10 * time.Minute).Truncate(time.Second)
	}
	stored, err := h.log.Append(context.Background(), topic, tr)
	if err != nil {
		t.Fatalf("append %s: %v", tr.Status, err)
	}
	return stored
}

func queued() events.Transition { return events.Transition{Status: events.Queued} }

func processing(attempt, call int) events.Transition {
	return events.Transition{Status: events.Processing, Attempt: attempt, Call: call, MaxCalls: 3}
}

func retryingQueue(attempt int, in time.Duration) events.Transition {
	return events.Transition{Status: events.Retrying, Layer: events.QueueLayer, Attempt: attempt, NextAttempt: attempt + 1,
		NextRetryAt: time.Now().Add(in), Reason: events.Overloaded}
}

func retryingCall(attempt, call int, in time.Duration) events.Transition {
	return events.Transition{Status: events.Retrying, Layer: events.CallLayer, Attempt: attempt, Call: call, NextCall: call + 1, MaxCalls: 3,
		NextRetryAt: time.Now().Add(in), Reason: events.RateLimited}
}

func completed(version int64) events.Transition {
	return events.Transition{Status: events.Completed, Attempt: 1, Outcome: events.OutcomeCompleted, Version: version}
}

func failed(canRetry bool) events.Transition {
	return events.Transition{Status: events.Failed, Attempt: 4, Outcome: events.OutcomeRetriesExhausted, Reason: events.AttemptsUsedUp, CanRetry: canRetry}
}

func seqOf(t events.Transition) string { return strconv.FormatInt(t.Seq, 10) }

// script is a jobs service that answers what it is told to.
type script struct {
	mu       sync.Mutex
	err      error
	accepted jobs.Accepted
	document jobs.Document
	ledger   lifecycle.Ledger
	submits  []jobs.Submit
	topics   []events.Topic
	silent   bool // as a storage that takes questions and answers none
}

// await is what the storage takes for an answer.
func (s *script) await(ctx context.Context) error {
	if s.silent {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.err
}

func (s *script) Submit(ctx context.Context, r jobs.Submit) (jobs.Accepted, error) {
	if err := r.Input.Validate(); err != nil { // as the real one does first
		return jobs.Accepted{}, err
	}
	s.mu.Lock()
	s.submits = append(s.submits, r)
	s.mu.Unlock()
	return s.accepted, s.await(ctx)
}

func (s *script) Retry(ctx context.Context, topic events.Topic) (jobs.Accepted, error) {
	s.saw(topic)
	return s.accepted, s.await(ctx)
}

func (s *script) Cancel(ctx context.Context, topic events.Topic) (jobs.Accepted, error) {
	s.saw(topic)
	return s.accepted, s.await(ctx)
}

func (s *script) Document(ctx context.Context, topic events.Topic) (jobs.Document, error) {
	s.saw(topic)
	return s.document, s.await(ctx)
}

func (s *script) Attempts(ctx context.Context, topic events.Topic) (lifecycle.Ledger, error) {
	s.saw(topic)
	return s.ledger, s.await(ctx)
}

func (s *script) saw(topic events.Topic) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.topics = append(s.topics, topic)
}

// pipes is a listener on pairs of in-memory connections.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) dial() (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
