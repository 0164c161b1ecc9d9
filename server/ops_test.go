package server

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/events"
)

// webUI stands in for the queue's web UI: pages, files and an API that change
// things when they are told to.
type webUI struct{ paused int }

func (u *webUI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasSuffix(r.URL.Path, ":pause"):
		u.paused++
		w.WriteHeader(http.StatusNoContent)
	case strings.HasPrefix(r.URL.Path, "/queues/api/"):
		io.WriteString(w, `{}`)
	case strings.HasSuffix(r.URL.Path, ".svg"):
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, "<svg/>")
	default:
		io.WriteString(w, "<html><script>alert(1)</script></html>")
	}
}

// password is the operators'.
const password = "right horse battery"

func login(password string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("admin:"+password))
}

func TestTheQueuesAreBehindALogin(t *testing.T) {
	pages := []string{"/queues", "/queues/", "/queues/queues/default", "/queues/api/queues", "/debug/pprof/", "/debug/pprof/heap?debug=1"}
	t.Run("with a password", func(t *testing.T) {
		inTestbed(t, func(t *testing.T, h *testbed) {
			for _, page := range pages {
				for _, c := range []struct {
					headers []string
					want    int
				}{
					{nil, 401}, {[]string{login("wrong")}, 401}, {[]string{login("")}, 401}, {[]string{"Authorization: Bearer " + password}, 401},
					{[]string{"Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("root:"+password))}, 401}, {[]string{login(password)}, 200},
				} {
					a := h.doOps(t, "GET", page, c.headers...)
					if a.status != c.want || c.want == 401 && !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Basic ") {
						t.Errorf("%s with %q: %d, want %d", page, c.headers, a.status, c.want)
					}
					time.Sleep(longestPause) // after a wrong guess
				}
			}
		}, func(o *Options) { o.Queues, o.AdminPassword, o.Dev = &webUI{}, password, true })
	})
	t.Run("without a password", func(t *testing.T) {
		inTestbed(t, func(t *testing.T, h *testbed) {
			for _, page := range pages {
				for _, headers := range [][]string{nil, {login("")}, {"Host: localhost"}} {
					if a := h.doOps(t, "GET", page, headers...); a.status != 404 || !strings.Contains(string(a.body), "TIDINGS_ADMIN_PASSWORD") {
						t.Errorf("%s: %d %s", page, a.status, a.body)
					}
				}
			}
		}, func(o *Options) { o.Queues = &webUI{} })
	})
}

func TestInDevTheQueuesAreOpenToThisMachineOnly(t *testing.T) {
	h := newTCPTestbed(t, func(o *Options) { o.Queues, o.Dev = &webUI{}, true })
	for host, want := range map[string]int{
		"127.0.0.1:8081": 200, "localhost": 200, "[::1]:8081": 200,
		"rebound.example.com": 404, "10.0.0.1:8081": 404, "": 404,
	} {
		a := h.doOps(t, "GET", "/queues", "Host: "+host)
		if a.status != want {
			t.Errorf("Host %q: %d, want %d", host, a.status, want)
		}
	}
	elsewhere := newTCPTestbed(t, func(o *Options) { o.Queues = &webUI{} })
	if a := elsewhere.doOps(t, "GET", "/queues", "Host: localhost"); a.status != 404 {
		t.Errorf("outside of dev: %d", a.status)
	}
	for remote, want := range map[string]bool{"127.0.0.1:1": true, "[::1]:1": true, "10.1.2.3:1": false, "pipe": false} {
		if got := loopback(&http.Request{RemoteAddr: remote, Host: "localhost:8081", ProtoMajor: 1, ProtoMinor: 1}); got != want {
			t.Errorf("from %s: %v", remote, got)
		}
	}
}

func TestTheQueuesPagesGetTheHeadersTheyLack(t *testing.T) {
	ui := &webUI{}
	inTestbed(t, func(t *testing.T, h *testbed) {
		page := h.doOps(t, "GET", "/queues/queues/default", login(password))
		policy := page.header.Get("Content-Security-Policy")
		// echo -n 'alert(1)' | openssl dgst -sha256 -binary | base64
		if !strings.Contains(policy, "script-src 'self' 'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI=';") || !strings.Contains(policy, "frame-ancestors 'none'") {
			t.Errorf("policy %q", policy)
		}
		if page.header.Get("X-Frame-Options") != "DENY" || page.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("headers %v", page.header)
		}
		if a := h.doOps(t, "GET", "/queues/static/logo.svg", login(password)); a.header.Get("Content-Type") != "image/svg+xml" {
			t.Errorf("logo: %q", a.header.Get("Content-Type"))
		}
		for _, path := range []string{"/queues/api/redis_info", "/queues/api/%72edis_info", "/queues/static/js/main.js.map", "/queues/api/redis_info/"} {
			if a := h.doOps(t, "GET", path, login(password)); a.status != 404 {
				t.Errorf("%s: %d %s", path, a.status, a.body)
			}
		}
		// Another site's page cannot press the buttons, although the browser adds the login.
		for _, headers := range [][]string{{"Sec-Fetch-Site: cross-site"}, {"Origin: https://evil.test"}} {
			if a := h.send(t, "http://ops/queues/api/queues/default:pause", "POST", "", append(headers, login(password))...); a.status != 403 {
				t.Errorf("%q: %d", headers, a.status)
			}
		}
		if a := h.send(t, "http://ops/queues/api/queues/default:pause", "POST", "", "Sec-Fetch-Site: same-origin", login(password)); a.status != 204 || ui.paused != 1 {
			t.Errorf("our own page: %d, paused %d times", a.status, ui.paused)
		}
	}, func(o *Options) { o.Queues, o.AdminPassword = ui, password })
}

