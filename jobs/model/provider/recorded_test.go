//go:build !nosdk

package provider_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/model/modeltest"
	"github.com/tidings/tidings/jobs/model/provider"
	"github.com/tidings/tidings/jobs/retry"
)

// answer is a recorded answer and what has to come of it.
type answer struct {
	file   string
	kind   retry.Kind // "" is success
	status int
	typ    string
	wait   time.Duration
}

const s = time.Second

// everywhere is what all providers answer alike.
func everywhere() []answer {
	return []answer{
		{"200", "", 0, "", 0},
		{"200-empty", retry.Unavailable, 200, "no_answer", 0},
		{"200-null", retry.Unavailable, 200, "no_answer", 0},
		{"200-broken", retry.Unavailable, 200, "no_answer", 0},
		{"200-html", retry.Unavailable, 200, "no_answer", 0},
		{"200-not-json", retry.InvalidOutput, 200, "not_json", 0},
		{"502-html", retry.Unavailable, 502, "", 0},
		{"400-format", retry.Misconfigured, 400, "response_format_refused", 0},
		{"429-date", retry.RateLimited, 429, "?", 7 * s},
		{"429-minute", retry.RateLimited, 429, "?", 12 * s},
	}
}

func answers() map[string][]answer {
	return map[string][]answer{
		"anthropic": {
			{"200-thinking", "", 0, "", 0},
			{"200-truncated", retry.InvalidOutput, 200, "max_tokens", 0},
			{"200-refusal", retry.InvalidOutput, 200, "refusal", 0},
			{"400", retry.InvalidInput, 400, "invalid_request_error", 0},
			{"400-credit", retry.Quota, 400, "quota_in_words", 0},
			{"401", retry.Auth, 401, "authentication_error", 0},
			{"402", retry.Quota, 402, "billing_error", 0},
			{"403", retry.Auth, 403, "permission_error", 0},
			{"404", retry.Misconfigured, 404, "not_found_error", 0},
			{"413", retry.InvalidInput, 413, "request_too_large", 0},
			{"429", retry.RateLimited, 429, "rate_limit_error", 7 * s},
			{"429-ms", retry.RateLimited, 429, "rate_limit_error", 1500 * time.Millisecond},
			{"429-reset", retry.RateLimited, 429, "rate_limit_error", 23 * s},
			{"429-quota", retry.Quota, 429, "quota_in_words", 0},
			{"500", retry.Internal, 500, "api_error", 0},
			{"503", retry.Unavailable, 503, "", 0},
			{"504", retry.Timeout, 504, "timeout_error", 0},
			{"529", retry.Overloaded, 529, "overloaded_error", 0},
		},
		"openai": {
			{"200-plain", "", 0, "", 0},
			{"200-fenced", "", 0, "", 0},
			{"200-truncated", retry.InvalidOutput, 200, "length", 0},
			{"200-refusal", retry.InvalidOutput, 200, "refusal", 0},
			{"200-filter", retry.InvalidOutput, 200, "content_filter", 0},
			{"200-error", retry.RateLimited, 429, "", 0},
			{"200-no-choices", retry.Unavailable, 200, "no_answer", 0},
			{"400", retry.InvalidInput, 400, "invalid_request_error", 0},
			{"400-context", retry.InvalidInput, 400, "context_length_exceeded", 0},
			{"400-format-text", retry.Misconfigured, 400, "response_format_refused", 0},
			{"401", retry.Auth, 401, "invalid_api_key", 0},
			{"401-no-code", retry.Auth, 401, "invalid_request_error", 0},
			{"402", retry.Quota, 402, "quota_in_words", 0},
			{"403", retry.Misconfigured, 403, "unsupported_country_region_territory", 0},
			{"404", retry.Misconfigured, 404, "model_not_found", 0},
			{"404-bare", retry.Misconfigured, 404, "model_refused", 0},
			{"413", retry.InvalidInput, 413, "", 0},
			{"429", retry.RateLimited, 429, "rate_limit_exceeded", 7 * s},
			{"429-ms", retry.RateLimited, 429, "rate_limit_exceeded", 1500 * time.Millisecond},
			{"429-reset", retry.RateLimited, 429, "rate_limit_exceeded", 83 * s},
			{"429-quota", retry.Quota, 429, "insufficient_quota", 0},
			{"429-credit-words", retry.Quota, 429, "quota_in_words", 0},
			{"429-minute-words", retry.RateLimited, 429, "", 12 * s},
			{"500", retry.Internal, 500, "server_error", 0},
			{"503", retry.Unavailable, 503, "server_error", 0},
			{"504", retry.Timeout, 504, "", 0},
			{"529", retry.Overloaded, 529, "server_error", 0},
		},
		"gemini": {
			{"200-truncated", retry.InvalidOutput, 200, "MAX_TOKENS", 0},
			{"200-refusal", retry.InvalidOutput, 200, "SAFETY", 0},
			{"200-blocked", retry.InvalidInput, 200, "blocked:PROHIBITED_CONTENT", 0},
			{"400", retry.InvalidInput, 400, "INVALID_ARGUMENT", 0},
			{"400-key", retry.Auth, 400, "API_KEY_INVALID", 0},
			{"400-billing", retry.Quota, 400, "FAILED_PRECONDITION", 0},
			{"401", retry.Auth, 401, "UNAUTHENTICATED", 0},
			{"403", retry.Auth, 403, "PERMISSION_DENIED", 0},
			{"404", retry.Misconfigured, 404, "NOT_FOUND", 0},
			{"413", retry.InvalidInput, 413, "", 0},
			{"429", retry.RateLimited, 429, "RESOURCE_EXHAUSTED", 7 * s},
			{"429-plain", retry.RateLimited, 429, "RESOURCE_EXHAUSTED", 0},
			{"429-seconds", retry.RateLimited, 429, "RESOURCE_EXHAUSTED", 5 * s},
			{"429-retryinfo", retry.RateLimited, 429, "RESOURCE_EXHAUSTED", 34074824224},
			{"429-quota", retry.Quota, 429, "RESOURCE_EXHAUSTED/PerDay", 0},
			{"500", retry.Internal, 500, "INTERNAL", 0},
			{"503", retry.Unavailable, 503, "UNAVAILABLE", 0},
			{"504", retry.Timeout, 504, "DEADLINE_EXCEEDED", 0},
			{"529", retry.Overloaded, 529, "", 0},
		},
	}
}

