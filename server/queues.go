package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"path"
	"regexp"
	"strings"
)

// queues serves the queue's web UI with the headers it lacks, and without what
// it should not show: Redis's own INFO, and source maps by the megabyte.
func (s *Server) queues() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked := path.Clean(r.URL.Path)
		switch {
		case s.o.Queues == nil:
			plain(w, http.StatusNotFound, "This process has no queue to show.\n")
			return
		case strings.HasSuffix(asked, "/redis_info"), strings.HasSuffix(asked, ".map"):
			plain(w, http.StatusNotFound, "Not shown.\n")
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", uiPolicy(""))
		switch {
		case strings.HasPrefix(asked, "/queues/api/"):
			s.o.Queues.ServeHTTP(w, r)
		case path.Ext(asked) != "":
			if path.Ext(asked) == ".svg" {
				h.Set("Content-Type", "image/svg+xml") // sniffed as text, it would not be drawn
				w = typed{w}
			}
			h.Set("Cache-Control", "private, max-age=3600")
			s.o.Queues.ServeHTTP(w, r)
		default:
			page := &held{header: http.Header{}, status: http.StatusOK}
			s.o.Queues.ServeHTTP(page, r)
			for name, values := range page.header {
				h[name] = values
			}
			h.Set("Content-Security-Policy", uiPolicy(scriptHashes(page.body.Bytes())))
			w.WriteHeader(page.status)
			_, _ = w.Write(page.body.Bytes()) // a reader that went away
		}
	})
}

// uiPolicy allows the UI's own files and the inline scripts with these hashes.
// Its fonts from elsewhere are not fetched: who runs what is nobody's business.
func uiPolicy(scripts string) string {
	return "default-src 'none'; script-src 'self'" + scripts + "; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
		"font-src 'self' data:; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
}

func scriptHashes(page []byte) string {
	var b strings.Builder
	for _, m := range regexp.MustCompile(`(?s)<script>(.*?)</script>`).FindAllSubmatch(page, -1) {
		sum := sha256.Sum256(m[1])
		b.WriteString(" 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'")
	}
	return b.String()
}

// held keeps a page until its headers are known.
type held struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (p *held) Header() http.Header { return p.header }

// WriteHeader implements http.ResponseWriter.
func (p *held) WriteHeader(status int) { p.status = status }

// Write implements http.ResponseWriter.
func (p *held) Write(b []byte) (int, error) { return p.body.Write(b) }

// typed keeps the Content-Type that was set before the handler.
type typed struct{ http.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (t typed) WriteHeader(status int) {
	t.pick()
	t.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (t typed) Write(b []byte) (int, error) {
	t.pick()
	return t.ResponseWriter.Write(b)
}

func (t typed) pick() { t.Header().Set("Content-Type", "image/svg+xml") }
