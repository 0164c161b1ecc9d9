package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// These tests look at the operators' pages in a real browser, as a person with
// a keyboard does.

// TestOperatorsPagesInABrowser walks through them: what waits, one job and what its
// client was sent, the switches, and a refusal.
func TestOperatorsPagesInABrowser(t *testing.T) {
	t.Parallel()
	p := serve(t, short(map[string]string{"TIDINGS_ADMIN_PASSWORD": adminPassword, "TIDINGS_QUEUE_DELAYS": "60s"}), "dev")
	ids := map[string]string{}
	for session, steps := range map[string][]string{"done": {"503", "ok"}, "waits": {"529"}, "key": {"401"}} {
		s := openStream(t, p.session(session)+"/status", "")
		p.submit(session, steps...)
		for f := (frame{}); f.event != "completed" && f.event != "error" && f.data["layer"] != "queue"; {
			f = s.next()
			ids[session], _ = f.data["job_id"].(string)
		}
	}
	b := startBrowser(t)
	page := "http://admin:" + adminPassword + "@" + strings.TrimPrefix(p.ops, "http://")
	look := func(name string) {
		t.Helper()
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int{1280, 360} {
				b.dress(scheme, width)
				var bad []string
				b.js(accessible, &bad)
				for _, complaint := range bad {
					t.Errorf("%s, %s, %d wide: %s", name, scheme, width, complaint)
				}
				b.keep(fmt.Sprintf("%s-%s-%d", name, scheme, width))
			}
		}
		b.dress("light", 1280)
		var all string
		b.js("document.documentElement.outerHTML", &all)
		for _, secret := range []string{"pump", "lost pressure", adminPassword, "worn"} {
			if strings.Contains(all, secret) {
				t.Errorf("%s shows %q", name, secret)
			}
		}
	}

	b.dress("light", 1280)
	b.open(page + "/ops")
	look("overview")
	jobs := b.text("section[aria-labelledby=jobs]")
	if !strings.Contains(jobs, ids["waits"]) || !strings.Contains(jobs, "overloaded") || strings.Contains(jobs, ids["done"]) {
		t.Errorf("open jobs:\n%s", jobs)
	}
	b.quiet()
	b.tabThrough()

	// A job by its id, from the keyboard alone.
	b.fill("#id", ids["waits"])
	b.press("Enter")
	b.loaded()
	look("job")
	if got := b.text("h1"); got != "Job "+ids["waits"] {
		t.Errorf("found %q", got)
	}
	if calls := b.text("section[aria-labelledby=calls]"); strings.Count(calls, "overloaded (529") != 3 || !strings.Contains(calls, "queue") {
		t.Errorf("calls:\n%s", calls)
	}
	if attempts := b.text("section[aria-labelledby=attempts]"); !strings.Contains(attempts, "retrying") {
		t.Errorf("attempts:\n%s", attempts)
	}
	sent := b.text("section[aria-labelledby=sent]")
	if first := strings.Index(sent, "event: retrying"); first < 0 || first > strings.Index(sent, "event: queued") || !strings.Contains(sent, "Retrying in 60s (attempt 2/4)…") {
		t.Errorf("sent:\n%s", sent)
	}
	b.tabThrough()

	b.open(page + "/ops/job?session=done&workload=summary&owner=")
	if got := b.text("section[aria-labelledby=now]"); !strings.Contains(got, ids["done"]) || !strings.Contains(got, "version 1, never shown") {
		t.Errorf("by its session:\n%s", got)
	}
	b.open(page + "/ops/job?id=" + ids["key"] + ":1")
	if got := b.text("section[aria-labelledby=now]"); !strings.Contains(got, "failed, auth") {
		t.Errorf("by its task:\n%s", got)
	}
	b.quiet()
	b.open(page + "/ops/job?id=01M8000000000000000000000")
	look("missing")
	if got := b.text("main"); !strings.Contains(got, "Nothing is known") || !strings.Contains(got, "What to try") {
		t.Errorf("not found:\n%s", got)
	}
	b.quiet("404")

	// The kill switch: refused first, then carried out.
	b.open(page + "/ops")
	b.fill("#off-for", "99d")
	b.fill("#off-owner", "ann")
	b.fill("#off-note", "the <provider> is down")
	b.press("Enter")
	b.loaded()
	look("refused")
	var kept string
	b.js("document.querySelector('#off-note').value", &kept)
	if got := b.text("[role=alert]"); !strings.Contains(got, "Nothing was changed") || !strings.Contains(got, "How long") || kept != "the <provider> is down" {
		t.Errorf("refused with %q, kept %q", got, kept)
	}
	b.quiet("400")
	b.fill("#off-for", "2h")
	b.press("Enter")
	b.loaded()
	look("switched-off")
	if got := b.text("section[aria-labelledby=retries]"); !strings.Contains(got, "Off for everything until") || !strings.Contains(got, "by ann: “the <provider> is down”") {
		t.Errorf("switched off:\n%s", got)
	}
	if got := b.text("section[aria-labelledby=audit] tbody tr"); !strings.Contains(got, "retries off") || !strings.Contains(got, "ann") {
		t.Errorf("audit: %s", got)
	}
	b.fill("#on-owner-0", "bo")
	b.press("Enter")
	b.loaded()
	if got := b.text("[role=status]"); !strings.Contains(got, "on again") {
		t.Errorf("said %q", got)
	}

	b.fill("#pause-owner", "ann")
	b.press("Enter")
	b.loaded()
	look("paused")
	if got := b.text("section[aria-labelledby=gate]"); !strings.Contains(got, "paused") || !strings.Contains(got, "by ann") {
		t.Errorf("paused:\n%s", got)
	}
	b.fill("#resume-owner", "bo")
	b.press("Enter")
	b.loaded()
	if got := b.text("section[aria-labelledby=audit]"); strings.Count(got, "calls ") < 2 || !strings.Contains(got, "retries on") {
		t.Errorf("audit:\n%s", got)
	}
	if got := b.text("section[aria-labelledby=measures]"); !strings.Contains(got, "n/a") || !strings.Contains(got, "Amplification") {
		t.Errorf("measures:\n%s", got)
	}
	b.quiet()
}

// tabThrough goes through a page that was just loaded with the Tab key: the skip link comes first,
// everything that can be used is reached, in the order of the page, and the focus
// can always be seen.
func (b *browser) tabThrough() {
	b.t.Helper()
	var want int
	b.js("[...document.querySelectorAll('a[href],button,input:not([type=hidden]),select,[tabindex=\"0\"]')].length", &want)
	b.press("Tab")
	before := -1
	for i := range want {
		var f struct {
			What, Text string
			Seen       bool
			At         int
		}
		b.js(focused, &f)
		if i == 0 && f.Text != "Skip to the content" {
			b.t.Errorf("the first stop is %s %q", f.What, f.Text)
		}
		if !f.Seen || f.At <= before {
			b.t.Errorf("stop %d, %s %q: can be seen %t, comes after %d as %d", i, f.What, f.Text, f.Seen, before, f.At)
		}
		before = f.At
		b.press("Tab")
	}
}

// TestOperatorsPagesNeedTheLogin: without a password nothing of them is there.
func TestOperatorsPagesNeedTheLogin(t *testing.T) {
	t.Parallel()
	p := serve(t, short(map[string]string{"TIDINGS_ADMIN_PASSWORD": adminPassword}), "dev")
	for _, path := range []string{"/ops", "/ops/job?session=abc-123", "/ops/style.css", "/admin/measures", "/admin/retries"} {
		res, err := http.Get(p.ops + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %d", path, res.StatusCode)
		}
	}
}