// I-77, I-80, S3-19 to S3-23: each recorded answer is one request and the right
// error, which shows nothing of what the provider said.
func TestRecordedAnswers(t *testing.T) {
	for _, vendor := range vendors() {
		rows := append(everywhere(), answers()[vendor]...)
		for _, want := range rows {
			t.Run(vendor+"/"+want.file, func(t *testing.T) {
				p, standin := open(t, vendor, replay(t, vendor, want.file))
				resp, err := p.Generate(t.Context(), modeltest.SuiteRequest())
				if n := standin.calls(); n != 1 {
					t.Errorf("%d requests arrived, want 1", n)
				}
				if want.kind == "" {
					if err != nil {
						t.Fatalf("failed: %v", err)
					}
					if !strings.Contains(string(resp.Content), `"title"`) || resp.Content[0] != '{' {
						t.Errorf("content is %s", resp.Content)
					}
					return
				}
				var e *model.Error
				if !errors.As(err, &e) {
					t.Fatalf("got %v, want a *model.Error", err)
				}
				if e.Kind != want.kind || e.Status != want.status || e.RetryAfter != want.wait {
					t.Errorf("got %s, status %d, wait %s; want %s, %d, %s", e.Kind, e.Status, e.RetryAfter, want.kind, want.status, want.wait)
				}
				if want.typ != "?" && e.Type != want.typ {
					t.Errorf("type is %q, want %q", e.Type, want.typ)
				}
				if len(resp.Content) > 0 {
					t.Error("a failed call gave content")
				}
				private(t, err, standin.URL)
			})
		}
	}
}

