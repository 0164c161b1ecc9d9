//go:build !nosdk

package provider

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"google.golang.org/genai"

	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/retry"
)

// geminiModel is a model behind Google's Gemini API.
type geminiModel struct {
	name    string
	access  Access
	models  *genai.Models
	dialect dialect
}

const geminiURL = "https://generativelanguage.googleapis.com/"

func newGemini(name string, a Access) (*geminiModel, error) {
	base, key := a.BaseURL, a.Key
	if base == "" {
		base = geminiURL
	}
	if key == "" {
		key = "none" // the SDK insists on one, and would look for it in the environment
	}
	// Without RetryOptions this SDK does not repeat.
	client, err := genai.NewClient(context.Background(), &genai.ClientConfig{
		Backend: genai.BackendGeminiAPI, APIKey: key, HTTPClient: a.client(),
		HTTPOptions: genai.HTTPOptions{BaseURL: base},
	})
	if err != nil {
		// The SDK's text shows its settings, and so the key.
		return nil, errors.New("model: Gemini's client does not take these settings")
	}
	d := dialect{provider: "gemini", model: name, requestID: "x-goog-request-id", ownAddress: a.BaseURL == "", bound: &bound{names: []string{"maxOutputTokens"}},
		refusals: []string{"response_schema", "responseschema", "response_json_schema", "responsejsonschema",
			"response_mime_type", "responsemimetype", "json mode", "structured output"}}
	return &geminiModel{name: name, access: a, models: client.Models, dialect: d}, nil
}

func (m *geminiModel) Dependency() string { return "gemini/" + m.name }

func (m *geminiModel) Generate(ctx context.Context, r model.Request) (model.Response, error) {
	ctx, x := begin(ctx, r, foldGemini)
	x.bound.name, x.bound.size = m.dialect.bound.of(r)
	config := &genai.GenerateContentConfig{
		SystemInstruction: genai.NewContentFromText(m.access.system(r), genai.RoleUser),
		MaxOutputTokens:   int32(x.bound.size),
	}
	if m.access.Output != OutputText {
		config.ResponseMIMEType = "application/json"
	}
	if m.access.Output == OutputSchema {
		schema, err := portable(r.Schema)
		if err != nil {
			return model.Response{}, &model.Error{Kind: retry.Internal, Cause: err}
		}
		config.ResponseJsonSchema = schema
	}
	_, err := m.models.GenerateContent(ctx, m.name, genai.Text(r.Prompt), config)
	return x.conclude(ctx, m.dialect, m.name, err)
}

// foldGemini reads a response, or one of a stream of them.
func foldGemini(object json.RawMessage, a *answer) {
	var g struct {
		Candidates []struct {
			Content      struct{ Parts json.RawMessage }
			FinishReason string
		}
		PromptFeedback struct{ BlockReason string }
		UsageMetadata  struct {
			PromptTokenCount, ToolUsePromptTokenCount, CandidatesTokenCount, ThoughtsTokenCount, CachedContentTokenCount int64
		}
		ModelVersion string
	}
	if json.Unmarshal(object, &g) != nil {
		return
	}
	a.model = cmp.Or(a.model, g.ModelVersion)
	if u := g.UsageMetadata; u.PromptTokenCount > 0 { // a request has tokens: else it is just not said
		input, output := u.PromptTokenCount+u.ToolUsePromptTokenCount, u.CandidatesTokenCount+u.ThoughtsTokenCount // thoughts cost the same
		a.usage = model.Usage{InputTokens: &input, OutputTokens: &output, CachedTokens: &u.CachedContentTokenCount}
	}
	if len(g.Candidates) == 0 {
		if reason := g.PromptFeedback.BlockReason; reason != "" {
			a.opened, a.done, a.stopped = true, true, blocked+reason
		}
		return
	}
	c := g.Candidates[0]
	text := contentText(c.Content.Parts)
	a.opened = true
	a.begun = a.begun || text != ""
	a.text.WriteString(text)
	a.stopped = cmp.Or(c.FinishReason, a.stopped)
}
