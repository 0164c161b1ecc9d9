package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidings/tidings/events/eventstest"
)

// These tests are about workers in other programs: the example of
// docs/outside-workers.md as it is, and the requests that it is made of.

const workerToken = "0123456789abcdef0123456789abcdef"

// pythonWorker starts the documented example, unchanged.
func pythonWorker(t *testing.T, api string, env ...string) *process {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal("this test runs the Python example of docs/outside-workers.md. Install: python3 (apt-get install python3)")
	}
	file, err := filepath.Abs("../../docs/examples/worker.py")
	if err != nil {
		t.Fatal(err)
	}
	w := &process{t: t, cmd: exec.Command(python, file), out: newOutput(), err: newOutput(), exited: make(chan struct{})}
	w.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TIDINGS_URL=" + api}, env...)
	w.cmd.Stdout, w.cmd.Stderr = w.out, w.err
	return w.start()
}

// ask makes a request as an outside worker or an operator does.
func ask(t *testing.T, url, body string, headers ...string) (int, map[string]any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+workerToken)
	r.Header.Set("Content-Type", "application/json")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if len(text) > 0 && res.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%s: %v in %s", url, err, text)
		}
	}
	return res.StatusCode, got
}

// submitPlain asks for a summary, which the settings may give to outside workers.
func (p *process) submitPlain(session string) {
	p.t.Helper()
	if status, _, got := call(p.t, http.MethodPost, p.session(session), `{"input":{"text":"`+someText+`"}}`); status != http.StatusAccepted {
		p.t.Fatalf("submit: %d %v", status, got)
	}
}

// claimOne claims the job that is there, and returns its id, the address of the
// attempt and what identifies the claim.
func (p *process) claimOne() (job, attempt, holder string, whole map[string]any) {
	p.t.Helper()
	status, got := ask(p.t, p.api+"/api/v1/worker/claims", `{"worker_id":"w1","workloads":["summary"],"wait_seconds":30}`)
	if status != http.StatusOK {
		p.t.Fatalf("claim: %d %v", status, got)
	}
	n, err := json.Marshal(got["attempt"])
	if err != nil {
		p.t.Fatal(err)
	}
	job, _ = got["job_id"].(string)
	token, _ := got["claim_token"].(string)
	return job, "/jobs/" + job + "/attempts/" + string(n), `"worker_id":"w1","claim_token":"` + token + `"`, got
}

func TestAWorkerInPythonWritesTheSummary(t *testing.T) {
	t.Parallel()
	test := func(t *testing.T, api *process, env ...string) {
		s := openStream(t, api.session("abc-123")+"/status", "")
		s.until("idle")
		api.submitPlain("abc-123")
		worker := pythonWorker(t, api.api, env...)
		if got := texts(s.rest()); got != "queued, processing, completed completed" {
			t.Errorf("seen %s", got)
		}
		_, _, got := call(t, http.MethodGet, api.session("abc-123"), "")
		content, _ := got["content"].(map[string]any)
		if got["model"] != "first-sentences" || content["title"] != "The pump lost pressure in the night." {
			t.Errorf("document %v", got)
		}
		worker.says("COMPLETED")
	}
	t.Run("dev without a token", func(t *testing.T) {
		t.Parallel()
		test(t, serve(t, map[string]string{"TIDINGS_OUTSIDE": "summary"}, "dev"))
	})
	t.Run("processes apart, with a token", func(t *testing.T) {
		t.Parallel()
		env := map[string]string{"TIDINGS_OUTSIDE": "summary", "TIDINGS_WORKER_TOKEN": workerToken, "TIDINGS_REDIS_URL": eventstest.StartRedis(t).URL()}
		serve(t, env, "work")
		api := serve(t, env, "serve")
		test(t, api, "TIDINGS_WORKER_TOKEN="+workerToken)
		stranger := pythonWorker(t, api.api, "TIDINGS_WORKER_TOKEN=wrong")
		if code := stranger.code(); code != 1 || !strings.Contains(stranger.err.String(), "unauthorized") {
			t.Errorf("a stranger ends with %d and %s", code, stranger.err)
		}
	})
}

