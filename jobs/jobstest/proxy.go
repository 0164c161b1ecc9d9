package jobstest

import (
	"bytes"
	"net"
	"sync"
	"testing"
)

// Proxy stands between a client and a server that answers one request after
// another on each connection, as Redis does, and loses answers on demand: the
// server has carried the request out, and the client never hears of it.
type Proxy struct {
	// Addr is where clients connect.
	Addr string

	target   string
	listener net.Listener
	done     sync.WaitGroup
	mu       sync.Mutex
	closed   bool
	open     map[net.Conn]bool
	lose     []loss
}

type loss struct {
	marks [][]byte
	left  int
	lost  int
}

// NewProxy starts a proxy in front of a server; it ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("jobstest: %v", err)
	}
	p := &Proxy{Addr: l.Addr().String(), target: target, listener: l, open: map[net.Conn]bool{}}
	p.done.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Lose drops the answers to the next n requests that contain all the marks,
// each with its connection.
func (p *Proxy) Lose(n int, marks ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := loss{left: n}
	for _, m := range marks {
		l.marks = append(l.marks, []byte(m))
	}
	p.lose = append(p.lose, l)
}

// Lost is how many answers have been dropped.
func (p *Proxy) Lost() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lose {
		n += l.lost
	}
	return n
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil || !p.keep(client, server) {
			_ = client.Close()
			continue
		}
		c := &connection{proxy: p, client: client, server: server}
		p.done.Go(c.requests)
		p.done.Go(c.answers)
	}
}

func (p *Proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.closed {
			_ = c.Close()
			continue
		}
		p.open[c] = true
	}
	return !p.closed
}

func (p *Proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for c := range p.open {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.done.Wait()
}

// loses tells whether the answer to a request is one to lose, and counts it.
func (p *Proxy) loses(request []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.lose {
		l := &p.lose[i]
		if l.left > 0 && containsAll(request, l.marks) {
			l.left--
			l.lost++
			return true
		}
	}
	return false
}

func containsAll(b []byte, marks [][]byte) bool {
	for _, m := range marks {
		if !bytes.Contains(b, m) {
			return false
		}
	}
	return true
}

// connection is one client's.
type connection struct {
	proxy          *Proxy
	client, server net.Conn
	mu             sync.Mutex
	request        []byte // since the last answer
	drop           bool   // the next answer
}

func (c *connection) end() {
	_, _ = c.client.Close(), c.server.Close()
	c.proxy.mu.Lock()
	defer c.proxy.mu.Unlock()
	delete(c.proxy.open, c.client)
	delete(c.proxy.open, c.server)
}

func (c *connection) requests() {
	defer c.end()
	buf := make([]byte, 64<<10)
	for {
		n, err := c.client.Read(buf)
		if err != nil {
			return
		}
		c.mu.Lock()
		c.request = append(c.request, buf[:n]...)
		c.drop = c.drop || c.proxy.loses(c.request)
		c.mu.Unlock()
		if _, err := c.server.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (c *connection) answers() {
	defer c.end()
	buf := make([]byte, 64<<10)
	for {
		n, err := c.server.Read(buf)
		if err != nil {
			return
		}
		c.mu.Lock()
		drop := c.drop
		c.request = c.request[:0]
		c.mu.Unlock()
		if drop {
			return
		}
		if _, err := c.client.Write(buf[:n]); err != nil {
			return
		}
	}
}
