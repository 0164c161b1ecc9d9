package model_test

import (
	"strings"
	"testing"

	"github.com/tidings/tidings/jobs/model"
)

func TestRedact(t *testing.T) {
	for message, want := range map[string]string{
		"Rate limit reached for gpt-x in organization org-abc123 on tokens per min (TPM): Limit 30000, Used 29937. Please try again in 6.5s.": "Rate limit reached for gpt-x in organization … on tokens per … Limit 30000, Used 29937. Please try again in 6.5s.",
		"Incorrect API key provided: sk-proj-1234567890":             "Incorrect API key provided: …",
		"invalid content: \"Olav Nordmann, born 1970, has the flu\"": "invalid content: … 1970, has the …",
		"see https://example.org/x?key=1 or mail me@example.org":     "see … or …",
		"The model `gpt-x` does not exist":                           "The model gpt-x does not exist",
		"余额不足":                                                       "",
		"":                                                           "",
		"a\nb\r\nServer: error\x00":                                  "a … Server: …",
		strings.Repeat("error ", 999):                                strings.TrimSpace(strings.Repeat("error ", 40)),
	} {
		if got := model.Redact(message, "gpt-x"); got != want {
			t.Errorf("%q became\n%q, want\n%q", message, got, want)
		}
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("Incorrect API key provided: sk-1234")
	f.Fuzz(func(t *testing.T, s string) {
		got := model.Redact(s)
		if len(got) > 240 || strings.ContainsAny(got, "\r\n\x00") || model.Redact(got) != got {
			t.Errorf("%q became %q, and that %q", s, got, model.Redact(got))
		}
	})
}
