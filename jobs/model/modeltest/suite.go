package modeltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/retry"
)

// Scenario is how the service behind a provider behaves in one part of Suite,
// for every request.
type Scenario string

// The scenarios.
const (
	Answers    Scenario = "answers"      // a valid answer
	Limited    Scenario = "rate limited" // 429, with a wait hint of SuiteWait
	Overloaded Scenario = "overloaded"   // 503, without a hint
	BadRequest Scenario = "bad request"  // 400
	BadKey     Scenario = "bad key"      // 401
	Broken     Scenario = "broken"       // 500
	Hangs      Scenario = "hangs"        // accepts the request and says nothing
	Cuts       Scenario = "cuts"         // breaks off in the middle of the answer
)

// SuiteWait is the wait hint of the scenario Limited.
const SuiteWait = 7 * time.Second

// Canaries must not appear in the text of any error. The suite's request holds
// CanaryPrompt. A stand-in puts CanaryOutput into its answers and both into the
// messages of its errors, as real services do; the key is CanaryKey.
const (
	CanaryPrompt = "canary-prompt-5c1e"
	CanaryOutput = "canary-output-90ab"
	CanaryKey    = "canary-key-77d2"
)

// Subject is a provider in one scenario.
type Subject struct {
	Provider model.Provider
	// Calls counts the requests that arrived at the service.
	Calls func() int
}

// Factory sets up a provider for a scenario. It may use the test's Cleanup, and
// its Skip where a provider has no such scenario.
type Factory func(t *testing.T, s Scenario) Subject

// Suite is what every provider must do: exactly one request per Generate, a
// *model.Error of the right kind for every failure, a prompt end when the
// context ends, and nothing private in the text of an error.
func Suite(t *testing.T, factory Factory) {
	t.Helper()
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			subject := factory(t, c.scenario)
			for _, complaint := range c.check(subject) {
				t.Error(complaint)
			}
		})
	}
}

// patience is how long a provider may take to return after its context ended,
// and limit the time the suite gives to a call that hangs. Both are real time.
const (
	patience = 2 * time.Second
	limit    = 100 * time.Millisecond
)

type suiteCase struct {
	name     string
	scenario Scenario
	check    func(Subject) []string
}

// cases are separate from Suite so that a test can see them complain.
func cases() []suiteCase {
	return []suiteCase{
		{"answers", Answers, checkAnswer},
		{"answers many at once", Answers, checkParallel},
		{"429 with a wait hint", Limited, checkFailure(429, true, retry.RateLimited)},
		{"503", Overloaded, checkFailure(503, true, retry.Unavailable, retry.Overloaded)},
		{"400", BadRequest, checkFailure(400, false, retry.InvalidInput)},
		{"401", BadKey, checkFailure(401, false, retry.Auth)},
		{"500", Broken, checkFailure(500, false, retry.Internal)},
		{"cut", Cuts, checkCut},
		{"hangs until its time limit", Hangs, checkEnd(retry.Timeout)},
		{"hangs until it is cancelled", Hangs, checkEnd(retry.Cancelled)},
		{"is cancelled before it starts", Hangs, checkEnded},
	}
}

// SuiteRequest is the request that Suite sends.
func SuiteRequest() model.Request {
	return model.Request{
		Workload:        "summary",
		Language:        "en",
		Material:        []model.Message{{Role: "user", Content: "We met on Tuesday. " + CanaryPrompt + ". We agreed to meet again."}},
		System:          "Summarize. " + CanaryPrompt,
		Prompt:          "<material>We met on Tuesday. " + CanaryPrompt + ".</material>",
		Schema:          json.RawMessage(`{"type":"object"}`),
		MaxOutputTokens: 1000,
		Topic:           "suite",
	}
}

func checkAnswer(s Subject) []string {
	var c complaints
	resp, err := s.Provider.Generate(context.Background(), SuiteRequest())
	if err != nil {
		return c.add("failed: %v", err).list
	}
	if !json.Valid(resp.Content) {
		c.add("content is no JSON")
	}
	if s.Provider.Dependency() == "" {
		c.add("Dependency is empty")
	}
	return c.calls(s, 1).list
}

