//go:build !nosdk

package provider

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidings/tidings/jobs/retry"
)

// words is what a message means that says more than its status and type.
type words struct {
	kind retry.Kind
	typ  string
}

// wordsOf reads an error's message. The order matters: what is about the input comes
// first, then the account, then what an operator has set.
func wordsOf(status int, s said) (words, bool) {
	text := strings.NewReplacer("_", " ", "-", " ", "’", "'").Replace(strings.ToLower(s.text))
	if slices.Contains(s.types, "RESOURCE_EXHAUSTED") {
		// Google's sentence for whichever quota it is.
		text = strings.ReplaceAll(text, "exceeded your current quota", "")
	}
	on := func(all ...int) bool { return slices.Contains(all, status) }
	refused := on(200, 400, 403, 422)
	switch {
	case (refused || on(451)) && flagged(text):
		return words{retry.InvalidInput, inputFlagged}, true
	case (refused || on(413, 429, 500)) && overLimit(text):
		return words{retry.InvalidInput, inputTooLong}, true
	case !on(404, 408, 502, 504) && outOfMoney(text):
		return words{retry.Quota, quotaInWords}, true
	case refused && keyless(text):
		return words{retry.Auth, keyRefused}, true
	case (refused || on(451)) && elsewhere(text):
		return words{retry.Misconfigured, regionRefused}, true
	case (refused || on(404)) && noModel(text):
		return words{retry.Misconfigured, modelRefused}, true
	case on(200, 400, 422) && noParameter(text):
		return words{retry.Misconfigured, parameterRefused}, true
	}
	return words{}, false
}

func anyOf(text string, all ...string) bool {
	return slices.ContainsFunc(all, func(w string) bool { return strings.Contains(text, w) })
}

// flagged: a filter stopped the input.
func flagged(text string) bool {
	return anyOf(text, "was flagged", "flagged as", "flagged by", "flagged for", "content filter", "was filtered", "content policy", "content management policy",
		"safety system", "usage policies", "usage policy", "moderation", "responsible ai", "inappropriate content", "content exists risk",
		"considered high risk", "sensitive content", "new sensitive", "敏感", "不安全", "违规", "内容安全")
}

// overLimit: the request is larger than the model or a limit allows at all, so that
// no pause helps.
func overLimit(text string) bool {
	if anyOf(text, "request too large", "payload too large", "prompt is too long", "prompt too long", "input is too long", "input too long",
		"input length", "too many tokens in", "maximum context length", "context length", "context window", "context limit", "context size", "context the overflows",
		"maximum number of tokens", "reduce the length", "reduce your message", "tokens must be reduced", "maximum prompt length",
		"exceeds the limit of tokens", "输入过长", "超过最大", "长度超") {
		return true
	}
	m := regexp.MustCompile(`limit:?\s*([\d,]+)\D.{0,60}?requested:?\s*([\d,]+)`).FindStringSubmatch(text)
	return m != nil && 0 < integer(m[1]) && integer(m[1]) < integer(m[2])
}

func integer(digits string) int64 {
	n, _ := strconv.ParseInt(strings.ReplaceAll(digits, ",", ""), 10, 64)
	return n
}

// outOfMoney: the account is empty, or at a limit that no pause lifts. What speaks of
// a minute is a rate limit, whatever it calls it.
func outOfMoney(text string) bool {
	if anyOf(text, "credit balance", "insufficient balance", "insufficient credit", "insufficient fund", "not enough credit", "not enough balance",
		"out of credit", "out of funds", "no credits", "any credits", "more credits", "all available credits", "included credits", "prepayment credits",
		"credits are depleted", "credits have been", "credits exhausted", "credit limit", "spend limit", "spending limit", "spending cap", "billing hard limit",
		"in good standing", "in arrears", "arrearage", "overdue", "past due", "unpaid", "payment required", "payment method", "failure to pay", "recharge", "top up",
		"extra usage", "budget has been exceeded", "exceeded budget", "budget exceeded", "enable billing", "billing to be enabled", "billing is disabled",
		"account is not active", "is not active", "free tier of the model has been exhausted", "key limit exceeded", "trial has ended", "trial expired", "plan has expired",
		"limit: 0,", "limit 0,", "余额", "欠费", "额度", "充值", "账户已", "套餐") {
		return true
	}
	if anyOf(text, "per minute", "per min", "/min", "per second", "perminute", "rpm", "tpm", "per hour") {
		return false
	}
	return anyOf(text, "insufficient quota", "exceeded your current quota", "exceeded current quota", "quota exhausted", "quota has been exhausted", "api usage limits", "usage limit",
		"per day", "perday", "/day", "daily", "per month", "/ month", "monthly", "per week", "weekly", "byday", "per 86400s", "当日", "每日", "今日")
}

// keyless: the key is wrong or missing, whatever the status says.
func keyless(text string) bool {
	return regexp.MustCompile(`(api key|access token|authentication|credentials?)\b.{0,40}(invalid|incorrect|not valid|missing|expired|revoked|required|fail)`).MatchString(text) ||
		regexp.MustCompile(`(invalid|incorrect|missing|expired|no|wrong) (api key|access token|authentication|credentials?)`).MatchString(text)
}

// elsewhere: the provider does not serve the place this runs in, or the model there.
func elsewhere(text string) bool {
	const place, no = `(country|region|territory|location)`, `(not supported|unsupported|not available|unavailable|not allowed|not permitted|restricted|denied|blocked)`
	return regexp.MustCompile(place+`.{0,60}`+no).MatchString(text) || regexp.MustCompile(no+`.{0,60}`+place).MatchString(text)
}

// noModel: there is no such model, or not any longer, or not for this account.
func noModel(text string) bool {
	if anyOf(text, "temporarily", "currently", "at the moment", "overloaded") {
		return false
	}
	return anyOf(text, "unknown model", "invalid model", "no such model", "unsupported model", "not a valid model", "unexpected model", "model identifier is invalid", "model name is invalid", "model id is invalid", "no endpoints found", "模型不存在", "无可用渠道") ||
		regexp.MustCompile(`(\bmodels?\b|deployment|模型).{0,120}(not found|not exist|n't exist|not supported|n't supported|not available|not accessible|not recognized|decommissioned|`+
			`deprecated|retired|discontinued|no longer|not have access|no access|不存在|未找到|下线|不支持)`).MatchString(text)
}

// noParameter: something in the request is not taken, which is never the user's
// doing: what users send is in the messages alone.
func noParameter(text string) bool {
	return anyOf(text, "unsupported parameter", "unsupported value", "unsupported argument", "unrecognized", "unknown parameter", "unknown field", "unknown name",
		"unknown argument", "unexpected parameter", "unexpected field", "unexpected keyword", "unexpected argument", "extra inputs", "extra forbidden", "extra fields",
		"additional properties", "cannot find field", "not supported", "not support", "n't support", "not enabled", "invalid parameter", "参数") || mentionsBound(text)
}
