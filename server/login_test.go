package server

import (
	"bufio"
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/jobs/gate"
)

func TestAShortPasswordIsRefused(t *testing.T) {
	for text, ok := range map[string]bool{"": true, "x": false, strings.Repeat("x", MinPassword-1): false, strings.Repeat("x", MinPassword): true} {
		synctest.Test(t, func(t *testing.T) {
			h := newTestbed(t)
			o := h.o
			o.Metrics, o.AdminPassword = nil, text
			if _, err := New(o); (err == nil) != ok {
				t.Errorf("%d characters: %v", len(text), err)
			}
		})
	}
}

// Whoever guesses as fast as the network allows gets a guess a minute, and not
// even the right one is looked at in between.
func TestGuessesOfThePasswordAreSlowedDown(t *testing.T) {
	inOfficeTestbed(t, func(t *testing.T, h *testbed, _ *operatorsScript) {
		guess := func(password string, want int, retryAfter string) {
			t.Helper()
			a := h.doOps(t, "GET", "/ops", login(password))
			if a.status != want || a.header.Get("Retry-After") != retryAfter {
				t.Errorf("%d, Retry-After %q, want %d and %q", a.status, a.header.Get("Retry-After"), want, retryAfter)
			}
		}
		for _, pause := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
			guess("wrong", 401, "")
			guess("wrong", 429, fmt.Sprint(pause))
			guess(password, 429, fmt.Sprint(pause))
			if a := h.doOps(t, "GET", "/ops"); a.status != 401 { // no guess
				t.Errorf("without a password: %d", a.status)
			}
			time.Sleep(time.Duration(pause) * time.Second)
		}
		guess(password, 200, "")
		guess("wrong", 401, "")
		guess(password, 429, "60") // a right one in between gives no new start
		time.Sleep(forgetAfter + time.Second)
		guess("wrong", 401, "")
		guess(password, 429, "1")

		start, looked := time.Now(), 0
		for time.Since(start) < 10*time.Minute {
			if a := h.doOps(t, "GET", "/queues/", login("guess")); a.status == 401 {
				looked++
			}
			time.Sleep(250 * time.Millisecond)
		}
		if looked > 16 {
			t.Errorf("%d guesses were looked at in ten minutes", looked)
		}
	})
}

// A pause is an address's own, its memory has a bound, and an IPv6 host does not
// get round it by its many addresses.
func TestGuessesAreCountedByAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuesses()
		wrong, right := func() bool { return false }, func() bool { return true }
		g.try("10.0.0.1", wrong)
		if ok, wait := g.try("10.0.0.1", right); ok || wait != time.Second {
			t.Errorf("the guesser: %v, %s", ok, wait)
		}
		if ok, _ := g.try("10.0.0.2", right); !ok {
			t.Error("another address waits too")
		}
		g.try("2001:db8::1", wrong)
		if ok, wait := g.try("2001:db8::ffff:1", right); ok || wait == 0 {
			t.Error("another address of the same network does not wait")
		}
		if ok, _ := g.try("2001:db8:0:1::1", right); !ok {
			t.Error("another network waits too")
		}
		for i := range 2 * maxGuessers {
			g.try(fmt.Sprintf("10.%d.%d.%d", 1+i>>16, i>>8&255, i&255), wrong)
		}
		if len(g.by) > maxGuessers+1 {
			t.Errorf("%d addresses are kept", len(g.by))
		}
		if ok, wait := g.try("192.0.2.1", right); ok || wait == 0 {
			t.Error("one address too many does not wait")
		}
		time.Sleep(forgetAfter + time.Second)
		if ok, _ := g.try("192.0.2.1", right); !ok || len(g.by) > 1 {
			t.Errorf("a quarter of an hour later: %v, %d kept", ok, len(g.by))
		}
	})
}

