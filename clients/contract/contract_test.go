package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

func builtInCases(t *testing.T) map[string]*Case {
	t.Helper()
	files, err := fs.Sub(builtIn, "cases")
	if err != nil {
		t.Fatal(err)
	}
	cases, err := LoadCases(files)
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// Every part of a built-in case can be played: recordings are there, and no
// variant's value was forgotten.
func TestCasesAreWhole(t *testing.T) {
	cases := builtInCases(t)
	for name, c := range cases {
		for i, e := range c.Exchanges {
			for _, step := range e.Answer.Steps {
				text, err := c.bytes(step)
				if err != nil {
					t.Errorf("%s, request %d: %v", name, i+1, err)
				}
				if bytes.Contains(text, []byte("{{")) {
					t.Errorf("%s, request %d: a value is missing in %.80s", name, i+1, text)
				}
			}
		}
		for _, l := range append(c.States, c.Results...) {
			if strings.Contains(line(l), "{{") {
				t.Errorf("%s: a value is missing in %s", name, line(l))
			}
		}
		if len(c.Until) == 0 || c.Note == "" {
			t.Errorf("%s has no end or no note", name)
		}
	}
	for _, lang := range strings.Fields("ar da de en es fi fr it ja ko nb nl pl pt sv zh") {
		if cases["languages/"+lang] == nil {
			t.Errorf("no case for language %s", lang)
		}
	}
}

// The clients' built-in texts are those of the server.
func TestBuiltInTextsAreCurrent(t *testing.T) {
	dir := t.TempDir()
	for _, sub := range []string{"/go", "/web/src", "/" + filepath.Dir(kotlinTexts)} {
		if err := os.MkdirAll(dir+sub, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeTexts("../../locales", dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/go/fallback.json", "/web/src/built-in-texts.ts", "/" + kotlinTexts} {
		want, err := os.ReadFile(dir + name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(".." + name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("clients%s is not what the server's language files say; run: go run . texts -locales ../../locales -clients ..", name)
		}
	}
}

// What a screen says while it waits, word for word in the languages of the first apps.
func TestEachWorkloadHasItsWaitingText(t *testing.T) {
	texts, err := builtInTexts("../../locales")
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string][2]string{
		"session_summary_compiling":        {"Creating your session summary…", "Sammenstiller innsiktene…"},
		"session_guidance_compiling":       {"Creating your guidance…", "Lager veiledningen din…"},
		"session_classification_compiling": {"Classifying your session…", "Klassifiserer økten din…"},
		"session_checking_connection":      {"Checking the connection…", "Sjekker tilkoblingen…"},
	} {
		if got := [2]string{texts["en"][key], texts["nb"][key]}; got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
}

func TestCaseFilesWithMistakesAreRefused(t *testing.T) {
	good := fstest.MapFS{
		"a.json":  {Data: []byte(`{"until":{"phase":"done"},"exchanges":[{"on":"GET status"}]}`)},
		"a.jsonl": {Data: []byte("{}\n")},
	}
	if _, err := LoadCases(good); err != nil {
		t.Fatal(err)
	}
	tests := map[string]fstest.MapFS{
		"none at all":      {},
		"no expectation":   {"a.json": good["a.json"]},
		"misspelt field":   {"a.json": {Data: []byte(`{"exchange":[]}`)}, "a.jsonl": good["a.jsonl"]},
		"unknown request":  {"a.json": {Data: []byte(`{"exchanges":[{"on":"GET stat"}]}`)}, "a.jsonl": good["a.jsonl"]},
		"no states":        {"a.json": good["a.json"], "a.jsonl": {Data: []byte(`{"result":"retry"}`)}},
		"unreadable lines": {"a.json": good["a.json"], "a.jsonl": {Data: []byte("{}\n{")}},
	}
	for name, files := range tests {
		if _, err := LoadCases(files); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// verdict plays a client that sends the requests and the report, and returns what
// the server says to it.
func verdict(t *testing.T, c *Case, requests []*http.Request, report string) string {
	t.Helper()
	srv := httptest.NewServer(newRun(c))
	defer srv.Close()
	send := func(req *http.Request) string {
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	for _, req := range append(requests, request("POST", "/report", report)) {
		req.URL.Scheme, req.URL.Host = "http", strings.TrimPrefix(srv.URL, "http://")
		if text := send(req); req.URL.Path == "/report" {
			return text
		}
	}
	return ""
}

func request(method, path, body string, headers ...string) *http.Request {
	req, err := http.NewRequestWithContext(context.Background(), method, path, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return req
}

func TestVerdicts(t *testing.T) {
	c := builtInCases(t)["lossy"]
	var good []string
	for _, l := range c.States {
		good = append(good, line(l))
	}
	all := strings.Join(good, "\n")
	const path = "/api/v1/sessions/abc-123/summary/status"
	status := func(headers ...string) *http.Request {
		return request("GET", path, "", append([]string{"Accept", "text/event-stream"}, headers...)...)
	}
	tests := []struct {
		name     string
		requests []*http.Request
		report   string
		want     string // part of what is said; "" for nothing
	}{
		{"as expected", []*http.Request{status()}, all, ""},
		{"a state too few", []*http.Request{status()}, strings.Join(good[1:], "\n"), "is missing"},
		{"a state too many", []*http.Request{status()}, all + "\n" + good[0], "one too many"},
		{"another value", []*http.Request{status()}, strings.Replace(all, `"retry_attempt":2`, `"retry_attempt":3`, 1), `"retry_attempt":3`},
		{"a result nobody asked for", []*http.Request{status()}, all + `{"result":"retry"}`, "result 1 is one too many"},
		{"no request", nil, all, "never came"},
		{"a request too many", []*http.Request{status(), status()}, all, "unexpected request"},
		{"a position out of nowhere", []*http.Request{status("Last-Event-ID", "3")}, all, `Last-Event-ID is "3", want ""`},
		{"another type asked for", []*http.Request{request("GET", path, "")}, all, "Accept"},
		{"no JSON", []*http.Request{status()}, "nonsense", "report"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := verdict(t, c, tt.requests, tt.report)
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("verdict %q, want %q in it", got, tt.want)
			}
		})
	}
}

func TestTheCommand(t *testing.T) {
	var out bytes.Buffer
	if err := mainWith(t.Context(), []string{"expect", "lossy"}, nil, &out); err != nil {
		t.Fatal(err)
	}
	for l := range strings.Lines(out.String()) {
		if !json.Valid([]byte(l)) {
			t.Errorf("not JSON: %s", l)
		}
	}
	out.Reset()
	if err := mainWith(t.Context(), []string{"list"}, nil, &out); err != nil || !strings.Contains(out.String(), "languages/zh") {
		t.Errorf("list: %v, %s", err, out.String())
	}
	out.Reset()
	// Standard input is at its end: it starts, says where, and ends.
	if err := mainWith(t.Context(), []string{"serve", "-watch-stdin"}, strings.NewReader(""), &out); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "listen=http://127.0.0.1:") {
		t.Errorf("serve says %q", out.String())
	}
	for _, args := range [][]string{nil, {"play"}, {"expect", "no-such-case"}} {
		if err := mainWith(t.Context(), args, nil, io.Discard); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}