// S1-04: nothing that an answer says makes a 400 or 401 worth repeating.
func TestNoTypeMakes400Or401Retryable(t *testing.T) {
	for vendor, typ := range map[string]string{
		"anthropic": `"type":"overloaded_error"`, "openai": `"code":"rate_limit_exceeded","type":"requests"`, "gemini": `"status":"UNAVAILABLE"`,
	} {
		for _, status := range []int{400, 401} {
			p := mustOpen(t, vendor, provider.Access{Key: "k", Transport: carried(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: status, Header: http.Header{"Retry-After": {"5"}},
					Body: io.NopCloser(strings.NewReader(`{"error":{` + typ + `,"message":"Overloaded, too many requests, timeout"}}`))}, nil
			})})
			_, err := p.Generate(t.Context(), modeltest.SuiteRequest())
			var e *model.Error
			if !errors.As(err, &e) || e.Kind.Queued() || e.RetryAfter != 0 || e.Status != status {
				t.Errorf("%s, %d: got %v", vendor, status, err)
			}
		}
	}
}

// Every file is used: a case that no row names is not checked at all.
func TestEveryRecordedAnswerIsUsed(t *testing.T) {
	streams := map[string]bool{}
	for _, c := range streamCases() {
		streams[c.file] = true
	}
	for _, vendor := range vendors() {
		used := map[string]bool{}
		for _, a := range append(everywhere(), answers()[vendor]...) {
			used[a.file+".http"] = true
		}
		files, err := os.ReadDir("testdata/" + vendor)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if !used[f.Name()] && !streams[strings.TrimSuffix(f.Name(), ".http")] {
				t.Errorf("testdata/%s/%s is in no test", vendor, f.Name())
			}
		}
		// The rows of the issue, for each provider.
		for _, status := range []string{"200", "400", "401", "403", "404", "413", "429", "429-quota", "429-minute", "500", "502-html", "503", "504", "529", "200-empty", "200-broken"} {
			if !used[status+".http"] {
				t.Errorf("%s has no recorded %s", vendor, status)
			}
		}
	}
}

// All input counts, the cached part included, and all output, reasoning included;
// an answer that cannot be used has cost the same (S3-21).
func TestUsageOfRecordedAnswers(t *testing.T) {
	for _, vendor := range vendors() {
		for _, file := range []string{"200", "200-truncated", "200-refusal", "200-not-json"} {
			p, _ := open(t, vendor, replay(t, vendor, file))
			resp, err := p.Generate(t.Context(), modeltest.SuiteRequest())
			var e *model.Error
			if errors.As(err, &e) && e.Usage != resp.Usage {
				t.Errorf("%s/%s: the error's usage differs from the response's", vendor, file)
			}
			cached := int64(40)
			if vendor == "gemini" && file == "200-truncated" {
				cached = 0
			}
			u := resp.Usage
			if u.InputTokens == nil || u.OutputTokens == nil || u.CachedTokens == nil ||
				*u.InputTokens != 1000 || *u.OutputTokens != 80 || *u.CachedTokens != cached {
				t.Errorf("%s/%s: usage is %s", vendor, file, show(u))
			}
			if vendor != "gemini" && resp.RequestID == "" {
				t.Errorf("%s/%s: no request id", vendor, file)
			}
			if err == nil && !strings.HasPrefix(resp.Model, "some-model-") {
				t.Errorf("%s/%s: answered by %q", vendor, file, resp.Model)
			}
		}
	}
	p, _ := open(t, "openai", replay(t, "openai", "200-plain"))
	if resp, err := p.Generate(t.Context(), modeltest.SuiteRequest()); err != nil || resp.Usage != (model.Usage{}) {
		t.Errorf("a server that counts nothing: %s, %v", show(resp.Usage), err)
	}
}
