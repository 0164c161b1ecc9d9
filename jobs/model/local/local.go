// Package local is a model that needs no key and no network. It writes nothing of
// its own: it quotes the sentences that say most about the material, in any
// language, by counting words. It cannot translate.
//
// It is what dev runs on, so that the whole of Tidings can be tried; who serves
// users names a model that writes. For trying it also plays failures (simulate.go).
//
//	local.go      the provider and what it answers
//	document.go   sentences, their weights, and the choice among them
//	simulate.go   what a developer can make it do instead
package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/retry"
)

// Name is what the model calls itself.
const Name = "local"

// Model answers with quotations. What is quoted occurs in the material, white
// space and markup aside. A title has at most 80 columns; lists have at least one
// entry. Tokens are counted as words with a letter or a digit.
type Model struct {
	// Latency is added to each good answer, so that a developer can watch a job
	// being processed; simulated failures come at once unless their step has a
	// duration. Set it before the first call. 0 answers at once.
	Latency time.Duration

	mu     sync.Mutex
	topics topics
}

var _ model.Provider = (*Model)(nil)

// New returns a model that simulates nothing.
func New() *Model { return &Model{topics: newTopics(maxTopics)} }

// Dependency implements model.Provider.
func (m *Model) Dependency() string { return Name }

// Generate implements model.Provider. Material that shows nothing is
// InvalidInput, as is a workload it does not know.
func (m *Model) Generate(ctx context.Context, r model.Request) (model.Response, error) {
	if err := ended(ctx); err != nil {
		return model.Response{}, err
	}
	step := m.received(r.Topic)
	delay := step.delay
	if delay == 0 && step.play == nil {
		delay = m.Latency
	}
	if err := pause(ctx, delay); err != nil {
		return model.Response{}, err
	}
	if step.play != nil {
		return step.play(ctx, r)
	}
	return answer(ctx, r)
}

// What the workloads are answered with.
type (
	summary struct {
		Title     string   `json:"title"`
		Summary   string   `json:"summary"`
		KeyPoints []string `json:"key_points"`
	}
	guidance struct {
		Steps []step `json:"steps"`
	}
	step struct {
		Title  string `json:"title"`
		Detail string `json:"detail"`
	}
	classification struct {
		Label      string  `json:"label"`
		Confidence float64 `json:"confidence"`
	}
)

func answer(ctx context.Context, r model.Request) (model.Response, error) {
	d := read(r.Material)
	if len(d.sentences) == 0 {
		return model.Response{}, &model.Error{Kind: retry.InvalidInput, Type: "empty_material", Cause: errors.New("the material holds no text")}
	}
	// Reading is most of the work; whoever gave up meanwhile gets no answer.
	if err := ended(ctx); err != nil {
		return model.Response{}, err
	}
	var out any
	written := 2
	switch r.Workload {
	case "summary":
		out, written = d.summarize(r.MaxOutputTokens)
	case "guidance":
		out, written = d.guide(r.MaxOutputTokens)
	case "classification":
		out = d.classify()
	default:
		return model.Response{}, &model.Error{Kind: retry.InvalidInput, Type: "unknown_workload", Cause: fmt.Errorf("no workload %q", r.Workload)}
	}
	content, err := json.Marshal(out)
	if err != nil {
		return model.Response{}, &model.Error{Kind: retry.Internal, Cause: err}
	}
	return model.Response{Content: content, Model: Name, Usage: usage(d.words, written)}, nil
}

// summarize quotes a quarter of short material, at most four sentences, and takes
// others as key points: a reader sees both and should not read anything twice. It
// returns how many words that are, and drops key points above most; 0 is no limit.
func (d *document) summarize(most int) (out summary, written int) {
	n := len(d.sentences)
	main := d.choose(nil, min((n+3)/4, 4))
	points := d.choose(main, min((n+1)/2, 5))
	if len(points) == 0 {
		points = main
	}
	out = summary{Title: d.title(main), Summary: join(main)}
	written = countWords(out.Title) + countWords(out.Summary)
	for i, s := range points {
		words := countWords(s.text)
		if most > 0 && written+words > most && i > 0 {
			break
		}
		written += words
		out.KeyPoints = append(out.KeyPoints, s.text)
	}
	return out, written
}

// guide takes the items of the material's lists as steps, or else what it would
// quote. It limits itself as summarize does.
func (d *document) guide(most int) (out guidance, written int) {
	steps := d.items(8)
	if len(steps) == 0 {
		steps = d.choose(nil, min((len(d.sentences)+2)/3, 5))
	}
	for i, s := range steps {
		title := shorten(s.text)
		words := countWords(title) + countWords(s.text)
		if most > 0 && written+words > most && i > 0 {
			break
		}
		written += words
		out.Steps = append(out.Steps, step{Title: title, Detail: s.text})
	}
	return out, written
}

// classify knows no words, so it tells questions from all else, by their mark. It
// is never sure.
func (d *document) classify() classification {
	asked := 0.0
	for _, s := range d.sentences {
		if isQuestion(s.text) {
			asked++
		}
	}
	share := asked / float64(len(d.sentences))
	if share >= 0.3 || isQuestion(d.sentences[0].text) {
		return classification{"question", math.Round(30+40*share) / 100}
	}
	return classification{"information", 0.3}
}

func usage(in, out int) model.Usage {
	i, o := int64(in), int64(out)
	return model.Usage{InputTokens: &i, OutputTokens: &o}
}

// ended is the error of a call whose context has ended, or nil.
func ended(ctx context.Context) error {
	err := ctx.Err()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return &model.Error{Kind: retry.Timeout, Cause: err}
	}
	return &model.Error{Kind: retry.Cancelled, Cause: err}
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
