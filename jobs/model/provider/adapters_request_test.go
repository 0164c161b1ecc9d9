//go:build !nosdk

package provider_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/model/modeltest"
	"github.com/tidings/tidings/jobs/model/provider"
)

// sent is what a provider gets of a request, at its own address or another.
func sent(t *testing.T, vendor string, a provider.Access, r model.Request) (*http.Request, map[string]any) {
	t.Helper()
	var request *http.Request
	var body map[string]any
	a.Key = "the-key"
	good := recorded(t, vendor, "200")
	a.Transport = carried(func(req *http.Request) (*http.Response, error) {
		request = req
		text, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		return good, json.Unmarshal(text, &body)
	})
	if _, err := mustOpen(t, vendor, a).Generate(t.Context(), r); err != nil {
		t.Fatalf("%s: %v", vendor, err)
	}
	return request, body
}

// at follows keys and indexes into JSON.
func at(v any, path ...any) any {
	for _, p := range path {
		switch key := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[key]
		case int:
			list, _ := v.([]any)
			if key >= len(list) {
				return nil
			}
			v = list[key]
		}
	}
	return v
}

const strictSchema = `{"type":"object","additionalProperties":false,"required":["label","minimum","steps"],"properties":{
	"label":{"type":"string","minLength":1,"description":"What it is."},
	"minimum":{"type":"number","minimum":0,"maximum":1},
	"steps":{"type":"array","minItems":1,"items":{"type":"object","required":["title"],"properties":{"title":{"type":"string","maxLength":9}}}}}}`

// What of the schema a provider is sent: the shape, every object closed, and a
// property whose name is a keyword.
const portableSchema = `{"type":"object","additionalProperties":false,"required":["label","minimum","steps"],"properties":{
	"label":{"type":"string","description":"What it is."},
	"minimum":{"type":"number"},
	"steps":{"type":"array","items":{"type":"object","additionalProperties":false,"required":["title"],"properties":{"title":{"type":"string"}}}}}}`

func TestRequestsAtTheProvidersOwnAddress(t *testing.T) {
	r := modeltest.SuiteRequest()
	r.Schema = json.RawMessage(strictSchema)
	cases := map[string]struct {
		url, key                    string
		model                       string // the path to it, "" for the URL
		system, prompt, most, shape []any
	}{
		"anthropic": {"https://api.anthropic.com/v1/messages", "X-Api-Key", "model",
			[]any{"system", 0, "text"}, []any{"messages", 0, "content", 0, "text"}, []any{"max_tokens"}, []any{"output_config", "format", "schema"}},
		"openai": {"https://api.openai.com/v1/chat/completions", "Authorization", "model",
			[]any{"messages", 0, "content"}, []any{"messages", 1, "content"}, []any{"max_completion_tokens"}, []any{"response_format", "json_schema", "schema"}},
		"gemini": {"https://generativelanguage.googleapis.com/v1beta/models/some-model:generateContent", "X-Goog-Api-Key", "",
			[]any{"systemInstruction", "parts", 0, "text"}, []any{"contents", 0, "parts", 0, "text"}, []any{"generationConfig", "maxOutputTokens"},
			[]any{"generationConfig", "responseJsonSchema"}},
	}
	for vendor, want := range cases {
		request, body := sent(t, vendor, provider.Access{}, r)
		if got := request.URL.String(); got != want.url {
			t.Errorf("%s: sent to %s, want %s", vendor, got, want.url)
		}
		if got := strings.TrimPrefix(request.Header.Get(want.key), "Bearer "); got != "the-key" {
			t.Errorf("%s: %s is %q", vendor, want.key, got)
		}
		if want.model != "" && at(body, want.model) != "some-model" {
			t.Errorf("%s: model is %v", vendor, at(body, want.model))
		}
		if at(body, want.system...) != r.System || at(body, want.prompt...) != r.Prompt {
			t.Errorf("%s: instructions or material differ: %v, %v", vendor, at(body, want.system...), at(body, want.prompt...))
		}
		if at(body, want.most...) != 1000.0 {
			t.Errorf("%s: bound of the output is %v", vendor, at(body, want.most...))
		}
		if !sameJSON(t, at(body, want.shape...), portableSchema) {
			got, _ := json.Marshal(at(body, want.shape...))
			t.Errorf("%s: schema is %s", vendor, got)
		}
		for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} { // net/http repeats what has one
			if request.Header.Get(name) != "" {
				t.Errorf("%s: sends %s", vendor, name)
			}
		}
	}
}

func sameJSON(t *testing.T, got any, want string) bool {
	t.Helper()
	var w any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(w)
	return string(a) == string(b)
}

