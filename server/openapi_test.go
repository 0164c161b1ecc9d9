package server

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/gin-gonic/gin"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
)

// written is what the documents promise, read once for all tests.
type written struct {
	doc     *openapi3.T
	router  routers.Router
	schemas map[string]*jsonschema.Schema
}

var readPromises = sync.OnceValues(func() (*written, error) {
	loader := openapi3.NewLoader()
	loader.IsExternalRefsAllowed = true
	doc, err := loader.LoadFromFile("../docs/openapi.yaml")
	if err != nil {
		return nil, err
	}
	w := &written{doc: doc, schemas: map[string]*jsonschema.Schema{}}
	if err := doc.Validate(context.Background(), openapi3.EnableExamplesValidation()); err != nil {
		return nil, err
	}
	if w.router, err = legacy.NewRouter(doc); err != nil {
		return nil, err
	}
	files, err := filepath.Glob("../docs/schemas/*.json")
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	for _, file := range files {
		s, err := c.Compile(file)
		if err != nil {
			return nil, err
		}
		w.schemas[strings.TrimSuffix(filepath.Base(file), ".json")] = s
	}
	return w, nil
})

func promises(t *testing.T) *written {
	t.Helper()
	w, err := readPromises()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// kept checks an answer of the API against the documents. Every answer in every
// test goes through here.
func (w *written) kept(t *testing.T, r *http.Request, a answer) {
	t.Helper()
	if a.status >= 400 {
		w.matches(t, "problem", a.body)
	}
	if r.Method == http.MethodOptions {
		return
	}
	route, params, err := w.router.FindRoute(httptest.NewRequest(r.Method, r.URL.RequestURI(), nil))
	if err != nil {
		if a.status != http.StatusNotFound && a.status != http.StatusMethodNotAllowed {
			t.Errorf("%s %s is answered with %d but not in the OpenAPI document", r.Method, r.URL.Path, a.status)
		}
		return
	}
	in := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true}}
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: a.status, Header: a.header,
		Body: io.NopCloser(bytes.NewReader(a.body)), Options: in.Options}
	if len(a.body) == 0 || a.header.Get("Content-Type") == "text/event-stream" { // whose events are checked one by one
		out.Options = &openapi3filter.Options{ExcludeResponseBody: true, IncludeResponseStatus: true}
	}
	if err := openapi3filter.ValidateResponse(context.Background(), out); err != nil {
		t.Errorf("%s %s: the answer breaks the OpenAPI document: %v\n%s", r.Method, r.URL.Path, err, a.body)
	}
}

// matches checks data against one of the schemas, and that no field is sent
// that the schema does not describe.
func (w *written) matches(t *testing.T, name string, data []byte) {
	t.Helper()
	s, ok := w.schemas[name]
	if !ok {
		t.Errorf("no schema for %q", name)
		return
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Errorf("%s: %v in %q", name, err, data)
		return
	}
	if err := s.Validate(v); err != nil {
		t.Errorf("%s breaks its schema: %v\n%s", name, err, data)
	}
	for field := range v.(map[string]any) {
		if s.Properties[field] == nil {
			t.Errorf("%s: field %s is not in its schema", name, field)
		}
	}
}

func TestEveryRouteIsInTheOpenAPIDocumentAndTheOtherWayRound(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		var served, documented []string
		param := regexp.MustCompile(`:(\w+)`)
		for _, r := range h.API().(*gin.Engine).Routes() {
			served = append(served, r.Method+" "+param.ReplaceAllString(r.Path, "{$1}"))
		}
		for path, item := range promises(t).doc.Paths.Map() {
			for method := range item.Operations() {
				documented = append(documented, method+" "+path)
			}
		}
		slices.Sort(served)
		slices.Sort(documented)
		if !slices.Equal(served, documented) {
			t.Errorf("served\n%s\ndocumented\n%s", strings.Join(served, "\n"), strings.Join(documented, "\n"))
		}
	})
}

func TestTheSchemasListEveryReasonAndOutcomeAndWorkload(t *testing.T) {
	enum := func(name, field string) []string {
		t.Helper()
		b, err := os.ReadFile("../docs/schemas/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var s struct {
			Properties map[string]struct{ Enum []any }
		}
		if err := json.Unmarshal(b, &s); err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, v := range s.Properties[field].Enum {
			all = append(all, v.(string))
		}
		return all
	}
	var reasons, outcomes, workloads, keys []string
	for _, r := range events.Reasons() {
		reasons = append(reasons, string(r))
	}
	for _, o := range events.Outcomes() {
		if o != events.OutcomeCompleted {
			outcomes = append(outcomes, string(o))
		}
	}
	for _, w := range jobs.Workloads() {
		workloads = append(workloads, w.Name)
		keys = append(keys, w.ErrorKey)
	}
	for _, c := range []struct {
		schema, field string
		want          []string
	}{
		{"queued", "reason", reasons}, {"retrying", "reason", reasons}, {"error", "reason", reasons},
		{"error", "outcome", outcomes}, {"error", "message_key", keys}, {"idle", "workload", workloads},
	} {
		if got := enum(c.schema, c.field); !slices.Equal(got, c.want) {
			t.Errorf("%s of %s: the schema has %q, the code %q", c.field, c.schema, got, c.want)
		}
	}
}
