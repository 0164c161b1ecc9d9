package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/r3labs/sse/v2"

	"github.com/tidings/tidings/events/eventstest"
)

// short are the settings with which every path takes seconds.
func short(more map[string]string) map[string]string {
	env := map[string]string{
		"TIDINGS_QUEUE_DELAYS": "1s,1s,1s", "TIDINGS_CALL_FIRST_PAUSE": "10ms",
		"TIDINGS_CALL_ALLOWANCE": "13", // so that 3 calls x 4 attempts end by the attempts
	}
	for name, value := range more {
		env[name] = value
	}
	return env
}

// backends are the two Redis that a dev process can have.
func backends(t *testing.T, test func(t *testing.T, env map[string]string)) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, short(nil))
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, short(map[string]string{"TIDINGS_REDIS_URL": eventstest.StartRedis(t).URL()}))
	})
}

const someText = "The pump lost pressure in the night. The seal was worn and has been replaced. It has held since. Nobody was harmed."

func (p *process) session(id string) string { return p.api + "/api/v1/sessions/" + id + "/summary" }

// submit asks for a summary and plays these steps on the local model.
func (p *process) submit(session string, steps ...string) {
	p.t.Helper()
	body, err := json.Marshal(map[string]any{"input": map[string]string{"text": someText}, "simulate": steps})
	if err != nil {
		p.t.Fatal(err)
	}
	if status, _, got := call(p.t, http.MethodPost, p.session(session), string(body)); status != http.StatusAccepted || got["status"] != "queued" {
		p.t.Fatalf("submit: %d %v", status, got)
	}
}

// modelCalls is what the model itself has counted.
func (p *process) modelCalls(session string) int {
	p.t.Helper()
	_, _, got := call(p.t, http.MethodGet, p.ops+"/dev/model/calls?session_id="+session, "")
	n, ok := got["calls"].(float64)
	if !ok {
		p.t.Fatalf("calls: %v", got)
	}
	return int(n)
}

func texts(frames []frame) string {
	all := make([]string, len(frames))
	for i, f := range frames {
		all[i] = f.String()
	}
	return strings.Join(all, ", ")
}

// journey is one way through the retries: the steps of the model, what a client
// that was there from the start sees, and what the model counted.
type journey struct {
	name  string
	steps []string
	sees  string
	calls int
}

func journeys() []journey {
	attempt := "processing, retrying call overloaded, processing, retrying call overloaded, processing"
	again := ", retrying queue overloaded, "
	return []journey{
		{"ok", []string{"ok"}, "queued, processing, completed completed", 1},
		{"503-then-ok", []string{"503", "ok"}, "queued, processing, retrying call unavailable, processing, completed completed", 2},
		{"timeout-then-ok", []string{"timeout", "ok"}, "queued, processing, retrying queue timeout, processing, completed completed", 2},
		{"overloaded", []string{"529"}, "queued, " + attempt + again + attempt + again + attempt + again + attempt +
			", error attempts retries_exhausted", 12},
		{"wrong-key", []string{"401"}, "queued, processing, error auth failed", 1},
		{"no-use", []string{"invalid_output"}, "queued, processing, error invalid_output failed", 1},
	}
}

func TestEveryPathIsSeenByAClient(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, env map[string]string) {
		p := serve(t, env, "dev")
		for _, j := range journeys() {
			t.Run(j.name, func(t *testing.T) {
				t.Parallel()
				p := *p
				p.t = t
				first := openStream(t, p.session(j.name)+"/status", "")
				if f := first.next(); f.event != "idle" || f.id != "" {
					t.Fatalf("before the submit: %v with id %q", f, f.id)
				}
				p.submit(j.name, j.steps...)
				frames := first.rest()
				if got := texts(frames); got != j.sees {
					t.Errorf("seen\n%s\nwant\n%s", got, j.sees)
				}
				if n := p.modelCalls(j.name); n != j.calls {
					t.Errorf("%d calls, want %d", n, j.calls)
				}
				lookAt(t, frames)
				last := frames[len(frames)-1]
				if again := openStream(t, p.session(j.name)+"/status", last.id); again.status != http.StatusNoContent {
					t.Errorf("reconnecting after the end: %d, want 204", again.status)
				}
			})
		}
	})
}

