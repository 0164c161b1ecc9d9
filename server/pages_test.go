package server

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/lifecycle"
)

const hostile = `"><script>alert(1)</script>`

// form sends a form as a page of ours does.
func (h *testbed) form(t *testing.T, path string, fields url.Values, headers ...string) answer {
	t.Helper()
	return h.send(t, "http://ops"+path, "POST", fields.Encode(),
		append(headers, login(password), "Content-Type: application/x-www-form-urlencoded")...)
}

func TestTheOverviewShowsHostileTextsAsText(t *testing.T) {
	inOfficeTestbed(t, func(t *testing.T, h *testbed, o *operatorsScript) {
		order := gate.Order{Owner: hostile, Note: hostile, Until: time.Now().Add(time.Hour)}
		o.switches = gate.Switches{Off: []gate.Record{{Action: "off", Scope: gate.Scope{Dependency: hostile}, Order: order}},
			Audit: []gate.Record{{At: time.Now(), Action: "off", Order: order}}}
		o.state = gate.State{Breaker: "half_open", PausedUntil: time.Now().Add(time.Hour), PauseOwner: hostile, PauseNote: hostile,
			Holders: []gate.Holder{{JobID: hostile, Kind: "first", Permit: "claim-token.1"}}}
		o.open = jobs.Open{Count: 1, Jobs: []jobs.OpenJob{{Topic: summary(session), JobID: "01JTEST0000000000000000001"}}}
		h.happen(t, summary(session), queued())
		a := h.doOps(t, "GET", "/ops", login(password))
		text := string(a.body)
		if a.status != 200 || strings.Contains(text, "<script") || !strings.Contains(text, "&lt;script&gt;") {
			t.Errorf("%d %s", a.status, text)
		}
		if got := a.header.Get("Content-Security-Policy"); got != pagePolicy || strings.Contains(got, "unsafe") || strings.Contains(got, "script-src") {
			t.Errorf("policy %q", got)
		}
		for _, want := range []string{"half open", "Switch retries on for calls to", session, `value="1h"`} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q", want)
			}
		}
		if strings.Contains(text, "claim-token") {
			t.Error("a claim's token is shown")
		}
		job := h.doOps(t, "GET", "/ops/job?"+url.Values{"id": {hostile}, "session": {hostile}, "workload": {hostile}, "owner": {hostile}, "lang": {hostile}}.Encode(), login(password))
		if job.status != 404 || strings.Contains(string(job.body), "<script") {
			t.Errorf("%d %s", job.status, job.body)
		}
	})
}

// TestTheOverviewOffersWhatCanBeEnded, and warns of what outlasts a job's deadline.
func TestTheOverviewOffersWhatCanBeEnded(t *testing.T) {
	inOfficeTestbed(t, func(t *testing.T, h *testbed, o *operatorsScript) {
		now := time.Now()
		for name, c := range map[string]struct {
			state                gate.State
			resume, probe, warns bool
		}{
			"closed":            {gate.State{Breaker: "closed"}, false, false, false},
			"held for long":     {gate.State{Breaker: "closed", HeldUntil: now.Add(time.Hour)}, true, false, true},
			"paused for a time": {gate.State{Breaker: "closed", PausedUntil: now.Add(5 * time.Minute)}, true, false, false},
			"open":              {gate.State{Breaker: "open", OpenUntil: now.Add(time.Minute)}, false, true, false},
		} {
			o.state = c.state
			o.state.At = now
			text := string(h.doOps(t, "GET", "/ops", login(password)).body)
			if strings.Contains(text, `name="calls" value="resume"`) != c.resume || strings.Contains(text, `name="calls" value="probe"`) != c.probe ||
				strings.Contains(text, "for longer than a job may take (10 min") != c.warns {
				t.Errorf("%s: not as it should be", name)
			}
		}
	})
}

