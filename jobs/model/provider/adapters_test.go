//go:build !nosdk

package provider_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/model/modeltest"
	"github.com/tidings/tidings/jobs/model/provider"
	"github.com/tidings/tidings/jobs/retry"
)

// The adapters pass the suite that the scripted and the local model pass.
func TestAdaptersPassTheSuite(t *testing.T) {
	play := func(t *testing.T, vendor string, sc modeltest.Scenario) http.HandlerFunc {
		switch sc {
		case modeltest.Hangs:
			return hang
		case modeltest.Cuts:
			return cut(t, vendor, "200")
		}
		return replay(t, vendor, map[modeltest.Scenario]string{
			modeltest.Answers: "200", modeltest.Limited: "429", modeltest.Overloaded: "503",
			modeltest.BadRequest: "400", modeltest.BadKey: "401", modeltest.Broken: "500",
		}[sc])
	}
	for _, vendor := range vendors() {
		t.Run(vendor, func(t *testing.T) {
			modeltest.Suite(t, func(t *testing.T, sc modeltest.Scenario) modeltest.Subject {
				p, standin := open(t, vendor, play(t, vendor, sc))
				return modeltest.Subject{Provider: p, Calls: standin.calls}
			})
		})
	}
}

// timeout is a failure of a connection that says it was one of time.
type timeout struct{ error }

func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }

// S0-20, I-72, I-76: the SDK's own retries are off. The real SDK over a counting
// transport sends one request, whatever comes back, also when the answer asks it
// to try again.
func TestSDKsNeverRepeat(t *testing.T) {
	status := func(code int, headers ...string) carried {
		return func(*http.Request) (*http.Response, error) {
			h := http.Header{"Content-Type": {"application/json"}}
			for i := 0; i < len(headers); i += 2 {
				h.Set(headers[i], headers[i+1])
			}
			return &http.Response{StatusCode: code, Header: h, Body: io.NopCloser(strings.NewReader(`{"error":{"message":"no"}}`))}, nil
		}
	}
	fails := func(err error) carried {
		return func(*http.Request) (*http.Response, error) { return nil, err }
	}
	cases := map[string]struct {
		transport carried
		kind      retry.Kind
	}{
		"408":                        {status(408), retry.Timeout},
		"409":                        {status(409), retry.Unavailable},
		"429":                        {status(429), retry.RateLimited},
		"429 that asks to come back": {status(429, "x-should-retry", "true", "retry-after-ms", "1"), retry.RateLimited},
		"429 with an hour":           {status(429, "retry-after", "3600"), retry.RateLimited},
		"500":                        {status(500), retry.Internal},
		"500 that asks to come back": {status(500, "x-should-retry", "true"), retry.Internal},
		"502":                        {status(502), retry.Unavailable},
		"503":                        {status(503, "x-should-retry", "true", "retry-after", "1"), retry.Unavailable},
		"504":                        {status(504), retry.Timeout},
		"529":                        {status(529), retry.Overloaded},
		"time limit of a connection": {fails(timeout{errors.New("i/o timeout")}), retry.Timeout},
		"refused":                    {fails(&net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}), retry.Network},
		"reset":                      {fails(&net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}), retry.Network},
		"no such host":               {fails(&net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}), retry.Network},
		"closed":                     {fails(io.EOF), retry.Network},
		"certificate":                {fails(&tls.CertificateVerificationError{Err: errors.New("unknown authority")}), retry.Network},
		"odd":                        {fails(errors.New("http2: odd failure")), retry.Network},
		"hangs until the call's time limit": {func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}, retry.Timeout},
	}
	for name, c := range cases {
		for _, vendor := range vendors() {
			for _, req := range []model.Request{modeltest.SuiteRequest(), long()} {
				n := 0
				p := mustOpen(t, vendor, provider.Access{Key: modeltest.CanaryKey, Transport: carried(func(r *http.Request) (*http.Response, error) {
					n++
					return c.transport(r)
				})})
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				if strings.HasPrefix(name, "hangs") {
					cancel()
					ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
				}
				start := time.Now()
				_, err := p.Generate(ctx, req)
				cancel()
				if took := time.Since(start); n != 1 || took > 10*time.Second {
					t.Errorf("%s, %s: %d requests in %s, want 1 at once", vendor, name, n, took)
				}
				var e *model.Error
				if !errors.As(err, &e) || e.Kind != c.kind {
					t.Errorf("%s, %s: got %v, want %s", vendor, name, err, c.kind)
				}
				private(t, err)
			}
		}
	}
}

