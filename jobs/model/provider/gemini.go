package provider

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

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
	d := geminiDialect()
	d.ownAddress = a.BaseURL == ""
	return &geminiModel{name: name, access: a, models: client.Models, dialect: d}, nil
}

func (m *geminiModel) Dependency() string { return "gemini/" + m.name }

func (m *geminiModel) Generate(ctx context.Context, r model.Request) (model.Response, error) {
	ctx, x := begin(ctx)
	config := &genai.GenerateContentConfig{
		SystemInstruction: genai.NewContentFromText(m.access.system(r), genai.RoleUser),
		MaxOutputTokens:   int32(r.MaxOutputTokens),
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
	got, err := m.ask(ctx, r.Prompt, config)
	if err != nil {
		return model.Response{}, x.failure(ctx, m.dialect, err)
	}
	usage := geminiUsage(got.UsageMetadata)
	if len(got.Candidates) == 0 {
		typ := noAnswer
		if f := got.PromptFeedback; f != nil && f.BlockReason != "" {
			typ = "blocked:" + string(f.BlockReason)
			if _, known := m.dialect.row(typ); !known {
				typ = "blocked:OTHER"
			}
		}
		e := m.dialect.unusable(x, typ)
		e.Usage = usage
		return model.Response{RequestID: e.RequestID, Usage: usage}, e
	}
	var text strings.Builder
	if c := got.Candidates[0].Content; c != nil {
		for _, part := range c.Parts {
			if part != nil && !part.Thought {
				text.WriteString(part.Text)
			}
		}
	}
	return m.dialect.finish(x, model.Response{Content: bare(text.String()), Model: code(got.ModelVersion), Usage: usage},
		m.name, string(got.Candidates[0].FinishReason), string(genai.FinishReasonStop))
}

var errPanic = errors.New("model: Gemini's client could not read the answer")

// ask makes the call. The SDK panics over JSON that is not what it expects, null
// for one; a proxy's odd answer must not end the process.
func (m *geminiModel) ask(ctx context.Context, prompt string, config *genai.GenerateContentConfig) (got *genai.GenerateContentResponse, err error) {
	defer func() {
		if recover() != nil {
			err = errPanic
		}
	}()
	return m.models.GenerateContent(ctx, m.name, genai.Text(prompt), config)
}

// geminiUsage adds to the answer what the model thought, which costs the same.
func geminiUsage(g *genai.GenerateContentResponseUsageMetadata) (u model.Usage) {
	if g == nil || g.PromptTokenCount == 0 { // a request has tokens: it is just not said
		return u
	}
	input := int64(g.PromptTokenCount) + int64(g.ToolUsePromptTokenCount)
	output := int64(g.CandidatesTokenCount) + int64(g.ThoughtsTokenCount)
	cached := int64(g.CachedContentTokenCount)
	return model.Usage{InputTokens: &input, OutputTokens: &output, CachedTokens: &cached}
}

func geminiDialect() dialect {
	row := func(typ string, kind retry.Kind) TypeRow {
		return TypeRow{Provider: "gemini", Type: typ, Kind: kind}
	}
	return dialect{
		provider: "gemini", requestID: "x-goog-request-id", read: readGemini,
		refusals: []string{"response_schema", "responseschema", "response_json_schema", "responsejsonschema",
			"response_mime_type", "responsemimetype", "json mode", "structured output"},
		types: []TypeRow{
			row("API_KEY_INVALID", retry.Auth), // comes with 400
			row("RESOURCE_EXHAUSTED/PerDay", retry.Quota),
			row("RESOURCE_EXHAUSTED", retry.RateLimited), // its message always speaks of plan and billing
			row("UNAUTHENTICATED", retry.Auth),
			row("PERMISSION_DENIED", retry.Auth),
			row("FAILED_PRECONDITION", retry.Quota), // a place or an account without billing
			row("INVALID_ARGUMENT", retry.InvalidInput),
			row("NOT_FOUND", retry.InvalidInput),
			row("INTERNAL", retry.Internal),
			row("UNAVAILABLE", retry.Unavailable),
			row("DEADLINE_EXCEEDED", retry.Timeout),
			row("MAX_TOKENS", retry.InvalidOutput), // from here on: why an answer ended
			row("SAFETY", retry.InvalidOutput),
			row("RECITATION", retry.InvalidOutput),
			row("PROHIBITED_CONTENT", retry.InvalidOutput),
			row("BLOCKLIST", retry.InvalidOutput),
			row("SPII", retry.InvalidOutput),
			row("LANGUAGE", retry.InvalidOutput),
			row("blocked:SAFETY", retry.InvalidInput), // the input was not let through
			row("blocked:PROHIBITED_CONTENT", retry.InvalidInput),
			row("blocked:BLOCKLIST", retry.InvalidInput),
			row("blocked:OTHER", retry.InvalidInput),
		},
	}
}

// readGemini reads Google's error details: why, which quota, and how long to
// wait. A quota of the day does not come back in a minute, whatever the wait
// hint beside it says (I-77).
func readGemini(body []byte) said {
	var b struct {
		Error struct {
			Status, Message string
			Details         []struct {
				Type       string `json:"@type"`
				Reason     string
				RetryDelay string
				Violations []struct{ QuotaID string }
			}
		}
	}
	if json.Unmarshal(body, &b) != nil {
		return said{}
	}
	s := said{}
	day := false
	for _, d := range b.Error.Details {
		if d.Reason != "" {
			s.types = append(s.types, d.Reason)
		}
		for _, v := range d.Violations {
			day = day || strings.Contains(v.QuotaID, "PerDay")
		}
		if strings.HasSuffix(d.Type, "google.rpc.RetryInfo") {
			if wait, err := time.ParseDuration(d.RetryDelay); err == nil {
				s.wait = max(s.wait, wait)
			}
		}
	}
	if day {
		s.types = append(s.types, b.Error.Status+"/PerDay")
	}
	s.types = append(s.types, b.Error.Status)
	s.text = b.Error.Message
	return s
}
