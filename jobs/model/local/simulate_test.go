package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/retry"
)

func simulated(t testing.TB, steps ...string) *Model {
	t.Helper()
	s, err := ParseSteps(steps)
	if err != nil {
		t.Fatal(err)
	}
	l := New()
	l.Play("topic", s)
	return l
}

var hello = model.Request{Workload: "summary", Material: text("The lift is broken again."), Topic: "topic"}

func TestPlaysEachStep(t *testing.T) {
	for step, want := range map[string]model.Error{
		"400":              {Kind: retry.InvalidInput, Status: 400},
		"401":              {Kind: retry.Auth, Status: 401},
		"402":              {Kind: retry.Quota, Status: 402},
		"403":              {Kind: retry.Auth, Status: 403},
		"404":              {Kind: retry.Misconfigured, Status: 404},
		"408":              {Kind: retry.Timeout, Status: 408},
		"413":              {Kind: retry.InvalidInput, Status: 413},
		"429":              {Kind: retry.RateLimited, Status: 429},
		"500":              {Kind: retry.Internal, Status: 500},
		"502":              {Kind: retry.Unavailable, Status: 502},
		"503":              {Kind: retry.Unavailable, Status: 503},
		"504":              {Kind: retry.Timeout, Status: 504},
		"529":              {Kind: retry.Overloaded, Status: 529},
		"599":              {Kind: retry.Timeout, Status: 599},
		"retry_after:5":    {Kind: retry.RateLimited, Status: 429, RetryAfter: 5 * time.Second},
		"retry_after:3600": {Kind: retry.RateLimited, Status: 429, RetryAfter: time.Hour},
		"timeout":          {Kind: retry.Timeout},
		"network":          {Kind: retry.Network},
		"cut":              {Kind: retry.StreamInterrupted},
		"quota":            {Kind: retry.Quota, Status: 429, Type: "insufficient_quota"},
	} {
		t.Run(step, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				r, err := simulated(t, step).Generate(t.Context(), hello)
				var e *model.Error
				if !errors.As(err, &e) {
					t.Fatalf("got %v, want a *model.Error", err)
				}
				if e.Kind != want.Kind || e.Status != want.Status || e.Type != want.Type || e.RetryAfter != want.RetryAfter {
					t.Errorf("got %+v, want %+v", *e, want)
				}
				if r.Content != nil {
					t.Errorf("a failure has content %s", r.Content)
				}
				if d := time.Since(start); d != 0 {
					t.Errorf("took %s, want none", d)
				}
			})
		})
	}
}

