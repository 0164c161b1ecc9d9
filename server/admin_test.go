package server

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/gate"
)

var _ Operators = (*jobs.Operators)(nil)

// operatorsScript keeps orders as the gate does, without one.
type operatorsScript struct {
	done     []string
	orders   []gate.Order
	switches gate.Switches
	state    gate.State
	cohorts  jobs.Cohorts
	depths   []jobs.Depth
	open     jobs.Open
	topic    events.Topic
	found    []string
	overview jobs.Overview
	err      error
	unknown  error // of Find and Overview
	silent   bool  // as a storage that takes questions and answers none
}

func (o *operatorsScript) await(ctx context.Context) error {
	if o.silent {
		<-ctx.Done()
		return ctx.Err()
	}
	return o.err
}

func (o *operatorsScript) Measured(ctx context.Context, _ time.Duration) (jobs.Cohorts, error) {
	return o.cohorts, o.await(ctx)
}

func (o *operatorsScript) Depths(context.Context) ([]jobs.Depth, error) { return o.depths, o.err }

func (o *operatorsScript) Open(context.Context, int) (jobs.Open, error) { return o.open, o.err }

func (o *operatorsScript) Find(_ context.Context, id string) (events.Topic, string, error) {
	o.found = append(o.found, id)
	return o.topic, id, o.unknown
}

func (o *operatorsScript) Overview(_ context.Context, t events.Topic) (jobs.Overview, error) {
	o.found = append(o.found, t.String())
	return o.overview, o.unknown
}

func (o *operatorsScript) Dependency() string { return "openai/gpt-x" }

func (o *operatorsScript) Bounds() gate.Settings { return gate.Defaults() }

func (o *operatorsScript) SwitchRetries(ctx context.Context, off bool, s gate.Scope, order gate.Order) error {
	o.note("retries", off, s.Dependency+"|"+s.Workload, order)
	return o.await(ctx)
}

func (o *operatorsScript) Switches(ctx context.Context) (gate.Switches, error) {
	return o.switches, o.await(ctx)
}

func (o *operatorsScript) OrderCalls(ctx context.Context, verb, dependency string, order gate.Order) error {
	o.note(verb, verb == "pause", dependency, order)
	return o.await(ctx)
}

func (o *operatorsScript) Deadline() time.Duration { return 10 * time.Minute }

func (o *operatorsScript) Inspect(ctx context.Context, dependency string) (gate.State, error) {
	return o.state, o.await(ctx)
}

func (o *operatorsScript) note(what string, begin bool, of string, order gate.Order) {
	o.orders = append(o.orders, order)
	left := time.Duration(0)
	if !order.Until.IsZero() {
		left = time.Until(order.Until)
	}
	o.done = append(o.done, fmt.Sprintf("%s %t %s by %s: %s for %s", what, begin, of, order.Owner, order.Note, left.Round(time.Second)))
}

// inOfficeTestbed runs a test with operators in virtual time.
func inOfficeTestbed(t *testing.T, test func(*testing.T, *testbed, *operatorsScript)) {
	t.Helper()
	o := &operatorsScript{}
	inTestbed(t, func(t *testing.T, h *testbed) { test(t, h, o) }, func(s *Options) { s.Operators, s.AdminPassword = o, password })
}

// put sends an operator's order.
func (h *testbed) put(t *testing.T, path, body string, headers ...string) answer {
	t.Helper()
	return h.send(t, "http://ops"+path, "PUT", body, append(headers, login(password))...)
}

