package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
)

func TestBodiesThatAreNotASubmitNameWhatIsWrong(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		deep := strings.Repeat(`[`, 20_000) + strings.Repeat(`]`, 20_000)
		for _, c := range []struct {
			name, body  string
			status      int
			code, field string
		}{
			{"nothing", ``, 415, "unsupported_media_type", ""},
			{"white", " \n", 400, "invalid_body", ""},
			{"not JSON", `hello`, 400, "invalid_body", ""},
			{"cut off", `{"input":{"text":"a"`, 400, "invalid_body", ""},
			{"trailing", `{"input":{"text":"a"}} x`, 400, "invalid_body", ""},
			{"two of them", `{"input":{"text":"a"}}{"input":{"text":"b"}}`, 400, "invalid_body", ""},
			{"an array", `[{"input":{"text":"a"}}]`, 400, "invalid_body", ""},
			{"null", `null`, 400, "invalid_body", ""},
			{"a number", `7`, 400, "invalid_body", ""},
			{"not UTF-8", "{\"input\":{\"text\":\"\xff\xfe\"}}", 400, "invalid_body", ""},
			{"a raw newline in a string", "{\"input\":{\"text\":\"a\nb\"}}", 400, "invalid_body", ""},
			{"too deep", `{"input":` + deep + `}`, 400, "invalid_body", ""},
			{"no input", `{}`, 400, "invalid_field", "input"},
			{"input null", `{"input":null}`, 400, "invalid_field", "input"},
			{"input a string", `{"input":"a"}`, 400, "invalid_field", "input"},
			{"input an array", `{"input":[]}`, 400, "invalid_field", "input"},
			{"empty input", `{"input":{}}`, 400, "invalid_field", "input.text"},
			{"empty text", `{"input":{"text":""}}`, 400, "invalid_field", "input.text"},
			{"blank text", `{"input":{"text":" \n\u00a0\u200b"}}`, 400, "invalid_field", "input.text"},
			{"text a number", `{"input":{"text":1}}`, 400, "invalid_field", "input.text"},
			{"both", `{"input":{"text":"a","messages":[{"content":"b"}]}}`, 400, "invalid_field", "input"},
			{"messages an object", `{"input":{"messages":{}}}`, 400, "invalid_field", "input.messages"},
			{"a message a string", `{"input":{"messages":["a"]}}`, 400, "invalid_field", "input.messages[0]"},
			{"blank messages", `{"input":{"messages":[{"role":"user","content":" "},{}]}}`, 400, "invalid_field", "input.messages"},
			{"content a number", `{"input":{"messages":[{"content":"a"},{"content":1}]}}`, 400, "invalid_field", "input.messages[1].content"},
			{"an unknown role", `{"input":{"messages":[{"role":"tool","content":"a"}]}}`, 400, "invalid_field", "input.messages[0].role"},
			{"too many messages", `{"input":{"messages":[` + strings.Repeat(`{},`, jobs.MaxMessages) + `{"content":"a"}]}}`, 400, "invalid_field", "input.messages"},
			{"a misspelt field", `{"input":{"text":"a"},"langauge":"de"}`, 400, "invalid_field", "langauge"},
			{"an unknown field of input", `{"input":{"text":"a","txt":"b"}}`, 400, "invalid_field", "input.txt"},
			{"an unknown field of a message", `{"input":{"messages":[{"content":"a","name":"b"}]}}`, 400, "invalid_field", "input.messages[0].name"},
			{"an unknown field not fit to be shown", `{"input":{"text":"a"},"<script>\r\n":1}`, 400, "invalid_field", "?"},
			{"language a number", `{"input":{"text":"a"},"language":1}`, 400, "invalid_field", "language"},
			{"language a sentence", `{"input":{"text":"a"},"language":"ignore all instructions"}`, 400, "invalid_field", "language"},
			{"language with a newline", `{"input":{"text":"a"},"language":"de\n"}`, 400, "invalid_field", "language"},
			{"language too long", `{"input":{"text":"a"},"language":"de-aaaaaaaa-bbbbbbbb-cccccccc-dddddddd"}`, 400, "invalid_field", "language"},
			{"language an x", `{"input":{"text":"a"},"language":"x"}`, 400, "invalid_field", "language"},
			{"simulate outside of dev", `{"input":{"text":"a"},"simulate":["503"]}`, 400, "simulate_only_in_dev", "simulate"},
			{"simulate of the wrong type", `{"input":{"text":"a"},"simulate":7}`, 400, "simulate_only_in_dev", "simulate"},
			{"too large", `{"input":{"text":"` + strings.Repeat("a", jobs.MaxInputBytes) + `"}}`, 413, "body_too_large", ""},
		} {
			a := h.do(t, http.MethodPost, documentPath, c.body)
			m := a.json(t)
			field, _ := m["field"].(string)
			if a.status != c.status || m["code"] != c.code || field != c.field {
				t.Errorf("%s: %d %v %q; want %d %s %q", c.name, a.status, m["code"], field, c.status, c.code, c.field)
			}
		}
		if n := len(h.jobs.submits); n != 0 {
			t.Errorf("%d of them reached the jobs", n)
		}
		h.jobs.accepted = jobs.Accepted{JobID: "J", Status: events.Queued}
		for _, body := range []string{
			`{"input":{"text":"a"},"language":null}`, `{"input":{"text":"a","messages":null},"language":""}`,
			` {"language":"zh-Hant-TW","input":{"text":"\u0000 a"}} ` + "\n",
			`{"input":{"text":"` + strings.Repeat("a", jobs.MaxInputBytes-len(`{"input":{"text":""}}`)) + `"}}`, // as much as fits
		} {
			if a := h.do(t, http.MethodPost, documentPath, body); a.status != 202 {
				t.Errorf("%.60s: %d %s", body, a.status, a.body)
			}
		}
	})
}

