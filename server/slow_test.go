//go:build linux

package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// ended reads how many streams have ended for a reason.
func (h *testbed) ended(t *testing.T, why string) string {
	t.Helper()
	for line := range strings.Lines(string(h.doOps(t, "GET", "/metrics").body)) {
		if n, ok := strings.CutPrefix(line, `tidings_streams_ended_total{why="`+why+`"} `); ok {
			return strings.TrimSpace(n)
		}
	}
	return "0"
}

// stalled opens a stream on a connection of its own and never reads from it.
func stalled(t *testing.T, conn net.Conn) {
	t.Helper()
	t.Cleanup(func() { conn.Close() })
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: api\r\n\r\n", statusPath); err != nil {
		t.Fatal(err)
	}
}

func TestAReaderThatDoesNotReadIsCutAndNobodyWaitsForIt(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		conn, err := h.api.(*pipes).dial()
		if err != nil {
			t.Fatal(err)
		}
		stalled(t, conn) // a pipe holds nothing: its first bytes wait
		synctest.Wait()
		start := time.Now()
		r := h.open(t, statusPath)
		r.want(t, "idle")
		h.happen(t, summary(session), queued())
		r.want(t, "queued")
		for i := range 100 {
			h.happen(t, summary(session), processing(1, i))
			if m := r.want(t, "processing"); m.json(t)["call"] != float64(i) {
				t.Fatalf("event %d: %s", i, m.data)
			}
		}
		if !time.Now().Equal(start) {
			t.Errorf("the other reader waited %v", time.Since(start))
		}
		later(1999 * time.Millisecond)
		if got := h.ended(t, endSlow); got != "0" {
			t.Errorf("cut too early")
		}
		later(time.Millisecond)
		if got := h.ended(t, endSlow); got != "1" {
			t.Errorf("cut after 2 s: %s streams", got)
		}
	})
}

// The same over TCP, where the kernel holds some hundred kilobytes, both
// buffers bounded.
func TestTheSameOverTCP(t *testing.T) {
	h := newTCPTestbed(t, func(o *Options) { o.WriteTimeout = time.Second })
	small := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096) })
	}}
	conn, err := small.DialContext(t.Context(), "tcp", h.api.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	stalled(t, conn)
	r := h.open(t, statusPath)
	r.want(t, "idle")
	h.happen(t, summary(session), queued())
	r.want(t, "queued")
	h.happen(t, summary(session), processing(1, 1))
	r.want(t, "processing")
	sent := 0
	for deadline := time.Now().Add(20 * time.Second); h.ended(t, endSlow) == "0"; {
		if time.Now().After(deadline) {
			t.Fatalf("not cut after %d bytes", sent)
		}
		for i := range 50 {
			h.happen(t, summary(session), processing(1, i))
			if m := r.want(t, "processing"); m.json(t)["call"] != float64(i) {
				t.Fatalf("event %d: %s", i, m.data)
			}
			sent += 300
		}
	}
}

func TestHTTP2WithoutTLS(t *testing.T) {
	promises(t)
	synctest.Test(t, func(t *testing.T) {
		h := newTestbed(t, func(o *Options) { o.Heartbeat, o.H2C = 5*time.Second, true })
		var p http.Protocols
		p.SetUnencryptedHTTP2(true)
		h.client.Transport = &http.Transport{DialContext: dialer(h.api, h.ops), Protocols: &p, DisableCompression: true,
			HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10}}

		r := h.open(t, statusPath)
		r.want(t, "idle")
		later(40 * time.Second) // beyond every deadline of a write, 8 heartbeats
		h.happenAll(t, summary(session), queued(), processing(1, 1), completed(1))
		if got := r.all(t); len(got) != 3 {
			t.Errorf("got %q", got)
		}
		if n := strings.Count(r.raw.String(), ": alive\n"); n != 8 {
			t.Errorf("%d heartbeats, want 8", n)
		}
		if a := h.do(t, "GET", "/api/v1/locales", ""); a.status != 200 {
			t.Errorf("another request: %d", a.status)
		}

		// A stream whose window is full ends alone; the connection goes on.
		slow := h.open(t, statusPath+"?follow=true")
		defer slow.body.Close()
		for i := range 3_000 {
			id := fmt.Sprint("J", i)
			h.happenAll(t, summary(session), job(id, queued(), processing(1, 1), completed(1))...)
			if i%100 == 0 {
				synctest.Wait()
				if h.openNow() == 0 {
					break
				}
			}
			if i%500 == 499 {
				later(500 * time.Millisecond)
			}
		}
		later(3 * time.Second)
		if got := h.ended(t, endSlow); got != "1" {
			t.Errorf("slow readers cut: %s", got)
		}
		if a := h.do(t, "GET", "/api/v1/locales", ""); a.status != 200 {
			t.Errorf("another request: %d", a.status)
		}
	})
}

// A body that never comes must not hold a request for ever.
func TestASlowBodyIsRefused(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		body, feed := io.Pipe()
		defer feed.Close()
		go io.WriteString(feed, `{"input":`) // and no more
		r, err := http.NewRequestWithContext(t.Context(), "POST", "http://api"+documentPath, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		start := time.Now()
		resp, err := h.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != 400 || time.Since(start) != bodyTimeout {
			t.Errorf("%d after %v", resp.StatusCode, time.Since(start))
		}
	})
}

func TestAHeaderThatNeverEndsIsGivenUp(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		conn, err := h.api.(*pipes).dial()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nX: "); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := bufio.NewReader(conn).ReadString('\n'); err == nil || time.Since(start) > 2*headerTimeout {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

func TestAcceptedConnectionsFindVanishedPeers(t *testing.T) {
	api := &noting{Listener: listen(t), accepted: make(chan net.Conn, 1)}
	h := startTestbed(t, api, listen(t))
	h.do(t, "GET", "/api/v1/locales", "")
	raw, err := (<-api.accepted).(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		timeout, _ := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
		buffer, _ := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF)
		if timeout != 20_000 || buffer > 2*sendBuffer {
			t.Errorf("TCP user timeout %d ms, send buffer %d bytes", timeout, buffer)
		}
	}); err != nil {
		t.Fatal(err)
	}
}

// noting is a listener that shows what it has accepted.
type noting struct {
	net.Listener
	accepted chan net.Conn
}

func (n *noting) Accept() (net.Conn, error) {
	c, err := n.Listener.Accept()
	if err == nil {
		select {
		case n.accepted <- c:
		default:
		}
	}
	return c, err
}