func TestOpsPagesAndMetrics(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		for path, want := range map[string]int{"/healthz": 200, "/": 303, "/ops": 200, "/queues": 200, "/nothing": 404, "/dev/model/calls": 404, "/admin/x": 404} {
			headers := []string{login(password)}
			if a := h.doOps(t, "GET", path, headers...); path != "/queues" && a.status != want || path == "/queues" && a.status != 404 {
				t.Errorf("%s: %d", path, a.status)
			}
		}
		r := h.open(t, statusPath)
		r.want(t, "idle")
		h.happenAll(t, summary(session), queued(), processing(1, 1), completed(1))
		r.all(t)
		h.do(t, "GET", documentPath, "")
		synctest.Wait()
		m := string(h.doOps(t, "GET", "/metrics").body)
		for _, line := range []string{
			`tidings_streams_open 0`, `tidings_streams_ended_total{why="terminal"} 1`, `tidings_stream_delivery_seconds_count 3`,
			`tidings_stream_events_total{event="completed"} 1`, `tidings_stream_events_total{event="idle"} 1`,
			`tidings_http_requests_total{method="GET",route="/api/v1/sessions/:session_id/:workload/status",status="200"} 1`,
			`tidings_http_request_seconds_count{route="/api/v1/sessions/:session_id/:workload"} 1`,
		} {
			if !strings.Contains(m, line+"\n") {
				t.Errorf("no %q in\n%s", line, m)
			}
		}
		if strings.Contains(m, session) {
			t.Error("a session's id is in the metrics")
		}
	}, func(o *Options) { o.AdminPassword, o.Operators = password, &operatorsScript{} })
}

func TestReadiness(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		state  string
		status int
	}{
		"all well":         {nil, "ready", 200},
		"redis away":       {fmt.Errorf("%w: refused", events.ErrUnavailable), "degraded", 200},
		"nothing delivers": {events.ErrDeaf, "not_delivering", 503},
		"hub gone":         {events.ErrClosed, "not_delivering", 503},
	} {
		t.Run(name, func(t *testing.T) {
			inTestbed(t, func(t *testing.T, h *testbed) {
				asked := 0
				h.ready.probe = func(context.Context) error { asked++; return c.err }
				for range 3 {
					if a := h.doOps(t, "GET", "/readyz"); a.status != c.status || string(a.body) != `{"status":"`+c.state+"\"}\n" {
						t.Errorf("%d %s, want %d %s", a.status, a.body, c.status, c.state)
					}
				}
				time.Sleep(2 * time.Second)
				h.doOps(t, "GET", "/readyz")
				if asked != 2 {
					t.Errorf("the storage was asked %d times, want 2", asked)
				}
			})
		})
	}
	t.Run("the real probe", func(t *testing.T) {
		inTestbed(t, func(t *testing.T, h *testbed) {
			if a := h.doOps(t, "GET", "/readyz"); a.status != 200 || !strings.Contains(string(a.body), `"ready"`) {
				t.Errorf("with a log: %d %s", a.status, a.body)
			}
			time.Sleep(2 * time.Second)
			h.log.Stop()
			if a := h.doOps(t, "GET", "/readyz"); a.status != 200 || !strings.Contains(string(a.body), `"degraded"`) {
				t.Errorf("without: %d %s", a.status, a.body)
			}
		})
	})
}

func TestTheSimulatedModelsCallsAreToldInDevOnly(t *testing.T) {
	calls := func(topic events.Topic) int {
		if topic == events.NewTopic("bo", session, "guidance") {
			return 7
		}
		return 2
	}
	inTestbed(t, func(t *testing.T, h *testbed) {
		for query, want := range map[string]string{
			"session_id=" + session:                                 "{\"calls\":2}\n",
			"session_id=" + session + "&workload=guidance&owner=bo": "{\"calls\":7}\n",
		} {
			if a := h.doOps(t, "GET", "/dev/model/calls?"+query); string(a.body) != want {
				t.Errorf("%s: %d %s", query, a.status, a.body)
			}
		}
		for _, query := range []string{"", "session_id=a%20b", "session_id=a&workload=x"} {
			if a := h.doOps(t, "GET", "/dev/model/calls?"+query); a.status != 400 {
				t.Errorf("%s: %d", query, a.status)
			}
		}
	}, func(o *Options) { o.Dev, o.DevModelCalls = true, calls })
	inTestbed(t, func(t *testing.T, h *testbed) {
		if a := h.doOps(t, "GET", "/dev/model/calls?session_id=a"); a.status != 404 {
			t.Errorf("outside of dev: %d", a.status)
		}
	}, func(o *Options) { o.DevModelCalls = calls })
}

func TestReadinessTellsItsWarning(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		if a := h.doOps(t, "GET", "/readyz"); a.status != 200 || string(a.body) != `{"status":"ready","warning":"Redis may evict jobs"}`+"\n" {
			t.Errorf("%d %s", a.status, a.body)
		}
	}, func(o *Options) { o.Warning = func(context.Context) string { return "Redis may evict jobs" } })
}
