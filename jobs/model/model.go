package model

import (
	"context"
	"encoding/json"
)

// Provider sends requests to one model. Implementations make exactly one
// network request per Generate, never retry by themselves, and return a *Error
// for every failure. They pass one suite, modeltest.Suite.
type Provider interface {
	// Generate makes one call. The context carries the call's own time limit.
	// On a failure after the request may have been sent, the Response still
	// holds what is known of its usage.
	Generate(ctx context.Context, r Request) (Response, error)

	// Dependency names what budgets and breakers are kept for: provider and
	// model, such as "openai/<name>", or "local".
	Dependency() string
}

// Request is one question to a model. Nothing in it may be logged.
type Request struct {
	// Workload is what is generated: summary, guidance or classification.
	Workload string
	// Language is the BCP 47 tag the output should be written in; empty means
	// the language of the material.
	Language string
	// Material is what the caller sent. The local model works on it directly.
	Material []Message
	// System and Prompt are the rendered instructions and the delimited
	// material, for models that take text.
	System, Prompt string
	// Schema is the JSON Schema the output must satisfy.
	Schema json.RawMessage
	// MaxOutputTokens bounds the answer; 0 leaves it to the provider.
	MaxOutputTokens int
	// Long marks a workload with the longer time limits.
	Long bool
	// Topic is an opaque key of the session's workload. Only the local model
	// uses it, to find the steps it should play.
	Topic string
}

// Message is one turn of a conversation, or the whole text with an empty role.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Response is a model's answer.
type Response struct {
	// Content is the workload's output as JSON, not yet validated.
	Content json.RawMessage
	// Model is the name the provider says it answered with.
	Model string
	// RequestID is the provider's own id of the request, if it gives one.
	RequestID string
	Usage     Usage
}

// Usage counts tokens. A nil number is unknown, which is not the same as 0.
type Usage struct {
	// InputTokens is all input, the cached part included. An adapter whose
	// provider counts them apart (Anthropic) adds them up.
	InputTokens *int64 `json:"input_tokens"`
	// OutputTokens is all output, reasoning included.
	OutputTokens *int64 `json:"output_tokens"`
	// CachedTokens is the part of InputTokens that came from a cache.
	CachedTokens *int64 `json:"cached_tokens"`
}