// What happens on real connections: each is one request, or none that arrives.
func TestConnections(t *testing.T) {
	for _, vendor := range vendors() {
		for _, req := range []model.Request{modeltest.SuiteRequest(), long()} {
			check := func(name string, p model.Provider, calls func() int, arrive int, want retry.Kind) {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				if want == retry.Timeout {
					cancel()
					ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
				}
				defer cancel()
				_, err := p.Generate(ctx, req)
				var e *model.Error
				if !errors.As(err, &e) || e.Kind != want || e.Status != 0 && want != retry.StreamInterrupted {
					t.Errorf("%s, %s: got %v, want %s", vendor, name, err, want)
				}
				if n := calls(); n != arrive {
					t.Errorf("%s, %s: %d requests arrived, want %d", vendor, name, n, arrive)
				}
				private(t, err)
			}
			p, standin := open(t, vendor, hang)
			check("hang", p, standin.calls, 1, retry.Timeout)
			p, standin = open(t, vendor, hangInside)
			check("hang inside", p, standin.calls, 1, retry.Timeout)
			p, standin = open(t, vendor, reset)
			check("reset", p, standin.calls, 1, retry.Network)

			standin = newStandin(t, hang)
			standin.Close()
			check("refused", mustOpen(t, vendor, standin.access(vendor)), standin.calls, 0, retry.Network)

			secure := &standin2{}
			secure.start(t)
			check("certificate", mustOpen(t, vendor, provider.Access{BaseURL: secure.URL + basePath(vendor)}), secure.calls, 0, retry.Network)
		}
	}
}

// standin2 is a stand-in whose certificate nobody trusts.
type standin2 struct{ standin }

func (s *standin2) start(t *testing.T) {
	t.Helper()
	s.Server = httptest.NewUnstartedServer(s.remember(hang))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
}

// net/http repeats by itself what it takes for safe on a connection that was
// used before. A model call is not safe.
func TestUsedConnectionIsNoReasonToRepeat(t *testing.T) {
	for _, vendor := range vendors() {
		first := true
		good := replay(t, vendor, "200")
		p, standin := open(t, vendor, func(w http.ResponseWriter, r *http.Request) {
			if first {
				first = false
				good(w, r)
				return
			}
			reset(w, r)
		})
		if _, err := p.Generate(t.Context(), modeltest.SuiteRequest()); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Generate(t.Context(), modeltest.SuiteRequest()); err == nil || standin.calls() != 2 {
			t.Errorf("%s: %d requests for two calls, error %v", vendor, standin.calls(), err)
		}
	}
}

// A redirect would be a second request, and would take the key along.
func TestRedirectsAreNotFollowed(t *testing.T) {
	for _, vendor := range vendors() {
		for _, code := range []int{301, 302, 307, 308} {
			elsewhere := newStandin(t, replay(t, vendor, "200"))
			p, standin := open(t, vendor, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, elsewhere.URL+r.URL.Path, code)
			})
			_, err := p.Generate(t.Context(), modeltest.SuiteRequest())
			var e *model.Error
			if !errors.As(err, &e) || e.Kind != retry.Misconfigured || e.Advice == "" || standin.calls() != 1 || elsewhere.calls() != 0 {
				t.Errorf("%s, %d: got %v, %d and %d requests", vendor, code, err, standin.calls(), elsewhere.calls())
			}
			private(t, err, elsewhere.URL)
		}
	}
}

