package jobs

import (
	"encoding/json"
	"slices"
)

// Workload is one kind of document. This table is the only place that knows
// the differences between them.
type Workload struct {
	Name string
	// Queue is the Asynq queue its tasks wait in.
	Queue string
	// Long gives each call and attempt the longer limits.
	Long bool
	// ErrorKey is the text clients show when it failed for good.
	ErrorKey string
	// MaxOutputTokens bounds the model's answer.
	MaxOutputTokens int
	// Schema is what the output must satisfy.
	Schema json.RawMessage
	// Task tells the model what to make.
	Task string
}

// Workloads returns the table, by name.
func Workloads() []Workload {
	return []Workload{{
		Name: "summary", Queue: "summary", ErrorKey: "ai_workload_summary_error", MaxOutputTokens: 1024,
		Task: "Summarize the material. Give a short title, a summary of three to six sentences, and the key points.",
		Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["title","summary","key_points"],
			"properties":{"title":{"type":"string","minLength":1},"summary":{"type":"string","minLength":1},
			"key_points":{"type":"array","items":{"type":"string"}}}}`),
	}, {
		Name: "guidance", Queue: "guidance", Long: true, ErrorKey: "ai_workload_guidance_error", MaxOutputTokens: 2048,
		Task: "Work out what the person should do next. Give the steps in order, each with a short title and one or two sentences of detail.",
		Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["steps"],
			"properties":{"steps":{"type":"array","minItems":1,"items":{"type":"object","additionalProperties":false,
			"required":["title","detail"],"properties":{"title":{"type":"string","minLength":1},"detail":{"type":"string"}}}}}}`),
	}, {
		Name: "classification", Queue: "classification", ErrorKey: "ai_workload_classification_error", MaxOutputTokens: 128,
		Task: "Classify the material. Give one label of at most three words and your confidence from 0 to 1.",
		Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["label","confidence"],
			"properties":{"label":{"type":"string","minLength":1},"confidence":{"type":"number","minimum":0,"maximum":1}}}`),
	}}
}

// WorkloadNamed finds a workload of the table.
func WorkloadNamed(name string) (Workload, bool) {
	all := Workloads()
	if i := slices.IndexFunc(all, func(w Workload) bool { return w.Name == name }); i >= 0 {
		return all[i], true
	}
	return Workload{}, false
}
