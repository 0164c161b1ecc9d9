package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// languages are the contract's sixteen.
const languages = "ar da de en es fi fr it ja ko nb nl pl pt sv zh"

// in gets a text or a status in one language.
func in(t *testing.T, lang, url string) map[string]any {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept-Language", lang)
	r.Header.Set("Accept", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(body, &got); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s in %s: %d %s", url, lang, res.StatusCode, body)
	}
	if used := res.Header.Get("Content-Language"); used != lang {
		t.Errorf("%s in %s is answered in %q", url, lang, used)
	}
	return got
}

// metrics is what an operator's scraper gets.
func (p *process) metrics() string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), wait)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.ops+"/metrics", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(body)
}

// TestSixOutcomes: each is reached through the whole program, told as its
// own event with its own code, has texts in 16 languages and its own metric.
func TestSixOutcomes(t *testing.T) {
	t.Parallel()
	p := serve(t, short(map[string]string{"TIDINGS_OUTSIDE": "classification", "TIDINGS_WORKER_TOKEN": workerToken, "TIDINGS_ADMIN_PASSWORD": adminPassword, "TIDINGS_DEADLINE": "41s", "TIDINGS_CALL_BUDGET": "1s", "TIDINGS_CALLS": "1", "TIDINGS_QUEUE_ATTEMPTS": "2", "TIDINGS_QUEUE_DELAYS": "1s"}), "dev")
	as := map[string]string{"TIDINGS_ADMIN_PASSWORD": adminPassword, "TIDINGS_OPS_URL": p.ops, "TIDINGS_OPERATOR": "ann"}
	played := func(steps ...string) func(*testing.T) {
		return func(*testing.T) { p.submit("s", steps...) }
	}
	for _, o := range []struct {
		outcome, event, reason, workload string
		canRetry                         any
		reach                            func(t *testing.T)
	}{
		{"completed", "completed", "", "summary", nil, played("ok")},
		{"failed", "error", "invalid_output", "summary", true, played("invalid_output")},
		{"deadline_exceeded", "error", "deadline", "summary", true, played("retry_after:3600")},
		{"retries_exhausted", "error", "attempts", "summary", true, played("529")},
		{"admission_denied", "error", "dependency_paused", "summary", true, func(t *testing.T) {
			ordered(t, 0, as, "pause", "local", "--for", "15s")
			p.submit("s", "ok")
			ordered(t, 0, as, "pause", "local", "--for", "7d")
		}},
		{"outcome_unknown", "error", "internal", "classification", false, func(t *testing.T) {
			call(t, http.MethodPost, p.api+"/api/v1/sessions/s/classification", `{"input":{"text":"`+someText+`"}}`)
			_, got := ask(t, p.api+"/api/v1/worker/claims", `{"worker_id":"w","workloads":["classification"],"wait_seconds":30}`)
			job, _ := got["job_id"].(string)
			token, _ := got["claim_token"].(string)
			if status, answer := ask(t, p.api+"/api/v1/worker/jobs/"+job+"/attempts/1/fail",
				`{"worker_id":"w","claim_token":"`+token+`","failure_type":"outcome_unknown"}`); status != http.StatusOK {
				t.Fatalf("fail: %d %v", status, answer)
			}
		}},
	} {
		t.Run(o.outcome, func(t *testing.T) {
			p := *p
			p.t = t
			url := p.api + "/api/v1/sessions/s/" + o.workload + "/status"
			// Its outcome before this one is told first, unless the stream is there already.
			s := openStream(t, url+"?follow=true", "")
			s.next()
			o.reach(t)
			var end frame
			for end = s.next(); end.event != "completed" && end.event != "error"; {
				end = s.next()
			}
			reason, _ := end.data["reason"].(string)
			if end.event != o.event || end.data["outcome"] != o.outcome || reason != o.reason || end.data["can_retry"] != o.canRetry {
				t.Fatalf("ended as %v %v", end, end.data)
			}
			texts := map[string]bool{}
			for lang := range strings.FieldsSeq(languages) {
				got := in(t, lang, url)
				if got["outcome"] != o.outcome || o.event == "error" && got["message"] == "" {
					t.Errorf("%s: %v", lang, got)
				}
				text, _ := in(t, lang, p.api+"/api/v1/messages/outcome_"+o.outcome)["text"].(string)
				if text == "" || texts[text] {
					t.Errorf("%s: %q, or another language has it too", lang, text)
				}
				texts[text] = true
				if o.reason != "" && in(t, lang, p.api+"/api/v1/messages/reason_"+o.reason)["text"] == "" {
					t.Errorf("%s: no text for %s", lang, o.reason)
				}
			}
			counted := regexp.MustCompile(`(?m)^tidings_jobs_ended_total\{outcome="` + o.outcome + `",reason="` + o.reason + `",workload="` + o.workload + `"\} 1$`)
			if text := p.metrics(); len(counted.FindAllString(text, -1)) != 1 {
				t.Errorf("not counted once in\n%s", strings.Join(regexp.MustCompile(`(?m)^tidings_jobs_ended.*$`).FindAllString(text, -1), "\n"))
			}
		})
	}
}