// lookAt checks what holds on every stream.
func lookAt(t *testing.T, frames []frame) {
	t.Helper()
	before := ""
	for _, f := range frames {
		if f.id == "" || len(f.id) < len(before) || len(f.id) == len(before) && f.id <= before {
			t.Errorf("%v: id %q after %q", f, f.id, before)
		}
		before = f.id
		if got := fmt.Sprintf("%.0f", f.data["seq"]); got != f.id {
			t.Errorf("%v: seq %s with id %s", f, got, f.id)
		}
		if f.event == "retrying" {
			at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(f.data["next_retry_at"]))
			if err != nil {
				t.Errorf("%v: %v", f, err)
			}
			told, err := time.Parse(time.RFC3339Nano, fmt.Sprint(f.data["at"]))
			if err != nil {
				t.Errorf("%v: %v", f, err)
			}
			if wait := at.Sub(told); f.data["layer"] == "queue" && wait%time.Second != 0 {
				t.Errorf("%v: waits %s, and the plan has whole seconds", f, wait)
			}
		}
	}
	// No attempt starts before its stored time.
	for i, f := range frames[1:] {
		due, _ := frames[i].data["next_retry_at"].(string)
		at, _ := f.data["at"].(string)
		if frames[i].data["layer"] == "queue" && f.event == "processing" && at < due {
			t.Errorf("an attempt began at %s, before %s", at, due)
		}
	}
}

func TestTheClientLibrarySeesTheSame(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, env map[string]string) {
		p := serve(t, env, "dev")
		ours := openStream(t, p.session("abc-123")+"/status", "")
		ours.until("idle")

		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		theirs := make(chan string, 100)
		client := sse.NewClient(p.session("abc-123")+"/status", sse.ClientMaxBufferSize(1<<20))
		client.ReconnectStrategy = stopAtOnce{}
		go func() {
			defer close(theirs)
			_ = client.SubscribeRawWithContext(ctx, func(m *sse.Event) { // its end is seen by what is missing
				if len(m.Event) > 0 {
					theirs <- string(m.ID) + " " + string(m.Event)
				}
			})
		}()
		if got := <-theirs; got != " idle" {
			t.Fatalf("first %q", got)
		}
		p.submit("abc-123", "503", "ok")
		var want, got []string
		for _, f := range ours.rest() {
			want = append(want, f.id+" "+f.event)
		}
		for line := range theirs {
			got = append(got, line)
		}
		if !slices.Equal(got, want) {
			t.Errorf("it saw\n%v\nwe saw\n%v", got, want)
		}
	})
}

func TestManualRetryStartsANewJob(t *testing.T) {
	t.Parallel()
	p := serve(t, short(map[string]string{"TIDINGS_QUEUE_ATTEMPTS": "1"}), "dev")
	p.submit("abc-123", "503", "503", "503", "ok")
	failed := openStream(t, p.session("abc-123")+"/status", "").rest()
	last := failed[len(failed)-1]
	if last.String() != "error attempts retries_exhausted" || last.data["can_retry"] != true {
		t.Fatalf("ended with %v %v", last, last.data)
	}
	status, _, got := call(t, http.MethodPost, p.session("abc-123")+"/retry", "")
	if status != http.StatusAccepted || got["status"] != "queued" || got["job_id"] == last.data["job_id"] {
		t.Fatalf("retry: %d %v", status, got)
	}
	again := openStream(t, p.session("abc-123")+"/status", last.id).rest()
	if got := texts(again); got != "queued run_by_user, processing, completed completed" {
		t.Errorf("after the retry %s", got)
	}
	status, _, got = call(t, http.MethodPost, p.session("abc-123")+"/retry", "")
	if status != http.StatusConflict || got["code"] != "already_completed" {
		t.Errorf("retry of what is completed: %d %v", status, got)
	}
	if status, _, got = call(t, http.MethodGet, p.session("abc-123"), ""); status != http.StatusOK || got["version"] != 1.0 {
		t.Errorf("document: %d %v", status, got)
	}
}

