package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/lifecycle"
	"github.com/tidings/tidings/jobs/model"
)

const documentPath = "/api/v1/sessions/" + session + "/summary"

func TestSubmitHandsOverWhatWasSentAndAnswersWhatCameOfIt(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		for _, c := range []struct {
			name, query string
			accepted    jobs.Accepted
			status      int
			replayed    string
		}{
			{"new", "", jobs.Accepted{JobID: "J1", Status: events.Queued}, 202, ""},
			{"live", "?replace=true", jobs.Accepted{JobID: "J1", Status: events.Processing, Live: true}, 200, ""},
			{"not replicated", "", jobs.Accepted{JobID: "J1", Status: events.Queued, Unreplicated: true}, 202, ""},
			{"replayed", "?replace=0", jobs.Accepted{JobID: "J1", Status: events.Queued, Replayed: true}, 202, "true"},
		} {
			h.jobs.accepted, h.jobs.submits = c.accepted, nil
			a := h.do(t, http.MethodPost, "/api/v1/sessions/"+session+"/guidance"+c.query,
				`{"input":{"messages":[{"role":"user","content":"hello"},{"content":"you"}]},"language":"pt-BR"}`,
				"Content-Type: application/json; charset=UTF-8", "Idempotency-Key: k 1")
			if a.status != c.status || a.header.Get("Idempotent-Replayed") != c.replayed {
				t.Errorf("%s: %d, replayed %q; want %d, %q", c.name, a.status, a.header.Get("Idempotent-Replayed"), c.status, c.replayed)
			}
			if got := a.header.Get("Tidings-Replicated"); (got == "false") != c.accepted.Unreplicated || got != "" && got != "false" {
				t.Errorf("%s: Tidings-Replicated %q", c.name, got)
			}
			if want := "/api/v1/sessions/abc-123/guidance/status"; a.header.Get("Location") != want {
				t.Errorf("%s: Location %q", c.name, a.header.Get("Location"))
			}
			if got := string(a.body); got != fmt.Sprintf(`{"job_id":"J1","status":%q}`, c.accepted.Status) {
				t.Errorf("%s: body %s", c.name, got)
			}
			got := h.jobs.submits[0]
			want := jobs.Submit{Topic: events.NewTopic("", session, "guidance"), Language: "pt-BR", IdempotencyKey: "k 1", Replace: c.query == "?replace=true",
				Input: jobs.Input{Messages: []model.Message{{Role: "user", Content: "hello"}, {Content: "you"}}}}
			if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
				t.Errorf("%s: handed over\n%s\nwant\n%s", c.name, g, w)
			}
		}
	})
}

func TestRetryAndCancelAnswerWithTheJob(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		h.jobs.accepted = jobs.Accepted{JobID: "J2", Status: events.Queued}
		if a := h.do(t, http.MethodPost, documentPath+"/retry", ""); a.status != 202 || string(a.body) != `{"job_id":"J2","status":"queued"}` {
			t.Errorf("retry: %d %s", a.status, a.body)
		}
		h.jobs.accepted.Status = events.Failed
		if a := h.do(t, http.MethodDelete, documentPath+"/job", ""); a.status != 200 || string(a.body) != `{"job_id":"J2","status":"error"}` {
			t.Errorf("cancel: %d %s", a.status, a.body)
		}
		if want := []events.Topic{summary(session), summary(session)}; !slices.Equal(h.jobs.topics, want) {
			t.Errorf("asked about %v", h.jobs.topics)
		}
	})
}

func TestADocumentIsSentAgainOnlyWhenItHasChanged(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		tokens := int64(12)
		h.jobs.document = jobs.Document{Version: 3, JobID: "J1", CreatedAt: time.Date(2026, 4, 7, 14, 1, 0, 5e6, time.FixedZone("", 7200)),
			Model: "local", Usage: model.Usage{InputTokens: &tokens}, Content: json.RawMessage(`{"title":"<b> & \u2028"}`)}
		a := h.do(t, http.MethodGet, documentPath, "")
		got := a.json(t)
		if got["created_at"] != "2026-04-07T12:01:00.005Z" || got["version"] != 3.0 || got["cost_usd"] != nil {
			t.Errorf("got %s", a.body)
		}
		if a.header.Get("ETag") != `"3"` || a.header.Get("Cache-Control") != "private, no-cache" {
			t.Errorf("headers %v", a.header)
		}
		for header, want := range map[string]int{`"3"`: 304, `W/"3"`: 304, `"1", "3"`: 304, "*": 304, `"2"`: 200, "3": 200, "": 200} {
			if got := h.do(t, http.MethodGet, documentPath, "", "If-None-Match: "+header).status; got != want {
				t.Errorf("If-None-Match %q: %d, want %d", header, got, want)
			}
		}
		if head := h.do(t, http.MethodHead, documentPath, ""); head.status != 200 || len(head.body) != 0 {
			t.Errorf("HEAD: %d, %d bytes", head.status, len(head.body))
		}
	})
}

