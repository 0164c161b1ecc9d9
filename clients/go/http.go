package tidings

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"
)

// maxBody bounds what is read of any answer that is not a stream.
const maxBody = 8 << 20

// HTTPError is an answer that was not the wanted one. Title and Detail are texts
// for people, in the language of the client.
type HTTPError struct {
	Status    int
	Code      string // the server's stable name for what is wrong, such as "job_running"
	Title     string
	Detail    string
	RequestID string
	Field     string // the part of the request that is wrong
	JobID     string // the job that is in the way
	// RetryAfter is how long the server asks to wait; 0 when it does not say.
	RetryAfter time.Duration
}

// Error names the status and, when there are any, the code and the detail.
func (e *HTTPError) Error() string {
	text := fmt.Sprintf("tidings: the server answered %d", e.Status)
	if e.Code != "" {
		text += " " + e.Code
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// request is what differs between the client's requests.
type request struct {
	method string
	path   string
	header map[string]string // empty values are not sent
	body   []byte            // JSON
	via    *http.Client      // nil for the newest
	begin  time.Duration     // how long the answer may take to begin; 0 for no limit of its own
}

// do sends a request with the client's token and language. A 401 is answered once,
// with a fresh token; the second one is the answer. The caller closes the body.
func (c *Client) do(ctx context.Context, r request) (*http.Response, error) {
	resp, err := c.send(ctx, r, false)
	if err != nil || resp.StatusCode != http.StatusUnauthorized || c.token == nil {
		return resp, err
	}
	c.log.Debug("token refused, asking for a new one", "path", r.path)
	discard(resp)
	return c.send(ctx, r, true)
}

func (c *Client) send(ctx context.Context, r request, refresh bool) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, c.base+r.path, bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	for name, value := range r.header {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.language != "" {
		req.Header.Set("Accept-Language", c.language)
	}
	if c.token != nil {
		token, err := c.token(ctx, refresh)
		if err != nil {
			return nil, fmt.Errorf("tidings: no token: %w", err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
	}
	via := r.via
	if via == nil {
		via = c.http.newest()
	}
	if r.begin > 0 {
		ctx, cancel := context.WithCancel(ctx)
		defer time.AfterFunc(r.begin, cancel).Stop()
		req = req.WithContext(ctx)
	}
	return via.Do(req)
}

// call sends a request and decodes its JSON answer into result, unless that is
// nil. Any status but 2xx is an *HTTPError.
func (c *Client) call(ctx context.Context, limit time.Duration, r request, result any) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	resp, err := c.do(ctx, r)
	if err != nil {
		return err
	}
	defer discard(resp)
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return c.problem(resp)
	}
	if result == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxBody)).Decode(result); err != nil {
		return fmt.Errorf("tidings: the answer to %s %s is not readable: %w", r.method, r.path, err)
	}
	return nil
}

// problem reads an answer as a problem document, as far as it is one.
func (c *Client) problem(resp *http.Response) *HTTPError {
	e := &HTTPError{Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header, c.now())}
	if mediaType(resp) != "application/problem+json" {
		return e // also a body without end is then left alone
	}
	if body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10)); err == nil {
		o := readObject(string(body))
		e.Code, e.Title, e.Detail, e.RequestID = o.text("code"), o.text("title"), o.text("detail"), o.text("request_id")
		e.Field, e.JobID = o.text("field"), o.text("job_id")
	}
	return e
}

// retryAfter reads the header in both of its forms. A date is taken relative to
// the answer's own Date, so a wrong clock here does not matter.
func retryAfter(h http.Header, now time.Time) time.Duration {
	value := h.Get("Retry-After")
	if n, ok := digits([]byte(value)); ok {
		return time.Duration(n) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return max(at.Sub(now), 0)
}

func mediaType(resp *http.Response) string {
	t, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")) // with a broken parameter it still tells the type
	return t
}

// discard reads a little of what is left, so that the connection can be used
// again, and closes the body.
func discard(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	_ = resp.Body.Close()
}

// Turn is one contribution to a conversation.
type Turn struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Submission is what a document is to be made from: Text, or Messages.
type Submission struct {
	Text     string
	Messages []Turn
	Language string // of the document; "" leaves it to the server

	// Replace cancels a live job that was submitted with other input.
	Replace bool
	// IdempotencyKey makes it safe to send the same submission again after a lost
	// answer; "" lets the client choose a new one.
	IdempotencyKey string
	// Simulate scripts the local model of a server in dev mode, one step per call.
	Simulate []string
}

// Job is what became of a submission or a retry.
type Job struct {
	ID     string `json:"job_id"`
	Status string `json:"status"`
}

// Document is a finished version of what a workload makes.
type Document struct {
	Version   int64           `json:"version"`
	CreatedAt time.Time       `json:"created_at"`
	Model     string          `json:"model"`
	Usage     json.RawMessage `json:"usage"`
	Content   json.RawMessage `json:"content"`
}

// Submit starts a job for a session, or finds the one that already makes a
// document from the same input. An *HTTPError tells why not: 409 job_running while
// one with other input lives, 503 when the server takes no more at the moment.
func (c *Client) Submit(ctx context.Context, session string, s Submission) (Job, error) {
	type input struct {
		Text     string `json:"text,omitempty"`
		Messages []Turn `json:"messages,omitempty"`
	}
	body, err := json.Marshal(struct {
		Input    input    `json:"input"`
		Language string   `json:"language,omitempty"`
		Simulate []string `json:"simulate,omitempty"`
	}{input{s.Text, s.Messages}, s.Language, s.Simulate})
	if err != nil {
		return Job{}, err
	}
	key := s.IdempotencyKey
	if key == "" {
		key = newKey()
	}
	path := c.path(session, "")
	if s.Replace {
		path += "?replace=true"
	}
	var job Job
	err = c.call(ctx, callTimeout, request{
		method: http.MethodPost, path: path, body: body,
		header: map[string]string{"Idempotency-Key": key, "Accept": "application/json"},
	}, &job)
	return job, err
}

// Document fetches a session's current document. Before there is one, the error is
// an *HTTPError with Status 404. A newer job that runs or fails does not hide it.
func (c *Client) Document(ctx context.Context, session string) (Document, error) {
	var d Document
	err := c.call(ctx, callTimeout, request{
		method: http.MethodGet, path: c.path(session, ""), header: map[string]string{"Accept": "application/json"},
	}, &d)
	return d, err
}

// Cancel ends a session's live job. Its stream then carries error with the reason
// cancelled.
func (c *Client) Cancel(ctx context.Context, session string) error {
	return c.call(ctx, tapTimeout, request{method: http.MethodDelete, path: c.path(session, "/job")}, nil)
}
