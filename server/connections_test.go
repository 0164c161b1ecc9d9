package server

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

func TestAConnectionTooManyIsClosedAtOnceAndLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		inner := newPipes()
		l := &connections{Listener: inner, limit: 2, name: "api", log: slog.New(slog.NewTextHandler(&log, nil))}
		accepted := make(chan net.Conn, 3)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				accepted <- c
			}
		}()
		defer inner.Close()
		dial := func() net.Conn {
			c, err := inner.dial()
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return c
		}
		refused := func(c net.Conn) {
			t.Helper()
			if _, err := c.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("one too many: %v", err)
			}
		}
		dial()
		dial()
		refused(dial())
		refused(dial())
		if n := strings.Count(log.String(), "too many are open"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, &log)
		}
		first := <-accepted
		first.Close()
		first.Close() // gives one place back and not two
		dial()
		refused(dial())
		if len(accepted) != 2 {
			t.Errorf("%d of them accepted", len(accepted))
		}
	})
}

func TestTheLimitOfOpenFilesLeavesAReserve(t *testing.T) {
	for files, want := range map[int]int64{100: 50, 300: 150, 512: 256, 1024: 768, 1 << 20: 1<<20 - 256} {
		s := &Server{o: Options{Files: files}}
		if got := s.apiConnections(); got != want {
			t.Errorf("%d files: %d connections, want %d", files, got, want)
		}
	}
	var log bytes.Buffer
	newTCPTestbed(t, func(o *Options) {
		o.Files, o.StreamLimit, o.Logger = 1024, 5000, slog.New(slog.NewTextHandler(&log, nil))
	})
	if line := log.String(); !strings.Contains(line, "level=WARN") || !strings.Contains(line, "connections=768 stream_limit=5000") {
		t.Errorf("the log has %q", line)
	}
}

func TestAPanicOfAPageIsAWarning(t *testing.T) {
	var log bytes.Buffer
	h := newTCPTestbed(t, func(o *Options) {
		o.Queues = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("a fault of a page") })
		o.AdminPassword, o.Logger = password, slog.New(slog.NewTextHandler(&log, nil))
	})
	r := request(t, http.MethodGet, "http://ops/queues", "", login(password))
	if resp, err := h.client.Do(r); err == nil {
		resp.Body.Close()
		t.Errorf("answered with %d", resp.StatusCode)
	}
	h.stop()
	err := <-h.served
	h.served <- err
	if line := log.String(); !strings.Contains(line, "level=WARN") || !strings.Contains(line, "a fault of a page") {
		t.Errorf("the log has %q", line)
	}
}