func TestFormsDoWhatTheAdminRequestsDo(t *testing.T) {
	inOfficeTestbed(t, func(t *testing.T, h *testbed, o *operatorsScript) {
		for _, c := range []struct {
			path   string
			fields url.Values
			leads  string
		}{
			{"/ops/retries", url.Values{"retries": {"off"}, "scope": {"workload guidance"}, "owner": {"ann"}, "note": {"why"}, "for": {"2h"}}, "/ops?done=off"},
			{"/ops/retries", url.Values{"retries": {"on"}, "scope": {"dependency openai/gpt-x"}, "owner": {"bo"}}, "/ops?done=on"},
			{"/ops/dependencies", url.Values{"calls": {"pause"}, "dependency": {"openai/gpt-x"}, "owner": {"ann"}, "for": {"30m"}}, "/ops?done=pause"},
			{"/ops/dependencies", url.Values{"calls": {"resume"}, "dependency": {"openai/gpt-x"}, "owner": {"bo"}}, "/ops?done=resume"},
			{"/ops/dependencies", url.Values{"calls": {"probe"}, "dependency": {"openai/gpt-x"}, "owner": {"bo"}}, "/ops?done=probe"},
		} {
			if a := h.form(t, c.path, c.fields); a.status != 303 || a.header.Get("Location") != c.leads {
				t.Errorf("%v: %d %s", c.fields, a.status, a.header.Get("Location"))
			}
		}
		want := []string{"retries true |guidance by ann: why for 2h0m0s", "retries false openai/gpt-x| by bo:  for 0s",
			"pause true openai/gpt-x by ann:  for 30m0s", "resume false openai/gpt-x by bo:  for 0s", "probe false openai/gpt-x by bo:  for 0s"}
		if fmt.Sprint(o.done) != fmt.Sprint(want) {
			t.Errorf("done\n%q\nwant\n%q", o.done, want)
		}
		if a := h.doOps(t, "GET", "/ops?done=off", login(password)); !strings.Contains(string(a.body), `role="status"`) {
			t.Error("the page does not say what was done")
		}
		if a := h.doOps(t, "GET", "/ops?done="+url.QueryEscape(hostile), login(password)); strings.Contains(string(a.body), `role="status"`) {
			t.Error("the page says what somebody else made up")
		}

		o.done = nil
		for name, fields := range map[string]url.Values{
			"owner": {"retries": {"off"}, "scope": {"all"}, "for": {"2h"}, "note": {"kept <note>"}},
			"for":   {"retries": {"off"}, "scope": {"all"}, "for": {"2y"}, "owner": {"ann"}, "note": {"kept <note>"}},
			"":      {"retries": {"off"}, "scope": {"workload poems"}, "for": {"2h"}, "owner": {"ann"}, "note": {"kept <note>"}},
		} {
			a := h.form(t, "/ops/retries", fields)
			if text := string(a.body); a.status != 400 || !strings.Contains(text, `role="alert"`) || !strings.Contains(text, "kept &lt;note&gt;") ||
				name != "" && !strings.Contains(text, `<a href="#off-`+name+`">`) {
				t.Errorf("%v: %d", fields, a.status)
			}
		}
		for _, scope := range []string{"", "al", "all ", "everything", "dependency", "dependency ", "workload "} { // none of them is everything
			if a := h.form(t, "/ops/retries", url.Values{"retries": {"off"}, "scope": {scope}, "for": {"2h"}, "owner": {"ann"}}); a.status != 400 {
				t.Errorf("the scope %q: %d", scope, a.status)
			}
		}
		if a := h.form(t, "/ops/dependencies", url.Values{"calls": {"stop"}, "dependency": {"x"}, "owner": {"ann"}}); a.status != 400 {
			t.Errorf("an unknown order: %d", a.status)
		}
		if a := h.form(t, "/ops/retries", url.Values{"retries": {"off"}, "owner": {strings.Repeat("x", formBytes)}}); a.status != 400 {
			t.Errorf("a form that is too large: %d", a.status)
		}
		off := url.Values{"retries": {"off"}, "scope": {"all"}, "for": {"2h"}, "owner": {"eve"}}
		for _, header := range []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Origin: https://evil.test"} {
			if a := h.form(t, "/ops/retries", off, header); a.status != 403 {
				t.Errorf("%s: %d", header, a.status)
			}
		}
		if a := h.send(t, "http://ops/ops/retries", "POST", off.Encode(), login("wrong"), "Content-Type: application/x-www-form-urlencoded"); a.status != 401 {
			t.Errorf("with a wrong password: %d", a.status)
		}
		if len(o.done) != 0 {
			t.Errorf("carried out %q", o.done)
		}
	})
}