func TestOperatorsSwitchRetriesOffAndOn(t *testing.T) {
	inOfficeTestbed(t, func(t *testing.T, h *testbed, o *operatorsScript) {
		o.switches = gate.Switches{
			Off: []gate.Record{{Action: "off", Scope: gate.Scope{Workload: "summary"}, Order: gate.Order{Owner: "ann", Note: "<outage>", Until: at(aTime)}}},
			Audit: []gate.Record{
				{At: at(aTime), Action: "on", Order: gate.Order{Owner: "bo"}},
				{At: at(aTime), Action: "off", Scope: gate.Scope{Dependency: "openai/gpt-x"}, Order: gate.Order{Owner: "bo", Until: at(aTime)}},
			},
		}
		shown := `{"off":[{"scope":"workload","workload":"summary","owner":"ann","note":"<outage>","until":"` + aTime + `"}],"audit":[` +
			`{"at":"` + aTime + `","action":"on","scope":"all","owner":"bo","note":"","until":null},` +
			`{"at":"` + aTime + `","action":"off","scope":"dependency","dependency":"openai/gpt-x","owner":"bo","note":"","until":"` + aTime + `"}]}`
		h.send(t, "http://ops/admin/retries", "GET", "", login(password)).exactly(t, 200, shown)
		h.put(t, "/admin/retries", `{"retries":"off","workload":"summary","owner":" ann ","note":"<outage>","for":"2h"}`).exactly(t, 200, shown)
		h.put(t, "/admin/retries", `{"retries":"off","dependency":"openai/gpt-x","owner":"ann","for":"7d"}`)
		h.put(t, "/admin/retries", `{"retries":"on","owner":"bo","note":null}`)
		want := []string{"retries true |summary by ann: <outage> for 2h0m0s", "retries true openai/gpt-x| by ann:  for 168h0m0s", "retries false | by bo:  for 0s"}
		if fmt.Sprint(o.done) != fmt.Sprint(want) {
			t.Errorf("done\n%q\nwant\n%q", o.done, want)
		}

		o.done = nil
		const whole = `"retries":"off","owner":"ann","for":"2h"`
		for body, field := range map[string]string{
			`{}`:                                "retries",
			`{"retries":"maybe","owner":"ann"}`: "retries",
			`{"retries":true}`:                  "retries",
			`{"retries":"off","for":"2h"}`:      "owner",
			`{"retries":"off","for":"2h","owner":"  "}`:                               "owner",
			`{"retries":"off","owner":"ann"}`:                                         "for",
			`{"retries":"off","owner":"ann","for":"8d"}`:                              "for",
			`{"retries":"off","owner":"ann","for":"-1h"}`:                             "for",
			`{"retries":"off","owner":"ann","for":"0s"}`:                              "for",
			`{"retries":"off","owner":"ann","for":7200}`:                              "for",
			`{"retries":"on","owner":"ann","for":"2h"}`:                               "for",
			`{` + whole + `,"workload":"poems"}`:                                      "workload",
			`{` + whole + `,"workload":""}`:                                           "workload",
			`{"retries":"on","owner":"ann","dependency":""}`:                          "dependency",
			`{` + whole + `,"workload":"summary","dependency":"openai/gpt-x"}`:        "workload",
			`{` + whole + `,"dependency":"a b"}`:                                      "dependency",
			`{` + whole + `,"dependency":"{x}"}`:                                      "dependency",
			`{` + whole + `,"who":"me"}`:                                              "who",
			`{` + whole + `,"note":"` + strings.Repeat("x", 501) + `"}`:               "note",
			`{"retries":"off","for":"2h","owner":"` + strings.Repeat("x", 201) + `"}`: "owner",
		} {
			h.put(t, "/admin/retries", body).refused(t, body, 400, "invalid_field", field)
		}
		h.put(t, "/admin/retries", `[`).refused(t, "no JSON", 400, "invalid_body", "")
		h.put(t, "/admin/retries", `{}`, "Content-Type: text/plain").refused(t, "text", 415, "unsupported_media_type", "")
		if len(o.done) != 0 {
			t.Errorf("a refused order was carried out: %q", o.done)
		}
		o.err = fmt.Errorf("%w: gone", events.ErrUnavailable)
		h.put(t, "/admin/retries", `{`+whole+`}`).refused(t, "without the storage", 503, "storage_unavailable", "")
		h.send(t, "http://ops/admin/retries", "GET", "", login(password)).refused(t, "without the storage", 503, "storage_unavailable", "")
	})
}

