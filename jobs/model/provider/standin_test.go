//go:build !nosdk

package provider_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/model/modeltest"
	"github.com/tidings/tidings/jobs/model/provider"
)

// vendors are the providers with an adapter. Their models' names mean nothing:
// the stand-in does not look at them.
func vendors() []string { return []string{"anthropic", "openai", "gemini"} }

// standin is a provider on the loopback that plays one answer and remembers what
// arrived.
type standin struct {
	*httptest.Server
	mu   sync.Mutex
	seen []arrived
}

type arrived struct {
	Path   string
	Header http.Header
	Body   string
}

// handler plays an answer after the request has been read in full, as a
// provider that has started to work on it.
func newStandin(t *testing.T, handler http.HandlerFunc) *standin {
	t.Helper()
	s := &standin{}
	s.Server = httptest.NewServer(s.remember(handler))
	t.Cleanup(s.Close)
	return s
}

func (s *standin) remember(handler http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.seen = append(s.seen, arrived{r.URL.Path, r.Header.Clone(), string(body)})
		s.mu.Unlock()
		handler(w, r)
	})
}

func (s *standin) arrived() []arrived {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]arrived(nil), s.seen...)
}

func (s *standin) calls() int { return len(s.arrived()) }

// access reaches the stand-in, through a transport of its own so that no
// connection of another test is used.
func (s *standin) access(vendor string) provider.Access {
	return provider.Access{Key: modeltest.CanaryKey, BaseURL: s.URL + basePath(vendor)}
}

// basePath is what a vendor's base URL ends in.
func basePath(vendor string) string {
	if vendor == "openai" {
		return "/v1"
	}
	return ""
}

// open makes the provider whose stand-in plays the handler.
func open(t *testing.T, vendor string, handler http.HandlerFunc) (model.Provider, *standin) {
	t.Helper()
	s := newStandin(t, handler)
	return mustOpen(t, vendor, s.access(vendor)), s
}

func mustOpen(t *testing.T, vendor string, a provider.Access) model.Provider {
	t.Helper()
	p, err := provider.Open(vendor+"/some-model", a)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// recorded reads an answer of testdata.
func recorded(t *testing.T, vendor, name string) *http.Response {
	t.Helper()
	file, err := os.ReadFile("testdata/" + vendor + "/" + name + ".http")
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(file)), nil)
	if err != nil {
		t.Fatalf("%s/%s: %v", vendor, name, err)
	}
	return res
}

// replay plays an answer of testdata.
func replay(t *testing.T, vendor, name string) http.HandlerFunc {
	t.Helper()
	res := recorded(t, vendor, name)
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		for k, v := range res.Header {
			w.Header()[k] = v
		}
		w.WriteHeader(res.StatusCode)
		w.Write(body)
	}
}

// cut plays the first half of an answer and breaks off.
func cut(t *testing.T, vendor, name string) http.HandlerFunc {
	t.Helper()
	res := recorded(t, vendor, name)
	body, _ := io.ReadAll(res.Body)
	return func(w http.ResponseWriter, _ *http.Request) {
		for k, v := range res.Header {
			w.Header()[k] = v
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(res.StatusCode)
		w.Write(body[:len(body)/2])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

// hang reads the request and says nothing until the caller is gone.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// hangInside plays the headers of an answer, and no more.
func hangInside(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(200)
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

// reset ends the connection without an answer and without a goodbye.
func reset(w http.ResponseWriter, _ *http.Request) {
	c, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

// carried is a transport in this process.
type carried func(*http.Request) (*http.Response, error)

func (c carried) RoundTrip(r *http.Request) (*http.Response, error) { return c(r) }

// private fails the test if an error, however it is printed, shows what it must
// not: prompt, output, key, address or the provider's words.
func private(t *testing.T, err error, more ...string) {
	t.Helper()
	var e *model.Error
	if !errors.As(err, &e) {
		t.Fatalf("error is a %T, want a *model.Error", err)
	}
	texts := []string{err.Error(), fmt.Sprintf("%+v", err), e.Type, e.RequestID, e.Advice}
	for cause := errors.Unwrap(e); cause != nil; cause = errors.Unwrap(cause) {
		texts = append(texts, cause.Error())
	}
	for _, text := range texts {
		for _, word := range append(more, modeltest.CanaryPrompt, modeltest.CanaryOutput, modeltest.CanaryKey, "/v1", "http:") {
			if strings.Contains(text, word) {
				t.Errorf("%q shows %q", text, word)
			}
		}
	}
}
