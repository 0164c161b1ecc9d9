package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
)

const (
	bodyTimeout  = 15 * time.Second // a whole body
	lingerAfter  = time.Second      // for what is still on its way of a body that nobody reads
	bodyAtTheEnd = time.Second      // for a body that is on its way when the process goes down
)

// bounded gives each request that has a body a time to send it. net/http has no
// such limit by itself, and reads what a handler left unread before it answers:
// a body that is announced and never sent would hold the answer, the connection
// and the process's end. A body that the handler did not read to its end costs
// the connection, and the answer does not wait for it.
func (s *Server) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		b := &timedBody{ReadCloser: r.Body, rc: http.NewResponseController(w), header: w.Header()}
		if r.ProtoMajor == 1 { // HTTP/2 ends the one stream by itself
			b.header.Set("Connection", "close") // until the body has ended
		}
		b.within(bodyTimeout)
		hurried := make(chan struct{})
		hurry := context.AfterFunc(s.closing, func() {
			defer close(hurried)
			b.within(bodyAtTheEnd)
		})
		asked := r.WithContext(r.Context()) // net/http looks at the original's body itself
		asked.Body = b
		next.ServeHTTP(w, asked)
		if !hurry() {
			<-hurried // HTTP/2's writer is gone afterwards
		}
		b.within(lingerAfter)
	})
}

// timedBody is a body with a time limit, which its end lifts: left behind, it
// would look like a peer that went away.
type timedBody struct {
	io.ReadCloser
	rc     *http.ResponseController
	header http.Header
	ended  atomic.Bool
}

func (b *timedBody) within(d time.Duration) {
	if !b.ended.Load() {
		_ = b.rc.SetReadDeadline(time.Now().Add(d)) // not every writer can, in tests
	}
}

// Read implements io.Reader.
func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) && !b.ended.Swap(true) {
		b.header.Del("Connection")
		_ = b.rc.SetReadDeadline(time.Time{})
	}
	return n, err
}

// hasBody tells whether a request has a body. One of unknown length may turn out
// to be empty, as some proxies send it.
func hasBody(r *http.Request) bool {
	switch {
	case r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0:
		return false
	case r.ContentLength > 0:
		return true
	}
	n, err := io.ReadFull(r.Body, make([]byte, 1))
	return n > 0 || !errors.Is(err, io.EOF)
}

// carriesBody tells which methods' requests may have a body.
func carriesBody(method string) bool {
	return method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
}

// bodiless refuses a body where none belongs.
func (s *Server) bodiless(c *gin.Context) {
	if hasBody(c.Request) {
		s.fail(c, &problem{code: codeInvalidBody, hint: "this request takes no body"})
	}
}

// bodyByMethod refuses one by the request's method alone. What is not served has
// an answer of its own.
func (s *Server) bodyByMethod(c *gin.Context) {
	if c.FullPath() != "" && !carriesBody(c.Request.Method) {
		s.bodiless(c)
	}
}
