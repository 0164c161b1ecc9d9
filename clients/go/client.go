package tidings

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Times of the runtime.
const (
	defaultWatchdog = 45 * time.Second // three heartbeats of 15 s
	tapTimeout      = 10 * time.Second // retry and cancel: somebody is waiting with a finger on the screen
	callTimeout     = 30 * time.Second // submit, document, texts
	headerTimeout   = 10 * time.Second // for the answer to begin that a stream is
	checkAfter      = 3 * time.Second  // past the end of a countdown
)

// TokenSource gives the bearer token for a request. With refresh the server has
// just refused the last one: ask for a new one. It must be safe for concurrent use.
type TokenSource func(ctx context.Context, refresh bool) (string, error)

// Client talks to one Tidings server about one workload. It is safe for
// concurrent use.
type Client struct {
	base     string
	workload string
	language string
	http     *connections
	token    TokenSource
	log      *slog.Logger
	watchdog time.Duration
	now      func() time.Time
	trace    func(Status)
}

// Option changes a Client made by NewClient.
type Option func(*Client)

// WithHTTPClient sends requests through h, and after a dead connection through a
// clone of its Transport, if that is an *http.Transport. Its Timeout must be 0: it would
// cut every stream. The default client pings HTTP/2 connections on which nothing comes
// for 15 seconds, and gives those up that do not answer within 10.
func WithHTTPClient(h *http.Client) Option {
	return func(c *Client) { c.http = &connections{client: h} }
}

// WithTokenSource sends a bearer token with each request.
func WithTokenSource(t TokenSource) Option { return func(c *Client) { c.token = t } }

// WithLanguage asks for texts in a language, such as "nb" or "pt-BR".
func WithLanguage(tag string) Option { return func(c *Client) { c.language = tag } }

// WithLogger tells l about dropped streams and refused requests, at level debug.
func WithLogger(l *slog.Logger) Option { return func(c *Client) { c.log = l } }

// WithWatchdog replaces the 45 seconds after which a silent stream counts as
// dead. It has to be well above the server's heartbeat.
func WithWatchdog(d time.Duration) Option { return func(c *Client) { c.watchdog = d } }

// WithClock replaces time.Now. Timers stay those of package time.
func WithClock(now func() time.Time) Option { return func(c *Client) { c.now = now } }

// WithTrace calls f with every status of every session, in order, on the goroutine
// that makes them: for logs and tests. Unlike [Session.Updates] it skips none. f
// must return quickly and must not call the session.
func WithTrace(f func(Status)) Option { return func(c *Client) { c.trace = f } }

// NewClient makes a client for the server at baseURL and the workload "summary".
// It fails for a URL that is not absolute http or https, and for an http.Client
// with a Timeout.
func NewClient(baseURL string, options ...Option) (*Client, error) {
	u, err := url.Parse(baseURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.ContainsAny(baseURL, "?#") {
		return nil, fmt.Errorf("tidings: base URL %q is not an absolute http or https URL; write for example https://tidings.example", baseURL)
	}
	c := &Client{
		base:     strings.TrimRight(baseURL, "/"),
		workload: "summary",
		http:     &connections{client: &http.Client{Transport: newTransport()}},
		log:      slog.New(slog.NewTextHandler(io.Discard, nil)),
		watchdog: defaultWatchdog,
		now:      time.Now,
	}
	for _, option := range options {
		option(c)
	}
	if c.http.client.Timeout != 0 {
		return nil, errors.New("tidings: an http.Client with a Timeout cuts every stream; set timeouts on its Transport")
	}
	return c, nil
}

// For returns the client of another workload, "guidance" or "classification".
func (c *Client) For(workload string) *Client {
	other := *c
	other.workload = workload
	return &other
}

// Watch follows a session's job until its stream has ended for good: after
// completed or error (the phase of the last status tells which), or when the
// server refuses the stream, with an *HTTPError beside the last status. When ctx
// ends first, the last pair holds its error. Dropped connections are not errors.
func (c *Client) Watch(ctx context.Context, session string) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		s := c.Open(ctx, session)
		defer s.Close()
		for status := range s.Updates() {
			if status.Connection == Closed && status.Problem != nil {
				yield(status, status.Problem)
				return
			}
			if !yield(status, nil) || status.Connection == Closed {
				return
			}
		}
		yield(s.Status(), ctx.Err())
	}
}

// path is the address of something of a session's workload: "" is the document.
func (c *Client) path(session, rest string) string {
	return "/api/v1/sessions/" + url.PathEscape(session) + "/" + url.PathEscape(c.workload) + rest
}
