package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/retry"
)

// openaiModel is a model behind OpenAI's Chat Completions API, which many
// servers speak: Ollama, vLLM, llama.cpp, LM Studio, gateways.
type openaiModel struct {
	name    string
	access  Access
	chat    openai.ChatCompletionService
	dialect dialect
	// official: OpenAI itself, or OpenAI's models at Azure.
	official bool
}

const openaiURL = "https://api.openai.com/v1"

func newOpenAI(name string, a Access) *openaiModel {
	base := a.BaseURL
	if base == "" {
		base = openaiURL
	}
	options := []option.RequestOption{
		option.WithMaxRetries(0), // layer 1 and the queue repeat, nobody else
		option.WithHTTPClient(a.client()),
		option.WithBaseURL(base),
	}
	if a.Key != "" {
		options = append(options, option.WithAPIKey(a.Key))
	}
	d := openaiDialect()
	d.ownAddress = a.BaseURL == ""
	// The service and not openai.NewClient: that one reads the environment.
	return &openaiModel{name: name, access: a, chat: openai.NewChatCompletionService(options...), dialect: d, official: official(base)}
}

// official tells whether OpenAI's models answer at an address. They alone want
// the newer name of the bound on the output, and everybody else may not know it.
func official(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	host := u.Hostname()
	return host == "openai.com" || strings.HasSuffix(host, ".openai.com") || strings.HasSuffix(host, ".azure.com")
}

func (m *openaiModel) Dependency() string { return "openai/" + m.name }

func (m *openaiModel) Generate(ctx context.Context, r model.Request) (model.Response, error) {
	ctx, x := begin(ctx)
	params := openai.ChatCompletionNewParams{
		Model: m.name,
		Messages: []openai.ChatCompletionMessageParamUnion{
			openai.SystemMessage(m.access.system(r)), openai.UserMessage(r.Prompt),
		},
	}
	if r.MaxOutputTokens > 0 && m.official {
		params.MaxCompletionTokens = openai.Int(int64(r.MaxOutputTokens))
	} else if r.MaxOutputTokens > 0 {
		params.MaxTokens = openai.Int(int64(r.MaxOutputTokens))
	}
	switch m.access.Output {
	case OutputSchema:
		schema, err := portable(r.Schema)
		if err != nil {
			return model.Response{}, &model.Error{Kind: retry.Internal, Cause: err}
		}
		params.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "document", Strict: openai.Bool(true), Schema: schema},
		}
	case OutputObject:
		params.ResponseFormat.OfJSONObject = &shared.ResponseFormatJSONObjectParam{}
	}
	got, err := m.chat.New(ctx, params)
	if err != nil {
		return model.Response{}, x.failure(ctx, m.dialect, err)
	}
	if got == nil { // null
		return model.Response{}, m.dialect.unusable(x, noAnswer)
	}
	usage := openaiUsage(got.Usage)
	if len(got.Choices) == 0 {
		e := m.without(x, got.RawJSON())
		e.Usage = usage
		return model.Response{RequestID: e.RequestID, Usage: usage}, e
	}
	choice := got.Choices[0]
	ending := string(choice.FinishReason)
	if choice.Message.Refusal != "" {
		ending = "refusal"
	}
	// Some servers name no reason: then what they wrote has to speak for itself.
	return m.dialect.finish(x, model.Response{Content: bare(choice.Message.Content), Model: code(got.Model), Usage: usage}, m.name, ending, "stop", "")
}

// without is the error of a success without an answer: some gateways put the
// failure of whoever stands behind them into it, its status included.
func (m *openaiModel) without(x *exchange, body string) *model.Error {
	s := readOpenAI([]byte(body))
	if s.text == "" && len(s.types) == 0 {
		return m.dialect.unusable(x, noAnswer)
	}
	for _, t := range s.types {
		if status, err := strconv.Atoi(t); err == nil && 400 <= status && status <= 599 {
			return m.dialect.answered(x, status, s)
		}
	}
	return m.dialect.answered(x, x.status, s)
}

func openaiUsage(c openai.CompletionUsage) (u model.Usage) {
	if c.JSON.PromptTokens.Valid() {
		u.InputTokens = &c.PromptTokens
	}
	if c.JSON.CompletionTokens.Valid() {
		u.OutputTokens = &c.CompletionTokens
	}
	if c.PromptTokensDetails.JSON.CachedTokens.Valid() {
		u.CachedTokens = &c.PromptTokensDetails.CachedTokens
	}
	return u
}

func openaiDialect() dialect {
	row := func(typ string, kind retry.Kind) TypeRow {
		return TypeRow{Provider: "openai", Type: typ, Kind: kind}
	}
	return dialect{
		provider: "openai", requestID: "x-request-id", read: readOpenAI, resets: openaiResets,
		refusals: []string{"response_format", "json_schema", "structured output"},
		// Without invalid_request_error and server_error, which come with many
		// statuses and say less than those.
		types: []TypeRow{
			row("insufficient_quota", retry.Quota),
			row("billing_hard_limit_reached", retry.Quota),
			row("billing_not_active", retry.Quota),
			row("rate_limit_exceeded", retry.RateLimited), // a code: the account is not empty
			row("tokens", retry.RateLimited),
			row("requests", retry.RateLimited),
			row("invalid_api_key", retry.Auth),
			row("account_deactivated", retry.Auth),
			row("model_not_found", retry.InvalidInput),
			row("context_length_exceeded", retry.InvalidInput),
			row("string_above_max_length", retry.InvalidInput),
			row("exceed_context_size_error", retry.InvalidInput), // llama.cpp
			row("length", retry.InvalidOutput),                   // from here on: why an answer ended
			row("content_filter", retry.InvalidOutput),
			row("refusal", retry.InvalidOutput),
		},
	}
}

// readOpenAI reads the error of OpenAI and of those who answer like it: with a
// text alone (LM Studio), or without the object around it (vLLM).
func readOpenAI(body []byte) said {
	type failure struct {
		Code    json.RawMessage
		Type    string
		Message string
		Param   string
	}
	var outer struct {
		failure
		Error json.RawMessage
	}
	if json.Unmarshal(body, &outer) != nil {
		return said{}
	}
	f := outer.failure
	var text string
	if json.Unmarshal(outer.Error, &text) == nil && text != "" {
		f.Message = text
	} else if inner := (failure{}); json.Unmarshal(outer.Error, &inner) == nil && outer.Error != nil {
		f = inner
	}
	s := said{text: strings.TrimSpace(f.Param + " " + f.Message)}
	for _, t := range []string{string(bytes.Trim(f.Code, `"`)), f.Type} {
		if t != "" && t != "null" {
			s.types = append(s.types, t)
		}
	}
	return s
}

// openaiResets is when the limit that is used up is full again, such as "6m0s".
func openaiResets(x *exchange) (wait time.Duration) {
	for _, limit := range []string{"requests", "tokens"} {
		if x.header.Get("X-Ratelimit-Remaining-"+limit) != "0" {
			continue
		}
		if d, err := time.ParseDuration(x.header.Get("X-Ratelimit-Reset-" + limit)); err == nil {
			wait = max(wait, d)
		}
	}
	return wait
}