func TestAJobsPage(t *testing.T) {
	inOfficeTestbed(t, func(t *testing.T, h *testbed, o *operatorsScript) {
		in, cost := int64(12345), 0.25
		topic := summary(session)
		h.happen(t, topic, queued())
		h.happen(t, topic, processing(1, 1))
		wait := h.happen(t, topic, retryingQueue(1, 30*time.Second))
		all, _, _, err := h.log.After(t.Context(), topic, 0)
		if err != nil {
			t.Fatal(err)
		}
		o.topic = topic
		o.overview = jobs.Overview{Topic: topic, Job: lifecycle.Job{ID: wait.JobID}, Transitions: all, Now: time.Now(), Ledger: lifecycle.Ledger{
			Attempts: []lifecycle.AttemptLine{{Attempt: 1, Run: 1, Worker: "w1", StartedAt: time.Now(), EndedAt: time.Now(), Status: events.Retrying, Reason: events.Overloaded}},
			Calls: []lifecycle.CallLine{{Attempt: 1, Call: 1, Dependency: "openai/gpt-x", Class: events.Overloaded, ProviderStatus: 529, WaitHintMS: 1500, Decision: "queue",
				InputTokens: &in, CostUSD: &cost}}}}
		time.Sleep(time.Hour) // what was sent is what was sent then
		synctest.Wait()
		text := string(h.doOps(t, "GET", "/ops/job?id=01JX", login(password)).body)
		for _, want := range []string{"overloaded (529)", "12\u2009345", "0.2500", "unknown", "1.5 s", "Retrying in 30s (attempt 2/4)…", "&#34;retry_in_ms&#34;:30000", "newer job since 01JX"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
		if a := h.doOps(t, "GET", "/ops/job?id=%2001JX%09", login(password)); a.status != 200 {
			t.Errorf("an id that was pasted with the space around it: %d", a.status)
		}
		if text := string(h.doOps(t, "GET", "/ops/job?session="+session+"&workload=summary&owner=bo&lang=nb", login(password)).body); !strings.Contains(text, "Prøver igjen") {
			t.Errorf("not in Norwegian:\n%s", text)
		}
		if want := "[01JX " + events.NewTopic("bo", session, "summary").String() + "]"; !strings.HasSuffix(fmt.Sprint(o.found), strings.TrimPrefix(want, "[01JX")) {
			t.Errorf("asked for %v", o.found)
		}
		o.unknown = &jobs.Refusal{Code: jobs.CodeNotFound}
		for query, status := range map[string]int{"id=01JX": 404, "session=" + session + "&workload=summary": 404, "session=a%20b": 400, "workload=poems&session=a": 400, "": 400} {
			a := h.doOps(t, "GET", "/ops/job?"+query, login(password))
			if a.status != status || !strings.Contains(string(a.body), "What to try") {
				t.Errorf("%s: %d", query, a.status)
			}
		}
		o.unknown = fmt.Errorf("%w: gone", events.ErrUnavailable)
		if a := h.doOps(t, "GET", "/ops/job?id=01JX", login(password)); a.status != 503 || !strings.Contains(string(a.body), "Redis does not answer") {
			t.Errorf("without a storage: %d", a.status)
		}
	})
}

// TestAnOrderWithoutAnswerIsNotSaidToHaveFailed: a storage that hangs may carry
// it out later.
func TestAnOrderWithoutAnswerIsNotSaidToHaveFailed(t *testing.T) {
	inOfficeTestbed(t, func(t *testing.T, h *testbed, o *operatorsScript) {
		o.err = fmt.Errorf("%w: gone", events.ErrUnavailable)
		a := h.form(t, "/ops/retries", url.Values{"retries": {"off"}, "scope": {"all"}, "for": {"2h"}, "owner": {"ann"}})
		if text := string(a.body); a.status != 503 || strings.Contains(text, "Nothing was changed") || !strings.Contains(text, "It is not known whether this was carried out") {
			t.Errorf("%d %s", a.status, text)
		}
	})
}

// TestTheOverviewWithoutTheStorage says so, and still leads to what this
// process knows by itself.
func TestTheOverviewWithoutTheStorage(t *testing.T) {
	inOfficeTestbed(t, func(t *testing.T, h *testbed, o *operatorsScript) {
		o.err = fmt.Errorf("%w: gone", events.ErrUnavailable)
		a := h.doOps(t, "GET", "/ops", login(password))
		if text := string(a.body); a.status != 503 || !strings.Contains(text, "Redis does not answer") || !strings.Contains(text, `href="/metrics"`) || strings.Contains(text, "<form") {
			t.Errorf("%d %s", a.status, text)
		}
	})
}

func TestSpansAndNumbersForPeople(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0 ms", 999 * time.Millisecond: "999 ms", 1500 * time.Millisecond: "1.5 s", 59 * time.Second: "59 s",
		61 * time.Second: "1 min 1 s", 90 * time.Minute: "1 h 30 min", 49 * time.Hour: "2 d 1 h"} {
		if got := length(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1\u2009000", 1234567: "1\u2009234\u2009567", -1234: "-1\u2009234"} {
		if got := grouped(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
