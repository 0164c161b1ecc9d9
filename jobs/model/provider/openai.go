//go:build !nosdk

package provider

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"strings"

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
	names := []string{oldBound, newBound}
	if official(base) {
		names = []string{newBound, oldBound}
	}
	d := dialect{provider: "openai", model: name, requestID: "x-request-id", refusals: []string{"response_format", "json_schema", "structured output"},
		ownAddress: a.BaseURL == "", bound: &bound{names: names}}
	// The service and not openai.NewClient: that one reads the environment.
	return &openaiModel{name: name, access: a, chat: openai.NewChatCompletionService(options...), dialect: d}
}

// The names of the bound on the output.
const (
	oldBound = "max_tokens"
	newBound = "max_completion_tokens"
)

// official tells whether OpenAI's models answer at an address. They want the newer
// name of the bound on the output, and many others do not know it.
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
	ctx, x := begin(ctx, r, foldOpenAI)
	x.bound.name, x.bound.size = m.dialect.bound.of(r)
	params := openai.ChatCompletionNewParams{
		Model: m.name,
		Messages: []openai.ChatCompletionMessageParamUnion{
			openai.SystemMessage(m.access.system(r)), openai.UserMessage(r.Prompt),
		},
	}
	switch x.bound.name {
	case newBound:
		params.MaxCompletionTokens = openai.Int(x.bound.size)
	case oldBound:
		params.MaxTokens = openai.Int(x.bound.size)
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
	_, err := m.chat.New(ctx, params)
	return x.conclude(ctx, m.dialect, m.name, err)
}

// foldOpenAI reads a chat completion, or one chunk of a stream of it.
func foldOpenAI(object json.RawMessage, a *answer) {
	type message struct {
		Content json.RawMessage
		Refusal json.RawMessage
	}
	var c struct {
		Model   string
		Choices []struct {
			Index        int
			Message      *message
			Delta        *message
			Text         string
			FinishReason string `json:"finish_reason"`
			Error        json.RawMessage
		}
		Usage *struct {
			Input   *int64 `json:"prompt_tokens"`
			Output  *int64 `json:"completion_tokens"`
			Details struct {
				Cached *int64 `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	if json.Unmarshal(object, &c) != nil {
		return
	}
	a.model = cmp.Or(a.model, c.Model)
	if u := c.Usage; u != nil {
		a.usage = model.Usage{InputTokens: u.Input, OutputTokens: u.Output, CachedTokens: u.Details.Cached}
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue
		}
		a.opened = true
		if len(choice.Error) > 0 && string(choice.Error) != "null" {
			a.fault = object
		}
		a.stopped = cmp.Or(choice.FinishReason, a.stopped)
		a.text.WriteString(choice.Text)
		for _, m := range []*message{choice.Message, choice.Delta} {
			if m == nil {
				continue
			}
			text := contentText(m.Content)
			a.begun = a.begun || choice.Delta != nil && text != ""
			a.text.WriteString(text)
			if refusal, ok := jsonString(m.Refusal); ok && refusal != "" {
				a.stopped = "refusal"
			}
		}
		// Some servers name no reason: then what they wrote has to speak for itself.
		a.done = a.done || choice.Message != nil
	}
}