func TestAWaitThatTheProviderAskedForIsNotShortened(t *testing.T) {
	t.Parallel()
	p := serve(t, short(nil), "dev")
	s := openStream(t, p.session("fits")+"/status", "")
	s.until("idle")
	p.submit("fits", "retry_after:1", "ok")
	all := s.rest()
	if got := texts(all); got != "queued, processing, retrying call rate_limited, processing, completed completed" {
		t.Errorf("a hint that fits the call: %s", got)
	}
	lookAt(t, all)

	s = openStream(t, p.session("abc-123")+"/status", "")
	p.submit("abc-123", "retry_after:90", "ok")
	frames := s.until("retrying")
	if f := frames[len(frames)-1]; f.data["layer"] != "queue" || f.data["retry_in_ms"].(float64) < 85_000 {
		t.Errorf("%v %v", f, f.data)
	}
	status, header, got := call(t, http.MethodPost, p.session("abc-123")+"/retry", "")
	if status != http.StatusTooManyRequests || header.Get("Retry-After") == "" {
		t.Errorf("retry: %d %v, Retry-After %q", status, got, header.Get("Retry-After"))
	}
}

func TestRunNowAndCancel(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, env map[string]string) {
		env["TIDINGS_QUEUE_DELAYS"] = "60s"
		p := serve(t, env, "dev")
		s := openStream(t, p.session("now")+"/status", "")
		p.submit("now", "timeout", "ok")
		s.until("retrying")
		if status, _, got := call(t, http.MethodPost, p.session("now")+"/retry", ""); status != http.StatusAccepted {
			t.Errorf("run now: %d %v", status, got)
		}
		if got := texts(s.rest()); got != "queued run_by_user, processing, completed completed" {
			t.Errorf("after run now %s", got)
		}

		s = openStream(t, p.session("stop")+"/status", "")
		p.submit("stop", "hang")
		s.until("processing")
		if status, _, got := call(t, http.MethodDelete, p.session("stop")+"/job", ""); status != http.StatusOK && status != http.StatusAccepted {
			t.Errorf("cancel: %d %v", status, got)
		}
		if got := texts(s.rest()); got != "error cancelled failed" {
			t.Errorf("after cancel %s", got)
		}
	})
}

