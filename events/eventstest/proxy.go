package eventstest

import (
	"bytes"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy stands between a client and a server and makes the network bad: it cuts
// connections, swallows what they carry, holds answers back, or takes no new
// ones. It ends with the test.
type Proxy struct {
	// Addr is where to connect to instead.
	Addr string

	target   string
	listener net.Listener
	running  sync.WaitGroup

	mu    sync.Mutex
	links map[*link]struct{}
	shut  bool
	match []byte
	delay time.Duration
}

// link is one connection through the proxy.
type link struct {
	client, server net.Conn
	swallow        bool // guarded by Proxy.mu
}

// StartProxy starts a proxy in front of target, host:port.
func StartProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("eventstest: %v", err)
	}
	p := &Proxy{Addr: l.Addr().String(), target: target, listener: l, links: make(map[*link]struct{})}
	p.running.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.Shut()
		p.running.Wait()
	})
	return p
}

// Cut closes every connection.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.close()
	}
}

// Shut cuts every connection and closes new ones at once, until Open.
func (p *Proxy) Shut() {
	p.mu.Lock()
	p.shut = true
	p.mu.Unlock()
	p.Cut()
}

// Open ends Shut.
func (p *Proxy) Open() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut = false
}

// Swallow lets the connections that are open now stay open and carry nothing
// any more, as after a peer has vanished. New ones work.
func (p *Proxy) Swallow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.swallow = true
	}
}

// Delay holds back what the server sends in one piece when it contains match.
func (p *Proxy) Delay(match string, by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.match, p.delay = []byte(match), by
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		l := &link{client: client, server: server}
		p.mu.Lock()
		if p.shut {
			l.close()
			p.mu.Unlock()
			continue
		}
		p.links[l] = struct{}{}
		p.mu.Unlock()
		p.running.Go(func() { p.pipe(l, server, client, false) })
		p.running.Go(func() { p.pipe(l, client, server, true) })
	}
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}

func (p *Proxy) pipe(l *link, to, from net.Conn, answers bool) {
	defer func() {
		l.close()
		p.mu.Lock()
		delete(p.links, l)
		p.mu.Unlock()
	}()
	for buf := make([]byte, 64<<10); ; {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		swallow, wait := l.swallow, time.Duration(0)
		if answers && p.delay > 0 && bytes.Contains(buf[:n], p.match) {
			wait = p.delay
		}
		p.mu.Unlock()
		if swallow {
			continue
		}
		time.Sleep(wait)
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