func TestTheLedgerDoesNotNameTheWorker(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		h.jobs.ledger = lifecycle.Ledger{JobID: "J", Attempts: []lifecycle.AttemptLine{{Attempt: 1, Run: 1, Worker: "host-77-abcd", Status: events.Processing}}}
		if a := h.do(t, http.MethodGet, documentPath+"/attempts", ""); a.status != 200 || strings.Contains(string(a.body), "host-77") {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

func TestTimesAreUTCWithMilliseconds(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		at := time.Date(2026, 4, 7, 23, 59, 59, 999_999_999, time.FixedZone("", -3600))
		next := at.Add(time.Second)
		h.jobs.ledger = lifecycle.Ledger{JobID: "J1",
			Attempts: []lifecycle.AttemptLine{{Attempt: 1, Run: 1, Worker: "w", StartedAt: at, EndedAt: at.Add(1500 * time.Millisecond), Status: events.Retrying, NextAt: &next},
				{Attempt: 2, Run: 1, Worker: "w", StartedAt: at, Status: events.Processing}},
			Calls: []lifecycle.CallLine{{Attempt: 1, Call: 1, Dependency: "local", StartedAt: at, DurationMS: 7, ProviderStatus: 529, Class: events.Overloaded, Decision: "again"}}}
		a := h.do(t, http.MethodGet, documentPath+"/attempts", "")
		want := `{"job_id":"J1","attempts":[` +
			`{"attempt":1,"run":1,"status":"retrying","started_at":"2026-04-08T00:59:59.999Z","ended_at":"2026-04-08T01:00:01.499Z","duration_ms":1500,"next_retry_at":"2026-04-08T01:00:00.999Z"},` +
			`{"attempt":2,"run":1,"status":"processing","started_at":"2026-04-08T00:59:59.999Z","ended_at":null,"duration_ms":null}],` +
			`"calls":[{"attempt":1,"call":1,"dependency":"local","duration_ms":7,"provider_status":529,"class":"overloaded","decision":"again","input_tokens":null,"output_tokens":null,"cost_usd":null,"started_at":"2026-04-08T00:59:59.999Z"}]}`
		if string(a.body) != want {
			t.Errorf("got\n%s\nwant\n%s", a.body, want)
		}
		h.jobs.ledger = lifecycle.Ledger{JobID: "J1"}
		if a := h.do(t, http.MethodGet, documentPath+"/attempts", ""); string(a.body) != `{"job_id":"J1","attempts":[],"calls":[]}` {
			t.Errorf("an empty ledger: %s", a.body)
		}
	})
}

func TestTheStatusAsJSONIsTheLatestEvent(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		if a := h.do(t, http.MethodGet, statusPath, "", "Accept: application/json"); a.json(t)["event"] != "idle" || a.header.Get("ETag") != `"0-en"` {
			t.Errorf("idle: %s, ETag %s", a.body, a.header.Get("ETag"))
		}
		topic := summary(session)
		h.happen(t, topic, queued())
		p := h.happen(t, topic, processing(1, 1))
		a := h.do(t, http.MethodGet, statusPath, "", "Accept: application/json", "Accept-Language: nb")
		if a.header.Get("ETag") != `"`+seqOf(p)+`-nb"` || a.header.Get("Cache-Control") != "private, no-cache" || a.header.Get("Content-Language") != "nb" ||
			a.header.Get("Vary") != "Accept-Language" {
			t.Errorf("headers %v", a.header)
		}
		same := "If-None-Match: " + a.header.Get("ETag")
		if got := h.do(t, http.MethodGet, statusPath+"?format=json", "", same, "Accept-Language: nb").status; got != 304 {
			t.Errorf("unchanged: %d, want 304", got)
		}
		if got := h.do(t, http.MethodGet, statusPath+"?format=json&lang=de", "", same, "Accept-Language: nb").status; got != 200 {
			t.Errorf("another language: %d, want 200", got)
		}
		r := h.happen(t, topic, retryingQueue(1, 30*time.Second))
		for range 2 { // its remaining time moves
			a := h.do(t, http.MethodGet, statusPath+"?format=json", "", `If-None-Match: "`+seqOf(r)+`-en"`)
			if a.status != 200 || a.json(t)["event"] != "retrying" || a.header.Get("ETag") != `"`+seqOf(r)+`-en"` {
				t.Errorf("while retrying: %d %s", a.status, a.body)
			}
			later(time.Second)
		}
	})
}

