//go:build !nosdk

package provider_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/model/modeltest"
	"github.com/tidings/tidings/jobs/model/provider"
	"github.com/tidings/tidings/jobs/retry"
)

func show(u model.Usage) string {
	b, _ := json.Marshal(u)
	return string(b)
}

// long is a request whose answer Anthropic's SDK wants streamed.
func long() model.Request {
	r := modeltest.SuiteRequest()
	r.Long = true
	return r
}

type streamCase struct {
	file   string
	kind   retry.Kind // "" is success
	typ    string
	inCall bool
	input  int64 // 0: unknown
	output int64
}

func streamCases() []streamCase {
	return []streamCase{
		{"stream", "", "", false, 1000, 80},
		{"stream-ends", retry.StreamInterrupted, "stream_interrupted", false, 1000, 12},
		{"stream-unreadable", retry.StreamInterrupted, "stream_interrupted", false, 1000, 3},
		{"stream-overloaded-first", retry.Overloaded, "overloaded_error", true, 0, 0},
		{"stream-overloaded-later", retry.StreamInterrupted, "overloaded_error", false, 1000, 3},
		{"stream-key-first", retry.Auth, "authentication_error", false, 0, 0},
		{"stream-truncated", retry.InvalidOutput, "max_tokens", false, 1000, 60},
	}
}

func TestStreams(t *testing.T) {
	for _, want := range streamCases() {
		t.Run(want.file, func(t *testing.T) {
			p, standin := open(t, "anthropic", replay(t, "anthropic", want.file))
			resp, err := p.Generate(t.Context(), long())
			if n := standin.calls(); n != 1 || !strings.Contains(standin.arrived()[0].Body, `"stream":true`) {
				t.Fatalf("%d requests arrived, want 1 that asks for a stream", n)
			}
			checkTokens(t, resp.Usage, want.input, want.output)
			if want.kind == "" {
				if err != nil || !json.Valid(resp.Content) || resp.RequestID == "" || resp.Model != "some-model-20260101" {
					t.Errorf("got %+v, %v", resp, err)
				}
				return
			}
			var e *model.Error
			if !errors.As(err, &e) || e.Kind != want.kind || e.Type != want.typ || e.Kind.InCall(e.Status) != want.inCall {
				t.Errorf("got %v, want %s (%s)", err, want.kind, want.typ)
			}
			if e != nil && e.Usage != resp.Usage {
				t.Error("the error's usage differs from the response's")
			}
			if len(resp.Content) > 0 {
				t.Error("a part of the output was kept")
			}
			private(t, err, standin.URL)
		})
	}
}

// Some gateways count nothing at the start of a stream and everything at its end.
func TestUsageFromTheEndOfAStream(t *testing.T) {
	stream := `data: {"type":"message_start","message":{"model":"m","usage":{"input_tokens":0,"output_tokens":0}}}` + "\n\n" +
		`data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"{\"title\":\"x\"}"}}` + "\n\n" +
		`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":900,"cache_read_input_tokens":100,"output_tokens":80}}` + "\n\n" +
		`data: {"type":"message_stop"}` + "\n\n"
	p, _ := open(t, "anthropic", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(stream)) })
	resp, err := p.Generate(t.Context(), long())
	if err != nil || *resp.Usage.CachedTokens != 100 {
		t.Fatalf("%+v, %v", resp, err)
	}
	checkTokens(t, resp.Usage, 1000, 80)
}

func checkTokens(t *testing.T, u model.Usage, input, output int64) {
	t.Helper()
	if input == 0 {
		if u != (model.Usage{}) {
			t.Errorf("usage is %s, want unknown", show(u))
		}
		return
	}
	if u.InputTokens == nil || u.OutputTokens == nil || *u.InputTokens != input || *u.OutputTokens != output {
		t.Errorf("usage is %s, want %d and %d", show(u), input, output)
	}
}

