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
	// MaxInputTokens bounds the input, counted on the low side: what is over it is
	// refused at submit. A model's own window may be less.
	MaxInputTokens int
	// MaxOutputTokens bounds the model's answer. It is several times what the
	// document needs, because some models think first, and that counts too.
	MaxOutputTokens int
	// Schema is what the output must satisfy. Providers are sent its shape and
	// its descriptions; the rest of it is checked when the output is here.
	Schema json.RawMessage
	// Prompt is the version of the workload's prompt: prompts/<name>.<version>.txt.
	Prompt string
}

// Workloads returns the table, by name.
func Workloads() []Workload {
	return []Workload{{
		Name: "summary", Queue: "summary", ErrorKey: "ai_workload_summary_error", MaxInputTokens: 131072, MaxOutputTokens: 6144, Prompt: "v1",
		Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["title","summary","key_points"],"properties":{
			"title":{"type":"string","minLength":1,"maxLength":300,"description":"What the session was about, in at most eight words."},
			"summary":{"type":"string","minLength":1,"maxLength":20000,"description":"Three to six sentences."},
			"key_points":{"type":"array","maxItems":50,"description":"Two to six points, most important first.",
				"items":{"type":"string","maxLength":2000}}}}`),
	}, {
		Name: "guidance", Queue: "guidance", Long: true, ErrorKey: "ai_workload_guidance_error", MaxInputTokens: 131072, MaxOutputTokens: 8192, Prompt: "v1",
		Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["steps"],"properties":{
			"steps":{"type":"array","minItems":1,"maxItems":50,"description":"Three to seven steps, in order.",
				"items":{"type":"object","additionalProperties":false,"required":["title","detail"],"properties":{
					"title":{"type":"string","minLength":1,"maxLength":300,"description":"What to do, in at most eight words."},
					"detail":{"type":"string","maxLength":5000,"description":"One or two sentences: how to begin."}}}}}}`),
	}, {
		Name: "classification", Queue: "classification", ErrorKey: "ai_workload_classification_error", MaxInputTokens: 65536, MaxOutputTokens: 4096, Prompt: "v1",
		Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["label","confidence"],"properties":{
			"label":{"type":"string","minLength":1,"maxLength":100,"description":"The subject, in one to three words."},
			"confidence":{"type":"number","minimum":0,"maximum":1,"description":"From 0 to 1."}}}`),
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
