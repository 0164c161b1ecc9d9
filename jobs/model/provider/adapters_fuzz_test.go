//go:build !nosdk

package provider_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/model/modeltest"
	"github.com/tidings/tidings/jobs/model/provider"
)

// Whatever a server sends, an adapter gives JSON or a *model.Error that shows
// none of it. One of the SDKs panics over null.
func FuzzAnswers(f *testing.F) {
	for _, vendor := range vendors() {
		files, err := os.ReadDir("testdata/" + vendor)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			raw, err := os.ReadFile("testdata/" + vendor + "/" + file.Name())
			if err != nil {
				f.Fatal(err)
			}
			_, body, _ := strings.Cut(string(raw), "\n\n")
			f.Add(200, body)
			f.Add(429, body)
		}
	}
	for _, odd := range []string{`[]`, `"x"`, `1`, `{"candidates":"x"}`, `{"candidates":[null]}`, `{"candidates":[{"content":{"parts":[null,1]}}]}`,
		`{"choices":[null]}`, `{"choices":{}}`, `{"content":[null],"stop_reason":"end_turn"}`, `{"usageMetadata":[]}`, `{"error":null}`, `{"error":[[]]}`} {
		f.Add(200, odd)
		f.Add(400, odd)
	}
	f.Fuzz(func(t *testing.T, status int, body string) {
		if status < 200 || status > 599 {
			return
		}
		for _, vendor := range vendors() {
			for _, req := range []model.Request{modeltest.SuiteRequest(), long()} {
				p := mustOpen(t, vendor, provider.Access{Key: "k", Transport: carried(func(*http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
				})})
				resp, err := p.Generate(t.Context(), req)
				var e *model.Error
				switch {
				case err == nil && !json.Valid(resp.Content):
					t.Errorf("%s: content is no JSON", vendor)
				case err != nil && !errors.As(err, &e):
					t.Errorf("%s: %T", vendor, err)
				case err != nil:
					private(t, err)
				}
			}
		}
	})
}
