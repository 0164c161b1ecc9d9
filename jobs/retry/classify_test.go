package retry_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidings/tidings/jobs/retry"
)

func TestClassifyStatus(t *testing.T) {
	tests := []struct {
		id     string
		status int
		kind   retry.Kind
		inCall bool
		queued bool
	}{
		{"S0-01 S1-01 S3-19", 429, retry.RateLimited, true, true},
		{"S0-02 S1-01", 503, retry.Unavailable, true, true},
		{"S1-01 section 6 row 9", 529, retry.Overloaded, true, true},
		{"S0-03 S1-02", 400, retry.InvalidInput, false, false},
		{"S0-03 S0-07 S1-02 S3-20", 401, retry.Auth, false, false},
		{"S0-03", 403, retry.Auth, false, false},
		{"S0-03 S0-07 invalid model", 404, retry.Misconfigured, false, false},
		{"S0-03 S1-02 section 6 row 5", 500, retry.Internal, false, false},
		{"quota", 402, retry.Quota, false, false},
		{"S3-20 too long a prompt", 413, retry.InvalidInput, false, false},
		{"schema", 422, retry.InvalidInput, false, false},
		{"queue only", 408, retry.Timeout, false, true},
		{"queue only", 502, retry.Unavailable, false, true},
		{"queue only", 504, retry.Timeout, false, true},
		{"wrong address", 405, retry.Misconfigured, false, false},
		{"gone", 410, retry.Misconfigured, false, false},
		{"the server's state", 409, retry.Unavailable, false, true},
		{"the server's state", 424, retry.Unavailable, false, true},
		{"given up on the way", 499, retry.Unavailable, false, true},
		{"other 4xx", 418, retry.InvalidInput, false, false},
		{"not implemented", 501, retry.Misconfigured, false, false},
		{"other 5xx", 507, retry.Internal, false, false},
		{"a proxy reaches nobody", 520, retry.Unavailable, false, true},
		{"a proxy reaches nobody", 522, retry.Unavailable, false, true},
		{"a proxy reaches nobody", 530, retry.Unavailable, false, true},
		{"last", 597, retry.Internal, false, false},
		{"a proxy's time limit", 599, retry.Timeout, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.id, func(t *testing.T) {
			// The text is one that would be repeated in the call.
			kind, inCall := retry.Classify(tt.status, "too many requests, rate limit, temporarily unavailable")
			if kind != tt.kind || inCall != tt.inCall || kind.Queued() != tt.queued {
				t.Errorf("%d: got %s, in call %v, queued %v; want %s, %v, %v",
					tt.status, kind, inCall, kind.Queued(), tt.kind, tt.inCall, tt.queued)
			}
			if kind.InCall(tt.status) != inCall {
				t.Errorf("%d: Classify and InCall disagree", tt.status)
			}
		})
	}
}

// A 500 that says that it is overload is one; a 400 is not, whatever it says.
func TestOverloadInside500(t *testing.T) {
	for _, text := range []string{"Overloaded", "the model is overloaded", "overloaded_error"} {
		if kind, inCall := retry.Classify(500, text); kind != retry.Overloaded || !inCall {
			t.Errorf("500 %q became %s", text, kind)
		}
		if kind, _ := retry.Classify(400, text); kind.Queued() {
			t.Errorf("400 %q became %s", text, kind)
		}
	}
}

// S1-03, I-79: one row per pattern, and what only looks like one.
func TestClassifyText(t *testing.T) {
	tests := []struct {
		text   string
		kind   retry.Kind
		inCall bool
	}{
		{"Overloaded", retry.Overloaded, true},
		{"overloaded_error", retry.Overloaded, true},
		{"Rate limit reached for requests", retry.RateLimited, true},
		{"RATE_LIMIT_EXCEEDED", retry.RateLimited, true},
		{"Too Many Requests", retry.RateLimited, true},
		{"the model is TEMPORARILY UNAVAILABLE", retry.Unavailable, true},
		{"upstream request timeout", retry.Timeout, false},

		{"", retry.Internal, false},
		{"the method load() is not overridden", retry.Internal, false},
		{"unavailable in your country", retry.Internal, false},
		{"too many tokens", retry.Internal, false},
		{"took 529 ms", retry.Internal, false},
	}
	for _, tt := range tests {
		for _, status := range []int{0, 200} { // 200: an error event in a stream
			kind, inCall := retry.Classify(status, tt.text)
			if kind != tt.kind || inCall != tt.inCall {
				t.Errorf("%d %q: got %s, in call %v; want %s, %v", status, tt.text, kind, inCall, tt.kind, tt.inCall)
			}
		}
	}
}

