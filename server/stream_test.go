package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tidings/tidings/events"
)

// job gives transitions the id of one job.
func job(id string, all ...events.Transition) []events.Transition {
	for i := range all {
		all[i].JobID = id
	}
	return all
}

func TestAClientThatHasSeenTheEndIsTold204(t *testing.T) {
	for _, end := range []events.Transition{completed(1), failed(true)} {
		inTestbed(t, func(t *testing.T, h *testbed) {
			topic := summary(session)
			start := h.happenAll(t, topic, job("J1", queued(), processing(1, 1))...)
			last := h.happenAll(t, topic, job("J1", end)...)
			cursor := "Last-Event-ID: " + seqOf(last)

			for _, method := range []string{"GET", "HEAD"} {
				if a := h.do(t, method, statusPath, "", cursor); a.status != 204 || len(a.body) != 0 {
					t.Errorf("%s with the end's id: %d %q", method, a.status, a.body)
				}
			}
			if a := h.do(t, "GET", statusPath+"?last_event_id="+seqOf(last), ""); a.status != 204 {
				t.Errorf("as a query: %d", a.status)
			}
			if got := h.open(t, statusPath).all(t); !slices.Equal(got, []string{string(end.Status)}) {
				t.Errorf("without a cursor: %q", got)
			}
			if got := h.open(t, statusPath, "Last-Event-ID: "+seqOf(start)).all(t); !slices.Equal(got, []string{string(end.Status)}) {
				t.Errorf("with an older cursor: %q", got)
			}

			follower := h.open(t, statusPath+"?follow=true", cursor)
			if follower.status != 200 {
				t.Fatalf("follow: %d", follower.status)
			}
			h.happenAll(t, topic, job("J2", queued())...)
			follower.want(t, "queued")
			if got := h.open(t, statusPath, cursor); got.status != 200 || got.want(t, "queued").json(t)["job_id"] != "J2" {
				t.Errorf("with something newer: %d", got.status)
			}
		})
	}
}

func TestFollowGoesOnOverTerminalEvents(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		r := h.open(t, statusPath+"?follow=1")
		r.want(t, "idle")
		for _, id := range []string{"J1", "J2"} {
			h.happenAll(t, summary(session), job(id, queued(), processing(1, 1), failed(true))...)
			for _, want := range []string{"queued", "processing", "error"} {
				if m := r.want(t, want); m.json(t)["job_id"] != id {
					t.Errorf("%s of %v, want %s", want, m.json(t)["job_id"], id)
				}
			}
		}
	})
}

// A manual retry while a client was away: its stream must not end at the old
// job's error, which is not how things stand.
func TestAReplayGoesOnOverAnEndedJobToTheNewerOne(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		first := h.happenAll(t, summary(session), job("J1", queued())...)
		h.happenAll(t, summary(session), job("J1", processing(1, 1), failed(true))...)
		h.happenAll(t, summary(session), job("J2", queued(), processing(1, 1))...)
		r := h.open(t, statusPath, "Last-Event-ID: "+seqOf(first))
		for _, want := range []string{"processing", "error", "queued", "processing"} {
			r.want(t, want)
		}
		h.happenAll(t, summary(session), job("J2", completed(1))...)
		if got := r.all(t); !slices.Equal(got, []string{"completed"}) {
			t.Errorf("then %q", got)
		}
	})
}

func TestEveryTransitionArrivesAtOnceInOrder(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		r := h.open(t, statusPath)
		r.want(t, "idle")
		before := events.Idle
		tr := queued()
		for i := range 200 {
			stored := h.happen(t, summary(session), tr)
			m := r.want(t, string(tr.Status)) // no time has passed in between
			if m.id != seqOf(stored) || !time.Now().Equal(stored.At.Local()) && time.Since(stored.At) > 0 {
				t.Fatalf("event %d: id %s, want %s; %v later", i, m.id, seqOf(stored), time.Since(stored.At))
			}
			if !events.May(before, tr.Status, before != events.Idle) {
				t.Fatalf("%s after %s", tr.Status, before)
			}
			before = tr.Status
			switch tr.Status {
			case events.Queued:
				tr = processing(i, 1)
			case events.Processing:
				tr = retryingQueue(i, time.Second)
			default:
				tr = queued()
			}
		}
	})
}

func TestAStreamOutlivesTheServersWriteTimeout(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		r := h.open(t, statusPath)
		r.want(t, "idle")
		later(answerTimeout + 10*time.Second)
		h.happen(t, summary(session), queued())
		r.want(t, "queued")
	}, func(o *Options) { o.Heartbeat = time.Hour })
}