func TestTheFormOfTheStatusIsTheCallersChoice(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		h.happenAll(t, summary(session), queued(), processing(1, 1), completed(1))
		for accept, want := range map[string]string{
			"":                  "text/event-stream",
			"*/*":               "text/event-stream",
			"text/event-stream": "text/event-stream",
			"Application/JSON":  "application/json",
			"text/event-stream;q=0.5, application/json": "application/json",
			"application/json;q=0.5, text/event-stream": "text/event-stream",
			"application/json, text/event-stream":       "text/event-stream",
			"application/json;q=x":                      "application/json",
			"text/html, */*;q=0.1":                      "text/event-stream",
			"image/png":                                 "application/problem+json",
			"application/json;q=0":                      "application/problem+json",
		} {
			a := h.do(t, http.MethodGet, statusPath, "", "Accept: "+accept)
			if got := a.header.Get("Content-Type"); got != want {
				t.Errorf("Accept %q: %d %s, want %s", accept, a.status, got, want)
			}
		}
		for format, want := range map[string]int{"json": 200, "sse": 200, "xml": 400} {
			if got := h.do(t, http.MethodGet, statusPath+"?format="+format, "", "Accept: image/png").status; got != want {
				t.Errorf("format %s: %d, want %d", format, got, want)
			}
		}
		if a := h.do(t, http.MethodHead, statusPath, ""); a.status != 200 || a.header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("HEAD: %d %v", a.status, a.header)
		}
	})
}

func (h *testbed) happenAll(t *testing.T, topic events.Topic, all ...events.Transition) (last events.Transition) {
	t.Helper()
	for _, tr := range all {
		last = h.happen(t, topic, tr)
	}
	return last
}

func TestAListOfStatuses(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		h.happen(t, summary("b"), queued())
		a := h.do(t, http.MethodGet, "/api/v1/status?sessions=a,b", "", "Accept-Language: fi")
		list := a.json(t)["statuses"].([]any)
		var got []string
		for _, s := range list {
			got = append(got, s.(map[string]any)["session_id"].(string)+" "+s.(map[string]any)["event"].(string))
		}
		if !slices.Equal(got, []string{"a idle", "b queued"}) || a.header.Get("Content-Language") != "fi" {
			t.Errorf("got %q, %v", got, a.header)
		}
		if a := h.do(t, http.MethodGet, "/api/v1/status?workload=guidance&sessions=b", ""); a.json(t)["statuses"].([]any)[0].(map[string]any)["event"] != "idle" {
			t.Errorf("another workload: %s", a.body)
		}
		for query, want := range map[string]string{
			"sessions=" + strings.Repeat("a,", 49) + "a": "",
			"sessions=" + strings.Repeat("a,", 50) + "a": "invalid_query",
			"":                      "invalid_query",
			"sessions=":             "invalid_query",
			"sessions=a,,b":         "invalid_query",
			"sessions=a%0d%0ab":     "invalid_query",
			"sessions=a&workload=x": "unknown_workload",
		} {
			a := h.do(t, http.MethodGet, "/api/v1/status?"+query, "")
			if got, _ := a.json(t)["code"].(string); got != want {
				t.Errorf("%.40s: %d %q, want %q", query, a.status, got, want)
			}
		}
	})
}