func TestSilentStorageIsToldToOperatorsInTime(t *testing.T) {
	inOfficeTestbed(t, func(t *testing.T, h *testbed, o *operatorsScript) {
		o.silent = true
		for _, r := range []struct{ method, path, body string }{
			{"GET", "/admin/retries", ""}, {"PUT", "/admin/retries", `{"retries":"off","owner":"ann","for":"1h"}`}, {"GET", "/admin/measures", ""},
			{"GET", "/admin/dependencies", ""}, {"GET", "/admin/dependencies/local", ""}, {"PUT", "/admin/dependencies/local/pause", `{"owner":"ann","for":"1h"}`},
		} {
			began := time.Now()
			headers := []string{login(password)}
			if r.body != "" {
				headers = append(headers, "Content-Type: application/json")
			}
			h.send(t, "http://ops"+r.path, r.method, r.body, headers...).refused(t, r.method+" "+r.path, 503, "storage_unavailable", "")
			if took := time.Since(began); took != pageWait {
				t.Errorf("%s %s: answered after %s", r.method, r.path, took)
			}
		}
	})
}

func TestOperatorsPauseAndResumeADependency(t *testing.T) {
	inOfficeTestbed(t, func(t *testing.T, h *testbed, o *operatorsScript) {
		o.state = gate.State{At: at(aTime), Breaker: "closed", Limit: 100, InUse: 1, RetryTokens: 99.5, ManualTokens: 25, RetryAvailableAt: at(aTime),
			ManualAvailableAt: at(aTime), PausedUntil: at(aTime), PauseOwner: "ann", PauseNote: "maintenance",
			Holders: []gate.Holder{{Permit: "secret.1", Kind: "first", Workload: "summary", JobID: "01JOB", Since: at(aTime), ExpiresAt: at(aTime)}}}
		a := h.put(t, "/admin/dependencies/openai/gpt-x/pause", `{"owner":"ann","note":"maintenance","for":"30m"}`)
		a.exactly(t, 200, `{"dependency":"openai/gpt-x","used_here":true,"at":"`+aTime+`","breaker":"closed","open_until":null,"openings":0,"probes_running":0,`+
			`"probes_good":0,"window_calls":0,"window_bad":0,"limit":100,"in_use":1,"retry_tokens":99.5,"retry_available_at":"`+aTime+`","manual_tokens":25,`+
			`"manual_available_at":"`+aTime+`","held_until":null,"paused_until":"`+aTime+`","outlasts_deadline":false,"pause_owner":"ann","pause_note":"maintenance",`+
			`"holders":[{"job_id":"01JOB","workload":"summary","kind":"first","since":"`+aTime+`","expires_at":"`+aTime+`"}],"audit":[]}`)
		if strings.Contains(string(a.body), "secret") {
			t.Error("a claim's token is shown")
		}
		h.put(t, "/admin/dependencies/openai%2Fgpt-x/resume", `{"owner":"bo"}`)
		h.put(t, "/admin/dependencies/openai/gpt-x/probe", `{"owner":"bo"}`)
		h.put(t, "/admin/dependencies/local/pause", `{"owner":"bo","for":"1s"}`)
		h.put(t, "/admin/dependencies/openai/org/pause/pause", `{"owner":"bo","for":"1s"}`)
		want := []string{"pause true openai/gpt-x by ann: maintenance for 30m0s", "resume false openai/gpt-x by bo:  for 0s", "probe false openai/gpt-x by bo:  for 0s", "pause true local by bo:  for 1s",
			"pause true openai/org/pause by bo:  for 1s"}
		o.state.PausedUntil = o.state.At.Add(11 * time.Minute)
		if a := h.put(t, "/admin/dependencies/local/pause", `{"owner":"bo","for":"1s"}`); !strings.Contains(string(a.body), `"outlasts_deadline":true`) {
			t.Errorf("a pause of 11 min: %s", a.body)
		}
		o.done = o.done[:len(o.done)-1]
		if fmt.Sprint(o.done) != fmt.Sprint(want) {
			t.Errorf("done\n%q\nwant\n%q", o.done, want)
		}
		if m := h.send(t, "http://ops/admin/dependencies/other/model", "GET", "", login(password)).json(t); m["used_here"] != false || m["dependency"] != "other/model" {
			t.Errorf("another one: %v", m)
		}
		if all, _ := h.send(t, "http://ops/admin/dependencies", "GET", "", login(password)).json(t)["dependencies"].([]any); len(all) != 1 {
			t.Errorf("all: %v", all)
		}
		o.done = nil
		for body, field := range map[string]string{`{"for":"1h"}`: "owner", `{"owner":"ann"}`: "for", `{"owner":"ann","for":"1h","until":"x"}`: "until"} {
			h.put(t, "/admin/dependencies/local/pause", body).refused(t, body, 400, "invalid_field", field)
		}
		h.put(t, "/admin/dependencies/local/resume", `{"owner":"ann","for":"1h"}`).refused(t, "resume for a time", 400, "invalid_field", "for")
		for _, path := range []string{"/local", "/local/stop", "/pause", "/a%20b/pause", "/%7Bx%7D/pause", "/" + strings.Repeat("x", 201) + "/pause"} {
			h.put(t, "/admin/dependencies"+path, `{"owner":"ann","for":"1h"}`).refused(t, path, 404, "not_found", "")
		}
		if len(o.done) != 0 {
			t.Errorf("a refused order was carried out: %q", o.done)
		}
	})
}

