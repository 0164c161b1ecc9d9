package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/locales"
)

// The codes that are the server's own; the others are the jobs' refusals.
const (
	codeInvalidSession     = "invalid_session_id"
	codeInvalidBody        = "invalid_body"
	codeInvalidQuery       = "invalid_query"
	codeInvalidKey         = "invalid_idempotency_key"
	codeBodyTooLarge       = "body_too_large"
	codeUnsupportedType    = "unsupported_media_type"
	codeNotAcceptable      = "not_acceptable"
	codeUnknownWorkload    = "unknown_workload"
	codeNotFound           = string(jobs.CodeNotFound)
	codeMethodNotAllowed   = "method_not_allowed"
	codeUnauthorized       = "unauthorized"
	codeCrossSite          = "cross_site"
	codeUnknownHost        = "unknown_host"
	codeTooManyStreams     = "too_many_streams"
	codeStorageUnavailable = "storage_unavailable"
	codeDraining           = "draining"
	codeInternal           = "internal"
)

// statusOf is the one table from a problem's code to its HTTP status, and how
// long to wait before asking again where the error itself does not know.
func statusOf(code string) (status int, wait time.Duration) {
	switch code {
	case codeInvalidSession, codeInvalidBody, codeInvalidQuery, codeInvalidKey,
		string(jobs.CodeInvalidField), string(jobs.CodeSimulateOnlyInDev), string(jobs.CodeUnknownFailureType):
		return http.StatusBadRequest, 0
	case codeUnauthorized:
		return http.StatusUnauthorized, 0
	case codeCrossSite, "forbidden":
		return http.StatusForbidden, 0
	case codeUnknownHost:
		return http.StatusMisdirectedRequest, 0
	case codeNotFound, string(jobs.CodeNoDocument), codeUnknownWorkload:
		return http.StatusNotFound, 0
	case codeMethodNotAllowed:
		return http.StatusMethodNotAllowed, 0
	case codeNotAcceptable:
		return http.StatusNotAcceptable, 0
	case string(jobs.CodeJobRunning), string(jobs.CodeNotRetryable), string(jobs.CodeAlreadyCompleted),
		string(jobs.CodeAttemptConflict), string(jobs.CodeClaimLost), string(jobs.CodeNotResolvable):
		return http.StatusConflict, 0
	case string(jobs.CodeInputGone):
		return http.StatusGone, 0
	case codeBodyTooLarge, string(jobs.CodeInputTooLong):
		return http.StatusRequestEntityTooLarge, 0
	case codeUnsupportedType:
		return http.StatusUnsupportedMediaType, 0
	case string(jobs.CodeIdempotencyKeyReused):
		return http.StatusUnprocessableEntity, 0
	case string(jobs.CodeTooOften), string(jobs.CodeWaitRequired):
		return http.StatusTooManyRequests, time.Second
	case codeTooManyStreams, string(jobs.CodeTooManyLiveJobs):
		return http.StatusTooManyRequests, 10 * time.Second
	case string(jobs.CodeQueueFull), string(jobs.CodeAdmissionDenied):
		return http.StatusServiceUnavailable, 5 * time.Second
	case codeStorageUnavailable:
		return http.StatusServiceUnavailable, 2 * time.Second
	case codeDraining:
		return http.StatusServiceUnavailable, time.Second
	}
	return http.StatusInternalServerError, 0
}

// problem is an error that knows its answer.
type problem struct {
	code  string
	field string
	hint  string // for developers, in English, without any input in it
	jobID string
	wait  time.Duration
	cause error // for the log, when it is a fault of ours
}

func (p *problem) Error() string { return "server: " + p.code }

var errPanic = errors.New("server: a handler panicked")

// problemOf turns any error into a problem. What is not known to be the
// caller's to read is internal, and its text stays here.
func problemOf(err error) *problem {
	var p *problem
	if errors.As(err, &p) {
		return p
	}
	var r *jobs.Refusal
	if errors.As(err, &r) {
		if status, _ := statusOf(string(r.Code)); status != http.StatusInternalServerError {
			return &problem{code: string(r.Code), field: r.Field, hint: r.Why, jobID: r.JobID, wait: r.RetryAfter}
		}
	}
	switch {
	case errors.Is(err, events.ErrUnavailable), errors.Is(err, context.DeadlineExceeded): // the only deadlines here are for the storage
		return &problem{code: codeStorageUnavailable, cause: err}
	case errors.Is(err, events.ErrClosed):
		return &problem{code: codeDraining}
	}
	return &problem{code: codeInternal, cause: err}
}

// problemDocument is the answer's body, RFC 9457.
type problemDocument struct {
	Type       string `json:"type"`
	Title      string `json:"title"`
	Status     int    `json:"status"`
	Detail     string `json:"detail"`
	Code       string `json:"code"`
	RequestID  string `json:"request_id"`
	Field      string `json:"field,omitempty"`
	Hint       string `json:"hint,omitempty"`
	JobID      string `json:"job_id,omitempty"`
	RetryAfter int    `json:"retry_after,omitempty"` // seconds, as the header
}

// problemBase is where a problem's type can be read about.
const problemBase = "https://github.com/tidings/tidings/blob/main/docs/errors.md#"

// statusClientGone is what the log shows for a caller that did not wait for
// the answer. Nobody receives it.
const statusClientGone = 499

// fail answers with an error. It is the only place that does.
func (s *Server) fail(c *gin.Context, err error) {
	k := callOf(c)
	if errors.Is(err, context.Canceled) && c.Request.Context().Err() != nil {
		c.AbortWithStatus(statusClientGone)
		return
	}
	p := problemOf(err)
	status, wait := statusOf(p.code)
	if p.wait > 0 {
		wait = p.wait
	}
	k.fault = p.cause

	doc := problemDocument{
		Type: problemBase + p.code, Status: status, Code: p.code, RequestID: k.id,
		Field: p.field, Hint: p.hint, JobID: p.jobID, RetryAfter: wholeSeconds(wait),
	}
	args := locales.Args{"Field": p.field, "Limit": "1 MiB", "Seconds": max(doc.RetryAfter, 1)}
	doc.Title, _ = s.o.Texts.Text(k.lang, "problem_"+p.code+"_title", args)
	var used locales.Language
	doc.Detail, used = s.o.Texts.Text(k.lang, "problem_"+p.code+"_detail", args)

	h := c.Writer.Header()
	if doc.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(doc.RetryAfter))
	}
	h.Set("Content-Language", string(used))
	h.Add("Vary", "Accept-Language")
	h.Set("Cache-Control", "no-store")
	h.Del("ETag")
	body, err := json.Marshal(doc)
	if err != nil { // strings and numbers always encode
		panic(err)
	}
	c.Abort()
	c.Data(status, "application/problem+json", body)
}

// wholeSeconds rounds up: asking again too early is worse than a second late.
func wholeSeconds(d time.Duration) int {
	if d <= 0 {
		return 0
	}
	return int((d + time.Second - 1) / time.Second)
}
