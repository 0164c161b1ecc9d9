package server

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tidings/tidings/events"
)

const manyPath = "/api/v1/status/stream?session=a&session=b/guidance&session=c"

// told reads an event and returns whose it is, as session/workload event.
func (r *reader) told(t *testing.T) (string, message) {
	t.Helper()
	m := r.next()
	d := m.json(t)
	promises(t).matches(t, m.event, []byte(m.data))
	return fmt.Sprintf("%s/%s %s", d["session_id"], d["workload"], m.event), m
}

func TestManySessionsOnOneStream(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		a, b, c := summary("a"), events.NewTopic("", "b", "guidance"), summary("c")
		h.happenAll(t, c, queued())
		later(time.Second)
		h.happenAll(t, a, queued(), processing(1, 1))
		r := h.open(t, manyPath)
		var place int64
		expect := func(want string) message {
			t.Helper()
			got, m := r.told(t)
			if got != want {
				t.Fatalf("got %s, want %s", got, want)
			}
			if id, _ := strconv.ParseInt(m.id, 10, 64); m.id != "" {
				if seq, ok := m.json(t)["seq"].(float64); id < place || ok && id < int64(seq) {
					t.Errorf("%s: the id is %s, after %d", got, m.id, place)
				}
				place = id
			}
			return m
		}
		// How each stands, the oldest first: a break in between leaves none out.
		if m := expect("b/guidance idle"); m.id != "" {
			t.Errorf("idle has the id %s", m.id)
		}
		expect("c/summary queued")
		expect("a/summary processing")
		// It goes on over terminal events, and over idle.
		h.happenAll(t, a, completed(1))
		expect("a/summary completed")
		h.happenAll(t, b, job("J2", queued())...)
		expect("b/guidance queued")
		h.happenAll(t, a, job("J3", queued())...)
		expect("a/summary queued")
		// Nothing of others.
		h.happenAll(t, summary("b"), queued())
		h.happenAll(t, c, processing(1, 1))
		expect("c/summary processing")
	})
}

func TestManySessionsResumedGetWhatIsNewerLess5Seconds(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		a, b, c := summary("a"), events.NewTopic("", "b", "guidance"), summary("c")
		h.happenAll(t, a, queued())
		later(10 * time.Second)
		h.happenAll(t, c, queued())
		later(2 * time.Second)
		place := h.happenAll(t, a, processing(1, 1))
		later(2 * time.Second)
		h.happenAll(t, a, completed(1))
		read := func(cursor string, want ...string) {
			t.Helper()
			r := h.open(t, manyPath, "Last-Event-ID: "+cursor)
			defer r.body.Close()
			var got []string
			for range want {
				who, m := r.told(t)
				if m.json(t)["reset"] == true {
					who += " reset"
				}
				got = append(got, who)
			}
			slices.Sort(got) // their order is not what this is about
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("with the cursor %s: got %q, want %q", cursor, got, want)
			}
			// And nothing besides: what comes next is live.
			h.happen(t, c, processing(1, 1))
			if who, _ := r.told(t); who != "c/summary processing" {
				t.Errorf("with the cursor %s: then %s", cursor, who)
			}
			h.happen(t, c, queued())
		}
		// c's came 2 s before the place, a's first one 12 s.
		read(seqOf(place), "b/guidance idle reset", "c/summary queued", "a/summary processing", "a/summary completed")
		later(time.Minute)
		h.happenAll(t, b, queued())
		for _, nonsense := range []string{"e1:7", "9007199254740990", strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10)} {
			read(nonsense, "a/summary completed reset", "c/summary queued reset", "b/guidance queued reset")
		}
		// Nothing is newer: no 204, and whatever happens is sent.
		later(time.Minute)
		now := strconv.FormatInt(time.Now().UnixMilli(), 10)
		read(now)
		// The log has not all of it any more.
		for range events.MaxLog + 5 {
			h.happen(t, b, processing(1, 1))
		}
		r := h.open(t, manyPath+"&last_event_id="+now)
		for {
			if who, m := r.told(t); who == "b/guidance processing" {
				if m.json(t)["reset"] != true {
					t.Error("what the log has lost was left out in silence")
				}
				break
			}
		}
	})
}