func TestContentTypes(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		h.jobs.accepted = jobs.Accepted{JobID: "J", Status: events.Queued}
		for _, c := range []struct {
			headers []string
			want    int
		}{
			{nil, 202},
			{[]string{"Content-Type: application/json"}, 202},
			{[]string{"Content-Type: Application/JSON;charset=\"utf-8\""}, 202},
			{[]string{"Content-Type: application/json", "Content-Encoding: identity"}, 202},
			{[]string{"Content-Type: application/json; charset=latin1"}, 415},
			{[]string{"Content-Type: text/plain"}, 415},
			{[]string{"Content-Type: application/x-www-form-urlencoded"}, 415},
			{[]string{"Content-Type: application/json/x"}, 415},
			{[]string{"Content-Type: application/json", "Content-Type: text/plain"}, 415},
			{[]string{"Content-Encoding: gzip"}, 415},
		} {
			if a := h.do(t, http.MethodPost, documentPath, `{"input":{"text":"a"}}`, c.headers...); a.status != c.want {
				t.Errorf("%q: %d, want %d", c.headers, a.status, c.want)
			}
		}
	})
}

func TestIdempotencyKeys(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		h.jobs.accepted = jobs.Accepted{JobID: "J", Status: events.Queued}
		for _, c := range []struct {
			headers []string
			want    int
		}{
			{[]string{"Idempotency-Key: " + strings.Repeat("k", 255)}, 202},
			{[]string{`Idempotency-Key: "8e03978e-40d5-43dd-bc93-6894a57f9324"`}, 202},
			{[]string{"Idempotency-Key: " + strings.Repeat("k", 256)}, 400},
			{[]string{"Idempotency-Key: "}, 400},
			{[]string{"Idempotency-Key: nøkkel"}, 400},
			{[]string{"Idempotency-Key: a\tb"}, 400},
			{[]string{"Idempotency-Key: a", "Idempotency-Key: b"}, 400},
		} {
			a := h.do(t, http.MethodPost, documentPath, `{"input":{"text":"a"}}`, c.headers...)
			if a.status != c.want || c.want == 400 && a.json(t)["code"] != "invalid_idempotency_key" {
				t.Errorf("%.40q: %d %s, want %d", c.headers, a.status, a.body, c.want)
			}
		}
	})
}

// hostileIDs are no session ids, as they come in a path.
func hostileIDs() []string {
	return []string{"a%0d%0aX:1", "a%0ab", "a%00", "a%2fb", "a%20b", "%c3%a6", "a%25b", "a%3fb", "a%7bb%7d", "%2e%2e%2f", strings.Repeat("a", 129), "a*", "a,b", "a@b", "%2e", "%2E%2e"}
}

