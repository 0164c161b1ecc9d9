package main

import (
	"context"
	"net"
	"sync/atomic"
)

// holes are connections that can lose everything, in both directions, without an end:
// what a phone meets that changes from one network to another.
type holes struct{ net.Listener }

func (h holes) Accept() (net.Conn, error) {
	conn, err := h.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &holeConn{Conn: conn}, nil
}

type holeConn struct {
	net.Conn
	dug atomic.Bool
}

func (c *holeConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.dug.Load() {
			return n, err
		}
	}
}

func (c *holeConn) Write(b []byte) (int, error) {
	if c.dug.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// Close leaves a hole open: its end would be heard.
func (c *holeConn) Close() error {
	if c.dug.Load() {
		return nil
	}
	return c.Conn.Close()
}

type connKey struct{}

func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// dig makes a hole of the connection of a request.
func dig(ctx context.Context) {
	if conn, ok := ctx.Value(connKey{}).(*holeConn); ok {
		conn.dug.Store(true)
	}
}
