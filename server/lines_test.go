//go:build linux

package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/sys/unix"
)

// These tests run over both lines, on real sockets: parked, which is HTTP/1.1 on
// TCP, and served, which HTTP/2 is. They wait for what happens and assert no
// length of time; that is for the tests in virtual time.

func overBothLines(t *testing.T, test func(t *testing.T, h *testbed), change ...func(*Options)) {
	for name, http2 := range map[string]bool{"parked": false, "served": true} {
		t.Run(name, func(t *testing.T) {
			h := newTCPTestbed(t, append(change, func(o *Options) { o.H2C = http2 })...)
			if http2 {
				var p http.Protocols
				p.SetUnencryptedHTTP2(true)
				h.client.Transport = &http.Transport{DialContext: dialer(h.api, h.ops), Protocols: &p, DisableCompression: true}
			}
			test(t, h)
			h.parking.begin.Do(func() { h.parking.broken = errors.New("no stream came") }) // and waits if one does
			if taken := len(h.parking.writers) > 0; taken == http2 {
				t.Errorf("connections were taken over: %v", taken)
			}
		})
	}
}

// until waits for something to become true.
func until(t *testing.T, what string, met func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for !met() {
		select {
		case <-deadline:
			t.Fatalf("not met: %s", what)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func TestLinesSendTheSameBytes(t *testing.T) {
	var sent []string
	overBothLines(t, func(t *testing.T, h *testbed) {
		r := h.open(t, statusPath, "Accept-Language: nb")
		r.want(t, "idle")
		h.happenAll(t, summary(session), queued())
		r.want(t, "queued")
		h.happenAll(t, summary(session), processing(1, 1), retryingCall(1, 1, time.Minute), processing(1, 2), failed(true))
		if got := r.all(t); !slices.Equal(got, []string{"processing", "retrying", "processing", "error"}) {
			t.Errorf("got %q", got)
		}
		for name, want := range map[string]string{
			"Content-Type": "text/event-stream", "Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no",
			"X-Content-Type-Options": "nosniff", "Content-Language": "nb", "Vary": "Accept-Language", "Content-Length": "",
		} {
			if got := r.header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if r.header.Get("Date") == "" || r.header.Get("X-Request-Id") == "" {
			t.Errorf("headers: %v", r.header)
		}
		moving := regexp.MustCompile(`\d{13}|"\d{4}-[^"]*Z"|"retry_in_ms":\d+|\d+ ?s `)
		sent = append(sent, moving.ReplaceAllString(r.raw.String(), "<moves>"))
	})
	if len(sent) != 2 || sent[0] != sent[1] || !strings.HasPrefix(sent[0], "retry: 2000\nevent: idle\ndata: {") {
		t.Errorf("one line sends\n%s\nthe other\n%s", sent[0], sent[1])
	}
}

func TestLinesResumeFillGapsAndFollowMany(t *testing.T) {
	overBothLines(t, func(t *testing.T, h *testbed) {
		first := h.happenAll(t, summary(session), job("J1", queued())...)
		h.happenAll(t, summary(session), job("J1", processing(1, 1), failed(true))...)
		h.happenAll(t, summary(session), job("J2", queued(), processing(1, 1))...)
		r := h.open(t, statusPath, "Last-Event-ID: "+seqOf(first))
		for _, want := range []string{"processing", "error", "queued", "processing"} {
			r.want(t, want)
		}
		h.log.Disconnect() // the next copies are found in the log
		end := h.happenAll(t, summary(session), job("J2", retryingQueue(1, time.Second), processing(2, 1), completed(1))...)
		if got := r.all(t); !slices.Equal(got, []string{"retrying", "processing", "completed"}) {
			t.Errorf("then %q", got)
		}
		if a := h.do(t, "GET", statusPath, "", "Last-Event-ID: "+seqOf(end)); a.status != 204 {
			t.Errorf("with the end's id: %d", a.status)
		}
		if m := h.open(t, statusPath+"?follow=true", "Last-Event-ID: nonsense").want(t, "completed"); m.json(t)["reset"] != true {
			t.Errorf("not marked as reset: %s", m.data)
		}
		many := h.open(t, manyPath)
		for range 3 {
			many.want(t, "idle")
		}
		for i := range 40 { // more than a subscription holds
			h.happenAll(t, summary("a"), job(fmt.Sprint("K", i), queued(), processing(1, 1), completed(1))...)
		}
		for i := range 40 {
			for _, want := range []string{"queued", "processing", "completed"} {
				if m := many.want(t, want); m.json(t)["job_id"] != fmt.Sprint("K", i) {
					t.Fatalf("got %s, want K%d", m.data, i)
				}
			}
		}
	})
}

func TestLinesEndWithTheTokenAtTheMaximumAgeAndByACut(t *testing.T) {
	overBothLines(t, func(t *testing.T, h *testbed) {
		tok := token(t, jwt.SigningMethodHS256, secret(), jwt.MapClaims{"sub": "anna", "exp": in(2 * time.Second)})
		r := h.open(t, statusPath, "Authorization: Bearer "+tok)
		if got := r.all(t); !slices.Equal(got, []string{"idle"}) || !strings.HasSuffix(r.raw.String(), ": token_expired\n") {
			t.Errorf("%q, at last %q", got, r.raw.String())
		}
		until(t, "counted as expired", func() bool { return h.ended(t, endExpired) == "1" })
	}, withJWT(JWT{Secret: secret()}))
	overBothLines(t, func(t *testing.T, h *testbed) {
		r := h.open(t, statusPath)
		if got := r.all(t); !slices.Equal(got, []string{"idle"}) || !strings.HasSuffix(r.raw.String(), ": max_age\n") {
			t.Errorf("%q, at last %q", got, r.raw.String())
		}
	}, func(o *Options) { o.MaxAge = 200 * time.Millisecond })
	overBothLines(t, func(t *testing.T, h *testbed) {
		r := h.open(t, statusPath)
		r.want(t, "idle")
		if n := h.streams.cut(summary(session)); n != 1 {
			t.Fatalf("%d streams were cut", n)
		}
		if m := r.next(); m.err == nil || errors.Is(m.err, io.EOF) {
			t.Errorf("a cut looks like a clean end: %v", m.err)
		}
		until(t, "counted as cut", func() bool { return h.ended(t, endCut) == "1" })
	})
}

func TestLinesBreakASilenceAndSayNothingBesides(t *testing.T) {
	overBothLines(t, func(t *testing.T, h *testbed) {
		r := h.open(t, statusPath)
		r.want(t, "idle")
		for range 3 {
			if line, err := r.lines.ReadString('\n'); line != ": alive\n" {
				t.Fatalf("%q, %v", line, err)
			}
		}
		h.happen(t, summary(session), queued())
		r.want(t, "queued")
	}, func(o *Options) { o.Heartbeat = 20 * time.Millisecond })
}

func TestLinesAreDrainedEachWithItsOwnRetry(t *testing.T) {
	overBothLines(t, func(t *testing.T, h *testbed) {
		const n = 20
		retries := make(chan string, n)
		for range n {
			r := h.open(t, statusPath)
			r.want(t, "idle")
			go func() {
				if m := r.next(); m.err != io.EOF || !strings.Contains(r.raw.String(), ": draining\nretry: ") {
					t.Errorf("ended with %v, at last %q", m.err, r.raw.String())
				}
				retries <- r.retry
			}()
		}
		h.stop()
		different := map[string]bool{}
		for range n {
			different[<-retries] = true
		}
		if len(different) < n/2 {
			t.Errorf("%d different retries for %d streams", len(different), n)
		}
		if err := <-h.served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		h.served <- nil
		if left := h.openNow(); left != 0 {
			t.Errorf("%d streams are registered", left)
		}
	}, func(o *Options) { o.Drain = 50 * time.Millisecond })
}

func TestLinesLeaveNothingBehind(t *testing.T) {
	var logged lockedBuffer
	overBothLines(t, func(t *testing.T, h *testbed) {
		const n = 300
		for i := range n {
			id := fmt.Sprint("s", i%50)
			path := strings.ReplaceAll(statusPath, session, id)
			switch i % 3 {
			case 0: // the client goes
				r := h.open(t, path+"?follow=true")
				r.next()
				r.body.Close()
			case 1: // the job ends
				h.happenAll(t, summary(id), job(fmt.Sprint("J", i), queued(), processing(1, 1), completed(1))...)
				h.open(t, path).all(t)
			default: // the client goes before it has read anything
				h.open(t, path+"?follow=true").body.Close()
			}
		}
		until(t, "nothing is registered", func() bool { return h.openNow() == 0 })
		until(t, "nothing is watched", func() bool { return h.hub.Watching() == 0 })
		until(t, "all are counted", func() bool { return h.ended(t, endGone) == "200" && h.ended(t, endTerminal) == "100" })
		for _, w := range h.parking.writers {
			w.mu.Lock()
			if w.open != 0 {
				t.Errorf("a writer has %d connections", w.open)
			}
			w.mu.Unlock()
		}
		if p := h.parking.peers; p != nil {
			p.mu.Lock()
			for fd, c := range p.byFD {
				if c != nil {
					t.Errorf("descriptor %d is still known", fd)
				}
			}
			p.mu.Unlock()
		}
	}, func(o *Options) { o.Logger = slog.New(slog.NewJSONHandler(&logged, nil)) })
	if n := strings.Count(logged.String(), `"end":"terminal","events":1`); n != 200 {
		t.Errorf("%d log lines of ended streams, want 200", n)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestLinesKeepAFaultToItsStream(t *testing.T) {
	overBothLines(t, func(t *testing.T, h *testbed) {
		r, other := h.open(t, statusPath), h.open(t, strings.ReplaceAll(statusPath, session, "other"))
		r.want(t, "idle")
		other.want(t, "idle")
		h.happenAll(t, summary(session), queued(), processing(1, 1))
		r.want(t, "queued")
		r.want(t, "processing")
		texts := h.render.texts
		h.render.texts = nil // what a retrying event needs
		h.happen(t, summary(session), retryingQueue(1, time.Second))
		if m := r.next(); m.err == nil {
			t.Errorf("got %+v", m)
		}
		until(t, "counted as a fault", func() bool { return h.ended(t, endFault) == "1" })
		h.render.texts = texts
		h.happen(t, summary("other"), queued())
		other.want(t, "queued")
	})
}

// What a stalled reader leaves untaken is bounded, it is cut, and nobody waits
// for it. It gets what was written before, and resumes.
func TestAParkedReaderThatStallsIsCutAndResumes(t *testing.T) {
	h := newTCPTestbed(t, func(o *Options) { o.WriteTimeout = 500 * time.Millisecond })
	small := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096) })
	}}
	conn, err := small.DialContext(t.Context(), "tcp", h.api.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	stalled(t, conn)
	until(t, "it is open", func() bool { return h.openNow() == 1 })
	r := h.open(t, statusPath)
	r.want(t, "idle")
	h.happen(t, summary(session), queued())
	r.want(t, "queued")
	for sent := 0; h.ended(t, endSlow) == "0"; sent++ {
		if sent > 20_000 {
			t.Fatal("never cut")
		}
		for i := range 20 {
			h.happen(t, summary(session), processing(1, i))
			if m := r.want(t, "processing"); m.json(t)["call"] != float64(i) {
				t.Fatalf("got %s, want call %d", m.data, i)
			}
		}
	}
	if n := h.openNow(); n != 1 {
		t.Errorf("%d streams are registered, want the healthy one", n)
	}
	had := newReader(conn) // raw bytes, so without the chunks' lines
	var last message
	for m := had.next(); m.err == nil; m = had.next() {
		last = m
	}
	if last.id == "" {
		t.Fatal("it got nothing of what was written before")
	}
	again := h.open(t, statusPath, "Last-Event-ID: "+last.id)
	again.want(t, "processing")
}