func TestTextsInTheCallersLanguage(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		for header, want := range map[string]string{
			"fr-BE": "fr", "nb-NO": "nb", "no": "nb", "nn": "nb", "zh-Hant-TW": "zh", "pt": "pt", "xx": "en", "": "en",
			";;;=": "en", "de;q=0.1, sv": "sv", strings.Repeat("x", 10_000): "en",
		} {
			a := h.do(t, http.MethodGet, "/api/v1/messages", "", "Accept-Language: "+header)
			m := a.json(t)
			if m["language"] != want || a.header.Get("Content-Language") != want || a.header.Get("Vary") != "Accept-Language" {
				t.Errorf("%.20q: %v, Content-Language %s; want %s", header, m["language"], a.header.Get("Content-Language"), want)
			}
			for key, text := range m["messages"].(map[string]any) {
				if text == "" || text == key {
					t.Errorf("%s: %s is %q", want, key, text)
				}
			}
		}
		a := h.do(t, http.MethodGet, "/api/v1/messages/ai_workload_retry_button?lang=nb", "", "Accept-Language: de")
		if string(a.body) != `{"key":"ai_workload_retry_button","language":"nb","text":"Prøv igjen"}` {
			t.Errorf("one text: %s", a.body)
		}
		for _, path := range []string{"/api/v1/messages", "/api/v1/messages/session_see_later", "/api/v1/locales"} {
			a := h.do(t, http.MethodGet, path, "")
			if !strings.HasPrefix(a.header.Get("Cache-Control"), "public") {
				t.Errorf("%s: Cache-Control %q", path, a.header.Get("Cache-Control"))
			}
			if got := h.do(t, http.MethodGet, path, "", "If-None-Match: "+a.header.Get("ETag")).status; got != 304 {
				t.Errorf("%s unchanged: %d", path, got)
			}
		}
		for _, key := range []string{"nothing", "retrying_queue" /* needs values */, "a%0d%0ab"} {
			if a := h.do(t, http.MethodGet, "/api/v1/messages/"+key, ""); a.status != 404 {
				t.Errorf("%s: %d", key, a.status)
			}
		}
		if got := len(h.do(t, http.MethodGet, "/api/v1/locales", "").json(t)["locales"].([]any)); got != 16 {
			t.Errorf("%d languages", got)
		}
	})
}

// A Redis that takes questions and says nothing is away as well: whoever asks gets
// our own answer, long before the connection's own end would leave it with none.
func TestSilentStorageIsOurOwn503InTime(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		h.jobs.silent = true
		for _, r := range []struct{ method, path, body string }{
			{http.MethodPost, documentPath, `{"input":{"text":"x"}}`}, {http.MethodPost, documentPath + "/retry", ""}, {http.MethodDelete, documentPath + "/job", ""},
			{http.MethodGet, documentPath, ""}, {http.MethodGet, documentPath + "/attempts", ""},
		} {
			began := time.Now()
			a := h.do(t, r.method, r.path, r.body, "Accept-Language: de")
			if m := a.json(t); a.status != 503 || m["code"] != "storage_unavailable" || a.header.Get("Retry-After") != "2" || a.header.Get("Content-Language") != "de" {
				t.Errorf("%s %s: %d %v %s", r.method, r.path, a.status, a.header, a.body)
			}
			if took := time.Since(began); took != storageWait {
				t.Errorf("%s %s: answered after %s", r.method, r.path, took)
			}
		}
	})
}

func TestStorageAwayIsOurOwn503Everywhere(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		h.jobs.err = fmt.Errorf("%w: dial tcp 10.0.0.7: refused", events.ErrUnavailable)
		h.log.Stop()
		for _, path := range []string{statusPath, statusPath + "?format=json", statusPath + "?last_event_id=5", "/api/v1/status?sessions=a", documentPath, documentPath + "/attempts"} {
			a := h.do(t, http.MethodGet, path, "", "Accept-Language: de")
			m := a.json(t)
			if a.status != 503 || m["code"] != "storage_unavailable" || a.header.Get("Retry-After") != "2" || a.header.Get("Content-Language") != "de" {
				t.Errorf("%s: %d %v %s", path, a.status, a.header, a.body)
			}
			if strings.Contains(string(a.body), "10.0.0.7") {
				t.Errorf("%s tells what it should not: %s", path, a.body)
			}
		}
		h.jobs.err = errors.New("secret")
		if a := h.do(t, http.MethodGet, documentPath, ""); a.status != 500 || strings.Contains(string(a.body), "secret") {
			t.Errorf("an unknown error: %d %s", a.status, a.body)
		}
	})
}
