package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

// patience bounds every wait for a client.
const patience = 40 * time.Second

// run is one client's way through one case.
type run struct {
	c *Case

	mu       sync.Mutex
	used     []bool // per exchange
	failures []string
	did      int
	moved    chan struct{} // closed and replaced when did grows
}

func newRun(c *Case) *run {
	return &run{c: c, used: make([]bool, len(c.Exchanges)), moved: make(chan struct{})}
}

// ServeHTTP plays the server towards the client; the run's own prefix is gone.
func (r *run) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(io.LimitReader(req.Body, 4<<20))
	if err != nil {
		return
	}
	switch req.Method + " " + req.URL.Path {
	case "POST /did":
		r.acted()
		w.WriteHeader(http.StatusNoContent)
	case "POST /report":
		if differences := r.verify(body); differences != "" {
			http.Error(w, differences, http.StatusUnprocessableEntity)
		}
	default:
		e := r.match(req, body)
		if e == nil {
			http.Error(w, "the case expects no such request now", http.StatusInternalServerError)
			return
		}
		r.play(w, req, e)
	}
}

func (r *run) acted() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.did++
	close(r.moved)
	r.moved = make(chan struct{})
}

// match takes the first exchange not yet used that is about this request, and
// writes down in what the request differs from it.
func (r *run) match(req *http.Request, body []byte) *Exchange {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.c.Exchanges {
		e := &r.c.Exchanges[i]
		method, path, _ := r.c.target(e.On) // checked when it was read
		if r.used[i] || req.Method != method || req.URL.Path != path {
			continue
		}
		r.used[i] = true
		for _, why := range r.compare(e, req, body) {
			r.failures = append(r.failures, fmt.Sprintf("request %d, %s: %s", i+1, e.On, why))
		}
		return e
	}
	r.failures = append(r.failures, fmt.Sprintf("unexpected request %s %s (Last-Event-ID %q)", req.Method, req.URL.Path, req.Header.Get("Last-Event-ID")))
	return nil
}

func (r *run) compare(e *Exchange, req *http.Request, body []byte) (why []string) {
	want := map[string]string{}
	if r.c.Client.Language != "" {
		want["Accept-Language"] = r.c.Client.Language
	}
	if e.isStream() {
		want["Accept"], want["Last-Event-ID"] = "text/event-stream", ""
	}
	if e.On == "GET list" {
		var sessions []string
		for _, name := range r.c.Client.Sessions {
			id, _, _ := strings.Cut(name, "/")
			sessions = append(sessions, id+"/"+r.c.workloadOf(name))
		}
		if got := req.URL.Query()["session"]; !slices.Equal(got, sessions) {
			why = append(why, fmt.Sprintf("asks for %q, want %q", got, sessions))
		}
	}
	for name, value := range e.Headers {
		want[name] = value
	}
	for name, value := range want {
		if got := req.Header.Get(name); got != value {
			why = append(why, fmt.Sprintf("%s is %q, want %q", name, got, value))
		}
	}
	var got map[string]any
	if e.Body != nil && json.Unmarshal(body, &got) != nil {
		return append(why, "the body is not a JSON object")
	}
	for name, value := range e.Body {
		if !reflect.DeepEqual(got[name], value) {
			why = append(why, fmt.Sprintf("body: %s is %v, want %v", name, got[name], value))
		}
	}
	return why
}

func (r *run) play(w http.ResponseWriter, req *http.Request, e *Exchange) {
	kind := "application/json"
	if e.isStream() {
		kind = "text/event-stream"
	}
	status := e.Answer.Status
	if status == 0 {
		status = http.StatusOK
	}
	if status >= 400 {
		kind = "application/problem+json"
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-cache, no-transform")
	for name, value := range e.Answer.Headers {
		w.Header().Set(name, value)
	}
	w.WriteHeader(status)
	flush := http.NewResponseController(w)
	_ = flush.Flush()
	_, _ = w.Write(e.Answer.JSON)
	for _, step := range e.Answer.Steps {
		if !r.step(w, req, flush, step) {
			return
		}
	}
}

func (e *Exchange) isStream() bool {
	return strings.HasSuffix(e.On, " status") || strings.HasSuffix(e.On, " list")
}

// step does one step and tells whether the answer goes on.
func (r *run) step(w http.ResponseWriter, req *http.Request, flush *http.ResponseController, s Step) bool {
	switch {
	case s.PauseMS > 0:
		return r.wait(req, func() bool { return false }, time.Duration(s.PauseMS)*time.Millisecond)
	case s.AfterAction > 0:
		return r.wait(req, func() bool { return r.did >= s.AfterAction }, patience)
	case s.Hold:
		r.wait(req, func() bool { return false }, patience)
		return false
	case s.Cut:
		panic(http.ErrAbortHandler)
	case s.Hole:
		dig(req.Context())
		return false
	}
	text, err := r.c.bytes(s)
	if err != nil {
		r.fail(err.Error())
		return false
	}
	size := s.Split
	if size == 0 {
		size = max(len(text), 1)
	}
	for piece := range slices.Chunk(text, size) {
		if _, err := w.Write(piece); err != nil {
			return false
		}
		if flush.Flush() != nil {
			return false
		}
	}
	return true
}

// wait returns true once done says so or the time is over, false when the client is gone.
func (r *run) wait(req *http.Request, done func() bool, limit time.Duration) bool {
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	for {
		r.mu.Lock()
		ready, moved := done(), r.moved
		r.mu.Unlock()
		if ready {
			return true
		}
		select {
		case <-moved:
		case <-timeout.C:
			return true
		case <-req.Context().Done():
			return false
		}
	}
}

func (r *run) fail(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, why)
}

// verify compares a report with the case, and says what differs, "" for nothing.
func (r *run) verify(report []byte) string {
	lines, err := readLines(report)
	if err != nil {
		return "report: " + err.Error()
	}
	var states, results []map[string]any
	for _, line := range lines {
		if _, ok := line["result"]; ok {
			results = append(results, line)
		} else {
			states = append(states, line)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	why := slices.Clone(r.failures)
	for i, used := range r.used {
		if !used {
			why = append(why, fmt.Sprintf("request %d, %s, never came", i+1, r.c.Exchanges[i].On))
		}
	}
	why = append(why, differences("state", states, r.c.States)...)
	why = append(why, differences("result", results, r.c.Results)...)
	return strings.Join(why, "\n")
}

func differences(what string, got, want []map[string]any) (why []string) {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			why = append(why, fmt.Sprintf("%s %d is missing, want %s", what, i+1, line(want[i])))
		case i >= len(want):
			why = append(why, fmt.Sprintf("%s %d is one too many: %s", what, i+1, line(got[i])))
		case !reflect.DeepEqual(got[i], want[i]):
			why = append(why, fmt.Sprintf("%s %d is\n  %s, want\n  %s", what, i+1, line(got[i]), line(want[i])))
		}
	}
	return why
}

func line(v map[string]any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(b.String())
}