func TestFailuresTakeTheTimeTheyAreGiven(t *testing.T) {
	for step, want := range map[string]retry.Kind{
		"529:700ms": retry.Overloaded, "401:1s": retry.Auth, "timeout:30s": retry.Timeout, "network:60s": retry.Network, "cut:2s": retry.StreamInterrupted,
	} {
		synctest.Test(t, func(t *testing.T) {
			_, took, _ := strings.Cut(step, ":")
			start := time.Now()
			_, err := simulated(t, step).Generate(t.Context(), hello)
			var e *model.Error
			if !errors.As(err, &e) || e.Kind != want || time.Since(start).String() != strings.Replace(took, "60s", "1m0s", 1) {
				t.Errorf("%s: got %v after %s", step, err, time.Since(start))
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // and end with the call's own limit
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := simulated(t, "529:2s").Generate(ctx, hello)
		var e *model.Error
		if !errors.As(err, &e) || e.Kind != retry.Timeout {
			t.Errorf("got %v, want a timeout", err)
		}
	})
}

// The layers above write into the errors they get.
func TestErrorsAreTheCallersOwn(t *testing.T) {
	l := simulated(t, "503")
	for range 2 {
		_, err := l.Generate(t.Context(), hello)
		var e *model.Error
		if !errors.As(err, &e) || e.RetryAfter != 0 {
			t.Fatalf("got %+v", err)
		}
		e.RetryAfter = time.Hour
	}
}

func TestCutKnowsItsUsage(t *testing.T) {
	r, err := simulated(t, "cut").Generate(t.Context(), hello)
	var e *model.Error
	if !errors.As(err, &e) || e.Usage.InputTokens == nil || *e.Usage.InputTokens != 5 || *e.Usage.OutputTokens == 0 {
		t.Errorf("got %+v", err)
	}
	if r.Usage.InputTokens == nil || *r.Usage.InputTokens != 5 {
		t.Errorf("the response does not hold the usage: %+v", r.Usage)
	}
}

func TestInvalidOutputIsNoError(t *testing.T) {
	r, err := simulated(t, "invalid_output").Generate(t.Context(), hello)
	if err != nil || !json.Valid(r.Content) {
		t.Fatalf("got %s, %v", r.Content, err)
	}
	var fields map[string]any
	if err := json.Unmarshal(r.Content, &fields); err != nil {
		t.Fatal(err)
	}
	for _, known := range []string{"title", "summary", "key_points", "steps", "label", "confidence"} {
		if _, ok := fields[known]; ok {
			t.Errorf("%s fits a schema's %s", r.Content, known)
		}
	}
}

func TestHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := simulated(t, "hang")
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		start := time.Now()
		_, err := l.Generate(ctx, hello)
		var e *model.Error
		if !errors.As(err, &e) || e.Kind != retry.Timeout || time.Since(start) != 30*time.Second {
			t.Errorf("got %v after %s", err, time.Since(start))
		}

		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(7*time.Second, cancel)
		start = time.Now()
		_, err = l.Generate(ctx, hello)
		if !errors.As(err, &e) || e.Kind != retry.Cancelled || time.Since(start) != 7*time.Second {
			t.Errorf("got %v after %s", err, time.Since(start))
		}
	})
}

func TestTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := simulated(t, "ok:2s", "ok", "503")
		l.Latency = 300 * time.Millisecond
		for i, want := range []time.Duration{2 * time.Second, l.Latency, 0} {
			start := time.Now()
			_, err := l.Generate(t.Context(), hello)
			if (err != nil) != (i == 2) || time.Since(start) != want {
				t.Errorf("call %d: %v after %s, want %s", i+1, err, time.Since(start), want)
			}
		}
		l = simulated(t, "ok:60s")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := l.Generate(ctx, hello)
		var e *model.Error
		if !errors.As(err, &e) || e.Kind != retry.Timeout || time.Since(start) != time.Second {
			t.Errorf("got %v after %s", err, time.Since(start))
		}
	})
}

func TestPlaysInOrder(t *testing.T) {
	l := simulated(t, "503", "529", "ok")
	other := hello
	other.Topic = "other"
	status := func(r model.Request) int {
		_, err := l.Generate(t.Context(), r)
		var e *model.Error
		if errors.As(err, &e) {
			return e.Status
		}
		return 200
	}
	// Another topic is not touched; the last step repeats, over any later jobs.
	for i, want := range []int{503, 529, 200, 200} {
		if got := status(hello); got != want {
			t.Errorf("call %d: got %d, want %d", i+1, got, want)
		}
		if got := status(other); got != 200 {
			t.Errorf("other topic: got %d", got)
		}
	}
	if got := l.Calls("topic"); got != 4 {
		t.Errorf("got %d calls, want 4", got)
	}
	steps, err := ParseSteps([]string{"500"})
	if err != nil {
		t.Fatal(err)
	}
	l.Play("topic", steps)
	steps[0] = Step{} // the caller's slice is the caller's
	if got := l.Calls("topic"); got != 0 {
		t.Errorf("after Play: got %d calls, want 0", got)
	}
	if got := status(hello); got != 500 {
		t.Errorf("after Play: got %d, want 500", got)
	}
	l.Play("topic", nil)
	if got := status(hello); got != 200 || l.Calls("topic") != 1 {
		t.Errorf("after an empty Play: got %d, %d calls", got, l.Calls("topic"))
	}
	if got := l.Calls("other"); got != 4 {
		t.Errorf("without a simulation: got %d calls, want 4", got)
	}
	if got := l.Calls("unknown"); got != 0 {
		t.Errorf("unknown: got %d calls", got)
	}
}

