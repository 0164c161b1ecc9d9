package server

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
)

// refusals are the problems that the jobs can answer with, and what the caller
// then reads in English.
func refusals() []struct {
	refusal    jobs.Refusal
	status     int
	retryAfter string
	detail     string
} {
	return []struct {
		refusal    jobs.Refusal
		status     int
		retryAfter string
		detail     string
	}{
		{jobs.Refusal{Code: jobs.CodeInvalidField, Field: "input.text", Why: "empty or blank"}, 400, "", "“input.text”"},
		{jobs.Refusal{Code: jobs.CodeSimulateOnlyInDev, Field: "simulate"}, 400, "", "simulate"},
		{jobs.Refusal{Code: jobs.CodeNotFound}, 404, "", "nothing"},
		{jobs.Refusal{Code: jobs.CodeNoDocument}, 404, "", "no finished result"},
		{jobs.Refusal{Code: jobs.CodeJobRunning, JobID: "01J"}, 409, "", "already in progress"},
		{jobs.Refusal{Code: jobs.CodeNotRetryable}, 409, "", "can’t be tried again"},
		{jobs.Refusal{Code: jobs.CodeAlreadyCompleted}, 409, "", "already done"},
		{jobs.Refusal{Code: jobs.CodeInputGone}, 410, "", "no longer stored"},
		{jobs.Refusal{Code: jobs.CodeIdempotencyKeyReused}, 422, "", "already used with other content"},
		{jobs.Refusal{Code: jobs.CodeTooOften, RetryAfter: 900 * time.Millisecond}, 429, "1", "in 1 second."},
		{jobs.Refusal{Code: jobs.CodeTooOften}, 429, "1", "in 1 second."},
		{jobs.Refusal{Code: jobs.CodeWaitRequired, RetryAfter: 30*time.Second + 1}, 429, "31", "in 31 seconds."},
		{jobs.Refusal{Code: jobs.CodeQueueFull, RetryAfter: 5 * time.Second}, 503, "5", "any more tasks"},
		{jobs.Refusal{Code: jobs.CodeQueueFull}, 503, "5", "any more tasks"},
		{jobs.Refusal{Code: jobs.CodeAdmissionDenied, RetryAfter: 4200 * time.Millisecond}, 503, "5", "finish this task in time"},
		{jobs.Refusal{Code: jobs.CodeTooManyLiveJobs, RetryAfter: 10 * time.Second}, 429, "10", "too many tasks in progress"},
		{jobs.Refusal{Code: jobs.CodeInputTooLong, Field: "input"}, 413, "", "worked on at once"},
		{jobs.Refusal{Code: "made up"}, 500, "", "our side"},
	}
}

func TestEveryRefusalIsAProblemInTheCallersLanguage(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		for _, c := range refusals() {
			details := map[string]bool{}
			for _, lang := range []string{"en", "nb"} {
				h.jobs.err = fmt.Errorf("wrapped: %w", &c.refusal)
				a := h.do(t, http.MethodPost, documentPath+"/retry", "", "Accept-Language: "+lang, "X-Request-Id: request-0001")
				m := a.json(t)
				wantCode := string(c.refusal.Code)
				if c.status == 500 {
					wantCode = "internal"
				}
				if a.status != c.status || m["code"] != wantCode || m["status"] != float64(c.status) || a.header.Get("Retry-After") != c.retryAfter {
					t.Errorf("%s: %d, Retry-After %q, %s", c.refusal.Code, a.status, a.header.Get("Retry-After"), a.body)
				}
				if a.header.Get("Content-Type") != "application/problem+json" || a.header.Get("Content-Language") != lang ||
					a.header.Get("Cache-Control") != "no-store" || a.header.Get("Vary") != "Accept-Language" {
					t.Errorf("%s: headers %v", c.refusal.Code, a.header)
				}
				if m["request_id"] != "request-0001" || a.header.Get("X-Request-Id") != "request-0001" {
					t.Errorf("%s: request id %v, %v", c.refusal.Code, m["request_id"], a.header.Get("X-Request-Id"))
				}
				if field, _ := m["field"].(string); field != c.refusal.Field {
					t.Errorf("%s: field %q", c.refusal.Code, field)
				}
				if job, _ := m["job_id"].(string); job != c.refusal.JobID {
					t.Errorf("%s: job_id %q", c.refusal.Code, job)
				}
				if lang == "en" && !strings.Contains(m["detail"].(string), c.detail) {
					t.Errorf("%s: detail %q, want %q in it", c.refusal.Code, m["detail"], c.detail)
				}
				details[m["detail"].(string)] = true
			}
			if len(details) != 2 {
				t.Errorf("%s: the same detail in both languages: %v", c.refusal.Code, details)
			}
		}
	})
}

