package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// answer is one connection as a scripted server treats it.
type answer func(w http.ResponseWriter, r *http.Request)

// frames answers with a stream of these bytes, which then ends cleanly.
func frames(text string) answer {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, text)
	}
}

func event(id int, name, data string) string {
	return fmt.Sprintf("id: %d\nevent: %s\ndata: {%s}\n\n", id, name, data)
}

// scripted serves one answer per connection and records the cursors sent.
type scripted struct {
	*httptest.Server
	mu      sync.Mutex
	cursors []string
	paths   []string
}

func script(t *testing.T, answers ...answer) *scripted {
	t.Helper()
	s := &scripted{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		n := len(s.cursors)
		s.cursors = append(s.cursors, r.Header.Get("Last-Event-ID"))
		s.paths = append(s.paths, r.URL.RequestURI())
		s.mu.Unlock()
		if n >= len(answers) {
			t.Errorf("connection %d was not expected", n+1)
			w.WriteHeader(http.StatusNotFound)
			return
		}
		answers[n](w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// output is what a watcher wrote, and can be waited on.
type output struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func newOutput() *output { return &output{changed: make(chan struct{}, 1)} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.changed <- struct{}{}:
	default:
	}
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (o *output) waitFor(t *testing.T, words string) {
	t.Helper()
	for deadline := time.After(wait); !strings.Contains(o.String(), words); {
		select {
		case <-o.changed:
		case <-deadline:
			t.Fatalf("%q never came; this did:\n%s", words, o)
		}
	}
}

func watchScript(t *testing.T, s *scripted) (int, string) {
	t.Helper()
	out := newOutput()
	w := newWatcher(watchCommand{Session: "abc-123", Workload: "summary", URL: s.URL, Lang: "nb"}, out, false)
	w.pause = time.Millisecond
	return w.run(t.Context()), out.String()
}

func TestWatchResumesAfterACleanEnd(t *testing.T) {
	s := script(t,
		frames("retry: 1\n: hello\n\n"+event(7, "queued", `"attempt":0`)+event(8, "retrying", `"attempt":1,"max_attempts":4,"message":"Prøver igjen om 30 s","retry_in_ms":30000`)),
		frames(event(9, "processing", `"attempt":2,"max_attempts":4,"call":1,"max_calls":3`)+event(10, "completed", `"attempt":2,"max_attempts":4,"document_url":"/api/v1/sessions/abc-123/summary"`)),
	)
	code, text := watchScript(t, s)
	if code != watchedCompleted {
		t.Errorf("exit code %d", code)
	}
	if got := fmt.Sprint(s.cursors); got != "[ 8]" {
		t.Errorf("cursors %s", got)
	}
	if s.paths[0] != "/api/v1/sessions/abc-123/summary/status?lang=nb" {
		t.Errorf("asked for %s", s.paths[0])
	}
	for _, want := range []string{"queued", "Prøver igjen om 30 s", "attempt 2/4", "call 1/3", "completed", "/api/v1/sessions/abc-123/summary"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
}

func TestWatchEndsWithErrorAndSaysHowToTryAgain(t *testing.T) {
	s := script(t, frames(event(7, "error", `"reason":"overloaded","message":"Sorry","can_retry":true`)))
	code, text := watchScript(t, s)
	if code != watchedError || !strings.Contains(text, "curl -X POST "+s.URL+"/api/v1/sessions/abc-123/summary/retry\n") {
		t.Errorf("exit code %d:\n%s", code, text)
	}
}

func TestWatchForgetsWhatWasCutOff(t *testing.T) {
	s := script(t,
		frames("retry: 1\n\n"+event(7, "queued", "")+"id: 8\nevent: completed\ndata: {\"attem"),
		frames(event(8, "completed", "")),
	)
	if code, text := watchScript(t, s); code != watchedCompleted || strings.Count(text, "completed") != 1 {
		t.Errorf("exit code %d:\n%s", code, text)
	}
	if got := fmt.Sprint(s.cursors); got != "[ 7]" {
		t.Errorf("cursors %s: what was cut off counts as seen", got)
	}
}

func TestWatchTakesLargeFrames(t *testing.T) {
	s := script(t, frames(event(7, "completed", `"message":"`+strings.Repeat("x", 200_000)+`"`)))
	if code, _ := watchScript(t, s); code != watchedCompleted {
		t.Errorf("exit code %d", code)
	}
}

func TestWatchComesBackAfterAnOutage(t *testing.T) {
	busy := func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "{}", http.StatusServiceUnavailable) }
	cut := func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }
	s := script(t, busy, cut, frames(event(7, "completed", "")))
	code, text := watchScript(t, s)
	if code != watchedCompleted || !strings.Contains(text, "503") {
		t.Errorf("exit code %d:\n%s", code, text)
	}
}

func TestWatchStopsWhereRepeatingIsNoUse(t *testing.T) {
	refuse := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"title":"Bad id","detail":"The id\u001b[2J is wrong."}`)
	}
	code, text := watchScript(t, script(t, refuse))
	if code != watchFailed || !strings.Contains(text, "The id [2J is wrong.") {
		t.Errorf("exit code %d:\n%q", code, text)
	}
	page := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }
	if code, _ := watchScript(t, script(t, page)); code != watchFailed {
		t.Errorf("a page: exit code %d", code)
	}
}

func TestWatchCountsDownInATerminalAndCanBeInterrupted(t *testing.T) {
	open := func(w http.ResponseWriter, r *http.Request) {
		frames(event(7, "retrying", `"retry_in_ms":90000,"message":"Wait"`))(w, r)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	s := script(t, open)
	out := newOutput()
	w := newWatcher(watchCommand{Session: "a", Workload: "summary", URL: s.URL}, out, true)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	code := make(chan int, 1)
	go func() { code <- w.run(ctx) }()
	out.waitFor(t, "next try in 89 s")
	out.waitFor(t, "next try in 88 s")
	interrupt()
	if got := <-code; got != watchInterrupted {
		t.Errorf("exit code %d", got)
	}
}

func TestWatchPausesAreBoundedAndSpread(t *testing.T) {
	w := newWatcher(watchCommand{}, newOutput(), false)
	seen := map[time.Duration]bool{}
	for n := range 50 {
		p := w.nextPause()
		if p < w.pause/2 || p > watchMaxWait {
			t.Errorf("pause %d is %s", n, p)
		}
		seen[p] = true
	}
	if len(seen) < 10 {
		t.Error("the pauses are not spread")
	}
}
