package server

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/lifecycle"
)

// submit starts a job for a new version of the document.
func (s *Server) submit(c *gin.Context) {
	topic, err := s.topic(c)
	if err != nil {
		s.fail(c, err)
		return
	}
	replace, err := switched(c, "replace")
	if err != nil {
		s.fail(c, err)
		return
	}
	key, err := idempotencyKey(c.Request.Header)
	if err != nil {
		s.fail(c, err)
		return
	}
	var sub jobs.Submit
	var simulate bool
	err = s.decoded(c, func(b []byte) (err error) {
		sub, simulate, err = submitBody(b)
		return err
	})
	if simulate && !s.o.Dev {
		err = &problem{code: string(jobs.CodeSimulateOnlyInDev), field: "simulate"}
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	sub.Topic, sub.IdempotencyKey, sub.Replace = topic, key, replace
	ctx, done := patient(c)
	defer done()
	accepted, err := s.o.Jobs.Submit(ctx, sub)
	if err != nil {
		s.fail(c, err)
		return
	}
	status := http.StatusAccepted
	if accepted.Live {
		status = http.StatusOK
	}
	if accepted.Replayed {
		c.Header("Idempotent-Replayed", "true")
	}
	s.accept(c, topic, status, accepted)
}

// retry is the user's "try again".
func (s *Server) retry(c *gin.Context) {
	topic, err := s.topic(c)
	if err != nil {
		s.fail(c, err)
		return
	}
	ctx, done := patient(c)
	defer done()
	accepted, err := s.o.Jobs.Retry(ctx, topic)
	if err != nil {
		s.fail(c, err)
		return
	}
	s.accept(c, topic, http.StatusAccepted, accepted)
}

// cancel ends the live job.
func (s *Server) cancel(c *gin.Context) {
	topic, err := s.topic(c)
	if err != nil {
		s.fail(c, err)
		return
	}
	ctx, done := patient(c)
	defer done()
	accepted, err := s.o.Jobs.Cancel(ctx, topic)
	if err != nil {
		s.fail(c, err)
		return
	}
	s.accept(c, topic, http.StatusOK, accepted)
}

func (s *Server) accept(c *gin.Context, topic events.Topic, status int, accepted jobs.Accepted) {
	if accepted.Unreplicated {
		c.Header("Tidings-Replicated", "false")
	}
	c.Header("Location", "/api/v1/sessions/"+topic.Session+"/"+topic.Workload+"/status")
	s.json(c, status, accepted)
}

// document answers with the newest good version, whatever a newer job does.
func (s *Server) document(c *gin.Context) {
	topic, err := s.topic(c)
	if err != nil {
		s.fail(c, err)
		return
	}
	ctx, done := patient(c)
	defer done()
	d, err := s.o.Jobs.Document(ctx, topic)
	if err != nil {
		s.fail(c, err)
		return
	}
	c.Header("Cache-Control", "private, no-cache")
	if unchanged(c, strconv.FormatInt(d.Version, 10)) {
		return
	}
	s.json(c, http.StatusOK, documentJSON{Document: d, CreatedAt: stamp{d.CreatedAt}})
}

// attempts answers with the ledger of the newest job.
func (s *Server) attempts(c *gin.Context) {
	topic, err := s.topic(c)
	if err != nil {
		s.fail(c, err)
		return
	}
	ctx, done := patient(c)
	defer done()
	l, err := s.o.Jobs.Attempts(ctx, topic)
	if err != nil {
		s.fail(c, err)
		return
	}
	out := ledgerJSON{JobID: l.JobID, Attempts: []attemptJSON{}, Calls: []callJSON{}}
	for _, a := range l.Attempts {
		j := attemptJSON{AttemptLine: a, StartedAt: stamp{a.StartedAt}, EndedAt: optional(a.EndedAt)}
		if a.NextAt != nil {
			j.NextAt = optional(*a.NextAt)
		}
		if !a.EndedAt.IsZero() {
			ms := a.EndedAt.Sub(a.StartedAt).Milliseconds()
			j.DurationMS = &ms
		}
		out.Attempts = append(out.Attempts, j)
	}
	for _, k := range l.Calls {
		out.Calls = append(out.Calls, callJSON{CallLine: k, StartedAt: stamp{k.StartedAt}})
	}
	s.json(c, http.StatusOK, out)
}

// The shapes of the jobs' types on the wire: theirs, with times to the
// millisecond. A field here hides the embedded one of the same name.
type (
	documentJSON struct {
		jobs.Document
		CreatedAt stamp `json:"created_at"`
	}
	ledgerJSON struct {
		JobID    string        `json:"job_id"`
		Attempts []attemptJSON `json:"attempts"`
		Calls    []callJSON    `json:"calls"`
	}
	attemptJSON struct {
		lifecycle.AttemptLine
		// Worker hides the process that worked: its host is the operators' to see.
		Worker     *struct{} `json:"worker,omitempty"`
		StartedAt  stamp     `json:"started_at"`
		EndedAt    *stamp    `json:"ended_at"` // null while it runs
		DurationMS *int64    `json:"duration_ms"`
		NextAt     *stamp    `json:"next_retry_at,omitempty"`
	}
	callJSON struct {
		lifecycle.CallLine
		StartedAt stamp `json:"started_at"`
	}
)

// stamp is a time on the wire: RFC 3339, UTC, always milliseconds, always Z.
type stamp struct{ time.Time }

// MarshalJSON implements json.Marshaler.
func (t stamp) MarshalJSON() ([]byte, error) {
	return t.UTC().AppendFormat(nil, `"2006-01-02T15:04:05.000Z"`), nil
}

func optional(t time.Time) *stamp {
	if t.IsZero() {
		return nil
	}
	return &stamp{t}
}

// json answers with a value.
func (s *Server) json(c *gin.Context, status int, v any) {
	b, err := encode(v)
	if err != nil {
		s.fail(c, err)
		return
	}
	c.Data(status, "application/json", b)
}

// unchanged sets the answer's ETag, and answers 304 if the caller has it.
func unchanged(c *gin.Context, tag string) bool {
	tag = `"` + tag + `"`
	c.Header("ETag", tag)
	for _, list := range c.Request.Header.Values("If-None-Match") {
		for have := range strings.SplitSeq(list, ",") {
			have = strings.TrimPrefix(strings.TrimSpace(have), "W/")
			if have == tag || have == "*" {
				c.Status(http.StatusNotModified)
				c.Abort()
				return true
			}
		}
	}
	return false
}