func TestDoesNotCountWhatIsNotSent(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := simulated(t, "503", "ok")
	if _, err := l.Generate(ctx, hello); err == nil {
		t.Fatal("a cancelled call was answered")
	}
	if got := l.Calls("topic"); got != 0 {
		t.Errorf("got %d calls, want 0", got)
	}
}

func TestParseStepsRefuses(t *testing.T) {
	for _, bad := range []string{
		"", "OK", "okay", "200", "399", "600", "0503", "+503", "5e2", "ok:", "ok:0s", "ok:-1s", "ok:61s", "ok:5",
		"retry_after", "retry_after:", "retry_after:0", "retry_after:-1", "retry_after:1.5", "retry_after:3601",
		"hang:5s", "503:5", "503:", "200:1s", "timeout:61s", "slow:2s", " ok", strings.Repeat("x", 5000),
	} {
		_, err := ParseSteps([]string{"ok", bad})
		if err == nil {
			t.Errorf("%q was accepted", bad)
			continue
		}
		s := err.Error()
		if !strings.Contains(s, "step 2") || !strings.Contains(s, `"retry_after:`) || !strings.Contains(s, `"hang"`) || len(s) > 500 {
			t.Errorf("%q: the error does not help: %s", bad, s)
		}
		if short := fmt.Sprintf("%q", bad); len(bad) < 20 && !strings.Contains(s, short) {
			t.Errorf("the error does not name %s: %s", short, s)
		}
	}
	if _, err := ParseSteps(make([]string, 101)); err == nil {
		t.Error("101 steps were accepted")
	}
	if s, err := ParseSteps(nil); err != nil || len(s) != 0 {
		t.Errorf("none: got %v, %v", s, err)
	}
	if s, err := ParseSteps([]string{"ok:1.5s"}); err != nil || s[0].String() != "ok:1.5s" {
		t.Errorf("got %v, %v", s, err)
	}
}

func TestForgetsTheOldestTopic(t *testing.T) {
	l := New()
	l.topics = newTopics(3)
	call := func(topic string) {
		r := hello
		r.Topic = topic
		if _, err := l.Generate(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	for _, topic := range []string{"a", "b", "c", "a", "d"} {
		call(topic)
	}
	for topic, want := range map[string]int{"a": 2, "b": 0, "c": 1, "d": 1} {
		if got := l.Calls(topic); got != want {
			t.Errorf("%s: got %d calls, want %d", topic, got, want)
		}
	}
	if n := len(l.topics.byName); n != 3 || l.topics.recent.Len() != 3 {
		t.Errorf("%d topics are kept, want 3", n)
	}
	if maxTopics > 10_000 || New().topics.most != maxTopics {
		t.Error("the memory of a new model is not bounded as documented")
	}
}

// Each step is played exactly once, whoever calls; run with -race.
func TestConcurrentCalls(t *testing.T) {
	const calls = 60
	steps := make([]string, calls)
	for i := range steps {
		steps[i] = fmt.Sprint(400 + i)
	}
	l := simulated(t, steps...)
	var mu sync.Mutex
	seen := map[int]int{}
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			_, err := l.Generate(t.Context(), hello)
			var e *model.Error
			if !errors.As(err, &e) {
				t.Errorf("got %v", err)
				return
			}
			mu.Lock()
			seen[e.Status]++
			mu.Unlock()
			l.Calls("topic")
			l.Play(fmt.Sprint("other", i), nil)
		})
	}
	wg.Wait()
	if len(seen) != calls || l.Calls("topic") != calls {
		t.Errorf("%d different steps were played in %d calls, want %d", len(seen), l.Calls("topic"), calls)
	}
}