// A worker that is killed is missed when its lease ends, and another one does
// the job.
func TestAPythonWorkerThatIsKilledIsReplaced(t *testing.T) {
	t.Parallel()
	p := serve(t, short(map[string]string{"TIDINGS_OUTSIDE": "summary", "TIDINGS_LEASE": "2s", "TIDINGS_REDIS_URL": eventstest.StartRedis(t).URL()}), "dev")
	s := openStream(t, p.session("abc-123")+"/status", "")
	s.until("idle")
	p.submitPlain("abc-123")
	first := pythonWorker(t, p.api, "WORKER_SECONDS=300", "WORKER_ID=first")
	seen := s.until("processing")
	first.signal(syscall.SIGKILL)
	first.code()
	seen = append(seen, s.until("retrying")...)
	pythonWorker(t, p.api, "WORKER_ID=second").says("COMPLETED")
	seen = append(seen, s.rest()...)
	if got := texts(seen); got != "queued, processing, retrying queue worker_lost, processing, completed completed" {
		t.Errorf("seen %s", got)
	}
	lookAt(t, seen)
	if _, _, got := call(t, http.MethodGet, p.session("abc-123"), ""); got["version"] != 1.0 {
		t.Errorf("document %v", got)
	}
}

func TestOutsideWorkersReportsOverHTTP(t *testing.T) {
	t.Parallel()
	p := serve(t, short(map[string]string{"TIDINGS_OUTSIDE": "summary", "TIDINGS_WORKER_TOKEN": workerToken, "TIDINGS_ADMIN_PASSWORD": adminPassword}), "dev")
	worker, admin := p.api+"/api/v1/worker", "Authorization: Basic "+base64.StdEncoding.EncodeToString([]byte("admin:"+adminPassword))
	want := func(what string, status int, got map[string]any, wantStatus int, field string, value any) {
		t.Helper()
		if status != wantStatus || got[field] != value {
			t.Errorf("%s: %d %v, want %d %s %v", what, status, got, wantStatus, field, value)
		}
	}
	status, got := ask(t, worker+"/claims", `{"worker_id":"w1","workloads":["summary"]}`)
	want("a claim of nothing", status, got, 204, "", nil)
	status, got = ask(t, worker+"/claims", `{"worker_id":"w1","workloads":["guidance"]}`)
	want("a claim of what is done here", status, got, 400, "field", "workloads")
	status, got = ask(t, worker+"/claims", `{}`, "Authorization: Bearer x")
	want("a stranger", status, got, 401, "code", "unauthorized")

	s := openStream(t, p.session("abc-123")+"/status?follow=true", "")
	s.until("idle")
	p.submitPlain("abc-123")
	_, attempt, me, assigned := p.claimOne()
	if text, _ := assigned["prompt"].(string); !strings.Contains(text, "The pump lost pressure") || assigned["max_attempts"] != 4.0 {
		t.Errorf("assigned %v", assigned)
	}
	s.until("processing")

	// S2-06, S2-30: the first report and its repeat; the time is the one that clients see.
	fail := `{` + me + `,"failure_type":"model_unavailable","error_message":"secret of the test"}`
	status, first := ask(t, worker+attempt+"/fail", fail)
	want("fail", status, first, 200, "decision", "RETRY")
	retrying := last(s.until("retrying"))
	if first["next_retry_at"] != retrying.data["next_retry_at"] || first["attempts_used"] != 1.0 || retrying.data["reason"] != "unavailable" {
		t.Errorf("answered %v, told %v", first, retrying.data)
	}
	status, again := ask(t, worker+attempt+"/fail", fail)
	want("its repeat", status, again, 200, "failed_at", first["failed_at"])
	status, got = ask(t, worker+attempt+"/fail", `{`+me+`,"failure_type":"model_unavailable","error_message":"other"}`)
	want("S2-31, other content", status, got, 409, "code", "attempt_conflict")
	status, got = ask(t, worker+attempt+"/complete", `{`+me+`,"content":{"title":"T","summary":"S.","key_points":[]}}`)
	want("complete after fail", status, got, 409, "code", "attempt_conflict")
	status, got = ask(t, worker+attempt+"/fail", `{`+me+`,"failure_type":"bad_luck"}`)
	want("S2-04", status, got, 400, "code", "unknown_failure_type")

	// S2-35, S2-36: the next claim, and the old report's repeat beside it.
	job, attempt2, me2, _ := p.claimOne()
	if attempt2 == attempt || me2 == me {
		t.Errorf("second claim: %s %s", attempt2, me2)
	}
	status, got = ask(t, worker+attempt+"/fail", fail)
	want("S2-07", status, got, 200, "next_retry_at", first["next_retry_at"])
	status, got = ask(t, worker+attempt2+"/heartbeat", `{`+me2+`}`)
	want("heartbeat", status, got, 200, "heartbeat_ms", 5000.0)
	status, got = ask(t, worker+attempt2+"/heartbeat", `{`+me+`}`)
	want("S2-02, a heartbeat with an old token", status, got, 409, "code", "claim_lost")
	status, got = ask(t, worker+attempt2+"/complete", `{`+me2+`,"content":{"title":1}}`)
	want("content that breaks the schema", status, got, 400, "field", "content")
	status, got = ask(t, p.ops+"/admin/jobs/"+job+"/resolve", `{"outcome":"failed"}`, admin)
	want("resolving what is not unknown", status, got, 409, "code", "not_resolvable")
	unknown := `{` + me2 + `,"failure_type":"outcome_unknown"}`
	status, got = ask(t, p.ops+"/admin"+attempt2+"/fail", unknown, admin)
	want("an operator's report", status, got, 200, "decision", "FAILED")
	if f := last(s.until("error")); f.data["outcome"] != "outcome_unknown" || f.data["can_retry"] != false {
		t.Errorf("told %v", f.data)
	}

	// S4-48: what an operator has found out is told as the end.
	done := `{"outcome":"completed","content":{"title":"T","summary":"S.","key_points":[]}}`
	for range 2 {
		status, got = ask(t, p.ops+"/admin/jobs/"+job+"/resolve", done, admin)
		want("resolve", status, got, 200, "status", "completed")
	}
	s.until("completed")
	if status, got = ask(t, p.ops+"/admin/jobs/"+job+"/resolve", done); status != 401 {
		t.Errorf("a worker's token for an operator: %d %v", status, got)
	}
	p.signal(syscall.SIGTERM)
	p.code()
	for _, secret := range []string{"secret of the test", workerToken, strings.Split(me, `"`)[7], "pressure"} {
		if strings.Contains(p.err.String(), secret) {
			t.Errorf("%q is in the logs", secret)
		}
	}
}

