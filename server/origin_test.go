package server

import (
	"net/http"
	"testing"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
)

// What a browser says of a request from a page of another origin.
var crossSite = []string{"Sec-Fetch-Site: cross-site", "Origin: https://evil.test"}

// Without authorization a page anywhere could drive an API on the reader's own
// machine. A simple request is sent without asking first.
func TestAPageOfAnotherOriginChangesNothing(t *testing.T) {
	for name, dev := range map[string]bool{"serve": false, "dev": true} {
		t.Run(name, func(t *testing.T) {
			inTestbed(t, func(t *testing.T, h *testbed) {
				h.jobs.accepted = jobs.Accepted{JobID: "J", Status: events.Queued}
				for _, headers := range [][]string{crossSite, {"Sec-Fetch-Site: same-site"}, {"Origin: null"}, {"Origin: http://api.evil.test"}} {
					text := append([]string{"Content-Type: text/plain"}, headers...)
					h.do(t, http.MethodPost, documentPath, `{"input":{"text":"a"}}`, text...).refused(t, "submit", 403, "cross_site", "")
					h.do(t, http.MethodPost, documentPath+"/retry", "", headers...).refused(t, "retry", 403, "cross_site", "")
					h.do(t, http.MethodDelete, documentPath+"/job", "", headers...).refused(t, "cancel", 403, "cross_site", "")
				}
				if len(h.jobs.submits)+len(h.jobs.topics) != 0 {
					t.Errorf("came through: %v %v", h.jobs.submits, h.jobs.topics)
				}
				for _, headers := range [][]string{nil, {"Sec-Fetch-Site: same-origin", "Origin: http://api"}} {
					if a := h.do(t, http.MethodPost, documentPath+"/retry", "", headers...); a.status != 202 {
						t.Errorf("%q: %d", headers, a.status)
					}
				}
			}, func(o *Options) { o.Dev = dev })
		})
	}
}

func TestAPageOfAnAllowedOriginSubmits(t *testing.T) {
	const app = "https://app.example.com"
	for _, origins := range [][]string{{app}, {"*"}} {
		inTestbed(t, func(t *testing.T, h *testbed) {
			h.jobs.accepted = jobs.Accepted{JobID: "J", Status: events.Queued}
			if a := h.do(t, http.MethodPost, documentPath+"/retry", "", "Sec-Fetch-Site: cross-site", "Origin: "+app); a.status != 202 {
				t.Errorf("%q: %d", origins, a.status)
			}
		}, func(o *Options) { o.Origins = origins })
	}
	h := newTCPTestbed(t)
	if _, err := New(Options{Jobs: h.jobs, Hub: h.hub, Texts: h.o.Texts, Origins: []string{"app.example.com"}}); err == nil {
		t.Error("an origin without a scheme is taken")
	}
}

// A name that somebody else has pointed at this machine is the same origin as
// its page, for the browser.
func TestAReboundNameReadsNothing(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		for _, host := range []string{"evil.test", "evil.test:8080", "localhost.evil.test", "127.0.0.1.evil.test", "[evil]"} {
			for _, path := range []string{documentPath, statusPath, "/api/v1/locales"} {
				h.do(t, http.MethodGet, path, "", "Host: "+host, "Accept: application/json").refused(t, host+path, 421, "unknown_host", "")
			}
		}
		for _, host := range []string{"localhost", "LOCALHOST:8080", "127.0.0.1:8080", "[::1]:8080", "[::1]", "192.168.1.20", "api"} {
			if a := h.do(t, http.MethodGet, documentPath, "", "Host: "+host); a.status != 200 {
				t.Errorf("%s: %d", host, a.status)
			}
		}
	})
	inTestbed(t, func(t *testing.T, h *testbed) {
		if a := h.do(t, http.MethodGet, "/api/v1/locales", "", "Host: tidings.example.com"); a.status != 200 {
			t.Errorf("with authorization: %d", a.status)
		}
	}, func(o *Options) { o.Auth = func(*http.Request) (Identity, error) { return Identity{Owner: "o"}, nil } })
}

func TestABodyWithoutItsTypeIsNotRead(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		for _, kind := range []string{"Content-Type: ", "Content-Type: text/plain", "Content-Type: application/x-www-form-urlencoded"} {
			h.do(t, http.MethodPost, documentPath, `{"input":{"text":"a"}}`, kind).refused(t, kind, 415, "unsupported_media_type", "")
		}
	})
}