func checkParallel(s Subject) []string {
	var c complaints
	const n = 8
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { _, errs[i] = s.Provider.Generate(context.Background(), SuiteRequest()) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		c.add("failed: %v", err)
	}
	return c.calls(s, n).list
}

func checkFailure(status int, inCall bool, kinds ...retry.Kind) func(Subject) []string {
	return func(s Subject) []string {
		var c complaints
		resp, err := s.Provider.Generate(context.Background(), SuiteRequest())
		e := c.failure(resp, err)
		if e == nil {
			return c.list
		}
		if !slices.Contains(kinds, e.Kind) {
			c.add("kind is %s, want one of %v", e.Kind, kinds)
		}
		if e.Status != status {
			c.add("status is %d, want %d", e.Status, status)
		}
		if got := e.Kind.InCall(e.Status); got != inCall {
			c.add("repeated in the call: %v, want %v", got, inCall)
		}
		want := time.Duration(0)
		if status == 429 {
			want = SuiteWait
		}
		// A date in whole seconds can lose one of them.
		if e.RetryAfter > want || e.RetryAfter < want-time.Second {
			c.add("wait hint is %s, want %s", e.RetryAfter, want)
		}
		return c.calls(s, 1).list
	}
}

func checkCut(s Subject) []string {
	var c complaints
	resp, err := s.Provider.Generate(context.Background(), SuiteRequest())
	if e := c.failure(resp, err); e != nil && (!e.Kind.Queued() || e.Kind.InCall(e.Status)) {
		c.add("kind is %s, want one that only the queue repeats", e.Kind)
	}
	return c.calls(s, 1).list
}

// checkEnd ends the context of a call that hangs, by its time limit or by
// cancelling it.
func checkEnd(want retry.Kind) func(Subject) []string {
	return func(s Subject) []string {
		var c complaints
		ctx, cancel := context.WithCancel(context.Background())
		if want == retry.Timeout {
			ctx, cancel = context.WithTimeout(context.Background(), limit)
		} else {
			time.AfterFunc(limit, cancel)
		}
		defer cancel()
		start := time.Now()
		resp, err := s.Provider.Generate(ctx, SuiteRequest())
		if took := time.Since(start); took > limit+patience {
			c.add("returned %s after its context had ended", took-limit)
		}
		if e := c.failure(resp, err); e != nil && e.Kind != want {
			c.add("kind is %s, want %s", e.Kind, want)
		}
		if n := s.Calls(); n > 1 {
			c.add("%d requests arrived, want at most 1", n)
		}
		return c.list
	}
}

func checkEnded(s Subject) []string {
	var c complaints
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	start := time.Now()
	resp, err := s.Provider.Generate(ctx, SuiteRequest())
	if took := time.Since(start); took > patience {
		c.add("took %s with a context that had ended", took)
	}
	if e := c.failure(resp, err); e != nil && e.Kind != retry.Cancelled {
		c.add("kind is %s, want %s", e.Kind, retry.Cancelled)
	}
	return c.list
}

type complaints struct{ list []string }

func (c *complaints) add(format string, args ...any) *complaints {
	c.list = append(c.list, fmt.Sprintf(format, args...))
	return c
}

func (c *complaints) calls(s Subject, want int) *complaints {
	if n := s.Calls(); n != want {
		c.add("%d requests arrived, want %d", n, want)
	}
	return c
}

// failure checks what holds for every failure.
func (c *complaints) failure(resp model.Response, err error) *model.Error {
	var e *model.Error
	switch {
	case err == nil:
		c.add("succeeded, want a failure")
		return nil
	case !errors.As(err, &e) || e == nil:
		c.add("error is a %T, want a *model.Error", err)
		return nil
	}
	for _, text := range []string{err.Error(), fmt.Sprintf("%v", e), fmt.Sprintf("%+v", e)} {
		for _, canary := range []string{CanaryPrompt, CanaryOutput, CanaryKey} {
			if strings.Contains(text, canary) {
				c.add("the error's text contains %s", canary)
			}
		}
	}
	if len(resp.Content) > 0 {
		c.add("a failed call gave content")
	}
	return e
}
