package server

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tidings/tidings/locales"
)

// call is what is known of one request. A stream takes it over from the
// middleware and finishes it at its own end.
type call struct {
	id      string
	method  string
	route   string
	query   string
	lang    locales.Language
	started time.Time
	who     Identity

	taken bool  // by a stream
	fault error // behind a 5xx answer, for the log
}

const callKey = "tidings.call"

// callOf returns the request's call; observe has made it.
func callOf(c *gin.Context) *call { return c.MustGet(callKey).(*call) }

// observe gives the request its id and language, and afterwards its log line
// and its metrics, unless a stream has taken these over.
func (s *Server) observe(c *gin.Context) {
	k := &call{
		id: requestID(c.Request.Header), method: method(c.Request.Method), route: c.FullPath(),
		query: loggable(c.Request.URL.Query()), started: time.Now(),
		lang: s.o.Texts.Match(c.Query("lang"), strings.Join(c.Request.Header.Values("Accept-Language"), ",")),
	}
	if k.route == "" {
		k.route = "unknown" // the path itself is anything a stranger types
	}
	c.Set(callKey, k)
	c.Header("X-Request-Id", k.id)
	c.Next()
	if !k.taken {
		s.finish(k, c.Writer.Status(), int64(max(c.Writer.Size(), 0)))
	}
}

// finish writes a request's log line and counts it.
func (s *Server) finish(k *call, status int, bytes int64, more ...slog.Attr) {
	took := time.Since(k.started)
	s.metrics.request(k.method, k.route, status, took, k.taken)
	attrs := append([]slog.Attr{
		slog.String("request_id", k.id), slog.String("method", k.method), slog.String("route", k.route),
		slog.Int("status", status), slog.Int64("bytes", bytes), slog.Float64("ms", float64(took.Microseconds())/1000),
	}, more...)
	if k.query != "" {
		attrs = append(attrs, slog.String("query", k.query))
	}
	level := slog.LevelInfo
	if k.fault != nil {
		attrs = append(attrs, slog.Any("error", k.fault))
		if level = slog.LevelWarn; status == http.StatusInternalServerError {
			level = slog.LevelError
		}
	}
	s.log.LogAttrs(context.Background(), level, "request", attrs...)
}

// requestID takes the caller's id if it is a harmless one.
func requestID(h http.Header) string {
	id := h.Get("X-Request-Id")
	if len(id) >= 8 && len(id) <= 64 && only(id, func(b byte) bool { return alphanumeric(b) || b == '-' || b == '_' || b == '.' }) {
		return id
	}
	return rand.Text()
}

// method bounds the label: methods are free text on the wire.
func method(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete, http.MethodOptions, http.MethodPut, http.MethodPatch:
		return m
	}
	return "other"
}

// loggable keeps of a query what may be in a log: switches of ours with tame
// values. Everything else could be a secret that somebody put into a URL.
func loggable(q url.Values) string {
	kept := url.Values{}
	for _, name := range []string{"follow", "format", "lang", "last_event_id", "replace", "workload"} {
		v := q.Get(name)
		if v != "" && len(v) <= 20 && only(v, func(b byte) bool { return alphanumeric(b) || b == '-' || b == '_' }) {
			kept.Set(name, v)
		}
	}
	return kept.Encode()
}

// recovered turns a panic into the answer that every other fault gets.
func (s *Server) recovered(c *gin.Context) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if v == http.ErrAbortHandler { //nolint:errorlint // compared as net/http does
			panic(v)
		}
		s.log.Error("panic", "request_id", callOf(c).id, "value", v, "stack", string(debug.Stack()))
		if c.Writer.Written() {
			panic(http.ErrAbortHandler) // half an answer must not look whole
		}
		s.fail(c, errPanic)
	}()
	c.Next()
}

// storageWait bounds what one request asks of the storage. It leaves room for two
// waits for replicas (TIDINGS_WAIT_TIMEOUT) and is far below answerTimeout, so
// that a Redis that says nothing leads to our own answer and not to none.
const storageWait = 8 * time.Second

// patient is the request's context for what it asks of the storage, from now on:
// how long its body took does not count.
func patient(c *gin.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.Request.Context(), storageWait)
}

// hurry bounds an operator's request as their pages are bounded.
func (s *Server) hurry(c *gin.Context) {
	ctx, done := context.WithTimeout(c.Request.Context(), pageWait)
	defer done()
	c.Request = c.Request.WithContext(ctx)
	c.Next()
}

// harden sets what a browser should know of every answer.
func (s *Server) harden(c *gin.Context) {
	h := c.Writer.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
}

// authorize finds out whom the request speaks for.
func (s *Server) authorize(c *gin.Context) {
	who, err := s.o.Auth(c.Request)
	if err != nil {
		s.log.Debug("unauthorized", "request_id", callOf(c).id, "why", err.Error())
		challenge := `Bearer realm="tidings"`
		if c.GetHeader("Authorization") != "" {
			challenge += `, error="invalid_token"`
		}
		c.Header("WWW-Authenticate", challenge)
		s.fail(c, &problem{code: codeUnauthorized})
		return
	}
	callOf(c).who = who
}
