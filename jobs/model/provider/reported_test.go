//go:build !nosdk

package provider_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/model/provider"
	"github.com/tidings/tidings/jobs/retry"
)

// The files reported.json and worded.json hold what providers and gateways were
// seen to answer, and what must come of it: README.md beside them has their form.

type reported struct {
	ID, Name, What, Adapter, Workload string
	Answers                           []reportedAnswer
	Expect                            struct {
		reportedEnd
		AtLeast    int      `json:"first_wait_ms_at_least"`
		AtMost     int      `json:"first_wait_ms_at_most"`
		FirstClass oneOf    `json:"first_class"`
		Contains   []string `json:"request_contains"`
		Again      *reportedEnd
	}
}

type reportedEnd struct {
	Calls   bounds
	Outcome oneOf
	Reason  oneOf
}

type reportedAnswer struct {
	When *struct {
		Has   string
		Bound int64 `json:"bound_over"`
	}
	Status  int
	Headers map[string]string
	Body    json.RawMessage
}

// oneOf is a choice of texts, one of them written without the list around it.
type oneOf []string

func (o *oneOf) UnmarshalJSON(b []byte) error {
	if b[0] != '[' {
		b = slices.Concat([]byte("["), b, []byte("]"))
	}
	return json.Unmarshal(b, (*[]string)(o))
}

func (o oneOf) takes(s string) bool { return len(o) == 0 || slices.Contains(o, s) }

// bounds is a number, or the least and the most.
type bounds struct{ least, most int }

func (c *bounds) UnmarshalJSON(b []byte) error {
	both := []*int{&c.least, &c.most}
	if b[0] == '[' {
		return json.Unmarshal(b, &both)
	}
	err := json.Unmarshal(b, &c.least)
	c.most = c.least
	return err
}

func reports(t *testing.T) (all []reported) {
	t.Helper()
	for _, name := range []string{"reported.json", "worded.json"} {
		file, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		var some []reported
		if err := json.Unmarshal(file, &some); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, some...)
	}
	return all
}

// playing answers in this process as a case says, in the time of its bubble.
type playing struct {
	t       *testing.T
	answers []reportedAnswer
	next    int
	at      []time.Time
}

func (p *playing) RoundTrip(r *http.Request) (*http.Response, error) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var sent map[string]any
	if err := json.Unmarshal(text, &sent); err != nil {
		return nil, err
	}
	p.at = append(p.at, time.Now())
	a, bound := p.pick(sent)
	fill := func(s string) string {
		return regexp.MustCompile(`\{(bound|now_ms|now)(?:\+(\d+))?\}`).ReplaceAllStringFunc(s, func(m string) string {
			parts := regexp.MustCompile(`\{(\w+)(?:\+(\d+))?\}`).FindStringSubmatch(m)
			n, _ := strconv.ParseInt(parts[2], 10, 64)
			return strconv.FormatInt(map[string]int64{"bound": bound, "now": time.Now().Unix(), "now_ms": time.Now().UnixMilli()}[parts[1]]+n, 10)
		})
	}
	body := string(a.Body)
	var plain string
	if json.Unmarshal(a.Body, &plain) == nil {
		body = plain
	}
	h := http.Header{}
	for name, value := range a.Headers {
		h.Set(name, fill(value))
	}
	return &http.Response{StatusCode: a.Status, Header: h, Body: io.NopCloser(strings.NewReader(fill(body)))}, nil
}

func (p *playing) pick(sent map[string]any) (a reportedAnswer, bound int64) {
	for _, names := range [][]any{{"max_tokens"}, {"max_completion_tokens"}, {"generationConfig", "maxOutputTokens"}} {
		if n, ok := at(sent, names...).(float64); ok {
			bound = int64(n)
		}
	}
	var plain []reportedAnswer
	for _, a := range p.answers {
		switch {
		case a.When == nil:
			plain = append(plain, a)
		case a.When.Has != "" && sent[a.When.Has] != nil, a.When.Bound > 0 && bound > a.When.Bound:
			return a, bound
		}
	}
	if len(plain) == 0 {
		p.t.Fatal("no answer is left")
	}
	p.next++
	return plain[min(p.next, len(plain))-1], bound
}