// codes are all problems there are, the ones of later interfaces included.
func codes(h *testbed) (all []string) {
	title := regexp.MustCompile(`^problem_(.+)_title$`)
	for _, key := range h.o.Texts.Keys() {
		if m := title.FindStringSubmatch(key); m != nil {
			all = append(all, m[1])
		}
	}
	return all
}

func TestEveryProblemWithATextHasAStatusAndTheOtherWayRound(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		all := codes(h)
		for _, code := range all {
			if status, _ := statusOf(code); status == http.StatusInternalServerError && code != codeInternal {
				t.Errorf("%s has a text but no status", code)
			}
		}
		for _, code := range []string{codeInvalidSession, codeInvalidBody, codeInvalidQuery, codeInvalidKey, codeBodyTooLarge,
			codeUnsupportedType, codeNotAcceptable, codeUnknownWorkload, codeNotFound, codeMethodNotAllowed, codeUnauthorized,
			codeTooManyStreams, codeStorageUnavailable, codeDraining, codeInternal} {
			if !slices.Contains(all, code) {
				t.Errorf("%s has no text", code)
			}
		}
	})
}

func TestUnknownRoutesAndMethodsAreProblemsToo(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		for _, c := range []struct {
			method, path string
			status       int
			code, allow  string
		}{
			{"GET", "/", 404, "not_found", ""},
			{"GET", "/api/v1/sessions/a/summary/status/", 404, "not_found", ""},
			{"GET", "/api/v1/sessions/a/summary/nothing", 404, "not_found", ""},
			{"GET", "/%00%0d%0a", 404, "not_found", ""},
			{"GET", "/api/v1/sessions/a/poem", 404, "unknown_workload", ""},
			{"PUT", "/api/v1/sessions/a/summary", 405, "method_not_allowed", "GET, HEAD, POST"},
			{"GET", "/api/v1/sessions/a/summary/retry", 405, "method_not_allowed", "POST"},
			{"POST", "/api/v1/sessions/a/summary/status", 405, "method_not_allowed", "GET, HEAD"},
			{"BREW", "/api/v1/locales", 405, "method_not_allowed", "GET, HEAD"},
		} {
			a := h.do(t, c.method, c.path, "", "Accept-Language: nb")
			if m := a.json(t); a.status != c.status || m["code"] != c.code || a.header.Get("Allow") != c.allow || a.header.Get("Content-Language") != "nb" {
				t.Errorf("%s %s: %d, Allow %q, %s", c.method, c.path, a.status, a.header.Get("Allow"), a.body)
			}
		}
		if a := h.do(t, "OPTIONS", "/api/v1/sessions/a/summary", ""); a.status != 204 || a.header.Get("Allow") != "GET, HEAD, POST, OPTIONS" {
			t.Errorf("OPTIONS: %d, %v", a.status, a.header)
		}
	})
}

func TestAPanicIsAnInternalProblemAndTheServerGoesOn(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		a := h.do(t, http.MethodGet, documentPath, "")
		if m := a.json(t); a.status != 500 || m["code"] != "internal" || strings.Contains(string(a.body), "boo") {
			t.Errorf("got %d %s", a.status, a.body)
		}
		if got := h.do(t, http.MethodGet, "/api/v1/locales", "").status; got != 200 {
			t.Errorf("afterwards: %d", got)
		}
	}, func(o *Options) { o.Jobs = panicking{&script{}} })
}

// panicking has a fault in Document.
type panicking struct{ *script }

func (panicking) Document(context.Context, events.Topic) (jobs.Document, error) { panic("boo") }
