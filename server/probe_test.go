package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const probePath = "/api/v1/probe"

// probed is a probe's event as the test reads it.
type probed struct {
	N          int
	Of         int
	SentMS     int64     `json:"sent_ms"`
	ServerTime time.Time `json:"server_time"`
	PaceMS     int64     `json:"pace_ms"`
	Received   map[string]any
	Headers    map[string]string
}

func (r *reader) wantProbe(t *testing.T) probed {
	t.Helper()
	var p probed
	if err := json.Unmarshal([]byte(r.want(t, "probe").data), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAProbeSaysWhenEachEventWasSent(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		start := time.Now()
		r := h.open(t, probePath+"?events=4&pace_ms=700")
		for n := 1; n <= 4; n++ {
			p := r.wantProbe(t)
			want := time.Duration(n-1) * 700 * time.Millisecond
			if p.N != n || p.Of != 4 || r.lastID != fmt.Sprint(n) || p.SentMS != want.Milliseconds() {
				t.Errorf("event %d: %+v, id %q", n, p, r.lastID)
			}
			if got := time.Since(start); got != want || !p.ServerTime.Equal(start.Add(want)) {
				t.Errorf("event %d came after %v, sent at %v; want %v", n, got, p.ServerTime, want)
			}
			if (p.PaceMS == 700) != (n == 1) {
				t.Errorf("event %d: pace %d", n, p.PaceMS)
			}
		}
		if m := r.next(); !errors.Is(m.err, io.EOF) {
			t.Errorf("after the last one: %+v", m)
		}
	})
}

func TestAProbeSaysWhatArrivedAndWhatWasSent(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		r := h.open(t, probePath, "Last-Event-ID: 41", "Accept-Encoding: gzip", "Authorization: Bearer very-secret",
			"X-Forwarded-For: 192.0.2.1, 192.0.2.2", "X-Forwarded-For: 192.0.2.3", "X-Forwarded-Proto: https")
		p := r.wantProbe(t)
		want := map[string]any{"protocol": "HTTP/1.1", "last_event_id": "41", "accept_encoding": "gzip", "authorization": true, "hops": 3.0, "scheme": "https"}
		if fmt.Sprint(p.Received) != fmt.Sprint(want) {
			t.Errorf("received %v, want %v", p.Received, want)
		}
		for name, value := range p.Headers {
			if got := strings.Join(r.header.Values(name), ", "); got != value {
				t.Errorf("it says it sent %s: %s, but %q came", name, value, got)
			}
		}
		for _, name := range []string{"Content-Type", "Cache-Control", "X-Accel-Buffering", "X-Request-Id"} {
			if p.Headers[name] == "" {
				t.Errorf("it does not say what it sent as %s", name)
			}
		}
		r.all(t)
		if text := r.raw.String(); strings.Contains(text, "secret") || strings.Contains(text, "192.0.2") {
			t.Errorf("it tells a token or an address:\n%s", text)
		}

		bare := h.open(t, probePath, "Last-Event-ID: "+strings.Repeat("7", 5000)).wantProbe(t)
		if id := bare.Received["last_event_id"].(string); len(id) != maxEchoed || bare.Received["authorization"] != false || bare.Received["hops"] != 0.0 {
			t.Errorf("received %v", bare.Received)
		}
	})
}

func TestAProbeCanBeQuietButForComments(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		r := h.open(t, probePath+"?events=2&pace_ms=50&quiet_s=70")
		r.wantProbe(t)
		r.wantProbe(t)
		start := time.Now()
		if p := r.wantProbe(t); p.N != 3 || p.Of != 3 || time.Since(start) != 70*time.Second {
			t.Errorf("after %v: %+v", time.Since(start), p)
		}
		if n := strings.Count(r.raw.String(), ": "+heartbeat+"\n"); n != 4 { // at 15, 30, 45 and 60 s
			t.Errorf("%d comments in\n%s", n, r.raw.String())
		}
	})
}

func TestAProbeNeedsNoTokenAndNoStorage(t *testing.T) {
	auth := func(*http.Request) (Identity, error) { return Identity{}, errors.New("no token") }
	inTestbed(t, func(t *testing.T, h *testbed) {
		h.o.Hub = nil // whoever asks it for anything panics
		if a := h.do(t, "GET", statusPath, ""); a.status != 401 {
			t.Fatalf("the status: %d", a.status)
		}
		if got := h.open(t, probePath).all(t); len(got) != probeEvents {
			t.Errorf("%d events", len(got))
		}
		if len(h.jobs.topics)+len(h.jobs.submits) > 0 {
			t.Error("the jobs were asked")
		}
		if a := h.do(t, "HEAD", probePath, ""); a.status != 200 || a.header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("HEAD: %d %v", a.status, a.header)
		}
	}, func(o *Options) { o.Auth = auth })
}

func TestAProbeIsBounded(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		for _, query := range []string{"events=1", "events=21", "events=x", "pace_ms=49", "pace_ms=2001", "quiet_s=-1", "quiet_s=301", "quiet_s=1e2"} {
			if a := h.do(t, "GET", probePath+"?"+query, ""); a.status != 400 || !slices.Contains([]any{"events", "pace_ms", "quiet_s"}, a.json(t)["field"]) {
				t.Errorf("%s: %d %s", query, a.status, a.body)
			}
		}
		var open []*reader
		for range maxProbes {
			open = append(open, h.open(t, probePath+"?quiet_s=300"))
		}
		if a := h.do(t, "GET", probePath, ""); a.status != 429 || a.json(t)["code"] != codeTooManyStreams || a.header.Get("Retry-After") == "" {
			t.Errorf("one too many: %d %s", a.status, a.body)
		}
		open[0].body.Close()
		synctest.Wait()
		h.open(t, probePath).all(t) // its place is free again
		begun := maxProbes + 1
		for ; h.do(t, "GET", probePath+"?events=2&pace_ms=50", "").status == 200; begun++ {
			if begun > 2*probeBurst {
				t.Fatal("they may begin as often as one likes")
			}
		}
		if begun < probeBurst {
			t.Errorf("after %d: 429", begun)
		}
		later(probeEvery)
		if a := h.do(t, "GET", probePath+"?events=2&pace_ms=50", ""); a.status != 200 {
			t.Errorf("after a while: %d %s", a.status, a.body)
		}
	})
}

func TestAProbeEndsWithTheProcess(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		r := h.open(t, probePath+"?quiet_s=300&events=2&pace_ms=50")
		r.wantProbe(t) // what nobody takes is not sent, and a stream like that ends otherwise
		r.wantProbe(t)
		h.stop()
		if got := r.all(t); len(got) != 0 || !strings.Contains(r.raw.String(), ": "+endDrain+"\n") {
			t.Errorf("%q\n%s", got, r.raw.String())
		}
	})
}
