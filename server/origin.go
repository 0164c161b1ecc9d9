package server

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"
)

const (
	allowedMethods = "GET, HEAD, POST, DELETE"
	// The last four are what tracing libraries add to every request of a page.
	allowedHeaders = "Authorization, Last-Event-ID, Idempotency-Key, Content-Type, Accept-Language, Cache-Control, If-None-Match, X-Request-Id, " +
		"baggage, sentry-trace, traceparent, tracestate"
	exposedHeaders = "Content-Language, Location, Retry-After, ETag, X-Request-Id, Idempotent-Replayed, Tidings-Replicated, WWW-Authenticate"
)

// everyOrigin tells whether pages of any origin may call the API.
func (o *Options) everyOrigin() bool { return slices.Contains(o.Origins, "*") }

// crossOrigin lets web apps on allowed origins call the API. Never with
// credentials: a token travels in a header, which they set themselves.
func (s *Server) crossOrigin(c *gin.Context) {
	origin, every := c.GetHeader("Origin"), s.o.everyOrigin()
	h := c.Writer.Header()
	if !every && len(s.o.Origins) > 0 {
		h.Add("Vary", "Origin")
	}
	if origin == "" {
		return
	}
	allowed := every || slices.Contains(s.o.Origins, origin)
	if allowed {
		if every {
			origin = "*"
		}
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers", exposedHeaders)
	}
	if c.Request.Method == http.MethodOptions && c.GetHeader("Access-Control-Request-Method") != "" {
		if allowed {
			h.Set("Access-Control-Allow-Methods", allowedMethods)
			h.Set("Access-Control-Allow-Headers", allowedHeaders)
			h.Set("Access-Control-Max-Age", "600")
		}
		c.AbortWithStatus(http.StatusNoContent)
	}
}

// refuseCrossSite refuses what pages of other origins send. Without it they
// could write although they cannot read the answer: a browser sends a simple
// request without asking first.
func (s *Server) refuseCrossSite() (gin.HandlerFunc, error) {
	protection := http.NewCrossOriginProtection()
	for _, origin := range s.o.Origins {
		if origin == "*" {
			return func(*gin.Context) {}, nil
		}
		if err := protection.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("server: the allowed origin %q: %w", origin, err)
		}
	}
	return func(c *gin.Context) {
		if protection.Check(c.Request) != nil {
			s.fail(c, &problem{code: codeCrossSite, hint: "TIDINGS_ORIGINS lists the origins that may"})
		}
	}, nil
}

// refuseUnknownHost is for an API without authorization: a page elsewhere can
// point a name of its own at this address and then reads as if it were the same
// origin. It cannot do so with an IP address or localhost.
func (s *Server) refuseUnknownHost(c *gin.Context) {
	if !s.knownHost(c.Request.Host) {
		s.fail(c, &problem{code: codeUnknownHost, hint: "TIDINGS_HOSTS lists the names that may be used while TIDINGS_AUTH is off"})
	}
}

func (s *Server) knownHost(host string) bool {
	name := strings.ToLower(hostname(host))
	return name == "localhost" || net.ParseIP(name) != nil || slices.Contains(s.o.Hosts, name)
}

// hostname is a Host header's without its port and an IPv6 address's brackets.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}
