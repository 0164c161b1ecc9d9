package server

import (
	"net/http"

	"github.com/gin-gonic/gin"
)

// routes is the whole API. docs/openapi.yaml lists the same; a test compares.
func (s *Server) routes() (http.Handler, error) {
	sameSite, err := s.refuseCrossSite()
	if err != nil {
		return nil, err
	}
	e := gin.New()
	e.HandleMethodNotAllowed = true
	e.RedirectTrailingSlash = false
	e.UseRawPath = true // an escaped slash stays inside its session id, and is refused there
	_ = e.SetTrustedProxies(nil)

	e.Use(s.observe, s.recovered, s.harden)
	if s.open {
		e.Use(s.refuseUnknownHost)
	}
	e.Use(s.crossOrigin, sameSite, s.bodyByMethod)
	e.NoRoute(func(c *gin.Context) { s.fail(c, &problem{code: codeNotFound}) })
	e.NoMethod(s.noMethod)

	v1 := e.Group("/api/v1")
	get(v1, "/messages", s.messages)
	get(v1, "/messages/:key", s.message)
	get(v1, "/locales", s.locales)
	get(v1, "/probe", s.probeStream)

	own := v1.Group("", s.authorize)
	get(own, "/status", s.statusList)
	get(own, "/status/stream", s.statusStream)
	get(own, "/sessions/:session_id/:workload", s.document)
	get(own, "/sessions/:session_id/:workload/status", s.status)
	get(own, "/sessions/:session_id/:workload/attempts", s.attempts)
	own.POST("/sessions/:session_id/:workload", s.submit)
	own.POST("/sessions/:session_id/:workload/retry", s.bodiless, s.retry)
	own.DELETE("/sessions/:session_id/:workload/job", s.cancel)

	s.outsideRoutes(v1)
	if s.o.Dev {
		s.demoRoutes(e)
	}
	return e, nil
}

// get answers HEAD as well: net/http leaves the body away.
func get(g *gin.RouterGroup, path string, h gin.HandlerFunc) {
	g.GET(path, h)
	g.HEAD(path, h)
}

// noMethod answers a known path's unknown method. gin has set Allow.
func (s *Server) noMethod(c *gin.Context) {
	if c.Request.Method == http.MethodOptions {
		c.Writer.Header().Set("Allow", c.Writer.Header().Get("Allow")+", OPTIONS")
		c.Status(http.StatusNoContent)
		return
	}
	s.fail(c, &problem{code: codeMethodNotAllowed})
}