// Who wants something is anybody's word; who logged in, and from where, is not.
func TestEveryWriteSaysWhoLoggedInAndFromWhere(t *testing.T) {
	var logged bytes.Buffer
	o := &operatorsScript{}
	inTestbed(t, func(t *testing.T, h *testbed) {
		h.put(t, "/admin/retries", `{"retries":"off","owner":"root","for":"1h"}`)
		h.put(t, "/admin/dependencies/local/pause", `{"owner":"root","for":"1h"}`)
		h.form(t, "/ops/retries", url.Values{"retries": {"on"}, "scope": {"all"}, "owner": {"root"}, "login": {"root"}, "from": {"x"}})
		h.form(t, "/ops/dependencies", url.Values{"calls": {"resume"}, "dependency": {"local"}, "owner": {"root"}})
		for i, order := range o.orders {
			if order.Owner != "root" || order.Login != "admin" || order.From != "pipe" {
				t.Errorf("order %d: %+v", i, order)
			}
		}
		if len(o.orders) != 4 {
			t.Errorf("%d orders", len(o.orders))
		}
		h.put(t, "/admin/retries", `{"retries":"off","owner":"root","login":"root","for":"1h"}`).refused(t, "login", 400, "invalid_field", "login")
		h.send(t, "http://ops/admin/jobs/01JOB/resolve", "POST", `{"outcome":"failed"}`, login(password))
		h.send(t, "http://ops/queues/api/queues/default:pause", "POST", "", login(password))
		for _, want := range []string{
			`"method":"PUT","path":"/admin/retries","status":200,"login":"admin","from":"pipe"`,
			`"method":"PUT","path":"/admin/retries","status":400,"login":"admin","from":"pipe"`,
			`"method":"PUT","path":"/admin/dependencies/local/pause","status":200,"login":"admin","from":"pipe"`,
			`"method":"POST","path":"/ops/retries","status":303,"login":"admin","from":"pipe"`,
			`"method":"POST","path":"/ops/dependencies","status":303,"login":"admin","from":"pipe"`,
			`"method":"POST","path":"/admin/jobs/01JOB/resolve","status":404,"login":"admin","from":"pipe"`,
			`"method":"POST","path":"/queues/api/queues/default:pause","status":204,"login":"admin","from":"pipe"`,
		} {
			if !strings.Contains(logged.String(), want) {
				t.Errorf("no line with %s in\n%s", want, logged.String())
			}
		}
		// It is shown to the others.
		o.switches = gate.Switches{Audit: []gate.Record{{At: at(aTime), Action: "on", Order: o.orders[0]}}}
		if page := string(h.doOps(t, "GET", "/ops", login(password)).body); !strings.Contains(page, "<td>root</td><td>admin</td><td><code>pipe</code></td>") {
			t.Errorf("not on the page:\n%s", page)
		}
		if list := string(h.doOps(t, "GET", "/admin/retries", login(password)).body); !strings.Contains(list, `"login":"admin","from":"pipe"`) {
			t.Errorf("not in the list: %s", list)
		}
	}, func(s *Options) {
		s.Operators, s.AdminPassword, s.Queues = o, password, &webUI{}
		s.Logger = slog.New(slog.NewJSONHandler(&logged, nil))
	})
}

// In dev a proxy on the same machine comes from loopback, for anybody.
func TestInDevAProxiedRequestIsNotALocalOne(t *testing.T) {
	h := newTCPTestbed(t, func(o *Options) { o.Queues, o.Dev = &webUI{}, true })
	for _, header := range []string{"Forwarded: for=192.0.2.1", "X-Forwarded-For: 127.0.0.1", "X-Forwarded-For: ", "X-Real-IP: 192.0.2.1", "Via: 1.1 x",
		"X-Forwarded-Proto: https", "X-Forwarded-Host: localhost", "CF-Connecting-IP: 192.0.2.1"} {
		for _, path := range []string{"/queues", "/debug/pprof/"} {
			if a := h.doOps(t, "GET", path, "Host: localhost", header); a.status != 404 {
				t.Errorf("%s with %s: %d", path, header, a.status)
			}
		}
	}
	// As nginx does by itself: no header, the address it was told, HTTP/1.0.
	c, err := net.Dial("tcp", h.ops.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET /queues HTTP/1.0\r\nHost: %s\r\nConnection: close\r\n\r\n", h.ops.Addr())
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 404 {
		t.Errorf("by HTTP/1.0: %d", res.StatusCode)
	}
}
