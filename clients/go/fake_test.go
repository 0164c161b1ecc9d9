//go:build go1.25

package tidings_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tidings "github.com/tidings/tidings/clients/go"
)

// fakeServer is a server without a network: the test takes each request from it and
// answers as it likes, in virtual time.
type fakeServer struct{ requests chan *fakeRequest }

type fakeRequest struct {
	*http.Request
	body   string
	answer chan *http.Response
}

func newFakeServer() *fakeServer { return &fakeServer{requests: make(chan *fakeRequest)} }

// RoundTrip hands the request to the test and waits for its answer.
func (f *fakeServer) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	r := &fakeRequest{Request: req, body: string(body), answer: make(chan *http.Response, 1)}
	select {
	case f.requests <- r:
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	select {
	case resp := <-r.answer:
		resp.Request = req
		return resp, nil
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
}

// next is the next request; the test fails when none comes within an hour.
func (f *fakeServer) next(t *testing.T) *fakeRequest {
	t.Helper()
	select {
	case r := <-f.requests:
		return r
	case <-time.After(time.Hour):
		t.Fatal("no request came")
		return nil
	}
}

// quiet fails the test when a request comes within d.
func (f *fakeServer) quiet(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case r := <-f.requests:
		t.Fatalf("unexpected request %s %s", r.Method, r.URL)
	case <-time.After(d):
	}
}

// reply answers with a whole body.
func (r *fakeRequest) reply(status int, body string, header ...string) {
	h := http.Header{"Content-Type": {"application/json"}}
	if status >= 400 {
		h.Set("Content-Type", "application/problem+json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	r.answer <- &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}
}

// fakeStream is the body of a stream that is being written.
type fakeStream struct {
	t *testing.T
	w *io.PipeWriter
}

// stream begins an event stream that breaks when the client drops it.
func (r *fakeRequest) stream(t *testing.T) *fakeStream {
	s, _ := r.deafStream(t)
	context.AfterFunc(r.Context(), func() { _ = s.w.CloseWithError(r.Context().Err()) })
	return s
}

// deafStream begins a stream that does not notice when the client drops it, as a
// body does whose bytes have already arrived.
func (r *fakeRequest) deafStream(t *testing.T) (*fakeStream, io.Closer) {
	pr, pw := io.Pipe()
	r.answer <- &http.Response{
		StatusCode: http.StatusOK,
		Header:     http.Header{"Content-Type": {"text/event-stream"}},
		Body:       io.NopCloser(pr),
	}
	return &fakeStream{t, pw}, pw
}

// send writes to the stream and waits until the client has dealt with it.
func (s *fakeStream) send(text string) {
	s.t.Helper()
	if _, err := io.WriteString(s.w, text); err != nil {
		s.t.Fatalf("the client no longer reads: %v", err)
	}
	synctest.Wait()
}

func (s *fakeStream) event(name, data string) {
	s.t.Helper()
	s.send("event: " + name + "\ndata: " + data + "\n\n")
}

func (s *fakeStream) end() { _ = s.w.Close() }

func (s *fakeStream) breakOff() { _ = s.w.CloseWithError(io.ErrUnexpectedEOF) }

// pass lets virtual time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// open starts a session against a fake server, in a bubble.
func open(t *testing.T, options ...tidings.Option) (*tidings.Session, *fakeServer) {
	t.Helper()
	client, f := newClient(t, options...)
	s := client.Open(t.Context(), "abc-123")
	t.Cleanup(s.Close)
	return s, f
}

func newClient(t *testing.T, options ...tidings.Option) (*tidings.Client, *fakeServer) {
	t.Helper()
	f := newFakeServer()
	client, err := tidings.NewClient("https://api.test", append([]tidings.Option{
		tidings.WithHTTPClient(&http.Client{Transport: f}),
	}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	return client, f
}
