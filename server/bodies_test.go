package server

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tidings/tidings/jobs"
)

// everyRoute lists what both listeners serve, as method and path.
func everyRoute(t *testing.T, h *testbed) (api, ops [][2]string) {
	t.Helper()
	fill := strings.NewReplacer(":session_id", session, ":workload", "summary", ":key", "status_queued", ":job_id", "J1", ":attempt", "1", "*dependency", "local/pause")
	routes := func(from http.Handler) (all [][2]string) {
		for _, r := range from.(*gin.Engine).Routes() {
			all = append(all, [2]string{r.Method, fill.Replace(r.Path)})
		}
		return all
	}
	api = append(routes(h.API()), [2]string{"GET", "/nowhere"}, [2]string{"POST", "/nowhere"}, [2]string{"PUT", statusPath}, [2]string{"OPTIONS", statusPath})
	ops = routes(h.adminRoutes())
	for _, path := range []string{"/", "/healthz", "/readyz", "/metrics", "/ops", "/ops/job", "/queues", "/queues/api/queues", "/debug/pprof/", "/debug/pprof/symbol", "/nowhere"} {
		ops = append(ops, [2]string{"GET", path})
	}
	for _, path := range []string{"/healthz", "/ops/retries", "/ops/dependencies", "/queues/api/queues/x:pause"} {
		ops = append(ops, [2]string{"POST", path})
	}
	if len(api) < 20 || len(ops) < 20 {
		t.Fatalf("only %d and %d routes", len(api), len(ops))
	}
	return api, ops
}

// announce announces a body and sends none. It returns the answer's status, how long
// that took, and how long the connection was open.
func announce(t *testing.T, l net.Listener, method, path, header string) (status int, answered, closed time.Duration) {
	t.Helper()
	conn, err := l.(*pipes).dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	start := time.Now()
	_ = conn.SetDeadline(start.Add(2 * time.Minute))
	if _, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%s\r\n\r\n", method, path, header); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, &http.Request{Method: method})
	if err != nil {
		t.Errorf("%s %s: %v after %v", method, path, err, time.Since(start))
		return 0, time.Since(start), time.Since(start)
	}
	answered = time.Since(start)
	_, _ = io.Copy(io.Discard, in) // until the connection is closed
	return resp.StatusCode, answered, time.Since(start)
}

// A body that is announced and never sent holds no route of either listener
// longer than a body may take, and no stream's place at all.
func TestABodyThatNeverComesHoldsNoRoute(t *testing.T) {
	token := strings.Repeat("t", 32)
	inTestbed(t, func(t *testing.T, h *testbed) {
		api, ops := everyRoute(t, h)
		for i, routes := range [][][2]string{api, ops} {
			l := []net.Listener{h.api, h.ops}[i]
			login := []string{"Bearer " + token, "Basic " + base64.StdEncoding.EncodeToString([]byte("admin:"+password))}[i]
			for _, r := range routes {
				for _, header := range []string{"Content-Length: 10", "Transfer-Encoding: chunked"} {
					status, answered, closed := announce(t, l, r[0], r[1], header+"\r\nAuthorization: "+login)
					if answered > bodyTimeout || closed > bodyTimeout+lingerAfter+time.Second {
						t.Errorf("%s %s with %s: answered %d after %v, closed after %v", r[0], r[1], header, status, answered, closed)
					}
					if header == "Content-Length: 10" && !carriesBody(r[0]) && (status < 400 && r[0] != "OPTIONS" || answered > 0) {
						t.Errorf("%s %s takes a body: %d after %v", r[0], r[1], status, answered)
					}
				}
			}
		}
		if got := len(h.streams.open); got != 0 {
			t.Errorf("%d streams open", got)
		}
	}, func(o *Options) {
		o.Dev, o.AdminPassword, o.Operators, o.Queues = true, password, &operatorsScript{}, http.NotFoundHandler()
		o.Outside, o.WorkerToken = &outsideScript{}, token
	})
}

// A body that is on its way when the process goes down does not hold it up, nor
// does one that nobody reads. The slow one is told to try elsewhere.
func TestBodiesThatNeverComeDoNotHoldTheEndUp(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		statuses := make(chan int, 2)
		for _, path := range []string{documentPath, "/nowhere"} {
			go func() {
				status, _, _ := announce(t, h.api, "POST", path, "Content-Length: 10")
				statuses <- status
			}()
		}
		synctest.Wait()
		start := time.Now()
		h.stop()
		err := <-h.served
		h.served <- err
		if took := time.Since(start); err != nil || took > bodyAtTheEnd+lingerAfter+time.Second {
			t.Errorf("down after %v: %v", took, err)
		}
		if a, b := <-statuses, <-statuses; a+b != 404+503 {
			t.Errorf("answered %d and %d", a, b)
		}
	})
}

// An empty body of unknown length is none: some proxies send it so.
func TestAnEmptyChunkedBodyIsNone(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		h.jobs.accepted = jobs.Accepted{JobID: "J"}
		for _, r := range [][2]string{{"POST", documentPath + "/retry"}, {"GET", statusPath + "?format=json"}} {
			for body, want := range map[string]bool{"0\r\n\r\n": true, "2\r\n{}\r\n0\r\n\r\n": false} {
				conn, err := h.api.(*pipes).dial()
				if err != nil {
					t.Fatal(err)
				}
				go fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n%s", r[0], r[1], body)
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				if (resp.StatusCode < 300) != want {
					t.Errorf("%s %s %q: %d", r[0], r[1], body, resp.StatusCode)
				}
				conn.Close()
			}
		}
	})
}

// A stream whose request had an empty chunked body lives on: the body's time
// limit is over with the body.
func TestAStreamOutlivesItsBodysTime(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		conn, err := h.api.(*pipes).dial()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		go fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", statusPath)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		r := newReader(resp.Body)
		r.want(t, "idle")
		time.AfterFunc(4*bodyTimeout, func() { h.happen(t, summary(session), queued()) })
		r.want(t, "queued")
	})
}
