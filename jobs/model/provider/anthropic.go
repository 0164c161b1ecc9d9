package provider

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

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
	d := anthropicDialect()
	d.ownAddress = a.BaseURL == ""
	return &anthropicModel{name: name, access: a, messages: anthropic.NewClient(options...).Messages, dialect: d}
}

func (m *anthropicModel) Dependency() string { return "anthropic/" + m.name }

// anthropicMax is what a request without a bound of its own may write: here the
// API demands one.
const anthropicMax = 4096

func (m *anthropicModel) Generate(ctx context.Context, r model.Request) (model.Response, error) {
	ctx, x := begin(ctx)
	params := anthropic.MessageNewParams{
		Model:     m.name,
		MaxTokens: int64(r.MaxOutputTokens),
		System:    []anthropic.TextBlockParam{{Text: m.access.system(r)}},
		Messages:  []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(r.Prompt))},
	}
	if params.MaxTokens == 0 {
		params.MaxTokens = anthropicMax
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
	if r.Long || tooLong != nil {
		return m.stream(ctx, x, params)
	}
	msg, err := m.messages.New(ctx, params)
	if err != nil {
		return model.Response{}, x.failure(ctx, m.dialect, err)
	}
	if msg == nil || msg.StopReason == "" { // null, or not a message
		return model.Response{}, m.dialect.unusable(x, noAnswer)
	}
	var text strings.Builder
	for _, block := range msg.Content {
		if block.Type == "text" {
			text.WriteString(block.Text)
		}
	}
	u := msg.Usage
	return m.finish(x, string(msg.Model), text.String(), string(msg.StopReason), anthropicUsage(u.JSON.InputTokens.Valid(), u.JSON.OutputTokens.Valid(),
		u.InputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens, u.OutputTokens))
}

// stream makes one call whose answer comes in events. A stream that ends before
// it is complete is discarded; what it is known to have used is told.
func (m *anthropicModel) stream(ctx context.Context, x *exchange, params anthropic.MessageNewParams) (model.Response, error) {
	stream := m.messages.NewStreaming(ctx, params)
	defer stream.Close() // also when it is left early (S3-34)
	var (
		text          strings.Builder
		name, stopped string
		usage         model.Usage
		opened, begun bool // an event came; something was written
	)
	for stream.Next() {
		opened = true
		switch e := stream.Current(); e.Type {
		case "message_start":
			u := e.Message.Usage
			name = string(e.Message.Model)
			usage = anthropicUsage(u.JSON.InputTokens.Valid(), u.JSON.OutputTokens.Valid(),
				u.InputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens, u.OutputTokens)
		case "content_block_delta":
			begun = true
			text.WriteString(e.Delta.Text) // empty unless it is a text's
		case "message_delta": // counts are of the whole answer so far
			if e.Delta.StopReason != "" {
				stopped = string(e.Delta.StopReason)
			}
			if u := e.Usage; u.JSON.OutputTokens.Valid() {
				usage.OutputTokens = &u.OutputTokens
			}
		case "message_stop":
			return m.finish(x, name, text.String(), stopped, usage)
		}
	}
	e := m.broken(ctx, x, stream.Err(), opened, begun)
	e.Usage = usage
	return model.Response{Model: code(name), RequestID: e.RequestID, Usage: usage}, e
}

// broken is the error of a stream that ended before its time. An error event
// before anything was written is what the same error is as an answer. Later it
// is a broken stream, if it may pass: something was written, and paid for.
func (m *anthropicModel) broken(ctx context.Context, x *exchange, err error, opened, begun bool) *model.Error {
	var event *anthropic.Error
	if x.status < 200 || x.status > 299 || ctx.Err() != nil || !errors.As(err, &event) {
		e := x.failure(ctx, m.dialect, err)
		if e.Type == noAnswer && opened { // it just ended, or an event cannot be read
			return m.dialect.unusable(x, interrupted)
		}
		return e
	}
	e := m.dialect.answered(x, x.status, m.dialect.read([]byte(event.RawJSON())))
	if begun && e.Kind.Queued() {
		e.Kind, e.RetryAfter = retry.StreamInterrupted, 0
	}
	return e
}

// finish makes the response of a complete answer.
func (m *anthropicModel) finish(x *exchange, name, text, stopped string, u model.Usage) (model.Response, error) {
	return m.dialect.finish(x, model.Response{Content: bare(text), Model: code(name), Usage: u}, m.name, stopped, "end_turn", "stop_sequence")
}

// anthropicUsage adds up what Anthropic counts apart: input that was new, read
// from a cache and written to it.
func anthropicUsage(hasInput, hasOutput bool, input, read, written, output int64) (u model.Usage) {
	if hasInput {
		input += read + written
		u.InputTokens, u.CachedTokens = &input, &read
	}
	if hasOutput {
		u.OutputTokens = &output
	}
	return u
}

func anthropicDialect() dialect {
	row := func(typ string, kind retry.Kind) TypeRow {
		return TypeRow{Provider: "anthropic", Type: typ, Kind: kind}
	}
	weak := func(typ string, kind retry.Kind) TypeRow { return TypeRow{"anthropic", typ, kind, true} }
	return dialect{
		provider: "anthropic", requestID: "request-id", read: readAnthropic, resets: anthropicResets,
		refusals: []string{"output_config", "output_format", "structured output"},
		types: []TypeRow{
			weak("invalid_request_error", retry.InvalidInput), // also says that the credit is used up
			row("authentication_error", retry.Auth),
			row("billing_error", retry.Quota),
			weak("permission_error", retry.Auth),
			row("not_found_error", retry.InvalidInput),
			row("request_too_large", retry.InvalidInput),
			weak("rate_limit_error", retry.RateLimited),
			row("api_error", retry.Internal),
			row("timeout_error", retry.Timeout),
			row("overloaded_error", retry.Overloaded),
			row("max_tokens", retry.InvalidOutput), // from here on: why an answer ended
			row("refusal", retry.InvalidOutput),
			row("model_context_window_exceeded", retry.InvalidInput),
		},
	}
}

func readAnthropic(body []byte) said {
	var b struct {
		Error struct{ Type, Message string }
	}
	if json.Unmarshal(body, &b) != nil {
		return said{}
	}
	return said{types: []string{b.Error.Type}, text: b.Error.Message}
}

// anthropicResets is when the limits that are used up are full again; when none
// says so, the last of all limits: rather too late than against the same wall.
func anthropicResets(x *exchange) time.Duration {
	const prefix = "Anthropic-Ratelimit-"
	var used, all time.Duration
	for name := range x.header {
		limit, ok := strings.CutSuffix(name, "-Reset")
		if !ok || !strings.HasPrefix(limit, prefix) {
			continue
		}
		at, err := time.Parse(time.RFC3339, x.header.Get(name))
		if err != nil {
			continue
		}
		wait := at.Sub(x.clock())
		all = max(all, wait)
		if x.header.Get(limit+"-Remaining") == "0" {
			used = max(used, wait)
		}
	}
	if used > 0 {
		return used
	}
	return all
}
