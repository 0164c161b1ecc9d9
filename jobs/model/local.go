package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tidings/tidings/jobs/retry"
)

// Local is a model that needs no key and no network: it quotes the sentences
// that say most about the material. It works on any language by counting; for
// the sixteen of the product it also knows some small words. It cannot
// translate: Request.Language only helps it to tell sister languages apart.
//
// The outputs, by workload:
//
//	summary         {"title": string, "summary": string, "key_points": [string, …]}
//	guidance        {"steps": [{"title": string, "detail": string}, …]}
//	classification  {"label": "problem" | "request" | "decision" | "question" | "information",
//	                 "confidence": number from 0 to 1}
//
// A title is at most 80 columns, without a mark at its end, and never empty; lists have at
// least one entry. What is quoted occurs in the material, white space aside.
// Tokens are counted as words with a letter or a digit.
//
// In a development server it also plays simulated failures; see Play.
type Local struct {
	// Latency is added to each good answer, so that a developer can watch a job
	// being processed; simulated failures come at once unless their step has a
	// duration. Set it before the first call. 0 answers at once.
	Latency time.Duration

	mu     sync.Mutex
	topics topics
}

var _ Provider = (*Local)(nil)

// LocalName is what the local model calls itself.
const LocalName = "local"

// NewLocal returns a local model that simulates nothing.
func NewLocal() *Local { return &Local{topics: newTopics(maxTopics)} }

// Dependency implements Provider.
func (l *Local) Dependency() string { return LocalName }

// Generate implements Provider. Material that shows nothing is InvalidInput, as
// is a workload it does not know.
func (l *Local) Generate(ctx context.Context, r Request) (Response, error) {
	if err := ended(ctx); err != nil {
		return Response{}, err
	}
	step := l.received(r.Topic)
	delay := step.delay
	if delay == 0 && step.play == nil {
		delay = l.Latency
	}
	if err := pause(ctx, delay); err != nil {
		return Response{}, err
	}
	if step.play != nil {
		return step.play(ctx, r)
	}
	return answer(ctx, r)
}

// answer does the work.
func answer(ctx context.Context, r Request) (Response, error) {
	d := read(r.Material, r.Language)
	if len(d.sentences) == 0 {
		return Response{}, &Error{Kind: retry.InvalidInput, Type: "empty_material", Cause: errors.New("the material holds no text")}
	}
	// Reading is most of the work; whoever gave up meanwhile gets no answer.
	if err := ended(ctx); err != nil {
		return Response{}, err
	}
	var out any
	var written int
	switch r.Workload {
	case "summary":
		o := d.summarize()
		written = o.limit(r.MaxOutputTokens)
		out = o
	case "guidance":
		o := d.guide()
		written = o.limit(r.MaxOutputTokens)
		out = o
	case "classification":
		out, written = d.classify(), 2
	default:
		return Response{}, &Error{Kind: retry.InvalidInput, Type: "unknown_workload", Cause: fmt.Errorf("no workload %q", r.Workload)}
	}
	content, err := json.Marshal(out)
	if err != nil {
		return Response{}, &Error{Kind: retry.Internal, Cause: err}
	}
	return Response{Content: content, Model: LocalName, Usage: localUsage(d.words, written)}, nil
}

func localUsage(in, out int) Usage {
	i, o := int64(in), int64(out)
	return Usage{InputTokens: &i, OutputTokens: &o}
}

// limit drops key points until the output has at most most words, counts what is
// left, and keeps the summary itself whatever it takes. 0 is no limit.
func (o *summaryOutput) limit(most int) int {
	n := countWords(o.Title) + countWords(o.Summary)
	for i, p := range o.KeyPoints {
		words := countWords(p)
		if most > 0 && n+words > most && i > 0 {
			o.KeyPoints = o.KeyPoints[:i]
			break
		}
		n += words
	}
	return n
}

// limit drops steps from the end, as summaryOutput.limit does.
func (o *guidanceOutput) limit(most int) int {
	n := 0
	for i, s := range o.Steps {
		words := countWords(s.Title) + countWords(s.Detail)
		if most > 0 && n+words > most && i > 0 {
			o.Steps = o.Steps[:i]
			break
		}
		n += words
	}
	return n
}

// ended is the error of a call whose context has ended, or nil.
func ended(ctx context.Context) error {
	err := ctx.Err()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Kind: retry.Timeout, Cause: err}
	}
	return &Error{Kind: retry.Cancelled, Cause: err}
}

// pause waits, and returns an error if the context ends first.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ended(ctx)
	case <-t.C:
		return nil
	}
}