func TestTheCurlPairWorksAsPrinted(t *testing.T) {
	t.Parallel()
	p := serve(t, map[string]string{"TIDINGS_LOCAL_LATENCY": "1s"}, "dev")
	p.says("Operators look at")
	text := p.out.String()
	from, to := strings.Index(text, "  curl"), strings.Index(text, "The document is at")
	if from < 0 || to < from {
		t.Fatalf("no curl pair in %s", text)
	}
	out, err := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", text[from:to]).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{`"status":"queued"`, "event: processing", "event: completed"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

func TestServeAndWorkShareOneRedis(t *testing.T) {
	t.Parallel()
	env := short(map[string]string{"TIDINGS_REDIS_URL": eventstest.StartRedis(t).URL()})
	api, worker := serve(t, env, "serve"), serve(t, env, "work")
	if worker.api != "" {
		t.Errorf("the worker has an API at %s", worker.api)
	}
	s := openStream(t, api.session("abc-123")+"/status", "")
	s.until("idle")
	status, _, got := call(t, http.MethodPost, api.session("abc-123"), `{"input":{"text":"`+someText+`"}}`)
	if status != http.StatusAccepted {
		t.Fatalf("submit: %d %v", status, got)
	}
	if got := texts(s.rest()); got != "queued, processing, completed completed" {
		t.Errorf("seen %s", got)
	}
	status, _, got = call(t, http.MethodPost, api.session("other"), `{"input":{"text":"x"},"simulate":["ok"]}`)
	if status != http.StatusBadRequest || got["code"] != "simulate_only_in_dev" {
		t.Errorf("simulate outside dev: %d %v", status, got)
	}
	for _, p := range []*process{api, worker} {
		if status, _, got := call(t, http.MethodGet, p.ops+"/readyz", ""); status != http.StatusOK || got["status"] != "ready" {
			t.Errorf("readyz: %d %v", status, got)
		}
		if res, err := http.Get(p.ops + "/queues"); err != nil {
			t.Error(err)
		} else {
			_ = res.Body.Close()
			if res.StatusCode != http.StatusNotFound {
				t.Errorf("/queues without a password: %d", res.StatusCode)
			}
		}
	}
}

// One variable changes the model; nothing else does (S3-35).
func TestAnotherModelIsOneVariable(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 10)
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path + " " + r.Header.Get("Authorization")
		w.Header().Set("Content-Type", "application/json")
		if len(asked) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"error":{"message":"busy","type":"server_error"}}`)
			return
		}
		_, _ = io.WriteString(w, `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"gpt-4o-mini","choices":[{"index":0,
			"finish_reason":"stop","message":{"role":"assistant","content":"{\"title\":\"Pump\",\"summary\":\"It holds.\",\"key_points\":[]}"}}],
			"usage":{"prompt_tokens":1000000,"completion_tokens":1000000,"total_tokens":2000000}}`)
	}))
	t.Cleanup(provider.Close)
	p := serve(t, short(map[string]string{
		"TIDINGS_MODEL": "openai/gpt-4o-mini", "TIDINGS_MODEL_BASE_URL": provider.URL + "/v1", "OPENAI_API_KEY": "key-of-the-test",
		"TIDINGS_LOG_FORMAT": "json",
	}), "dev")
	s := openStream(t, p.session("abc-123")+"/status", "")
	s.until("idle")
	if status, _, got := call(t, http.MethodPost, p.session("abc-123"), `{"input":{"text":"`+someText+`"}}`); status != http.StatusAccepted {
		t.Fatalf("submit: %d %v", status, got)
	}
	if got := texts(s.rest()); got != "queued, processing, retrying call unavailable, processing, completed completed" {
		t.Errorf("seen %s", got)
	}
	for range 2 {
		if got := <-asked; got != "/v1/chat/completions Bearer key-of-the-test" {
			t.Errorf("asked %s", got)
		}
	}
	if len(asked) != 0 {
		t.Errorf("%d calls too many", len(asked))
	}
	if _, _, got := call(t, http.MethodGet, p.session("abc-123"), ""); got["model"] != "gpt-4o-mini" || fmt.Sprint(got["content"]) != "map[key_points:[] summary:It holds. title:Pump]" {
		t.Errorf("document %v", got)
	}
	logs := p.err.String()
	if n := strings.Count(logs, `"msg":"model call"`); n != 2 {
		t.Errorf("%d lines for 2 calls", n)
	}
	if !strings.Contains(logs, `"input_tokens":1000000,"output_tokens":1000000,"cost_usd":0.75`) {
		t.Error("tokens and cost are not in the call's line")
	}
	for _, secret := range []string{"key-of-the-test", "pump", "It holds"} {
		if strings.Contains(logs, secret) {
			t.Errorf("%q is in the logs", secret)
		}
	}
	status, _, got := call(t, http.MethodPost, p.session("other"), `{"input":{"text":"x"},"simulate":["ok"]}`)
	if status != http.StatusBadRequest || got["code"] != "simulate_only_in_dev" {
		t.Errorf("simulate with a real model: %d %v", status, got)
	}
}