// Section 6 row 4: the word "timeout" is the queue's alone.
func TestTextTimeoutIsForTheQueueOnly(t *testing.T) {
	kind, inCall := retry.Classify(0, "Read Timeout")
	if inCall || !kind.Queued() {
		t.Errorf("got %s, in call %v, queued %v; want the queue only", kind, inCall, kind.Queued())
	}
}

func TestTextNeverMakes400Or401Retryable(t *testing.T) {
	for _, pattern := range []string{"overloaded", "rate limit", "too many requests", "temporarily unavailable", "timeout"} {
		for _, status := range []int{400, 401} {
			if kind, inCall := retry.Classify(status, pattern); inCall || kind.Queued() {
				t.Errorf("%d with %q became %s", status, pattern, kind)
			}
		}
		// The status was lost, but the message still names it.
		for _, text := range []string{
			"400 Bad Request: " + pattern, "POST /v1/messages: 401 Unauthorized (" + pattern + ")",
			"status 400, " + pattern, "status code: 401 " + pattern, "HTTP 400: " + pattern,
		} {
			if kind, inCall := retry.Classify(0, text); inCall || kind.Queued() {
				t.Errorf("%q became %s", text, kind)
			}
		}
		// A number alone is no status.
		if kind, _ := retry.Classify(0, pattern+" after 400 ms"); !kind.Queued() {
			t.Errorf("%q after 400 ms became %s", pattern, kind)
		}
	}
	if kind, inCall := retry.Classify(0, "error, status code 529"); kind != retry.Overloaded || !inCall {
		t.Errorf("a 529 named by the text became %s", kind)
	}
}

func TestKinds(t *testing.T) {
	tests := []struct {
		kind   retry.Kind
		status int
		inCall bool
		queued bool
	}{
		{retry.Overloaded, 200, true, true},
		{retry.RateLimited, 0, true, true},
		{retry.Unavailable, 503, true, true},
		{retry.Unavailable, 0, true, true},
		{retry.Unavailable, 502, false, true},
		{retry.Timeout, 0, false, true},
		{retry.Timeout, 503, false, true},
		{retry.Network, 0, false, true},
		{retry.StreamInterrupted, 200, false, true},
		{retry.Auth, 401, false, false},
		{retry.Quota, 429, false, false}, // I-77
		{retry.InvalidInput, 400, false, false},
		{retry.InvalidOutput, 200, false, false}, // S3-21
		{retry.Misconfigured, 404, false, false},
		{retry.Internal, 500, false, false},
		{retry.Cancelled, 0, false, false},
		{retry.Kind("unheard of"), 503, false, false},
	}
	for _, tt := range tests {
		if got := tt.kind.InCall(tt.status); got != tt.inCall {
			t.Errorf("%s.InCall(%d) = %v, want %v", tt.kind, tt.status, got, tt.inCall)
		}
		if got := tt.kind.Queued(); got != tt.queued {
			t.Errorf("%s.Queued() = %v, want %v", tt.kind, got, tt.queued)
		}
	}
}

func TestTable(t *testing.T) {
	var texts int
	for _, r := range retry.Table() {
		if r.InCall && !r.Queued {
			t.Errorf("%s is repeated in the call but not by the queue", fmt.Sprintf("%+v", r))
		}
		if r.Text != "" {
			if r.First == 0 {
				texts++
			}
			if r.Text != strings.ToLower(r.Text) {
				t.Errorf("%q can never match: texts are compared in lower case", r.Text)
			}
			continue
		}
		kind, inCall := retry.Classify(r.First, "")
		if kind != r.Kind && r.First != r.Last {
			continue // the first of a range may have a row of its own
		}
		if kind != r.Kind || inCall != r.InCall {
			t.Errorf("%s: Classify says %s, %v, the table %s, %v", fmt.Sprintf("%+v", r), kind, inCall, r.Kind, r.InCall)
		}
	}
	if texts != 5 {
		t.Errorf("%d text patterns, want the five of S1-03", texts)
	}
	retry.Table()[0].Kind = retry.Overloaded
	if retry.Table()[0].Kind == retry.Overloaded {
		t.Error("a caller can change the table")
	}
}
