//go:build !nosdk

package provider

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/retry"
)

// dialect is what differs between providers beside the form of their answers.
type dialect struct {
	provider  string
	model     string
	requestID string // the header's name
	// refusals are words of an error about the way JSON was asked for.
	refusals []string
	// ownAddress: the provider's own, so that a name unknown there is unknown.
	ownAddress bool
	// bound is what was learnt about the output's bound.
	bound *bound
}

// answered is the error of an answer: by the provider's type, by its words, then
// by the status. A status that is permanent is never made into something to repeat,
// whatever the body says (S1-04). status is the answer's, or the one that a gateway
// put into its body.
func (d dialect) answered(x *exchange, status int, s said) *model.Error {
	kind, _ := retry.Classify(status, s.text)
	e := &model.Error{Kind: kind, Status: status, Message: model.Redact(s.text, d.model)}
	row, known := rowOf(s.types)
	e.Type = row.Type
	words, told := wordsOf(status, s)
	refused := status == 400 || status == 422
	switch {
	case refused && d.bound.refused(x.asked, x.bound, s):
		e.Type, e.Kind, e.Adjusted = boundRefused, retry.Misconfigured, true
	case refused && d.refusesFormat(s.text):
		e.Type, e.Kind = formatRefused, retry.Misconfigured
	case known && row.decides():
		e.Kind = row.Kind
	case told:
		e.Kind = words.kind
		if words.kind != row.Kind {
			e.Type = words.typ
		}
	case row.Kind != "" && (refused || !permanent(status)):
		e.Kind = row.Kind
	}
	if permanent(status) && e.Kind.Queued() {
		e.Kind = kind
	}
	e.RetryAfter = d.hint(x, s, e.Kind)
	e.Advice = d.advice(e)
	return e
}

// permanent tells whether a status means that the same request fails again.
func permanent(status int) bool {
	kind, _ := retry.Classify(status, "")
	return 400 <= status && status <= 499 && !kind.Queued()
}

// inside is the error that came with a good status: by the status that stands in
// it, its type or its words. What says nothing of these, or is no error at all, is
// something in between that spoke, or the provider that fell silent.
func (d dialect) inside(x *exchange, s said) *model.Error {
	if s.status != 0 {
		return d.answered(x, s.status, s)
	}
	row, _ := rowOf(s.types)
	_, told := wordsOf(x.status, s)
	kind, _ := retry.Classify(x.status, s.text)
	if row.Kind == "" && !told && kind == retry.Internal {
		return d.unusable(x, ours(noAnswer))
	}
	return d.answered(x, x.status, s)
}

// judge takes the JSON out of an answer that came to its end, or says why it cannot
// be used. The reasons for an end that are known as bad decide; any other is left to
// what was written.
func (d dialect) judge(x *exchange) ([]byte, *model.Error) {
	a := &x.answer
	if row, bad := endingOf(a.stopped); bad {
		return nil, d.unusable(x, row)
	}
	text := a.text.String()
	if strings.TrimSpace(text) == "" {
		return nil, d.unusable(x, ours(noOutput))
	}
	content := object(text, x.asked.Schema)
	if content == nil {
		return nil, d.unusable(x, ours(notJSON))
	}
	return content, nil
}

// unusable is the error of an answer that came with a good status.
func (d dialect) unusable(x *exchange, row TypeRow) *model.Error {
	return &model.Error{Kind: row.Kind, Status: x.status, Type: row.Type}
}

// longestReset is how far ahead the end of a used up account's period may lie.
const longestReset = 31 * 24 * time.Hour

// hint is how long the provider asks to be left alone: the standard headers or
// its own place for it, whichever is longer, and for a limit else the time it is
// full again. It is kept for what the queue repeats, and of an account that is used
// up, whose owner wants to know when it is not.
func (d dialect) hint(x *exchange, s said, kind retry.Kind) time.Duration {
	if !kind.Queued() && kind != retry.Quota {
		return 0
	}
	wait := max(retry.Hint(x.header.Get, x.clock()), s.wait)
	if wait == 0 && (kind == retry.RateLimited || kind == retry.Quota) {
		wait = resets(x)
	}
	switch {
	case kind == retry.Quota && slices.Contains(s.types, quotaOfTheDay):
		return 0 // Google's hint beside it is about a minute's quota
	case kind == retry.Quota && wait <= longestReset:
		return wait
	}
	return retry.Believed(wait)
}

// resets is when the limits that are used up are full again. Where none is said to
// be used up it is the last of those that do not say what is left, and of Anthropic's
// all: rather too late than against the same wall.
func resets(x *exchange) time.Duration {
	var used, all time.Duration
	for name := range x.header {
		lower := strings.ToLower(name)
		if !strings.Contains(lower, "ratelimit") || !strings.Contains(lower, "reset") {
			continue
		}
		wait := retry.ParseWait(x.header.Get(name), x.clock())
		left := x.header.Get(strings.Replace(name, "Reset", "Remaining", 1))
		if n, _, _ := strings.Cut(left, "."); n == "0" || strings.HasPrefix(n, "-") {
			used = max(used, wait)
		}
		if left == "" || strings.HasPrefix(lower, "anthropic") {
			all = max(all, wait)
		}
	}
	return cmp.Or(used, all)
}

func (d dialect) refusesFormat(text string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(d.refusals, func(w string) bool { return strings.Contains(text, w) })
}

// advice names what an operator can change.
func (d dialect) advice(e *model.Error) string {
	switch {
	case e.Adjusted:
		return "" // nothing is left to do
	case e.Type == formatRefused:
		return "this model does not accept the way JSON is asked for: set TIDINGS_MODEL_OUTPUT to json_object or text"
	case e.Type == regionRefused:
		return "the provider does not serve this model where this process runs: choose another model or address"
	case e.Type == parameterRefused:
		return "the provider refuses a parameter of the request: check that TIDINGS_MODEL is a text model, and what TIDINGS_MODEL_BASE_URL leads to"
	case e.Kind == retry.Auth:
		return "the provider does not accept the key for this: check " + KeyName(d.provider)
	case e.Kind == retry.Quota:
		return "the account at the provider is out of credit or at its limit"
	case e.Kind == retry.Misconfigured && (d.ownAddress || e.Type == modelRefused):
		return "the provider does not know or no longer serves the model: check TIDINGS_MODEL"
	case e.Kind == retry.Misconfigured:
		return "nothing answers there: check TIDINGS_MODEL, and how TIDINGS_MODEL_BASE_URL has to end"
	}
	return ""
}