// S3-29: the key and the address come from Access alone, whatever else stands in
// the environment of the process.
func TestSDKsDoNotReadTheEnvironment(t *testing.T) {
	const stray = "canary-stray-1f"
	for _, name := range []string{
		"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_PROFILE",
		"OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_BASE_URL",
		"GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_CLOUD_PROJECT",
	} {
		t.Setenv(name, stray)
	}
	t.Setenv("ANTHROPIC_CUSTOM_HEADERS", "x-stray: "+stray)
	t.Setenv("OPENAI_CUSTOM_HEADERS", "x-stray: "+stray)
	log.SetOutput(io.Discard) // one SDK remarks on its variables
	defer log.SetOutput(os.Stderr)
	for _, vendor := range vendors() {
		for _, key := range []string{modeltest.CanaryKey, ""} {
			standin := newStandin(t, replay(t, vendor, "200"))
			a := standin.access(vendor)
			a.Key = key
			if _, err := mustOpen(t, vendor, a).Generate(t.Context(), modeltest.SuiteRequest()); err != nil {
				t.Errorf("%s: %v", vendor, err)
				continue
			}
			got := standin.arrived()[0]
			shown := got.Path + got.Body
			for k, v := range got.Header {
				shown += k + strings.Join(v, " ")
			}
			if strings.Contains(shown, stray) {
				t.Errorf("%s sends what stands in the environment", vendor)
			}
			if strings.Contains(shown, modeltest.CanaryKey) != (key != "") {
				t.Errorf("%s: the key is not the one it was given", vendor)
			}
		}
	}
}

// I-75: a date counts from the answer's own clock, and from ours where the
// answer tells none.
func TestWaitUntilADate(t *testing.T) {
	hour := time.Now().Add(-time.Hour).UTC()
	for _, vendor := range vendors() {
		for _, c := range []struct{ sent, until time.Time }{{hour, hour.Add(30 * time.Second)}, {time.Time{}, time.Now().Add(30 * time.Second).UTC()}} {
			p := mustOpen(t, vendor, provider.Access{Key: "k", Transport: carried(func(*http.Request) (*http.Response, error) {
				h := http.Header{"Retry-After": {c.until.Format(http.TimeFormat)}}
				if !c.sent.IsZero() {
					h.Set("Date", c.sent.Format(http.TimeFormat))
				}
				return &http.Response{StatusCode: 503, Header: h, Body: io.NopCloser(strings.NewReader("{}"))}, nil
			})})
			_, err := p.Generate(t.Context(), modeltest.SuiteRequest())
			var e *model.Error
			if !errors.As(err, &e) || e.RetryAfter > 31*time.Second || e.RetryAfter < 20*time.Second {
				t.Errorf("%s, sent at %s: %v, want a wait of 30 s", vendor, c.sent, err)
			}
		}
	}
}

// S0-24, S0-31: layer 1 over each real adapter.
func TestEachProviderIsRetriedInTheCall(t *testing.T) {
	for _, vendor := range vendors() {
		first := true
		bad, good := replay(t, vendor, "503"), replay(t, vendor, "200")
		p, standin := open(t, vendor, func(w http.ResponseWriter, r *http.Request) {
			if first {
				first = false
				bad(w, r)
				return
			}
			good(w, r)
		})
		settings := retry.Defaults()
		settings.FirstPause, settings.Cap = time.Millisecond, time.Millisecond
		resp, err := model.NewRetrying(p, settings, func() float64 { return 0 }).Generate(t.Context(), modeltest.SuiteRequest(), time.Time{}, model.Hooks{})
		if err != nil || len(resp.Content) == 0 || standin.calls() != 2 {
			t.Errorf("%s: %v after %d calls, want an answer after 2", vendor, err, standin.calls())
		}
	}
}
