package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidings/tidings/events/eventstest"
)

// These tests are about what operators order from a terminal, with several
// processes on one real Redis.

// patient is a provider that fails for as long as it is told to, and counts.
type patient struct {
	*httptest.Server
	well  atomic.Bool
	calls atomic.Int32
}

func newPatient(t *testing.T) *patient {
	p := &patient{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		p.calls.Add(1)
		w.Header().Set("Content-Type", "application/json")
		if !p.well.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"error":{"message":"busy","type":"server_error"}}`)
			return
		}
		_, _ = io.WriteString(w, `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"gpt-x","choices":[{"index":0,
			"finish_reason":"stop","message":{"role":"assistant","content":"{\"title\":\"Pump\",\"summary\":\"It holds.\",\"key_points\":[]}"}}],
			"usage":{"prompt_tokens":10,"completion_tokens":10,"total_tokens":20}}`)
	}))
	t.Cleanup(p.Close)
	return p
}

// fleet is an API and two workers with the same settings.
func fleet(t *testing.T, p *patient, more map[string]string) (api *process, workers [2]*process, env map[string]string) {
	t.Helper()
	env = short(map[string]string{
		"TIDINGS_REDIS_URL": eventstest.StartRedis(t).URL(), "TIDINGS_ADMIN_PASSWORD": adminPassword, "TIDINGS_QUEUE_DELAYS": "10s",
		"TIDINGS_MODEL": "openai/gpt-x", "TIDINGS_MODEL_BASE_URL": p.URL + "/v1", "OPENAI_API_KEY": "key-of-the-test", "TIDINGS_BREAKER_CALLS": "1000",
	})
	for name, value := range more {
		env[name] = value
	}
	return serve(t, env, "serve"), [2]*process{serve(t, env, "work"), serve(t, env, "work")}, env
}

// ordered runs a command of an operator to its end and returns what it says.
func ordered(t *testing.T, code int, env map[string]string, args ...string) string {
	t.Helper()
	p := command(t, env, args...).start()
	if got := p.code(); got != code {
		t.Fatalf("%v ended with %d: %s%s", args, got, p.out, p.err)
	}
	return p.out.String() + p.err.String()
}

// TestTheKillSwitchHoldsForTheWholeFleet: ordered at one worker, it counts
// at the next ticket of each. A job that waits keeps its status and ends at its
// own time; first calls go on; what is not known is not touched.
func TestTheKillSwitchHoldsForTheWholeFleet(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	api, workers, env := fleet(t, p, nil)
	as := map[string]string{"TIDINGS_ADMIN_PASSWORD": adminPassword, "TIDINGS_OPS_URL": workers[1].ops, "TIDINGS_OPERATOR": "ann"}

	const jobs = 6
	var streams [jobs]*stream
	var told [jobs]frame
	for i := range streams {
		session := "s" + strconv.Itoa(i)
		streams[i] = openStream(t, api.session(session)+"/status", "")
		if status, _, got := call(t, http.MethodPost, api.session(session), `{"input":{"text":"`+someText+`"}}`); status != http.StatusAccepted {
			t.Fatalf("submit: %d %v", status, got)
		}
	}
	for i, s := range streams {
		for told[i].data["layer"] != "queue" {
			told[i] = s.next()
		}
	}
	if n := p.calls.Load(); n != 3*jobs {
		t.Fatalf("%d calls before the order", n)
	}

	said := ordered(t, 0, as, "retries", "off", "--note", "the provider is down", "--for", "2h")
	if !strings.Contains(said, "retries are off for everything until ") || !strings.Contains(said, "by ann: the provider is down") {
		t.Errorf("said %q", said)
	}
	p.well.Store(true)
	first := openStream(t, api.session("first")+"/status", "")
	call(t, http.MethodPost, api.session("first"), `{"input":{"text":"`+someText+`"}}`)
	if got := texts(first.rest()); !strings.HasSuffix(got, "processing, completed completed") {
		t.Errorf("a first call while retries are off: %s", got)
	}

	for i, s := range streams {
		rest := s.rest()
		end := rest[len(rest)-1]
		if got := texts(rest); got != "error retries_disabled retries_exhausted" {
			t.Errorf("a job that waited: %s", got)
		}
		due, _ := time.Parse(time.RFC3339Nano, told[i].data["next_retry_at"].(string))
		at, _ := time.Parse(time.RFC3339Nano, end.data["at"].(string))
		if at.Before(due) || end.data["can_retry"] != true {
			t.Errorf("it ended at %s, its time was %s: %v", at, due, end.data)
		}
	}
	if n := p.calls.Load(); n != 3*jobs+1 {
		t.Errorf("%d calls in all, want the first attempts' and one first call", n)
	}
	ends := func() int {
		return strings.Count(workers[0].err.String()+workers[1].err.String(), `"reason":"retries_disabled"`)
	}
	for late := time.After(wait); ends() < jobs; { // a line follows what it tells of
		select {
		case <-workers[0].err.changed:
		case <-workers[1].err.changed:
		case <-late:
			t.Fatalf("the workers' logs tell of %d jobs why they have ended, want %d", ends(), jobs)
		}
	}

	if said := ordered(t, 0, as, "retries", "on", "--owner", "bo"); said != "retries are on\n" {
		t.Errorf("said %q", said)
	}
	said = ordered(t, 0, as, "retries", "show")
	if on, off := strings.Index(said, "  on   everything, by bo"), strings.Index(said, "  off  everything until "); on < 0 || off < on || !strings.Contains(said, "the provider is down") {
		t.Errorf("the audit trail is\n%s", said)
	}
	slip := ordered(t, 0, as, "retries", "off", "--dependency", "openai/no-such", "--for", "2s")
	if !strings.Contains(slip, anotherModel) {
		t.Errorf("of a model that nobody uses it said %q", slip)
	}
	p.well.Store(false)
	again := openStream(t, api.session("again")+"/status", "")
	call(t, http.MethodPost, api.session("again"), `{"input":{"text":"`+someText+`"}}`)
	for f := (frame{}); f.data["layer"] != "queue"; {
		f = again.next()
	}
	p.well.Store(true)
	if got := texts(again.rest()); got != "processing, completed completed" {
		t.Errorf("with retries on again: %s", got)
	}

	for text, args := range map[string][]string{
		"the login was refused": {"retries", "show"},
		"for: from 1s to 7d":    {"retries", "off", "--for", "9d"},
		"no such workload":      {"retries", "off", "--workload", "poems"},
		"nobody answers at":     {"retries", "show", "--url", "http://127.0.0.1:1"},
		"say who wants this":    {"retries", "off", "--owner", " "},
	} {
		with := map[string]string{"TIDINGS_ADMIN_PASSWORD": env["TIDINGS_ADMIN_PASSWORD"], "TIDINGS_OPS_URL": workers[0].ops, "TIDINGS_OPERATOR": "ann"}
		if strings.Contains(text, "login") {
			// Of another process, since this one would keep the others waiting.
			with["TIDINGS_ADMIN_PASSWORD"], with["TIDINGS_OPS_URL"] = "wrong", workers[1].ops
		}
		if said := ordered(t, 1, with, args...); !strings.Contains(said, text) {
			t.Errorf("%v: said %q", args, said)
		}
	}
}

// TestAPauseFromATerminal: jobs wait and say so, and go on.
func TestAPauseFromATerminal(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.well.Store(true)
	api, workers, _ := fleet(t, p, nil)
	as := map[string]string{"TIDINGS_ADMIN_PASSWORD": adminPassword, "TIDINGS_OPS_URL": workers[0].ops, "USER": "ann"}

	// A pause can be over before the job comes to it.
	got := ""
	for wait := 2 * time.Second; !strings.Contains(got, "queued dependency_paused"); wait *= 2 {
		if wait > time.Minute {
			t.Fatalf("seen %s", got)
		}
		if said := ordered(t, 0, as, "pause", "openai/gpt-x", "--for", wait.String()); !strings.HasPrefix(said, "calls to openai/gpt-x wait until ") || strings.Contains(said, "right?") {
			t.Errorf("said %q", said)
		}
		name := "waits-" + wait.String()
		s := openStream(t, api.session(name)+"/status", "")
		call(t, http.MethodPost, api.session(name), `{"input":{"text":"`+someText+`"}}`)
		got = texts(s.rest())
	}
	if !strings.HasSuffix(got, "processing, completed completed") {
		t.Errorf("seen %s", got)
	}
	waited := p.calls.Load()

	ordered(t, 0, as, "pause", "openai/gpt-x", "--for", "7d", "--note", "contract ended")
	for i, end := 0, time.Now().Add(wait); ; i++ { // a process knows of a pause within a second
		status, answer := ask(t, api.session("denied-"+strconv.Itoa(i)), `{"input":{"text":"`+someText+`"}}`)
		if status == http.StatusServiceUnavailable && answer["code"] == "admission_denied" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("beyond the deadline: %d %v", status, answer)
		}
		<-time.After(100 * time.Millisecond)
	}
	if n := p.calls.Load(); n != waited {
		t.Errorf("%d calls, want the %d of before", n, waited)
	}
	if said := ordered(t, 0, as, "resume", "openai/gpt-x"); said != "calls to openai/gpt-x go on\n" {
		t.Errorf("said %q", said)
	}
	s := openStream(t, api.session("goes")+"/status", "")
	call(t, http.MethodPost, api.session("goes"), `{"input":{"text":"`+someText+`"}}`)
	if got := texts(s.rest()); !strings.HasSuffix(got, "processing, completed completed") || strings.Contains(got, "paused") {
		t.Errorf("after the pause: %s", got)
	}
	if said := ordered(t, 0, as, "pause", "openai/gpt-y"); !strings.Contains(said, "is the name right?") {
		t.Errorf("another model: said %q", said)
	}
}