// job is what the queue makes of a request: attempts with short waits in between,
// or the provider's, and its end in the words of the cases.
func job(ctx context.Context, p model.Provider, r model.Request) (outcome, reason string, classes []string) {
	s := retry.Defaults()
	s.FirstPause = 10 * time.Millisecond
	layer := model.NewRetrying(p, s, func() float64 { return 0.5 })
	end := time.Now().Add(s.DeadlineFor(r.Long))
	for range s.Attempts {
		_, err := layer.Generate(ctx, r, end, model.Hooks{After: func(_ context.Context, c model.Call) {
			class := ""
			if c.Err != nil {
				class = string(c.Err.Kind)
			}
			classes = append(classes, class)
		}})
		var e *model.Error
		switch {
		case err == nil:
			return "completed", "", classes
		case !errors.As(err, &e):
			return err.Error(), "", classes
		case !e.Queued():
			return "failed", string(e.Kind), classes
		}
		wait := max(time.Second, e.RetryAfter)
		if time.Now().Add(wait).After(end) {
			return "deadline_exceeded", "deadline", classes
		}
		<-time.After(wait) // of the bubble
	}
	return "retries_exhausted", "attempts", classes
}

// Each case that providers and gateways were seen to answer, in virtual time.
func TestReportedAnswers(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range reports(t) {
		if seen[c.ID] || len(c.Answers) == 0 || len(c.Expect.Outcome) == 0 {
			t.Fatalf("%s is there twice, or incomplete", c.ID)
		}
		seen[c.ID] = true
		t.Run(c.ID+"-"+c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { play(t, c) })
		})
	}
	if len(seen) < 53 {
		t.Errorf("%d cases", len(seen))
	}
}

func play(t *testing.T, c reported) {
	<-time.After(time.Until(time.Date(2026, 12, 1, 6, 0, 0, 0, time.UTC))) // when the cases were written
	standin := &playing{t: t, answers: c.Answers}
	p := mustOpen(t, c.Adapter, provider.Access{Key: "k", BaseURL: "http://127.0.0.1:1" + basePath(c.Adapter), Transport: standin})
	r := model.Request{Workload: c.Workload, System: "Write.", Prompt: strings.Repeat("The pump failed in the night. ", 120),
		Schema: json.RawMessage(`{"type":"object","required":["title","summary","key_points"]}`), MaxOutputTokens: 6144}
	if c.Workload == "guidance" {
		r.Long, r.MaxOutputTokens, r.Schema = true, 8192, json.RawMessage(`{"type":"object","required":["steps"]}`)
	}
	outcome, reason, classes := job(t.Context(), p, r)
	check := func(want reportedEnd, calls int) {
		t.Helper()
		if calls < want.Calls.least || calls > want.Calls.most {
			t.Errorf("%d calls, want %d to %d", calls, want.Calls.least, want.Calls.most)
		}
		if !want.Outcome.takes(outcome) || !want.Reason.takes(reason) {
			t.Errorf("ended as %s / %s after %v, want %v / %v", outcome, reason, classes, want.Outcome, want.Reason)
		}
	}
	check(c.Expect.reportedEnd, len(standin.at))
	if !c.Expect.FirstClass.takes(classes[0]) {
		t.Errorf("the first call's class is %q, want %v", classes[0], c.Expect.FirstClass)
	}
	if len(standin.at) > 1 {
		first := int(standin.at[1].Sub(standin.at[0]).Milliseconds())
		if first < c.Expect.AtLeast || c.Expect.AtMost > 0 && first > c.Expect.AtMost {
			t.Errorf("the second call came after %d ms, want %d to %d", first, c.Expect.AtLeast, c.Expect.AtMost)
		}
	}
	if again := c.Expect.Again; again != nil {
		before := len(standin.at)
		outcome, reason, classes = job(t.Context(), p, r)
		check(*again, len(standin.at)-before)
	}
}

// What a case's answer says must not reach an error, and the files hold nothing but
// cases that the test above reads.
func TestReportedAnswersAreReadStrictly(t *testing.T) {
	for _, name := range []string{"reported.json", "worded.json"} {
		file, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		in := json.NewDecoder(bytes.NewReader(file))
		in.DisallowUnknownFields()
		var all []struct {
			reported
			Input, Settings any
		}
		if err := in.Decode(&all); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