// An answer of any provider that breaks off is a broken stream: it had begun,
// and was paid for.
func TestCutAnswers(t *testing.T) {
	cases := []struct {
		vendor, file string
		long         bool
	}{{"anthropic", "200", false}, {"anthropic", "stream", true}, {"openai", "200", false}, {"gemini", "200", false}}
	for _, c := range cases {
		p, standin := open(t, c.vendor, cut(t, c.vendor, c.file))
		r := modeltest.SuiteRequest()
		r.Long = c.long
		resp, err := p.Generate(t.Context(), r)
		var e *model.Error
		if !errors.As(err, &e) || e.Kind != retry.StreamInterrupted || standin.calls() != 1 || len(resp.Content) > 0 {
			t.Errorf("%s/%s: got %v after %d calls", c.vendor, c.file, err, standin.calls())
			continue
		}
		if c.long {
			checkTokens(t, resp.Usage, 1000, 3)
		}
		private(t, err, standin.URL)
	}
}

// S3-34: a stream that is left early is closed, whatever the reason; the stand-in
// sees the caller go.
func TestStreamLeftEarlyIsClosed(t *testing.T) {
	begin := "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n"
	for name, second := range map[string]string{
		"its time is up":      "",
		"an error comes":      "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"\"}}\n\n",
		"it cannot be read":   "event: message_delta\ndata: {{{\n\n",
		"it is complete":      "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
		"it is without bound": "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"" + strings.Repeat("x", 9<<20) + "\"}}\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			gone := make(chan struct{})
			p, _ := open(t, "anthropic", func(w http.ResponseWriter, r *http.Request) {
				defer close(gone)
				w.Header().Set("Content-Type", "text/event-stream")
				w.Write([]byte(begin + second))
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			})
			limit := 20 * time.Second
			if second == "" {
				limit = 200 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			if resp, err := p.Generate(ctx, long()); err == nil || resp.Usage.InputTokens == nil || *resp.Usage.InputTokens != 9 {
				t.Errorf("got %v with %s", err, show(resp.Usage))
			}
			select {
			case <-gone:
			case <-time.After(5 * time.Second):
				t.Error("the stream is still open")
			}
		})
	}
}

// endless is an answer that does not end, and counts what is taken of it.
type endless struct{ taken int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.taken += len(p)
	return len(p), nil
}

func (*endless) Close() error { return nil }

// An answer without an end is given up after some megabytes, before the process is.
func TestAnswersHaveABound(t *testing.T) {
	for _, vendor := range vendors() {
		for _, req := range []model.Request{modeltest.SuiteRequest(), long()} {
			for status, want := range map[int]retry.Kind{200: retry.InvalidOutput, 500: retry.Internal} {
				body := &endless{}
				p := mustOpen(t, vendor, provider.Access{Key: "k", Transport: carried(func(*http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}, nil
				})})
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				_, err := p.Generate(ctx, req)
				cancel()
				var e *model.Error
				if !errors.As(err, &e) || e.Kind != want || want == retry.InvalidOutput && e.Type != "too_long" || body.taken > 32<<20 {
					t.Errorf("%s, %d: %v after %d bytes", vendor, status, err, body.taken)
				}
			}
		}
	}
}

// An answer of a few hundred KiB that unpacks to 200 MiB is not unpacked to its end.
func TestAPackedAnswerHasABound(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	part := bytes.Repeat([]byte(" "), 1<<20)
	for range 200 {
		if _, err := z.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for _, vendor := range vendors() {
		p, standin := open(t, vendor, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(packed.Bytes()) // nobody reads it to its end
		})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := p.Generate(t.Context(), modeltest.SuiteRequest())
		runtime.ReadMemStats(&after)
		var e *model.Error
		if !errors.As(err, &e) || e.Kind != retry.InvalidOutput || e.Type != "too_long" || standin.calls() != 1 {
			t.Errorf("%s: %v after %d calls", vendor, err, standin.calls())
		}
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 100<<20 {
			t.Errorf("%s: %d MiB were allocated for it", vendor, taken>>20)
		}
	}
}

// The SDK refuses to wait for long answers in one piece; what it refuses is
// streamed without being asked.
func TestLargeAnswersAreStreamed(t *testing.T) {
	for _, most := range []int{1000, 64_000} {
		p, standin := open(t, "anthropic", replay(t, "anthropic", "stream"))
		r := modeltest.SuiteRequest()
		r.MaxOutputTokens = most
		_, err := p.Generate(t.Context(), r)
		if got := strings.Contains(standin.arrived()[0].Body, `"stream":true`); got != (most > 1000) {
			t.Errorf("%s tokens: streamed is %v, error %v", strconv.Itoa(most), got, err)
		}
	}
}
