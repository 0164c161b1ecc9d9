package server

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/model"
)

var _ Outside = (*jobs.Outside)(nil)

// outsideScript answers outside workers with what it is told to. What the jobs
// make of such requests is tested with them, and both together in cmd/tidings.
type outsideScript struct {
	mu       sync.Mutex
	err      error
	offer    chan *jobs.Assignment
	settled  jobs.Settled
	status   events.Status
	claims   []string
	report   jobs.Report
	kind     jobs.FailureType
	message  string
	content  string
	model    string
	usage    model.Usage
	resolved string
}

func (o *outsideScript) Claim(ctx context.Context, worker string, workloads []string, wait time.Duration) (*jobs.Assignment, error) {
	o.mu.Lock()
	o.claims = append(o.claims, fmt.Sprint(worker, workloads, wait))
	err := o.err
	o.mu.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case a := <-o.offer:
		return a, nil
	case <-time.After(wait):
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (o *outsideScript) Heartbeat(_ context.Context, r jobs.Report) (time.Duration, error) {
	o.report = r
	return 15 * time.Second, o.err
}

func (o *outsideScript) Complete(_ context.Context, r jobs.Report, content json.RawMessage, modelName string, u model.Usage) (jobs.Settled, error) {
	o.report, o.content, o.model, o.usage = r, string(content), modelName, u
	return o.settled, o.err
}

func (o *outsideScript) Fail(_ context.Context, r jobs.Report, kind jobs.FailureType, message string) (jobs.Settled, error) {
	o.report, o.kind, o.message = r, kind, message
	return o.settled, o.err
}

func (o *outsideScript) Resolve(_ context.Context, job string, content json.RawMessage) (events.Status, error) {
	o.resolved = job + " " + string(content)
	return o.status, o.err
}

const (
	workerToken = "the-token-of-the-outside-workers"
	showToken   = "Authorization: Bearer " + workerToken
	attemptPath = "/api/v1/worker/jobs/01JOB/attempts/2"
	holder      = `"worker_id":"w-1","claim_token":"T1"`
	aTime       = "2026-04-07T12:01:00.000Z"
)

// inOutsideTestbed runs a test with outside workers in virtual time.
func inOutsideTestbed(t *testing.T, test func(*testing.T, *testbed, *outsideScript), change ...func(*Options)) {
	t.Helper()
	promises(t)
	synctest.Test(t, func(t *testing.T) {
		o := &outsideScript{offer: make(chan *jobs.Assignment, 1)}
		h := newTestbed(t, append([]func(*Options){func(s *Options) { s.Outside, s.WorkerToken = o, workerToken }}, change...)...)
		test(t, h, o)
	})
}

func at(text string) time.Time {
	v, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return v
}

// exactly compares a body with what it must be, byte for byte.
func (a answer) exactly(t *testing.T, status int, body string) {
	t.Helper()
	if a.status != status || string(a.body) != body {
		t.Errorf("%d %s\nwant %d %s", a.status, a.body, status, body)
	}
}

func (a answer) refused(t *testing.T, what string, status int, code, field string) {
	t.Helper()
	m := a.json(t)
	if got, _ := m["field"].(string); a.status != status || m["code"] != code || got != field {
		t.Errorf("%s: %d %s, want %d %s %q", what, a.status, a.body, status, code, field)
	}
}

func TestTheAnswersOfAnOutsideWorkersRequests(t *testing.T) {
	inOutsideTestbed(t, func(t *testing.T, h *testbed, o *outsideScript) {
		o.offer <- &jobs.Assignment{JobID: "01JOB", Workload: "summary", Attempt: 2, MaxAttempts: 4, ClaimToken: "T1", LeaseMS: 15000, HeartbeatMS: 5000,
			DeadlineAt: at(aTime), RemainingMS: 600000, Input: json.RawMessage(`{"text":"<a>"}`), System: "s", Prompt: "<p>", Schema: json.RawMessage(`{}`)}
		h.do(t, "POST", "/api/v1/worker/claims", `{"worker_id":"w-1","workloads":["summary","guidance"],"wait_seconds":60}`, showToken).exactly(t, 200,
			`{"job_id":"01JOB","workload":"summary","attempt":2,"max_attempts":4,"claim_token":"T1","lease_ms":15000,"heartbeat_ms":5000,`+
				`"remaining_ms":600000,"input":{"text":"<a>"},"system":"s","prompt":"<p>","schema":{},"deadline_at":"`+aTime+`"}`)
		if got := o.claims[0]; got != "w-1[summary guidance] 1m0s" {
			t.Errorf("claimed as %s", got)
		}

		h.do(t, "POST", attemptPath+"/heartbeat", `{`+holder+`}`, showToken).exactly(t, 200, `{"lease_ms":15000,"heartbeat_ms":5000}`)
		if want := (jobs.Report{JobID: "01JOB", Attempt: 2, Worker: "w-1", Token: "T1"}); o.report != want {
			t.Errorf("reported as %+v", o.report)
		}

		o.settled = jobs.Settled{JobID: "01JOB", Attempt: 2, Status: events.Completed, At: at(aTime), Version: 7}
		h.do(t, "POST", attemptPath+"/complete", `{`+holder+`,"content":{"title":"é"},"model":"theirs","usage":{"input_tokens":3,"output_tokens":null}}`, showToken).
			exactly(t, 200, `{"job_id":"01JOB","attempt":2,"status":"COMPLETED","version":7,"completed_at":"`+aTime+`"}`)
		if o.content != `{"title":"é"}` || o.model != "theirs" || *o.usage.InputTokens != 3 || o.usage.OutputTokens != nil || o.usage.CachedTokens != nil {
			t.Errorf("completed with %s by %s, %+v", o.content, o.model, o.usage)
		}
		h.do(t, "POST", attemptPath+"/complete", `{`+holder+`,"content":{}}`, showToken)
		if o.model != "outside" || o.usage.InputTokens != nil {
			t.Errorf("completed by %s, %+v", o.model, o.usage)
		}

		o.settled = jobs.Settled{JobID: "01JOB", Attempt: 2, Status: events.Retrying, At: at(aTime), NextRetryAt: at("2026-04-07T12:01:30Z")}
		h.do(t, "POST", attemptPath+"/fail", `{`+holder+`,"failure_type":"model_timeout","error_message":"slow"}`, showToken).exactly(t, 200,
			`{"job_id":"01JOB","attempt":2,"status":"FAILED","failure_type":"model_timeout","failed_at":"`+aTime+`","decision":"RETRY","attempts_used":2,"next_retry_at":"2026-04-07T12:01:30.000Z"}`)
		if o.kind != "model_timeout" || o.message != "slow" {
			t.Errorf("failed with %s %q", o.kind, o.message)
		}
		o.settled = jobs.Settled{JobID: "01JOB", Attempt: 2, Status: events.Failed, At: at(aTime)}
		h.do(t, "POST", attemptPath+"/fail", `{`+holder+`,"failure_type":"model_auth"}`, showToken).exactly(t, 200,
			`{"job_id":"01JOB","attempt":2,"status":"FAILED","failure_type":"model_auth","failed_at":"`+aTime+`","decision":"FAILED","attempts_used":2,"next_retry_at":null}`)
	})
}

func TestWhoIsNoWorkerIsNotLetIn(t *testing.T) {
	paths := []string{"/api/v1/worker/claims", attemptPath + "/heartbeat", attemptPath + "/complete", attemptPath + "/fail"}
	t.Run("with a token", func(t *testing.T) {
		inOutsideTestbed(t, func(t *testing.T, h *testbed, o *outsideScript) {
			for _, path := range paths {
				for _, headers := range [][]string{nil, {"Authorization: Bearer wrong"}, {showToken + "x"}, {"Authorization: Bearer " + workerToken[1:]}, {showToken, showToken},
					{"Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("admin:"+workerToken))}} {
					a := h.do(t, "POST", path, `{}`, headers...)
					a.refused(t, path, 401, "unauthorized", "")
					if !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Bearer ") {
						t.Errorf("%s: no challenge", path)
					}
				}
			}
			if len(o.claims) != 0 {
				t.Errorf("let in: %q", o.claims)
			}
		}, func(o *Options) { o.Dev = true })
	})
	t.Run("without one", func(t *testing.T) {
		inOutsideTestbed(t, func(t *testing.T, h *testbed, _ *outsideScript) {
			for _, path := range paths {
				for _, headers := range [][]string{nil, {"Authorization: Bearer "}, {showToken}, {"Host: localhost"}} {
					h.do(t, "POST", path, `{}`, headers...).refused(t, path, 404, "not_found", "")
				}
			}
		}, func(o *Options) { o.WorkerToken = "" })
	})
	t.Run("without outside workers", func(t *testing.T) {
		inTestbed(t, func(t *testing.T, h *testbed) {
			for _, path := range paths {
				h.do(t, "POST", path, `{}`, showToken).refused(t, path, 404, "not_found", "")
			}
		}, func(o *Options) { o.WorkerToken = workerToken })
	})
}

func TestInDevWithoutATokenWorkersOnThisMachineAreServed(t *testing.T) {
	o := &outsideScript{offer: make(chan *jobs.Assignment)}
	h := newTCPTestbed(t, func(s *Options) { s.Outside, s.Dev = o, true })
	claim := `{"worker_id":"w","workloads":["summary"]}`
	for _, c := range []struct {
		headers []string
		want    int
	}{
		{[]string{"Host: 127.0.0.1:8080"}, 204}, {[]string{"Host: localhost"}, 204},
		{[]string{"Host: rebound.example.com"}, 421}, {[]string{"Host: 10.0.0.1:8080"}, 404},
		{[]string{"Host: localhost", "Origin: https://elsewhere.example.com"}, 403},
	} {
		if a := h.do(t, "POST", "/api/v1/worker/claims", claim, c.headers...); a.status != c.want {
			t.Errorf("%q: %d, want %d", c.headers, a.status, c.want)
		}
	}
}

func TestABadBodyOfAWorkerNamesTheField(t *testing.T) {
	long := strings.Repeat("x", 4097)
	inOutsideTestbed(t, func(t *testing.T, h *testbed, o *outsideScript) {
		for _, c := range []struct{ path, body, field string }{
			{"/claims", `{"workloads":["summary"]}`, "worker_id"},
			{"/claims", `{"worker_id":"","workloads":["summary"]}`, "worker_id"},
			{"/claims", `{"worker_id":"a b","workloads":["summary"]}`, "worker_id"},
			{"/claims", `{"worker_id":7,"workloads":["summary"]}`, "worker_id"},
			{"/claims", `{"worker_id":"w"}`, "workloads"},
			{"/claims", `{"worker_id":"w","workloads":[]}`, "workloads"},
			{"/claims", `{"worker_id":"w","workloads":"summary"}`, "workloads"},
			{"/claims", `{"worker_id":"w","workloads":["summary"],"wait_seconds":61}`, "wait_seconds"},
			{"/claims", `{"worker_id":"w","workloads":["summary"],"wait_seconds":-1}`, "wait_seconds"},
			{"/claims", `{"worker_id":"w","workloads":["summary"],"wait_seconds":0.5}`, "wait_seconds"},
			{"/claims", `{"worker_id":"w","workloads":["summary"],"wait":1}`, "wait"},
			{"/jobs/J/attempts/1/heartbeat", `{"worker_id":"w"}`, "claim_token"},
			{"/jobs/J/attempts/1/heartbeat", `{"worker_id":"w","claim_token":"` + long + `"}`, "claim_token"},
			{"/jobs/J/attempts/1/heartbeat", `{"claim_token":"T"}`, "worker_id"},
			{"/jobs/J/attempts/1/heartbeat", `{` + holder + `,"more":1}`, "more"},
			{"/jobs/J/attempts/1/complete", `{` + holder + `}`, "content"},
			{"/jobs/J/attempts/1/complete", `{` + holder + `,"content":null}`, "content"},
			{"/jobs/J/attempts/1/complete", `{` + holder + `,"content":{},"model":3}`, "model"},
			{"/jobs/J/attempts/1/complete", `{` + holder + `,"content":{},"model":"` + long + `"}`, "model"},
			{"/jobs/J/attempts/1/complete", `{` + holder + `,"content":{},"usage":3}`, "usage"},
			{"/jobs/J/attempts/1/complete", `{` + holder + `,"content":{},"usage":{"input_tokens":-1}}`, "usage.input_tokens"},
			{"/jobs/J/attempts/1/complete", `{` + holder + `,"content":{},"usage":{"input_tokens":"1"}}`, "usage.input_tokens"},
			{"/jobs/J/attempts/1/complete", `{` + holder + `,"content":{},"usage":{"tokens":1}}`, "usage.tokens"},
			{"/jobs/J/attempts/1/fail", `{` + holder + `}`, "failure_type"},
			{"/jobs/J/attempts/1/fail", `{` + holder + `,"failure_type":3}`, "failure_type"},
			{"/jobs/J/attempts/1/fail", `{` + holder + `,"failure_type":"model_auth","error_message":"` + long + `"}`, "error_message"},
			{"/jobs/J/attempts/1/fail", `{` + holder + `,"failure_type":"model_auth","retry":true}`, "retry"}, // S2-03: that is not the worker's to say
		} {
			h.do(t, "POST", "/api/v1/worker"+c.path, c.body, showToken).refused(t, c.path+" "+c.body[:min(len(c.body), 80)], 400, "invalid_field", c.field)
		}
		for _, path := range []string{"/claims", "/jobs/J/attempts/1/fail"} {
			for _, b := range []string{"{", "[]", "null", `{} {}`} {
				h.do(t, "POST", "/api/v1/worker"+path, b, showToken).refused(t, b, 400, "invalid_body", "")
			}
			h.do(t, "POST", "/api/v1/worker"+path, `{}`, showToken, "Content-Type: text/plain").refused(t, path, 415, "unsupported_media_type", "")
			h.do(t, "POST", "/api/v1/worker"+path, `{"a":"`+strings.Repeat("x", jobs.MaxInputBytes)+`"}`, showToken).refused(t, path, 413, "body_too_large", "")
			if a := h.do(t, "GET", "/api/v1/worker"+path, "", showToken); a.status != 405 || a.header.Get("Allow") != "POST" {
				t.Errorf("GET %s: %d", path, a.status)
			}
		}
		for _, path := range []string{"/jobs/J/attempts/0/fail", "/jobs/J/attempts/-1/fail", "/jobs/J/attempts/+1/fail", "/jobs/J/attempts/01/fail", "/jobs/J/attempts/x/fail",
			"/jobs/J/attempts/99999999999999999999/fail", "/jobs/a:b/attempts/1/fail", "/jobs/" + long[:65] + "/attempts/1/fail", "/jobs/J/attempts/1/other"} {
			h.do(t, "POST", "/api/v1/worker"+path, `{`+holder+`,"failure_type":"model_auth"}`, showToken).refused(t, path, 404, "not_found", "")
		}
		if o.report.JobID != "" || len(o.claims) != 0 {
			t.Errorf("let through: %+v %q", o.report, o.claims)
		}
	})
}

func TestRefusalsOfReports(t *testing.T) {
	inOutsideTestbed(t, func(t *testing.T, h *testbed, o *outsideScript) {
		for _, c := range []struct {
			refusal error
			status  int
			code    string
			field   string
		}{
			{&jobs.Refusal{Code: jobs.CodeUnknownFailureType, Field: "failure_type"}, 400, "unknown_failure_type", "failure_type"}, // S2-04
			{&jobs.Refusal{Code: jobs.CodeInvalidField, Field: "content"}, 400, "invalid_field", "content"},
			{&jobs.Refusal{Code: jobs.CodeNotFound}, 404, "not_found", ""},
			{&jobs.Refusal{Code: jobs.CodeAttemptConflict}, 409, "attempt_conflict", ""}, // S2-28, S2-31
			{&jobs.Refusal{Code: jobs.CodeClaimLost}, 409, "claim_lost", ""},             // S2-33
			{&jobs.Refusal{Code: jobs.CodeTooOften, RetryAfter: time.Second}, 429, "too_often", ""},
			{fmt.Errorf("redis: %w", events.ErrUnavailable), 503, "storage_unavailable", ""},
			{errors.New("a defect"), 500, "internal", ""},
		} {
			o.err = c.refusal
			for path, b := range map[string]string{
				attemptPath + "/heartbeat": `{` + holder + `}`, attemptPath + "/complete": `{` + holder + `,"content":{}}`,
				attemptPath + "/fail":   `{` + holder + `,"failure_type":"bad_luck","error_message":"x"}`,
				"/api/v1/worker/claims": `{"worker_id":"w","workloads":["summary"]}`,
			} {
				h.do(t, "POST", path, b, showToken).refused(t, path, c.status, c.code, c.field)
			}
		}
	})
}

// TestAWaitingClaimOutlivesTheLimitForAnswers, which is shorter than it.
func TestAWaitingClaimOutlivesTheLimitForAnswers(t *testing.T) {
	inOutsideTestbed(t, func(t *testing.T, h *testbed, o *outsideScript) {
		start := time.Now()
		a := h.do(t, "POST", "/api/v1/worker/claims", `{"worker_id":"w","workloads":["summary"],"wait_seconds":60}`, showToken)
		if took := time.Since(start); a.status != 204 || len(a.body) != 0 || took != time.Minute {
			t.Errorf("%d %s after %s", a.status, a.body, took)
		}
		go func() {
			time.Sleep(50 * time.Second)
			o.offer <- &jobs.Assignment{JobID: "01JOB", Workload: "summary", Attempt: 1, MaxAttempts: 4, ClaimToken: "T1", LeaseMS: 15000, HeartbeatMS: 5000,
				Input: json.RawMessage(`{}`), Schema: json.RawMessage(`{}`)}
		}()
		if a := h.do(t, "POST", "/api/v1/worker/claims", `{"worker_id":"w","workloads":["summary"],"wait_seconds":60}`, showToken); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

func TestWaitingClaimsEndAtOnceAtShutdown(t *testing.T) {
	inOutsideTestbed(t, func(t *testing.T, h *testbed, _ *outsideScript) {
		for range 2 { // the second one is closed in the middle of the drain
			h.open(t, statusPath).want(t, "idle")
		}
		start := time.Now()
		body := `{"worker_id":"w","workloads":["summary"],"wait_seconds":60}`
		go func() { time.Sleep(time.Second); h.stop() }()
		a := h.do(t, "POST", "/api/v1/worker/claims", body, showToken)
		if took := time.Since(start); a.status != 204 || took != time.Second {
			t.Errorf("%d after %s", a.status, took)
		}
		// The process is there for the rest of the drain, but not for new work.
		a = h.do(t, "POST", "/api/v1/worker/claims", body, showToken)
		a.refused(t, "while draining", 503, "draining", "")
		if a.header.Get("Retry-After") != "1" {
			t.Errorf("Retry-After %q", a.header.Get("Retry-After"))
		}
		if a := h.do(t, "POST", attemptPath+"/heartbeat", `{`+holder+`}`, showToken); a.status != 200 {
			t.Errorf("a heartbeat while draining: %d", a.status)
		}
	}, func(o *Options) { o.Drain = 10 * time.Second }, func(o *Options) { o.MaxAge = time.Hour })
}

func TestOperatorsFailAnAttemptAndResolveAnUnknownOutcome(t *testing.T) {
	const job = "http://ops/admin/jobs/01JOB"
	inOutsideTestbed(t, func(t *testing.T, h *testbed, o *outsideScript) {
		o.settled = jobs.Settled{JobID: "01JOB", Attempt: 2, Status: events.Failed, At: at(aTime)}
		fail := `{` + holder + `,"failure_type":"model_auth"}`
		a := h.send(t, job+"/attempts/2/fail", "POST", fail, login(password))
		a.exactly(t, 200, `{"job_id":"01JOB","attempt":2,"status":"FAILED","failure_type":"model_auth","failed_at":"`+aTime+`","decision":"FAILED","attempts_used":2,"next_retry_at":null}`)
		if a.header.Get("X-Frame-Options") != "DENY" || a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("headers %v", a.header)
		}
		o.status = events.Completed
		h.send(t, job+"/resolve", "POST", `{"outcome":"completed","content":{"a":1}}`, login(password)).exactly(t, 200, `{"job_id":"01JOB","status":"completed"}`)
		if o.resolved != `01JOB {"a":1}` {
			t.Errorf("resolved %s", o.resolved)
		}
		o.status = events.Failed
		h.send(t, job+"/resolve", "POST", `{"outcome":"failed"}`, login(password)).exactly(t, 200, `{"job_id":"01JOB","status":"error"}`)
		if o.resolved != `01JOB ` {
			t.Errorf("resolved %s", o.resolved)
		}
		for body, field := range map[string]string{
			`{}`: "outcome", `{"outcome":"error"}`: "outcome", `{"outcome":"completed"}`: "content", `{"outcome":"completed","content":null}`: "content",
			`{"outcome":"failed","content":{}}`: "content", `{"outcome":"failed","why":1}`: "why",
		} {
			h.send(t, job+"/resolve", "POST", body, login(password)).refused(t, body, 400, "invalid_field", field)
		}
		o.err = &jobs.Refusal{Code: jobs.CodeNotResolvable}
		h.send(t, job+"/resolve", "POST", `{"outcome":"failed"}`, login(password)).refused(t, "resolve", 409, "not_resolvable", "")
		o.err = &jobs.Refusal{Code: jobs.CodeNotFound}
		h.send(t, job+"/resolve", "POST", `{"outcome":"failed"}`, login(password)).refused(t, "resolve", 404, "not_found", "")

		for _, path := range []string{"/attempts/2/fail", "/resolve"} {
			for _, header := range []string{showToken, login("wrong"), "Accept: */*"} {
				if a := h.send(t, job+path, "POST", `{}`, header); a.status != 401 {
					t.Errorf("%s with %s: %d", path, header, a.status)
				}
				time.Sleep(longestPause) // after a wrong guess
			}
			if a := h.send(t, job+path, "POST", `{}`, login(password), "Sec-Fetch-Site: cross-site"); a.status != 403 {
				t.Errorf("%s from a page elsewhere: %d", path, a.status)
			}
			h.send(t, job+path, "GET", "", login(password)).refused(t, path, 405, "method_not_allowed", "")
			if a := h.do(t, "POST", "/admin/jobs/01JOB"+path, `{}`, login(password), showToken); a.status != http.StatusNotFound {
				t.Errorf("%s on the API: %d", path, a.status)
			}
		}
		h.send(t, "http://ops/admin/", "GET", "", login(password)).refused(t, "/admin/", 404, "not_found", "")
	}, func(o *Options) { o.AdminPassword = password })
}