func TestManySessionsAreTheCallersOwnAndBounded(t *testing.T) {
	many := func(n int) string {
		return "/api/v1/status/stream?session=" + strings.Join(slices.Collect(func(yield func(string) bool) {
			for i := range n {
				if !yield(fmt.Sprintf("s%d", i)) {
					return
				}
			}
		}), "&session=")
	}
	inTestbed(t, func(t *testing.T, h *testbed) {
		as := func(who string) string {
			return "Authorization: Bearer " + token(t, jwt.SigningMethodHS256, secret(), jwt.MapClaims{"sub": who, "exp": in(time.Hour)})
		}
		for path, want := range map[string]int{
			"/api/v1/status/stream":                       http.StatusBadRequest,
			"/api/v1/status/stream?session=":              http.StatusBadRequest,
			"/api/v1/status/stream?session=a/b/c":         http.StatusNotFound,
			"/api/v1/status/stream?session=a/poem":        http.StatusNotFound,
			"/api/v1/status/stream?session=a%20b":         http.StatusBadRequest,
			many(101):                                     http.StatusBadRequest,
			many(98) + "&session=s0&session=s1%2Fsummary": http.StatusOK, // each once
		} {
			r := h.open(t, path, as("anna"))
			if r.status != want {
				t.Errorf("%.60s: %d, want %d", path, r.status, want)
			}
			r.body.Close()
		}
		if a := h.do(t, "GET", manyPath, ""); a.status != http.StatusUnauthorized {
			t.Errorf("without a token: %d", a.status)
		}
		if a := h.do(t, "HEAD", manyPath, "", as("anna")); a.status != http.StatusOK || a.header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("HEAD: %d", a.status)
		}
		h.happen(t, events.NewTopic("bo", "a", "summary"), queued())
		r := h.open(t, manyPath, as("anna"))
		for range 3 {
			r.want(t, "idle")
		}
		synctest.Wait()
		if n := h.hub.Watching(); n != 3 {
			t.Errorf("%d topics are watched", n)
		}
		if n := h.openNow(); n != 1 {
			t.Errorf("%d streams are open", n)
		}
		r.body.Close()
		synctest.Wait()
		if n := h.hub.Watching(); n != 0 {
			t.Errorf("%d topics are watched after it has gone", n)
		}
	}, withJWT(JWT{Secret: secret()}))
}

func TestTheMoreSpecificEntryOfAcceptCounts(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		for accept, want := range map[string]string{
			"":                                        "text/event-stream",
			"*/*":                                     "text/event-stream",
			"text/event-stream":                       "text/event-stream",
			"text/*":                                  "text/event-stream",
			"application/json":                        "application/json",
			"application/json, text/plain, */*":       "application/json",
			"application/*, */*":                      "application/json",
			"application/json;q=0.5, */*":             "text/event-stream",
			"application/json, */*;q=0.8":             "application/json",
			"text/event-stream, application/json":     "text/event-stream",
			"text/event-stream;q=0, */*":              "application/json",
			"text/event-stream;q=0":                   "application/problem+json",
			"application/json;q=0, */*":               "text/event-stream",
			"text/html":                               "application/problem+json",
			"*/*;q=0":                                 "application/problem+json",
			"text/*;q=0.9, application/json;q=0.9":    "application/json",
			"Text/Event-Stream ; q=0.2 , */* ; q=0.1": "text/event-stream",
		} {
			r := h.open(t, statusPath, "Accept: "+accept)
			if got, _, _ := strings.Cut(r.header.Get("Content-Type"), ";"); got != want {
				t.Errorf("%s: %s, want %s", accept, got, want)
			}
			r.body.Close()
		}
	})
}