// A process that goes down keeps nobody waiting: claims end, and the jobs that
// it looked after go to the next one.
func TestOutsideJobsMoveToAnotherProcessAtShutdown(t *testing.T) {
	t.Parallel()
	env := short(map[string]string{"TIDINGS_OUTSIDE": "summary,guidance", "TIDINGS_WORKER_TOKEN": workerToken, "TIDINGS_REDIS_URL": eventstest.StartRedis(t).URL(), "TIDINGS_DRAIN": "0s"})
	p := serve(t, env, "all")
	s := openStream(t, p.session("abc-123")+"/status", "")
	s.until("idle")
	p.submitPlain("abc-123")
	cursor := last(s.until("queued")).id
	answered := make(chan int, 1)
	go func() {
		defer close(answered)
		status, _ := ask(t, p.api+"/api/v1/worker/claims", `{"worker_id":"w2","workloads":["guidance"],"wait_seconds":60}`)
		answered <- status
	}()
	// The claim is waiting when the server says so.
	for deadline := time.Now().Add(wait); !strings.Contains(metricsOf(t, p), "tidings_worker_claims_waiting 1"); {
		if time.Now().After(deadline) {
			t.Fatal("the claim does not wait")
		}
	}
	start := time.Now()
	p.signal(syscall.SIGTERM)
	if status := <-answered; status != http.StatusNoContent || time.Since(start) > 20*time.Second {
		t.Errorf("the waiting claim: %d after %s", status, time.Since(start))
	}
	if code := p.code(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	next := serve(t, env, "all")
	_, attempt, me, got := next.claimOne()
	if got["attempt"] != 1.0 {
		t.Errorf("claimed %v", got)
	}
	again := openStream(t, next.session("abc-123")+"/status", cursor)
	if status, got := ask(t, next.api+"/api/v1/worker"+attempt+"/complete", `{`+me+`,"content":{"title":"T","summary":"S.","key_points":[]}}`); status != http.StatusOK {
		t.Errorf("complete: %d %v", status, got)
	}
	if got := texts(again.rest()); got != "processing, completed completed" {
		t.Errorf("after the restart %s", got)
	}
}

func metricsOf(t *testing.T, p *process) string {
	t.Helper()
	res, err := http.Get(p.ops + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
