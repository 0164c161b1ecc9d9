package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/model"
)

// Outside is what workers in other programs ask of the jobs, and operators who
// settle a job by hand. *jobs.Outside is the one in production.
type Outside interface {
	Claim(ctx context.Context, worker string, workloads []string, wait time.Duration) (*jobs.Assignment, error)
	Heartbeat(ctx context.Context, r jobs.Report) (time.Duration, error)
	Complete(ctx context.Context, r jobs.Report, content json.RawMessage, modelName string, u model.Usage) (jobs.Settled, error)
	Fail(ctx context.Context, r jobs.Report, kind jobs.FailureType, message string) (jobs.Settled, error)
	Resolve(ctx context.Context, job string, content json.RawMessage) (events.Status, error)
}

const (
	maxClaimWait    = 60 // seconds
	maxClaimToken   = 128
	maxClaimedKinds = 20
	maxJobID        = 64
	maxAttempt      = 1_000_000
	maxErrorMessage = 4 << 10
	maxModelName    = 200
)

// outsideRoutes are the workers' part of the API, behind a token of its own.
func (s *Server) outsideRoutes(v1 *gin.RouterGroup) {
	g := v1.Group("/worker", s.workers)
	g.POST("/claims", s.claim)
	g.POST("/jobs/:job_id/attempts/:attempt/heartbeat", s.heartbeat)
	g.POST("/jobs/:job_id/attempts/:attempt/complete", s.complete)
	g.POST("/jobs/:job_id/attempts/:attempt/fail", s.failAttempt)
}

func (s *Server) hasOutside(c *gin.Context) {
	if s.o.Outside == nil {
		s.fail(c, &problem{code: codeNotFound})
	}
}

// workers lets outside workers in: those with the token. In dev, without one,
// those on this machine, unless a browser asks for a page from elsewhere.
// Otherwise there is nothing here.
func (s *Server) workers(c *gin.Context) {
	if s.o.Outside == nil {
		s.hasOutside(c)
		return
	}
	if s.o.WorkerToken == "" {
		if !s.o.Dev || !loopback(c.Request) || c.GetHeader("Origin") != "" {
			s.fail(c, &problem{code: codeNotFound, hint: "outside workers are served with TIDINGS_WORKER_TOKEN only"})
		}
		return
	}
	token, err := bearer(c.Request.Header)
	got, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(s.o.WorkerToken))
	if err != nil || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
		c.Header("WWW-Authenticate", `Bearer realm="tidings workers"`)
		s.fail(c, &problem{code: codeUnauthorized})
	}
}

