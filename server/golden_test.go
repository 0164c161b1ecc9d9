package server

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/events"
)

var update = flag.Bool("update", false, "rewrite the transcripts under testdata")

// transcript is what one stream sent, headers and bytes. In a bubble every time
// in it is the same in each run.
func (r *reader) transcript() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d\n", r.status)
	for _, name := range slices.Sorted(maps.Keys(r.header)) {
		if name != "Date" && name != "X-Request-Id" {
			fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(r.header[name], " | "))
		}
	}
	b.WriteString("\n")
	b.WriteString(r.raw.String())
	return b.String()
}

// golden compares with testdata, byte for byte.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", file, got, want)
	}
}

// later lets virtual time pass, and everything that is due happen.
func later(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// live plays a job's whole life: idle, both layers of retrying, and its end.
func live(t *testing.T, h *testbed, end events.Transition) {
	topic := summary(session)
	for _, tr := range []func() events.Transition{
		queued,
		func() events.Transition { return processing(1, 1) },
		func() events.Transition { return retryingCall(1, 1, 700*time.Millisecond) },
		func() events.Transition { return processing(1, 2) },
		func() events.Transition { return retryingQueue(1, 30*time.Second) },
		func() events.Transition {
			q := queued()
			q.Attempt, q.Reason, q.NotBefore = 1, events.BreakerOpen, time.Now().Add(45*time.Second)
			return q
		},
		func() events.Transition { return processing(2, 1) },
		func() events.Transition { return end },
	} {
		later(time.Second)
		h.happen(t, topic, tr())
		synctest.Wait()
	}
}

func TestALifeToTheEndInTwoLanguages(t *testing.T) {
	for name, c := range map[string]struct {
		lang string
		end  events.Transition
	}{
		"completed.en.sse": {"en", completed(3)},
		"completed.nb.sse": {"no-NO, en;q=0.5", completed(3)},
		"error.en.sse":     {"en-GB", failed(true)},
		"error.nb.sse":     {"nn", failed(false)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newTestbed(t)
				r := h.open(t, statusPath, "Accept-Language: "+c.lang)
				done := make(chan []string, 1)
				go func() { done <- r.all(t) }()
				live(t, h, c.end)
				names := <-done
				want := []string{"idle", "queued", "processing", "retrying", "processing", "retrying", "queued", "processing", string(c.end.Status)}
				if !slices.Equal(names, want) {
					t.Errorf("got %q, want %q", names, want)
				}
				golden(t, name, r.transcript())
			})
		})
	}
}

func TestIdleStaysOpenAndKeepsTheCursor(t *testing.T) {
	for name, headers := range map[string][]string{
		"idle.sse":        nil,
		"idle.cursor.sse": {"Last-Event-ID: 0"},
		"idle.reset.sse":  {"Last-Event-ID: 1775563260000"},
		"idle.words.sse":  {"Last-Event-ID: nonsense"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newTestbed(t)
				r := h.open(t, statusPath, headers...)
				go r.all(t)
				later(40 * time.Second) // two heartbeats
				h.stop()
				synctest.Wait()
				retry := r.retry
				if retry == "2000" {
					t.Error("the drain named no time of its own to come back")
				}
				golden(t, name, strings.Replace(r.transcript(), "retry: "+retry+"\n", "retry: <its own>\n", 1))
			})
		})
	}
}

func TestAPlaceThatIsNotInTheLogIsAnsweredWithTheStateAndReset(t *testing.T) {
	for name, headers := range map[string][]string{
		"reset.words.sse":  {"Last-Event-ID: e1:7"},
		"reset.beyond.sse": {"Last-Event-ID: 9007199254740990"},
		"reset.older.sse":  {"Last-Event-ID: 12"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newTestbed(t)
				h.happen(t, summary(session), queued())
				h.happen(t, summary(session), processing(1, 1))
				r := h.open(t, statusPath, headers...)
				if m := r.want(t, "processing"); m.json(t)["reset"] != true {
					t.Errorf("not marked as reset: %s", m.data)
				}
				golden(t, name, r.transcript())
			})
		})
	}
}

func TestTheCursorMayComeAsAQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestbed(t)
		first := h.happen(t, summary(session), queued())
		later(time.Second)
		h.happen(t, summary(session), processing(1, 1))
		h.happen(t, summary(session), completed(1))

		r := h.open(t, statusPath+"?last_event_id="+seqOf(first))
		if got := r.all(t); !slices.Equal(got, []string{"processing", "completed"}) {
			t.Errorf("got %q", got)
		}
		golden(t, "resumed.sse", r.transcript())

		// A browser keeps the header current and the address as it was.
		r = h.open(t, statusPath+"?last_event_id=0", "Last-Event-ID: "+seqOf(first))
		if got := r.all(t); !slices.Equal(got, []string{"processing", "completed"}) {
			t.Errorf("the header does not win: got %q", got)
		}
	})
}

func TestAReconnectShowsWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestbed(t)
		h.happen(t, summary(session), queued())
		h.happen(t, summary(session), processing(1, 1))
		h.happen(t, summary(session), retryingQueue(1, 30*time.Second))
		for _, c := range []struct {
			after   time.Duration
			message string
			ms      float64
		}{
			{0, "Retrying in 30s (attempt 2/4)…", 30000},
			{1200 * time.Millisecond, "Retrying in 29s (attempt 2/4)…", 28800},
			{28 * time.Second, "Retrying in 1s (attempt 2/4)…", 800},
			{5 * time.Second, "Retrying now (attempt 2/4)…", 0},
		} {
			later(c.after)
			r := h.open(t, statusPath)
			data := r.want(t, "retrying").json(t)
			r.body.Close()
			if data["message"] != c.message || data["retry_in_ms"] != c.ms {
				t.Errorf("after another %v: %q, %v ms; want %q, %v", c.after, data["message"], data["retry_in_ms"], c.message, c.ms)
			}
			once := h.do(t, http.MethodGet, statusPath+"?format=json", "").json(t)
			if once["message"] != c.message {
				t.Errorf("JSON says %q, the stream %q", once["message"], c.message)
			}
		}
	})
}

// S1-19: the numbers agree with the fields, and with the plan.
func TestAWaitThatEndsOnAWholeSecondReadsAsPlanned(t *testing.T) {
	for _, c := range []struct {
		left, whole time.Duration
		want        int
	}{
		{30_075 * time.Millisecond, 30_075 * time.Millisecond, 30},
		{30_499 * time.Millisecond, 30_499 * time.Millisecond, 30},
		{29_501 * time.Millisecond, 29_501 * time.Millisecond, 30},
		{30_700 * time.Millisecond, 30_700 * time.Millisecond, 31}, // a provider's hint
		{30 * time.Second, 30 * time.Second, 30},
		{29_990 * time.Millisecond, 30 * time.Second, 30},
		{29 * time.Second, 30_075 * time.Millisecond, 29},
		{1, 30 * time.Second, 1},
		{0, 30 * time.Second, 0},
		{558 * time.Millisecond, 565 * time.Millisecond, 1},
		{time.Second + 1, time.Second + 1, 1},
	} {
		if got := countdown(c.left, c.whole); got != c.want {
			t.Errorf("%v left of %v: %d, want %d", c.left, c.whole, got, c.want)
		}
	}
}

func TestDrainClosesStreamsEvenlyEachWithItsOwnRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 20
		h := newTestbed(t, func(o *Options) { o.Drain = 10 * time.Second })
		type end struct {
			after time.Duration
			retry string
			err   error
		}
		var start time.Time
		ends := make(chan end, n)
		for range n {
			r := h.open(t, statusPath)
			r.want(t, "idle")
			go func() {
				m := r.next()
				ends <- end{time.Since(start), r.retry, m.err}
			}()
		}
		synctest.Wait()
		start = time.Now()
		h.stop()
		synctest.Wait()

		if got := h.doOps(t, http.MethodGet, "/readyz"); got.status != http.StatusServiceUnavailable {
			t.Errorf("readyz while draining: %d", got.status)
		}
		if got := h.do(t, http.MethodGet, statusPath, ""); got.status != 503 || got.json(t)["code"] != "draining" {
			t.Errorf("a new stream while draining: %d %s", got.status, got.body)
		}
		retries := map[string]bool{}
		for i := range n {
			e := <-ends
			if want := time.Duration(i) * 10 * time.Second / n; e.after != want {
				t.Errorf("stream %d closed after %v, want %v", i, e.after, want)
			}
			if e.err != io.EOF {
				t.Errorf("not a clean end: %v", e.err)
			}
			var ms int
			if _, err := fmt.Sscan(e.retry, &ms); err != nil || ms < 500 || ms > 5000 {
				t.Errorf("retry %q, want 500 to 5000", e.retry)
			}
			retries[e.retry] = true
		}
		if len(retries) < n/2 {
			t.Errorf("%d different retries for %d streams", len(retries), n)
		}
		if err := <-h.served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if took := time.Since(start); took > 11*time.Second {
			t.Errorf("down after %v", took)
		}
		h.served <- nil
	})
}
