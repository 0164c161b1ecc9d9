package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/events/eventstest"
	"github.com/tidings/tidings/locales"
	"github.com/tidings/tidings/server"
)

// wires is a listener on pairs of connections in memory.
type wires struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

func newWires() *wires {
	w := &wires{conns: make(chan net.Conn), closed: make(chan struct{})}
	w.close = sync.OnceFunc(func() { close(w.closed) })
	return w
}

func (w *wires) Accept() (net.Conn, error) {
	select {
	case c := <-w.conns:
		return c, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

func (w *wires) Close() error { w.close(); return nil }

func (w *wires) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func (w *wires) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case w.conns <- there:
		return here, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

func (w *wires) transport(t *testing.T) *http.Transport {
	tr := &http.Transport{DialContext: w.dial, DisableCompression: true}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// probed makes a server that can be probed and nothing else.
func probed(t *testing.T, change ...func(*server.Options)) *server.Server {
	t.Helper()
	texts, err := locales.Load()
	if err != nil {
		t.Fatal(err)
	}
	o := server.Options{Hosts: []string{"tidings.test"},
		Jobs: struct{ server.Jobs }{}, Texts: texts,
		Hub: events.NewHub(eventstest.NewMemory(eventstest.MemoryOptions{}), events.HubOptions{}),
	}
	for _, f := range change {
		f(&o)
	}
	s, err := server.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// onWires serves it and returns its end of the wires.
func onWires(t *testing.T, s *server.Server) *wires {
	w, served := newWires(), make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	go func() { served <- s.Serve(ctx, w, nil) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return w
}

// front is a proxy as far as one fault of it goes.
type front struct {
	request  func(*http.Request)
	response func(*http.Response)
	// body writes on what comes. nil: piece by piece, at once.
	body func(w *flushing, from io.Reader)
	// instead answers alone.
	instead http.HandlerFunc
}

type flushing struct {
	http.ResponseWriter
	trip int64
}

func (f *flushing) Write(b []byte) (int, error) {
	n, err := f.ResponseWriter.Write(b)
	_ = http.NewResponseController(f.ResponseWriter).Flush()
	return n, err
}

// pieces hands over what comes as it comes.
func pieces(from io.Reader, do func([]byte)) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if n > 0 {
			do(b[:n])
		}
		if err != nil {
			return
		}
	}
}

func (f *front) handler(to http.RoundTripper) http.Handler {
	var trips atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		trip := trips.Add(1)
		if f.instead != nil {
			f.instead(w, r)
			return
		}
		out := r.Clone(r.Context())
		out.RequestURI, out.URL.Scheme, out.URL.Host = "", "http", "origin"
		out.Header.Add("X-Forwarded-For", "192.0.2.1")
		if f.request != nil {
			f.request(out)
		}
		res, err := to.RoundTrip(out)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer res.Body.Close()
		if f.response != nil {
			f.response(res)
		}
		for name, values := range res.Header {
			w.Header()[name] = values
		}
		body := f.body
		if body == nil {
			body = func(w *flushing, from io.Reader) { _, _ = io.Copy(w, from) }
		}
		body(&flushing{w, trip}, res.Body)
	})
}

// examined runs the doctor through the front and returns what it says.
func examined(t *testing.T, f *front, c doctorCommand, change ...func(*server.Options)) (int, string) {
	t.Helper()
	outside := newWires()
	hs := &http.Server{Handler: f.handler(onWires(t, probed(t, change...)).transport(t))}
	go func() { _ = hs.Serve(outside) }()
	t.Cleanup(func() { _ = hs.Close() })
	return doctored(t, outside, c)
}

func doctored(t *testing.T, w *wires, c doctorCommand) (int, string) {
	t.Helper()
	var out bytes.Buffer
	if c.URL == "" {
		c.URL = "http://tidings.test/"
	}
	d := newDoctor(c, &out)
	d.client.Transport = w.transport(t)
	code := d.run(t.Context())
	return code, out.String()
}