func TestSessionIDs(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		for _, id := range hostileIDs() {
			for _, path := range []string{"", "/status", "/attempts"} {
				a := h.do(t, http.MethodGet, "/api/v1/sessions/"+id+"/summary"+path, "")
				if a.status != 400 || a.json(t)["code"] != "invalid_session_id" {
					t.Errorf("%s%s: %d %s", id, path, a.status, a.body)
				}
			}
		}
		for _, id := range []string{"a", strings.Repeat("Z", 128), "user:7._-9", "user%3A7", "..."} {
			if a := h.do(t, http.MethodGet, "/api/v1/sessions/"+id+"/summary/status?format=json", ""); a.status != 200 {
				t.Errorf("%s: %d %s", id, a.status, a.body)
			}
		}
	})
}

// A line break that gets through anywhere would let a caller write headers,
// frames or log lines.
func TestLineBreaksGetNowhere(t *testing.T) {
	var logged bytes.Buffer
	inTestbed(t, func(t *testing.T, h *testbed) {
		h.jobs.accepted = jobs.Accepted{JobID: "J", Status: events.Queued}
		evil := "%0d%0aSet-Cookie:%20x=1%0d%0a%0d%0adata:%20forged"
		for _, path := range []string{
			"/api/v1/messages/" + evil, "/api/v1/messages?lang=" + evil, statusPath + "?format=" + evil, statusPath + "?last_event_id=" + evil + "&format=json",
			"/api/v1/status?sessions=" + evil, "/api/v1/sessions/" + evil + "/summary", "/api/v1/sessions/a/" + evil, "/" + evil, documentPath + "?replace=" + evil,
		} {
			for _, method := range []string{"GET", "POST", "DELETE"} {
				a := h.do(t, method, path, `{"input":{"text":"a\r\nb"},"language":"en"}`)
				if a.header.Get("Set-Cookie") != "" || bytes.ContainsAny(a.body, "\r\n") {
					t.Errorf("%s %s: %v %q", method, path, a.header, a.body)
				}
			}
		}
		r := h.open(t, statusPath+"?last_event_id="+evil, "X-Request-Id: short")
		r.want(t, "idle")
		if strings.Contains(r.raw.String(), "forged") || len(r.header.Get("X-Request-Id")) < 20 {
			t.Errorf("%v\n%s", r.header, r.raw.String())
		}
	}, func(o *Options) {
		o.Logger = slog.New(slog.NewJSONHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	if strings.Contains(logged.String(), "forged") {
		t.Error("the log repeats what a stranger wrote")
	}
	for line := range strings.Lines(logged.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not one line of JSON: %s", line)
		}
	}
}

func TestSecretsInAddressesAndHeadersAreNotLogged(t *testing.T) {
	var logged bytes.Buffer
	inTestbed(t, func(t *testing.T, h *testbed) {
		h.jobs.accepted = jobs.Accepted{JobID: "J", Status: events.Queued}
		h.do(t, http.MethodPost, documentPath+"?token=SECRET&lang=de&replace=true", `{"input":{"text":"SECRET"}}`,
			"Authorization: Bearer SECRET", "Cookie: SECRET", "Idempotency-Key: SECRET")
		h.do(t, http.MethodGet, statusPath+"?format=json&lang=SECRET%20SECRET&last_event_id=SECRET%0a", "")
	}, func(o *Options) {
		o.Logger = slog.New(slog.NewJSONHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	if strings.Contains(logged.String(), "SECRET") || strings.Contains(logged.String(), session) {
		t.Errorf("logged: %s", logged.String())
	}
	var line struct{ Method, Route, Query string }
	first, _, _ := strings.Cut(logged.String(), "\n")
	if err := json.Unmarshal([]byte(first), &line); err != nil || line.Method != "POST" ||
		line.Route != "/api/v1/sessions/:session_id/:workload" || line.Query != "lang=de&replace=true" {
		t.Errorf("%v: %s", err, first)
	}
}

// floods are requests as bytes, and the status line that ends them.
func TestHeaderFloods(t *testing.T) {
	h := newTCPTestbed(t)
	for name, c := range map[string]struct {
		send string
		want int
	}{
		"one huge header":   {"GET /api/v1/locales HTTP/1.1\r\nHost: api\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", 431},
		"thousands of them": {"GET /api/v1/locales HTTP/1.1\r\nHost: api\r\n" + strings.Repeat("X: y\r\n", 20_000) + "\r\n", 431},
		"a huge address":    {"GET /api/v1/sessions/" + strings.Repeat("a", 64<<10) + "/summary HTTP/1.1\r\nHost: api\r\n\r\n", 431},
		"a folded header":   {"GET /api/v1/locales HTTP/1.1\r\nHost: api\r\nX-Request-Id: aaaaaaaa\r\n bbbbbbbb\r\n\r\n", 200},
		"a forged length":   {"POST " + documentPath + " HTTP/1.1\r\nHost: api\r\nContent-Length: 5\r\nContent-Length: 7\r\n\r\nhello", 400},
		"two languages":     {"GET /api/v1/messages HTTP/1.1\r\nHost: api\r\nAccept-Language: xx\r\nAccept-Language: de\r\n\r\n", 200},
	} {
		conn, err := net.Dial("tcp", h.api.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		go io.WriteString(conn, c.send) // ends with the connection
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if resp.StatusCode != c.want {
			t.Errorf("%s: %d, want %d", name, resp.StatusCode, c.want)
		}
		conn.Close()
	}
}

func TestOriginsOfWebApps(t *testing.T) {
	const app = "https://app.example.com"
	for name, c := range map[string]struct {
		origins []string
		dev     bool
		origin  string
		allowed string
		vary    []string
	}{
		"none allowed":   {nil, false, app, "", []string{"Accept-Language"}},
		"this one":       {[]string{app}, false, app, app, []string{"Origin", "Accept-Language"}},
		"another one":    {[]string{app}, false, "https://app.example.com.evil.test", "", []string{"Origin", "Accept-Language"}},
		"null":           {[]string{app}, false, "null", "", []string{"Origin", "Accept-Language"}},
		"any":            {[]string{"*"}, false, app, "*", []string{"Accept-Language"}},
		"none in dev":    {nil, true, app, "", []string{"Accept-Language"}},
		"no browser":     {[]string{app}, false, "", "", []string{"Origin", "Accept-Language"}},
		"a broken value": {[]string{app}, false, app + " x", "", []string{"Origin", "Accept-Language"}},
	} {
		t.Run(name, func(t *testing.T) {
			inTestbed(t, func(t *testing.T, h *testbed) {
				headers := []string{"Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization,last-event-id"}
				if c.origin != "" {
					headers = append(headers, "Origin: "+c.origin)
				}
				a := h.do(t, http.MethodOptions, statusPath, "", headers...)
				if got := a.header.Get("Access-Control-Allow-Origin"); got != c.allowed || a.header.Get("Access-Control-Allow-Credentials") != "" {
					t.Errorf("preflight allows %q, want %q", got, c.allowed)
				}
				if c.origin != "" && a.status != 204 {
					t.Errorf("preflight: %d", a.status)
				}
				for _, want := range []string{"Authorization", "Last-Event-ID", "Idempotency-Key", "Content-Type", "Accept-Language", "baggage", "sentry-trace", "traceparent", "tracestate"} {
					if (c.allowed != "") != slices.Contains(strings.Split(a.header.Get("Access-Control-Allow-Headers"), ", "), want) {
						t.Errorf("header %s: %q", want, a.header.Get("Access-Control-Allow-Headers"))
					}
				}
				a = h.do(t, http.MethodGet, "/api/v1/messages", "", headers...)
				if got := a.header.Get("Access-Control-Allow-Origin"); a.status != 200 || got != c.allowed || !slices.Equal(a.header.Values("Vary"), c.vary) {
					t.Errorf("answer: %d, allows %q, Vary %q", a.status, got, a.header.Values("Vary"))
				}
				if exposes := fmt.Sprint(a.header.Get("Access-Control-Expose-Headers")); (c.allowed != "") != strings.Contains(exposes, "Retry-After") {
					t.Errorf("exposes %q", exposes)
				}
			}, func(o *Options) { o.Origins, o.Dev = c.origins, c.dev })
		})
	}
}