func TestAStreamIsNeverCompressed(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		for _, encoding := range []string{"gzip", "br, gzip, zstd", "*"} {
			r := h.open(t, statusPath, "Accept-Encoding: "+encoding)
			r.want(t, "idle")
			if got := r.header.Get("Content-Encoding"); got != "" {
				t.Errorf("%s: Content-Encoding %q", encoding, got)
			}
			if !strings.HasPrefix(r.raw.String(), "retry: 2000\nevent: idle\n") {
				t.Errorf("%s: %q", encoding, r.raw.String()[:20])
			}
		}
	})
}

func TestHeadersAgainstProxiesThatHoldBack(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		h.happen(t, summary(session), queued())
		r := h.open(t, statusPath)
		for name, want := range map[string]string{
			"Content-Type": "text/event-stream", "Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no",
			"X-Content-Type-Options": "nosniff", "Content-Language": "en", "Vary": "Accept-Language", "Connection": "", "Content-Length": "",
		} {
			if got := r.header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		// What there is to send is there before anything else happens.
		r.want(t, "queued")
		if !strings.HasPrefix(r.raw.String(), "retry: 2000\nid: ") {
			t.Errorf("the first bytes are %.30q", r.raw.String())
		}
	})
}

func TestURLSessionIsSentThe512BytesThatItHoldsBack(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		for agent, padded := range map[string]bool{
			"Notes/7 CFNetwork/1568.200.51 Darwin/24.1.0": true,
			"Mozilla/5.0 (X11; Linux x86_64)":             false,
		} {
			r := h.open(t, statusPath, "User-Agent: "+agent)
			r.want(t, "idle")
			first, _, _ := strings.Cut(r.raw.String(), "event: ")
			if (len(first) == 512) != padded || !padded && first != "retry: 2000\n" {
				t.Errorf("%s: %d bytes before the first event", agent, len(first))
			}
		}
	})
}

func TestAStreamIsClosedAtItsMaximumAgeSpread(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		const n = 50
		start := time.Now()
		ages := make(chan time.Duration, n)
		for range n {
			r := h.open(t, statusPath)
			go func() {
				if got := r.all(t); !slices.Equal(got, []string{"idle"}) || !strings.HasSuffix(r.raw.String(), ": max_age\n") {
					t.Errorf("%q", got)
				}
				ages <- time.Since(start)
			}()
		}
		different := map[time.Duration]bool{}
		for range n {
			age := <-ages
			if age < 9*time.Minute || age > 11*time.Minute {
				t.Errorf("closed after %v", age)
			}
			different[age.Round(time.Second)] = true
		}
		if len(different) < n/2 {
			t.Errorf("only %d different ages", len(different))
		}
	})
}

func TestStreamsAreLimitedInAllAndByOwner(t *testing.T) {
	limits := func(o *Options) { o.StreamLimit, o.OwnerStreamLimit = 3, 2 }
	inTestbed(t, func(t *testing.T, h *testbed) {
		as := func(who string) string {
			return "Authorization: Bearer " + token(t, jwt.SigningMethodHS256, secret(), jwt.MapClaims{"sub": who, "exp": in(time.Hour)})
		}
		r1, _ := h.open(t, statusPath, as("anna")), h.open(t, statusPath, as("anna"))
		if a := h.do(t, "GET", statusPath, "", as("anna")); a.status != 429 || a.json(t)["code"] != "too_many_streams" || a.header.Get("Retry-After") == "" {
			t.Errorf("a third one of hers: %d %s", a.status, a.body)
		}
		h.open(t, statusPath, as("bo"))
		if a := h.do(t, "GET", statusPath, "", as("cy")); a.status != 429 {
			t.Errorf("a fourth one: %d", a.status)
		}
		r1.body.Close()
		synctest.Wait()
		if r := h.open(t, statusPath, as("anna")); r.status != 200 {
			t.Errorf("after one has gone: %d", r.status)
		}
	}, limits, withJWT(JWT{Secret: secret()}))
	inTestbed(t, func(t *testing.T, h *testbed) {
		for i := range 3 { // everybody is the anonymous owner
			if r := h.open(t, statusPath); r.status != 200 {
				t.Errorf("stream %d: %d", i, r.status)
			}
		}
	}, limits)
}

// goroutines counts those of the bubble that the test runs in.
func goroutines(t *testing.T) (int, string) {
	t.Helper()
	stacks := make([]byte, 8<<20)
	all := string(stacks[:runtime.Stack(stacks, true)])
	_, tail, _ := strings.Cut(all, "synctest bubble ")
	bubble, _, _ := strings.Cut(tail, "]")
	if bubble == "" || len(all) == len(stacks) {
		t.Fatalf("not readable: %.200s", all)
	}
	return strings.Count(all, "synctest bubble "+bubble+"]"), all
}