// claim waits for a job and claims it. The wait ends at once when the process
// goes down; a job that has been claimed by then is still handed over.
func (s *Server) claim(c *gin.Context) {
	var worker string
	var workloads []string
	var wait float64
	err := s.fields(c, map[string]any{"worker_id": &worker, "workloads": &workloads, "wait_seconds": &wait})
	switch {
	case err != nil:
	case !validSession(worker):
		err = invalid("worker_id", workerHint)
	case len(workloads) == 0, len(workloads) > maxClaimedKinds:
		err = invalid("workloads", "1 to 20 names")
	case wait < 0, wait > maxClaimWait, wait != math.Trunc(wait):
		err = invalid("wait_seconds", "a whole number from 0 to 60")
	case s.leaving.Err() != nil:
		err = &problem{code: codeDraining}
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	asked := c.Request.Context()
	ctx, cancel := context.WithCancel(asked)
	defer cancel()
	defer context.AfterFunc(s.leaving, cancel)()
	whole := time.Duration(wait) * time.Second
	// The limit for an answer would end a longer wait. Not every writer has one, in tests.
	_ = http.NewResponseController(c.Writer).SetWriteDeadline(time.Now().Add(whole + answerTimeout))
	s.metrics.claims.Inc()
	defer s.metrics.claims.Dec()
	a, err := s.o.Outside.Claim(ctx, worker, workloads, whole)
	switch {
	case a != nil:
		s.json(c, http.StatusOK, assignmentJSON{Assignment: a, DeadlineAt: stamp{a.DeadlineAt}})
	case err == nil, errors.Is(err, context.Canceled) && asked.Err() == nil:
		if s.leaving.Err() != nil {
			c.Header("Connection", "close") // the next one goes to another process
		}
		c.Status(http.StatusNoContent)
	default:
		s.fail(c, err)
	}
}

// heartbeat keeps a claim alive.
func (s *Server) heartbeat(c *gin.Context) {
	r, err := s.report(c, nil)
	if err != nil {
		s.fail(c, err)
		return
	}
	ctx, done := patient(c)
	defer done()
	lease, err := s.o.Outside.Heartbeat(ctx, r)
	if err != nil {
		s.fail(c, err)
		return
	}
	s.json(c, http.StatusOK, leaseJSON{LeaseMS: lease.Milliseconds(), HeartbeatMS: (lease / 3).Milliseconds()})
}

// complete ends an attempt with its output.
func (s *Server) complete(c *gin.Context) {
	var content, used json.RawMessage
	var name string
	var usage model.Usage
	r, err := s.report(c, map[string]any{"content": &content, "model": &name, "usage": &used})
	if err == nil {
		usage, err = usageOf(used)
	}
	switch {
	case err != nil:
	case given(content) == nil:
		err = invalid("content", "missing")
	case len(name) > maxModelName:
		err = invalid("model", "at most 200 bytes")
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	if name == "" {
		name = "outside"
	}
	ctx, done := patient(c)
	defer done()
	got, err := s.o.Outside.Complete(ctx, r, content, name, usage)
	if err != nil {
		s.fail(c, err)
		return
	}
	s.json(c, http.StatusOK, completedAttemptJSON{JobID: got.JobID, Attempt: got.Attempt, Status: "COMPLETED", Version: got.Version, CompletedAt: stamp{got.At}})
}

// failAttempt ends an attempt as failed. What follows the server decides, and
// the answer holds only what is settled with this attempt, so that a repeat gets
// the same.
func (s *Server) failAttempt(c *gin.Context) {
	var kind, message string
	r, err := s.report(c, map[string]any{"failure_type": &kind, "error_message": &message})
	switch {
	case err != nil:
	case kind == "":
		err = invalid("failure_type", "missing")
	case len(message) > maxErrorMessage:
		err = invalid("error_message", "at most 4096 bytes")
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	ctx, done := patient(c)
	defer done()
	got, err := s.o.Outside.Fail(ctx, r, jobs.FailureType(kind), message)
	if err != nil {
		s.fail(c, err)
		return
	}
	decision := "FAILED"
	if !got.NextRetryAt.IsZero() {
		decision = "RETRY"
	}
	s.json(c, http.StatusOK, failedAttemptJSON{JobID: got.JobID, Attempt: got.Attempt, Status: "FAILED", FailureType: kind,
		FailedAt: stamp{got.At}, Decision: decision, AttemptsUsed: got.Attempt, NextRetryAt: optional(got.NextRetryAt)})
}

// resolve ends an unknown outcome by an operator's word.
func (s *Server) resolve(c *gin.Context) {
	var outcome string
	var content json.RawMessage
	err := s.fields(c, map[string]any{"outcome": &outcome, "content": &content})
	job := c.Param("job_id")
	switch {
	case err != nil:
	case !validJobID(job):
		err = &problem{code: codeNotFound}
	case outcome != "completed" && outcome != "failed":
		err = invalid("outcome", "completed or failed")
	case outcome == "completed" && given(content) == nil:
		err = invalid("content", "missing")
	case outcome == "failed" && given(content) != nil:
		err = invalid("content", "a failed job has none")
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	ctx, done := patient(c)
	defer done()
	status, err := s.o.Outside.Resolve(ctx, job, given(content))
	if err != nil {
		s.fail(c, err)
		return
	}
	s.json(c, http.StatusOK, resolvedJSON{JobID: job, Status: status})
}

// The answers on the wire, beside the assignment, which is the jobs' own.
type (
	assignmentJSON struct {
		*jobs.Assignment
		DeadlineAt stamp `json:"deadline_at"`
	}
	leaseJSON struct {
		LeaseMS     int64 `json:"lease_ms"`
		HeartbeatMS int64 `json:"heartbeat_ms"`
	}
	completedAttemptJSON struct {
		JobID       string `json:"job_id"`
		Attempt     int    `json:"attempt"`
		Status      string `json:"status"`
		Version     int64  `json:"version"`
		CompletedAt stamp  `json:"completed_at"`
	}
	failedAttemptJSON struct {
		JobID        string `json:"job_id"`
		Attempt      int    `json:"attempt"`
		Status       string `json:"status"`
		FailureType  string `json:"failure_type"`
		FailedAt     stamp  `json:"failed_at"`
		Decision     string `json:"decision"`
		AttemptsUsed int    `json:"attempts_used"`
		NextRetryAt  *stamp `json:"next_retry_at"` // null: there is no next attempt
	}
	resolvedJSON struct {
		JobID  string        `json:"job_id"`
		Status events.Status `json:"status"`
	}
)

const workerHint = "1 to 128 of A-Z a-z 0-9 . _ : -, but not . and .."

// report reads whose claim a request is about, and these fields besides.
func (s *Server) report(c *gin.Context, more map[string]any) (jobs.Report, error) {
	r := jobs.Report{JobID: c.Param("job_id")}
	attempt, err := strconv.Atoi(c.Param("attempt"))
	if err != nil || attempt < 1 || attempt > maxAttempt || strconv.Itoa(attempt) != c.Param("attempt") || !validJobID(r.JobID) {
		return r, &problem{code: codeNotFound}
	}
	r.Attempt = attempt
	into := map[string]any{"worker_id": &r.Worker, "claim_token": &r.Token}
	for name, target := range more {
		into[name] = target
	}
	switch err := s.fields(c, into); {
	case err != nil:
		return r, err
	case !validSession(r.Worker):
		return r, invalid("worker_id", workerHint)
	case r.Token == "" || len(r.Token) > maxClaimToken:
		return r, invalid("claim_token", "that of the claim")
	}
	return r, nil
}

func validJobID(id string) bool { return id != "" && len(id) <= maxJobID && only(id, alphanumeric) }

// fields reads a body that has these fields and no others. null is the same as
// leaving one away.
func (s *Server) fields(c *gin.Context, into map[string]any) error {
	return s.decoded(c, func(b []byte) error {
		all, err := object(b, "")
		if err != nil {
			return err
		}
		for name, raw := range sorted(all) {
			target, ok := into[name]
			if !ok {
				return unknown("", name)
			}
			if err := value(raw, name, target); err != nil {
				return err
			}
		}
		return nil
	})
}

// given is nil for a value that was left away.
func given(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" || len(raw) == 0 {
		return nil
	}
	return raw
}

// usageOf reads tokens; what is not said is unknown.
func usageOf(raw json.RawMessage) (u model.Usage, err error) {
	if given(raw) == nil {
		return u, nil
	}
	all, err := object(raw, "usage")
	if err != nil {
		return u, err
	}
	into := map[string]**int64{"input_tokens": &u.InputTokens, "output_tokens": &u.OutputTokens, "cached_tokens": &u.CachedTokens}
	for name, raw := range sorted(all) {
		target, ok := into[name]
		if !ok {
			return u, unknown("usage.", name)
		}
		if *target, err = wholeNumber(raw, "usage."+name, maxCursor); err != nil {
			return u, err
		}
	}
	return u, nil
}
