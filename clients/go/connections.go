package tidings

import (
	"net/http"
	"sync"
	"time"
)

// connections is the HTTP client, and what replaces it when its connections cannot be
// trusted. Over HTTP/2 all requests share one connection: without a replacement a new
// stream would begin on the very connection the last one has died on.
type connections struct {
	mu     sync.Mutex
	client *http.Client
}

func (c *connections) newest() *http.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.client
}

// renew makes later requests go out on new connections, unless that has happened since
// used was the newest client. What still runs on the old ones goes on.
func (c *connections) renew(used *http.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if used != c.client {
		return
	}
	transport := used.Transport
	if transport == nil {
		transport = http.DefaultTransport
	}
	if t, ok := transport.(*http.Transport); ok {
		fresh := *used
		fresh.Transport = t.Clone()
		c.client = &fresh
	}
	used.CloseIdleConnections()
}

// newTransport is the default transport with an ear for dead HTTP/2 connections.
func newTransport() http.RoundTripper {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport // the program has its own
	}
	t = t.Clone()
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second}
	return t
}