// The rule of docs/providers.md: how JSON is asked for is one setting; wherever
// the provider may not keep to the schema, it stands in the instructions.
func TestOutputSetting(t *testing.T) {
	const away = "https://example.org"
	cases := []struct {
		vendor string
		access provider.Access
		format []any // the path to what says it, and its value
		value  any
		inText bool
	}{
		{"openai", provider.Access{}, []any{"response_format", "type"}, "json_schema", false},
		{"openai", provider.Access{BaseURL: away + "/v1"}, []any{"response_format", "type"}, "json_schema", true},
		{"openai", provider.Access{Output: provider.OutputObject}, []any{"response_format", "type"}, "json_object", true},
		{"openai", provider.Access{Output: provider.OutputText}, []any{"response_format"}, nil, true},
		{"gemini", provider.Access{}, []any{"generationConfig", "responseMimeType"}, "application/json", false},
		{"gemini", provider.Access{BaseURL: away}, []any{"generationConfig", "responseMimeType"}, "application/json", true},
		{"gemini", provider.Access{Output: provider.OutputObject}, []any{"generationConfig", "responseJsonSchema"}, nil, true},
		{"gemini", provider.Access{Output: provider.OutputText}, []any{"generationConfig", "responseMimeType"}, nil, true},
		{"anthropic", provider.Access{}, []any{"output_config", "format", "type"}, "json_schema", false},
		{"anthropic", provider.Access{BaseURL: away}, []any{"output_config", "format", "type"}, "json_schema", true},
		{"anthropic", provider.Access{Output: provider.OutputObject}, []any{"output_config"}, nil, true},
		{"anthropic", provider.Access{Output: provider.OutputText}, []any{"output_config"}, nil, true},
	}
	for _, c := range cases {
		r := modeltest.SuiteRequest()
		r.Schema = json.RawMessage(strictSchema)
		request, body := sent(t, c.vendor, c.access, r)
		if got := at(body, c.format...); got != c.value {
			t.Errorf("%s %+v: %v is %v, want %v", c.vendor, c.access, c.format, got, c.value)
		}
		text, _ := json.Marshal(body)
		if got := strings.Contains(string(text), `\"maxLength\":9`); got != c.inText {
			t.Errorf("%s %+v: the schema stands in the instructions: %v, want %v", c.vendor, c.access, got, c.inText)
		}
		if c.access.BaseURL != "" && !strings.HasPrefix(request.URL.String(), c.access.BaseURL) {
			t.Errorf("%s: sent to %s", c.vendor, request.URL)
		}
	}
}

// Only OpenAI's own models know the new name of the bound, and some of them no
// longer know the old one.
func TestNameOfTheOutputsBound(t *testing.T) {
	for base, want := range map[string]string{
		"":                             "max_completion_tokens",
		"https://eu.api.openai.com/v1": "max_completion_tokens",
		"https://mine.openai.azure.com/openai/v1": "max_completion_tokens",
		"http://127.0.0.1:11434/v1":               "max_tokens",
		"https://notopenai.com/v1":                "max_tokens",
	} {
		_, body := sent(t, "openai", provider.Access{BaseURL: base}, modeltest.SuiteRequest())
		var names []string
		for name := range body {
			if strings.HasPrefix(name, "max_") {
				names = append(names, name)
			}
		}
		if !slices.Equal(names, []string{want}) {
			t.Errorf("%q: %v, want %s", base, names, want)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	key := provider.Access{Key: "secret-key"}
	for name, c := range map[string]struct {
		dependency string
		access     provider.Access
		says       string
	}{
		"no name":           {"openai", key, "names no model"},
		"empty name":        {"openai/", key, "names no model"},
		"unknown":           {"acme/x", key, `no provider "acme"`},
		"no key":            {"anthropic/x", provider.Access{}, "ANTHROPIC_API_KEY"},
		"no key, openai":    {"openai/x", provider.Access{}, "OPENAI_API_KEY"},
		"no key, gemini":    {"gemini/x", provider.Access{}, "GEMINI_API_KEY"},
		"no address":        {"openai/x", provider.Access{BaseURL: "localhost:11434"}, "http://127.0.0.1:11434/v1"},
		"no host":           {"openai/x", provider.Access{BaseURL: "http:///v1"}, "http://127.0.0.1:11434/v1"},
		"key in the URL":    {"openai/x", provider.Access{BaseURL: "https://me:secret-key@example.org/v1"}, "password"},
		"query in the URL":  {"openai/x", provider.Access{BaseURL: "https://example.org/v1?key=secret-key"}, "end with its path"},
		"a key in clear":    {"openai/x", provider.Access{Key: "secret-key", BaseURL: "http://gateway.example/v1"}, "https://"},
		"in clear, Gemini":  {"gemini/x", provider.Access{Key: "secret-key", BaseURL: "http://10.0.0.7"}, "TIDINGS_MODEL_CLEAR_TEXT"},
		"in clear, no loop": {"anthropic/x", provider.Access{Key: "secret-key", BaseURL: "http://127.0.0.1.example"}, "clear text"},
		"unheard of output": {"openai/x", provider.Access{Key: "secret-key", Output: "xml"}, "json_object"},
	} {
		_, err := provider.Open(c.dependency, c.access)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret-key") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, a := range []provider.Access{
		{Key: "secret-key", BaseURL: "http://localhost:1"}, {Key: "secret-key", BaseURL: "http://127.8.9.1/v1"}, {Key: "secret-key", BaseURL: "http://[::1]:1"},
		{Key: "secret-key", BaseURL: "https://gateway.example"}, {BaseURL: "http://gateway.example"},
		{Key: "secret-key", BaseURL: "http://gateway.example", ClearText: true},
	} {
		if _, err := provider.Open("openai/x", a); err != nil {
			t.Errorf("%s: %v", a.BaseURL, err)
		}
	}
	for _, name := range []string{"gpt-oss:20b", "meta-llama/Llama-3.1-8B-Instruct"} {
		p, err := provider.Open("openai/"+name, provider.Access{BaseURL: "http://127.0.0.1:11434/v1"})
		if err != nil || p.Dependency() != "openai/"+name {
			t.Errorf("%s: %v", name, err)
		}
	}
}
