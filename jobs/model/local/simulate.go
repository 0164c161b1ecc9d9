package local

import (
	"container/list"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/retry"
)

// Step is what the local model does with one call in a simulation. Get it from
// ParseSteps.
type Step struct {
	text  string
	delay time.Duration
	// play is nil for an ordinary answer.
	play func(context.Context, model.Request) (model.Response, error)
}

// String is the step as it was written.
func (s Step) String() string { return s.text }

// Bounds of what a caller may ask for, so that a simulation stays small.
const (
	maxSteps     = 100
	maxStepDelay = time.Minute
	maxStepHint  = time.Hour
	maxTopics    = 10_000
)

// Allowed is what ParseSteps accepts, as its error says it.
const allowedSteps = `"ok", an HTTP status from "400" to "599", "timeout", "network", "cut", "quota", "invalid_output", ` +
	`each of these with ":<duration up to 60s>" if it shall take its time, "hang", "retry_after:<seconds up to 3600>"`

// ParseSteps reads the steps of a simulation:
//
//	ok               an ordinary answer
//	ok:2s            an ordinary answer after 2 s, at most 60 s
//	503, 529, 400 …  the status, classified as a provider's would be
//	retry_after:5    429 with a hint of 5 s
//	timeout          what a read timeout is reported as, but at once: nobody
//	                 who tries it out has to wait 30 s. Take hang for the wait
//	hang             nothing, until the call's time limit or its cancellation
//	network          a connection error
//	cut              a stream that breaks off after some tokens
//	quota            the account's money is used up
//	invalid_output   an answer that does not fit the workload's schema
//
// All but retry_after and hang take a duration as ok does, so that who looks on
// sees the call before it fails: 529:700ms.
//
// An error names the first bad step and lists what is allowed.
func ParseSteps(texts []string) ([]Step, error) {
	if len(texts) > maxSteps {
		return nil, fmt.Errorf("simulate: %d steps, at most %d are allowed", len(texts), maxSteps)
	}
	var steps []Step
	for i, text := range texts {
		s, ok := parseStep(text)
		if !ok {
			if r := []rune(text); len(r) > 40 {
				text = string(r[:40]) + "…"
			}
			return nil, fmt.Errorf("simulate: step %d is %q; allowed are %s", i+1, text, allowedSteps)
		}
		steps = append(steps, s)
	}
	return steps, nil
}

func parseStep(text string) (Step, bool) {
	s := Step{text: text}
	name, arg, has := strings.Cut(text, ":")
	switch {
	case name == "retry_after":
		n, err := strconv.Atoi(arg)
		hint := time.Duration(n) * time.Second
		s.play = fails(model.Error{Kind: retry.RateLimited, Status: 429, RetryAfter: hint})
		return s, err == nil && n > 0 && n <= int(maxStepHint/time.Second)
	case has:
		d, err := time.ParseDuration(arg)
		if err != nil || d <= 0 || d > maxStepDelay || name == "hang" {
			return s, false
		}
		s.delay = d
	}
	switch name {
	case "ok":
	case "timeout":
		s.play = fails(model.Error{Kind: retry.Timeout})
	case "hang":
		s.play = hang
	case "network":
		s.play = fails(model.Error{Kind: retry.Network})
	case "cut":
		s.play = cut
	case "quota":
		s.play = fails(model.Error{Kind: retry.Quota, Status: 429, Type: "insufficient_quota"})
	case "invalid_output":
		s.play = invalidOutput
	default:
		status, err := strconv.Atoi(name)
		if err != nil || len(name) != 3 || status < 400 || status > 599 {
			return s, false
		}
		kind, _ := retry.Classify(status, "")
		s.play = fails(model.Error{Kind: kind, Status: status})
	}
	return s, true
}

var errSimulated = errors.New("simulated")

// fails plays a fresh copy of an error each time: callers may change theirs.
func fails(e model.Error) func(context.Context, model.Request) (model.Response, error) {
	return func(context.Context, model.Request) (model.Response, error) {
		failed := e
		failed.Cause = errSimulated
		return model.Response{}, &failed
	}
}

func hang(ctx context.Context, _ model.Request) (model.Response, error) {
	<-ctx.Done()
	return model.Response{}, ended(ctx)
}

// cut has used the whole input and made some output when it breaks off.
func cut(_ context.Context, r model.Request) (model.Response, error) {
	u := usage(read(r.Material).words, 7)
	return model.Response{Model: Name, Usage: u}, &model.Error{Kind: retry.StreamInterrupted, Usage: u, Cause: errSimulated}
}

func invalidOutput(_ context.Context, r model.Request) (model.Response, error) {
	return model.Response{
		Content: json.RawMessage(`{"simulated":"this does not fit the schema"}`),
		Model:   Name,
		Usage:   usage(read(r.Material).words, 8),
	}, nil
}

// Play sets what the next calls for the topic do, one step each; the last step
// repeats. The position goes on over later jobs of the same topic until the next
// Play, which begins anew and sets the count of calls to 0. No steps end the
// simulation.
func (m *Model) Play(topic string, steps []Step) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*m.topics.get(topic) = played{topic: topic, steps: append([]Step(nil), steps...)}
}

// Calls is how many calls came in for the topic since its last Play, or since the
// start. It counts in a simulation and without one. A topic that was forgotten,
// because 10,000 others were used after it, has 0.
func (m *Model) Calls(topic string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.topics.byName[topic]; ok {
		return e.Value.(*played).calls
	}
	return 0
}

// received counts a call and returns the step to play.
func (m *Model) received(topic string) Step {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.topics.get(topic)
	p.calls++
	if len(p.steps) == 0 {
		return Step{}
	}
	return p.steps[min(p.calls, len(p.steps))-1]
}

// played is one topic's simulation. Its position is its count of calls.
type played struct {
	topic string
	steps []Step
	calls int
}

// topics remembers the most recently used ones, in bounded memory.
type topics struct {
	most   int
	byName map[string]*list.Element
	recent *list.List // of *played, the latest in front
}

func newTopics(most int) topics {
	return topics{most: most, byName: map[string]*list.Element{}, recent: list.New()}
}

// get returns a topic's entry, made if needed, and marks it as used.
func (t *topics) get(topic string) *played {
	if e, ok := t.byName[topic]; ok {
		t.recent.MoveToFront(e)
		return e.Value.(*played)
	}
	if t.recent.Len() >= t.most {
		oldest := t.recent.Back()
		delete(t.byName, t.recent.Remove(oldest).(*played).topic)
	}
	p := &played{topic: topic}
	t.byName[topic] = t.recent.PushFront(p)
	return p
}
