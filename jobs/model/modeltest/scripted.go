// Package modeltest holds what tests of model providers and of their callers
// share: [Scripted], a provider that fails as it is told, and [Suite], what
// every provider must do.
//
// Scripted counts the calls that reach it by itself. Tests compare with that
// number, never with what the code under test says it did (S4-62).
package modeltest

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/retry"
)

// Step is what one call does.
type Step struct {
	// Takes is how long the answer takes; the call's context ends it earlier.
	Takes time.Duration
	// Hang waits for the context to end.
	Hang bool
	// Err is what the call fails with; nil is success.
	Err error
	// Content and Usage are the answer's. A failing call gives its usage too.
	Content json.RawMessage
	Usage   model.Usage
}

// OK answers at once, with some JSON.
func OK() Step { return Answer(`{"text":"ok"}`) }

// Answer answers at once with this JSON.
func Answer(content string) Step { return Step{Content: json.RawMessage(content)} }

// Status fails as a provider that answers with this HTTP status does.
func Status(code int) Step {
	kind, _ := retry.Classify(code, "")
	return Fail(&model.Error{Kind: kind, Status: code})
}

// RateLimited is a 429 with a wait hint.
func RateLimited(wait time.Duration) Step {
	return Fail(&model.Error{Kind: retry.RateLimited, Status: 429, RetryAfter: wait})
}

// Timeout is a time limit that the vendor's client noticed by itself.
func Timeout() Step { return Fail(&model.Error{Kind: retry.Timeout}) }

// Network is a connection that could not be made.
func Network() Step { return Fail(&model.Error{Kind: retry.Network}) }

// Cut is a stream that broke off half way.
func Cut() Step { return Fail(&model.Error{Kind: retry.StreamInterrupted}) }

// Hang never answers; the call's context ends it.
func Hang() Step { return Step{Hang: true} }

// Fail fails with this error, which need not be a *model.Error.
func Fail(err error) Step { return Step{Err: err} }

// After is the same step, answering only after d.
func (s Step) After(d time.Duration) Step {
	s.Takes = d
	return s
}

// Using is the same step with a known usage.
func (s Step) Using(input, output int64) Step {
	s.Usage = model.Usage{InputTokens: &input, OutputTokens: &output}
	return s
}

// Received is what Scripted saw of one call.
type Received struct {
	At time.Time
	// Timeout is how much time the call's context gave it, 0 if it had no end.
	Timeout time.Duration
	Request model.Request
}

// Scripted is a provider that plays steps. It is safe for concurrent use; calls
// take the steps in the order in which they arrive.
type Scripted struct {
	mu       sync.Mutex
	next     func() Step
	received []Received
}

// NewScripted plays the steps, one per call; the last one repeats.
func NewScripted(steps ...Step) *Scripted {
	s := &Scripted{}
	s.Play(steps...)
	return s
}

// NewRandom fails each call independently with probability p, in a sequence
// that the seed fixes, and otherwise answers (S0-33).
func NewRandom(seed uint64, p float64, fail Step) *Scripted {
	rng := rand.New(rand.NewPCG(seed, seed))
	return &Scripted{next: func() Step {
		if rng.Float64() < p {
			return fail
		}
		return OK()
	}}
}

// Play replaces what is still to come. The counter goes on.
func (s *Scripted) Play(steps ...Step) {
	if len(steps) == 0 {
		steps = []Step{OK()}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := 0
	s.next = func() Step {
		step := steps[min(i, len(steps)-1)]
		i++
		return step
	}
}

// Calls is how many calls have arrived.
func (s *Scripted) Calls() int { return len(s.Received()) }

// Received is all calls so far, in the order of their arrival.
func (s *Scripted) Received() []Received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Received(nil), s.received...)
}

// Dependency is "scripted", which has no price.
func (s *Scripted) Dependency() string { return "scripted" }

// Generate plays the next step.
func (s *Scripted) Generate(ctx context.Context, req model.Request) (model.Response, error) {
	step := s.receive(ctx, req)
	var answer <-chan time.Time // nil: never
	if !step.Hang {
		timer := time.NewTimer(step.Takes)
		defer timer.Stop()
		answer = timer.C
	}
	select {
	case <-ctx.Done():
		return model.Response{Usage: step.Usage}, model.AsError(ctx, ctx.Err())
	case <-answer:
	}
	resp := model.Response{Content: step.Content, Model: "scripted", Usage: step.Usage}
	var e *model.Error
	if errors.As(step.Err, &e) && error(e) == step.Err {
		c := *e // each call gets its own, as from a real provider
		return resp, &c
	}
	return resp, step.Err
}

func (s *Scripted) receive(ctx context.Context, req model.Request) Step {
	r := Received{At: time.Now(), Request: req}
	if end, ok := ctx.Deadline(); ok {
		r.Timeout = time.Until(end)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received = append(s.received, r)
	return s.next()
}