func TestAThousandOpensAndClosesLeaveNothingBehind(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		// As many ways to end as there are.
		open := func(i int) {
			topic, path := summary(fmt.Sprint("s", i%50)), strings.ReplaceAll(statusPath, session, fmt.Sprint("s", i%50))
			id := fmt.Sprint("J", i)
			switch i % 3 {
			case 0: // the client goes
				r := h.open(t, path+"?follow=true")
				r.next()
				r.body.Close()
			case 1: // the job ends
				h.happenAll(t, topic, job(id, queued(), processing(1, 1), completed(1))...)
				h.open(t, path).all(t)
			default: // the client goes before it has read anything
				h.open(t, path+"?follow=true").body.Close()
			}
		}
		for i := range 3 {
			open(i)
		}
		h.client.CloseIdleConnections()
		synctest.Wait()
		before, _ := goroutines(t)
		for i := range 1000 {
			open(i + 3)
		}
		h.client.CloseIdleConnections()
		synctest.Wait()
		if after, stacks := goroutines(t); after != before {
			t.Errorf("%d goroutines before, %d after\n%s", before, after, stacks)
		}
		if n := h.hub.Watching(); n != 0 {
			t.Errorf("%d topics are still watched", n)
		}
		if h.openNow() != 0 || len(h.streams.byOwner) != 0 {
			t.Errorf("%d streams and %d owners are still registered", h.openNow(), len(h.streams.byOwner))
		}
		for id := range h.emitter.ids.Load() {
			if name := strconv.FormatUint(id+1, 36); h.emitter.server.StreamExists(name) {
				t.Errorf("r3labs still has stream %s", name)
			}
		}
	})
}

func TestAFaultInOneStreamIsNotEveryStreams(t *testing.T) {
	var logged bytes.Buffer
	inTestbed(t, func(t *testing.T, h *testbed) {
		r := h.open(t, statusPath)
		r.want(t, "idle")
		other := h.open(t, strings.ReplaceAll(statusPath, session, "other"))
		other.want(t, "idle")
		h.happenAll(t, summary(session), queued(), processing(1, 1))
		r.want(t, "queued")
		r.want(t, "processing")
		synctest.Wait()
		h.render.texts = nil // what a retrying event needs
		h.happen(t, summary(session), retryingQueue(1, time.Second))
		if m := r.next(); !errors.Is(m.err, io.EOF) {
			t.Errorf("got %+v", m)
		}
		synctest.Wait()
		h.happen(t, summary("other"), queued())
		other.want(t, "queued")
	}, func(o *Options) { o.Logger = slog.New(slog.NewJSONHandler(&logged, nil)) })
	if !strings.Contains(logged.String(), "panic in a stream") || !strings.Contains(logged.String(), `"end":"fault"`) {
		t.Errorf("logged: %s", logged.String())
	}
}

func TestAConnectionServesOtherRequestsAfterAStream(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		h.client.Transport.(*http.Transport).MaxConnsPerHost = 1
		h.happenAll(t, summary(session), queued(), processing(1, 1), completed(1))
		for range 3 {
			h.open(t, statusPath).all(t)
			later(2 * h.o.WriteTimeout) // a deadline left behind has passed by then
			if a := h.do(t, "GET", "/api/v1/messages", ""); a.status != 200 {
				t.Errorf("afterwards: %d", a.status)
			}
		}
	})
}

func TestLiveFramesAreRenderedOnceAndKeptForASecond(t *testing.T) {
	now := time.Now()
	f := newFrames(func() time.Time { return now })
	made := 0
	get := func(seq int64, lang string) {
		t.Helper()
		key := frameKey{summary(session), seq, "en"}
		if lang != "" {
			key.lang = "nb"
		}
		if _, err := f.data(key, func() ([]byte, error) { made++; return nil, nil }); err != nil {
			t.Error(err)
		}
	}
	check := func(want int) {
		t.Helper()
		if made != want {
			t.Errorf("rendered %d times, want %d", made, want)
		}
	}
	get(1, "")
	get(1, "")
	check(1)
	get(1, "nb")
	get(2, "")
	check(3)
	now = now.Add(liveFor + time.Millisecond)
	get(1, "")
	check(4)
	for seq := range int64(3 * liveFrames) {
		get(10+seq, "")
	}
	if len(f.known) != liveFrames {
		t.Errorf("%d frames are kept, want %d", len(f.known), liveFrames)
	}
}
