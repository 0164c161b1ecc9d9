package server

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"net/http"
	"path"

	"github.com/gin-gonic/gin"
)

// demoFiles are what clients/web/demo builds, committed so that the page needs
// Go alone. Tests here and there fail when they are older than their sources.
//
//go:embed demo
var demoFiles embed.FS

// demoPolicy lets the page have its own files and this server, and nothing
// else. Nothing is inline, so it needs no exception.
const demoPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// demoRoutes serves the demo page and what it needs besides the API. They are
// there in dev alone, and no part of the protocol.
func (s *Server) demoRoutes(e *gin.Engine) {
	get(&e.RouterGroup, "/", s.demoFile("index.html"))
	for name := range demoTypes() {
		get(&e.RouterGroup, "/demo/"+name, s.demoFile(name))
	}
	e.DELETE("/dev/sessions/:session_id/:workload/streams", s.authorize, s.cutStreams)
}

// demoTypes are the files of the page besides the page, and what they are.
func demoTypes() map[string]string {
	return map[string]string{
		"demo.js":  "text/javascript; charset=utf-8",
		"demo.css": "text/css; charset=utf-8",
		"icon.svg": "image/svg+xml",
	}
}

// demoFile answers with a file of the page. A browser asks each time, and is
// told that nothing has changed unless another binary runs.
func (s *Server) demoFile(name string) gin.HandlerFunc {
	body, err := demoFiles.ReadFile(path.Join("demo", name))
	if err != nil { // it is embedded: only a build without it gets here
		panic(fmt.Sprintf("demo: %v", err))
	}
	sum := sha256.Sum256(body)
	tag := hex.EncodeToString(sum[:8])
	kind, ok := demoTypes()[name]
	if !ok {
		kind = "text/html; charset=utf-8"
	}
	return func(c *gin.Context) {
		c.Header("Cache-Control", "no-cache")
		c.Header("Content-Security-Policy", demoPolicy)
		if !unchanged(c, tag) {
			c.Data(http.StatusOK, kind, body)
		}
	}
}

// cutStreams breaks the connections of a session's open streams off, as a bad
// line would: no end of the answer, no word of why. Whoever writes a client
// sees with it that the next stream goes on where this one stopped.
func (s *Server) cutStreams(c *gin.Context) {
	topic, err := s.topic(c)
	if err != nil {
		s.fail(c, err)
		return
	}
	b, err := encode(map[string]int{"cut": s.streams.cut(topic)})
	if err != nil {
		s.fail(c, err)
		return
	}
	c.Data(http.StatusOK, "application/json", b)
}
