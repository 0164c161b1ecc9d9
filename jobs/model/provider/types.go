//go:build !nosdk

package provider

import (
	"slices"
	"strings"

	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/retry"
)

// TypeRow is what a name for a failure means: an error's type, or why an answer
// ended. Those of the provider "tidings" are ours, for what has none. A name counts
// whichever adapter meets it: gateways send one vendor's names in another's form.
type TypeRow struct {
	Provider, Type string
	Kind           retry.Kind
	// Weak rows give way to the words of the message: providers use the type for
	// other things too. Those without a Kind give way to the status as well.
	Weak bool
}

func (r TypeRow) decides() bool { return !r.Weak && r.Kind != "" }

const (
	interrupted      = "stream_interrupted"
	noAnswer         = "no_answer"
	noOutput         = "no_output"
	notJSON          = "not_json"
	tooLong          = "too_long"
	formatRefused    = "response_format_refused"
	boundRefused     = "output_bound_refused"
	modelRefused     = "model_refused"
	parameterRefused = "parameter_refused"
	regionRefused    = "region_refused"
	keyRefused       = "key_refused"
	quotaInWords     = "quota_in_words"
	quotaOfTheDay    = "RESOURCE_EXHAUSTED/PerDay"
	inputFlagged     = "input_flagged"
	inputTooLong     = "input_over_limit"
)

// ErrorTypes is the table as docs/errors.md prints it. Any other type decides
// nothing: the status does.
func ErrorTypes() []TypeRow {
	const us = "tidings"
	return []TypeRow{
		{us, model.TypeInputTooLong, retry.InvalidInput, false}, // refused before a call
		{us, inputTooLong, retry.InvalidInput, false},           // more than a limit allows at all
		{us, inputFlagged, retry.InvalidInput, false},           // a filter did not let it through
		{us, formatRefused, retry.Misconfigured, false},         // from here on a setting is wrong, not the input
		{us, boundRefused, retry.Misconfigured, false},          // the next call asks differently
		{us, modelRefused, retry.Misconfigured, false},
		{us, parameterRefused, retry.Misconfigured, false},
		{us, regionRefused, retry.Misconfigured, false},
		{us, keyRefused, retry.Auth, false},
		{us, quotaInWords, retry.Quota, false},            // only the message says that the account is empty
		{us, interrupted, retry.StreamInterrupted, false}, // the answer broke off
		{us, noAnswer, retry.Unavailable, false},          // a success without the provider's answer in it
		{us, noOutput, retry.Unavailable, false},          // an answer without text
		{us, tooLong, retry.InvalidOutput, false},         // more than any answer may hold
		{us, notJSON, retry.InvalidOutput, false},         // text that holds no JSON object, or several

		{"anthropic", "invalid_request_error", retry.InvalidInput, true}, // OpenAI's too
		{"anthropic", "authentication_error", retry.Auth, true},
		{"anthropic", "billing_error", retry.Quota, false},
		{"anthropic", "permission_error", retry.Auth, true},
		{"anthropic", "not_found_error", retry.Misconfigured, true},
		{"anthropic", "request_too_large", retry.InvalidInput, false},
		{"anthropic", "rate_limit_error", retry.RateLimited, true},
		{"anthropic", "api_error", "", true},
		{"anthropic", "timeout_error", retry.Timeout, false},
		{"anthropic", "overloaded_error", retry.Overloaded, false},

		{"openai", "server_error", "", true},
		{"openai", "insufficient_quota", retry.Quota, false},
		{"openai", "billing_hard_limit_reached", retry.Quota, false},
		{"openai", "billing_not_active", retry.Quota, false},
		{"openai", "rate_limit_exceeded", retry.RateLimited, true},
		{"openai", "tokens", retry.RateLimited, true},
		{"openai", "requests", retry.RateLimited, true},
		{"openai", "invalid_api_key", retry.Auth, false},
		{"openai", "account_deactivated", retry.Auth, false},
		{"openai", "model_not_found", retry.Misconfigured, false},
		{"openai", "unsupported_country_region_territory", retry.Misconfigured, false},
		{"openai", "unsupported_parameter", retry.Misconfigured, true},
		{"openai", "unsupported_value", retry.Misconfigured, true},
		{"openai", "unknown_parameter", retry.Misconfigured, true},
		{"openai", "context_length_exceeded", retry.InvalidInput, false},
		{"openai", "string_above_max_length", retry.InvalidInput, false},
		{"openai", "content_policy_violation", retry.InvalidInput, false},
		{"azure", "content_filter", retry.InvalidInput, false},
		{"azure", "ResponsibleAIPolicyViolation", retry.InvalidInput, false},
		{"azure", "DeploymentNotFound", retry.Misconfigured, false},
		{"llama.cpp", "exceed_context_size_error", retry.InvalidInput, false},
		{"moonshot", "exceeded_current_quota_error", retry.Quota, false},
		{"moonshot", "engine_overloaded_error", retry.Overloaded, false},
		{"moonshot", "rate_limit_reached_error", retry.RateLimited, true},
		{"moonshot", "invalid_authentication_error", retry.Auth, false},
		{"moonshot", "resource_not_found_error", retry.Misconfigured, false},
		{"zhipu", "1113", retry.Quota, false},         // no balance
		{"zhipu", "1211", retry.Misconfigured, false}, // no such model
		{"zhipu", "1261", retry.InvalidInput, false},  // too long
		{"zhipu", "1301", retry.InvalidInput, false},  // filtered
		{"zhipu", "1302", retry.RateLimited, true},
		{"zhipu", "1303", retry.RateLimited, true},
		{"zhipu", "1304", retry.Quota, false}, // of the day
		{"zhipu", "1308", retry.Quota, false}, // of five hours
		{"zhipu", "1309", retry.Quota, false}, // the plan has ended
		{"zhipu", "1310", retry.Quota, false}, // of the week or month
		{"alibaba", "Arrearage", retry.Quota, false},
		{"alibaba", "AllocationQuota.FreeTierOnly", retry.Quota, false},
		{"alibaba", "DataInspectionFailed", retry.InvalidInput, false},
		{"alibaba", "data_inspection_failed", retry.InvalidInput, false},
		{"volcengine", "AccountOverdueError", retry.Quota, false},
		{"volcengine", "ServerOverloaded", retry.Overloaded, false},
		{"volcengine", "InvalidEndpointOrModel.NotFound", retry.Misconfigured, false},
		{"volcengine", "ModelNotOpen", retry.Misconfigured, false},
		{"groq", "model_decommissioned", retry.Misconfigured, false},
		{"litellm", "budget_exceeded", retry.Quota, false},

		{"gemini", "API_KEY_INVALID", retry.Auth, false}, // comes with 400
		{"gemini", "BILLING_DISABLED", retry.Quota, false},
		{"gemini", quotaOfTheDay, retry.Quota, false},
		{"gemini", "RESOURCE_EXHAUSTED", retry.RateLimited, true}, // its message always speaks of plan and billing
		{"gemini", "UNAUTHENTICATED", retry.Auth, false},
		{"gemini", "PERMISSION_DENIED", retry.Auth, true},
		{"gemini", "FAILED_PRECONDITION", retry.Quota, true}, // an account without billing, or a place
		{"gemini", "INVALID_ARGUMENT", retry.InvalidInput, true},
		{"gemini", "NOT_FOUND", retry.Misconfigured, false},
		{"gemini", "INTERNAL", "", true},
		{"gemini", "UNAVAILABLE", retry.Unavailable, false},
		{"gemini", "DEADLINE_EXCEEDED", retry.Timeout, false},
	}
}