// TestPermissionsAreNotGotRound: orders need the operators' login, from a
// page of our own if from a page at all, and are nowhere on the API.
func TestPermissionsAreNotGotRound(t *testing.T) {
	inOfficeTestbed(t, func(t *testing.T, h *testbed, o *operatorsScript) {
		for path, body := range map[string]string{
			"/admin/retries":                  `{"retries":"off","owner":"eve","for":"1h"}`,
			"/admin/dependencies/local/pause": `{"owner":"eve","for":"1h"}`,
		} {
			for _, header := range []string{login("wrong"), "Authorization: Bearer " + password, "Accept: */*"} {
				if a := h.send(t, "http://ops"+path, "PUT", body, header); a.status != 401 {
					t.Errorf("%s with %s: %d", path, header, a.status)
				}
				time.Sleep(longestPause) // after a wrong guess
			}
			if a := h.put(t, path, body, "Sec-Fetch-Site: cross-site"); a.status != 403 {
				t.Errorf("%s from a page elsewhere: %d", path, a.status)
			}
			if a := h.do(t, "PUT", path, body, login(password)); a.status != 404 {
				t.Errorf("%s on the API: %d", path, a.status)
			}
			h.send(t, "http://ops"+path, "DELETE", "", login(password)).refused(t, path, 405, "method_not_allowed", "")
		}
		if len(o.done) != 0 {
			t.Errorf("carried out %q", o.done)
		}
	})
}

func TestMeasuresAreToldByWindow(t *testing.T) {
	inOfficeTestbed(t, func(t *testing.T, h *testbed, o *operatorsScript) {
		two := 2.0
		o.cohorts = jobs.Cohorts{From: at(aTime), To: at(aTime), All: jobs.Measured{Calls: 4, FirstCalls: 2, Amplification: &two}, Workloads: map[string]jobs.Measured{"summary": {}}}
		for _, query := range []string{"", "?window=1h", "?window=24h", "?window=7d"} {
			m := h.send(t, "http://ops/admin/measures"+query, "GET", "", login(password)).json(t)
			all, _ := m["all"].(map[string]any)
			summary, _ := m["workloads"].(map[string]any)["summary"].(map[string]any)
			if m["from"] != aTime || all["amplification"] != 2.0 || all["calls"] != 4.0 {
				t.Errorf("%s: %v", query, m)
			}
			if a, there := summary["usable_completion"]; a != nil || !there { // S4-66: null is not applicable
				t.Errorf("without a denominator: %v", summary)
			}
		}
		h.send(t, "http://ops/admin/measures?window=1y", "GET", "", login(password)).refused(t, "a year", 400, "invalid_query", "window")
	})
}
