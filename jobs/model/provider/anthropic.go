//go:build !nosdk

package provider

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/retry"
)

// anthropicModel is a model behind Anthropic's Messages API.
type anthropicModel struct {
	name     string
	access   Access
	messages anthropic.MessageService
	dialect  dialect
}

func newAnthropic(name string, a Access) *anthropicModel {
	options := []option.RequestOption{
		option.WithoutEnvironmentDefaults(), // config.go alone reads the environment
		option.WithMaxRetries(0),            // layer 1 and the queue repeat, nobody else
		option.WithHTTPClient(a.client()),
		option.WithoutOpenTelemetry(),
	}
	if a.BaseURL != "" {
		options = append(options, option.WithBaseURL(a.BaseURL))
	}
	if a.Key != "" {
		options = append(options, option.WithAPIKey(a.Key))
	}
	d := dialect{provider: "anthropic", model: name, requestID: "request-id", refusals: []string{"output_config", "output_format", "structured output"},
		ownAddress: a.BaseURL == "", bound: &bound{names: []string{"max_tokens"}}}
	return &anthropicModel{name: name, access: a, messages: anthropic.NewClient(options...).Messages, dialect: d}
}

func (m *anthropicModel) Dependency() string { return "anthropic/" + m.name }

// anthropicMax is what a request without a bound of its own may write: here the
// API demands one.
const anthropicMax = 4096

func (m *anthropicModel) Generate(ctx context.Context, r model.Request) (model.Response, error) {
	if r.MaxOutputTokens == 0 {
		r.MaxOutputTokens = anthropicMax
	}
	ctx, x := begin(ctx, r, foldAnthropic)
	x.bound.name, x.bound.size = m.dialect.bound.of(r)
	params := anthropic.MessageNewParams{
		Model:     m.name,
		MaxTokens: x.bound.size,
		System:    []anthropic.TextBlockParam{{Text: m.access.system(r)}},
		Messages:  []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(r.Prompt))},
	}
	if m.access.Output == OutputSchema {
		schema, err := portable(r.Schema)
		if err != nil {
			return model.Response{}, &model.Error{Kind: retry.Internal, Cause: err}
		}
		params.OutputConfig.Format.Schema = schema
	}
	// The SDK refuses calls that may take long unless they are streamed.
	_, tooLong := anthropic.CalculateNonStreamingTimeout(int(params.MaxTokens), params.Model, nil)
	var err error
	if r.Long || tooLong != nil {
		stream := m.messages.NewStreaming(ctx, params)
		err = stream.Err()
		_ = stream.Close() // the answer is in the exchange
	} else {
		_, err = m.messages.New(ctx, params)
	}
	return x.conclude(ctx, m.dialect, m.name, err)
}

// anthropicCounts are Anthropic's numbers of tokens, each missing where it is nil.
type anthropicCounts struct {
	Input   *int64 `json:"input_tokens"`
	Read    *int64 `json:"cache_read_input_tokens"`
	Written *int64 `json:"cache_creation_input_tokens"`
	Output  *int64 `json:"output_tokens"`
}

// foldAnthropic reads a message, or one event of a stream of its parts.
func foldAnthropic(object json.RawMessage, a *answer) {
	type message struct {
		Model      string
		Content    json.RawMessage
		StopReason string `json:"stop_reason"`
		Usage      anthropicCounts
	}
	var e struct {
		message
		Type    string
		Message message
		Delta   struct {
			Text       string
			StopReason string `json:"stop_reason"`
		}
		Block struct{ Text string } `json:"content_block"`
	}
	if json.Unmarshal(object, &e) != nil {
		return
	}
	switch e.Type {
	case "message_start":
		a.opened = true
		a.model = e.Message.Model
		a.count(e.Message.Usage)
	case "content_block_start", "content_block_delta":
		a.begun = a.begun || e.Type == "content_block_delta"
		a.text.WriteString(e.Block.Text)
		a.text.WriteString(e.Delta.Text) // empty unless it is a text's
	case "message_delta": // counts are of the whole answer so far
		a.stopped = cmp.Or(e.Delta.StopReason, a.stopped)
		a.count(e.Usage)
	case "message_stop":
		a.done = true
	case "message", "":
		if e.StopReason == "" && len(e.Content) == 0 {
			return
		}
		a.opened, a.done = true, true
		a.model, a.stopped = e.Model, e.StopReason
		a.text.WriteString(contentText(e.Content))
		a.count(e.Usage)
	}
}

// count takes in what was counted so far. Anthropic counts apart what was new, read
// from a cache and written to it, and some gateways count only at the end.
func (a *answer) count(c anthropicCounts) {
	newer := func(was, is *int64) *int64 {
		if is == nil || was != nil && *is == 0 {
			return was
		}
		return is
	}
	a.counts = anthropicCounts{newer(a.counts.Input, c.Input), newer(a.counts.Read, c.Read), newer(a.counts.Written, c.Written), newer(a.counts.Output, c.Output)}
	c = a.counts
	a.usage.OutputTokens = c.Output
	if c.Input != nil {
		read, written := or0(c.Read), or0(c.Written)
		input := *c.Input + read + written
		a.usage.InputTokens, a.usage.CachedTokens = &input, &read
	}
}

func or0(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}