// Endings is why answers end that cannot be used. Any other reason, known or not,
// is left to what was written.
func Endings() []TypeRow {
	return []TypeRow{
		{"anthropic", "max_tokens", retry.InvalidOutput, false},
		{"anthropic", "refusal", retry.InvalidOutput, false},
		{"anthropic", "model_context_window_exceeded", retry.InvalidInput, false},
		{"openai", "length", retry.InvalidOutput, false},
		{"openai", "content_filter", retry.InvalidOutput, false},
		{"mistral", "model_length", retry.InvalidOutput, false},
		{"zhipu", "sensitive", retry.InvalidOutput, false},
		{"zhipu", "network_error", retry.Unavailable, false},
		{"openrouter", "error", retry.Unavailable, false}, // whoever stands behind a gateway died
		{"vllm", "abort", retry.Unavailable, false},
		{"vllm", "timeout", retry.Unavailable, false},
		{"vllm", "cancelled", retry.Unavailable, false},
		{"deepseek", "insufficient_system_resource", retry.Unavailable, false},
		{"gemini", "MAX_TOKENS", retry.InvalidOutput, false},
		{"gemini", "SAFETY", retry.InvalidOutput, false},
		{"gemini", "RECITATION", retry.InvalidOutput, false},
		{"gemini", "PROHIBITED_CONTENT", retry.InvalidOutput, false},
		{"gemini", "BLOCKLIST", retry.InvalidOutput, false},
		{"gemini", "SPII", retry.InvalidOutput, false},
		{"gemini", "LANGUAGE", retry.InvalidOutput, false},
		{"gemini", "OTHER", retry.Unavailable, false},
		{"gemini", "MALFORMED_RESPONSE", retry.Unavailable, false},
		{"gemini", "MALFORMED_FUNCTION_CALL", retry.Unavailable, false},
		{"gemini", "UNEXPECTED_TOOL_CALL", retry.Unavailable, false},
		{"gemini", blocked + "SAFETY", retry.InvalidInput, false}, // the input was not let through
		{"gemini", blocked + "PROHIBITED_CONTENT", retry.InvalidInput, false},
		{"gemini", blocked + "BLOCKLIST", retry.InvalidInput, false},
		{"gemini", blocked + "OTHER", retry.InvalidInput, false},
	}
}

// blocked stands before Gemini's reasons for not even reading the input.
const blocked = "blocked:"

// rowOf is the row of the most telling of an error's types: the first that decides,
// else the first that says something, else the first.
func rowOf(types []string) (row TypeRow, known bool) {
	rows := ErrorTypes()
	for _, t := range types {
		i := slices.IndexFunc(rows, func(r TypeRow) bool { return r.Type == t })
		if i >= 0 && (!known || !row.decides() && rows[i].decides() || row.Kind == "") {
			row, known = rows[i], true
		}
	}
	return row, known
}

// ours is the row of one of our own names.
func ours(typ string) TypeRow {
	row, _ := rowOf([]string{typ})
	return row
}

// endingOf is the row of why an answer ended, in whatever case a gateway spells it.
func endingOf(stopped string) (TypeRow, bool) {
	rows := Endings()
	if strings.HasPrefix(stopped, blocked) && !slices.ContainsFunc(rows, func(r TypeRow) bool { return r.Type == stopped }) {
		stopped = blocked + "OTHER"
	}
	for _, same := range []func(a, b string) bool{func(a, b string) bool { return a == b }, strings.EqualFold} {
		if i := slices.IndexFunc(rows, func(r TypeRow) bool { return same(r.Type, stopped) }); i >= 0 {
			return rows[i], true
		}
	}
	return TypeRow{}, false
}
