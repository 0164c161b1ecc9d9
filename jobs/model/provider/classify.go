package provider

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/retry"
)

// TypeRow is what one of a provider's own names for a failure means. The names
// in lower case with "tidings" as provider are ours, for what has none.
type TypeRow struct {
	Provider, Type string
	Kind           retry.Kind
	// Weak rows give way to the words for an empty account: providers use the
	// type for other things too.
	Weak bool
}

// ErrorTypes is the table of all providers, as docs/errors.md prints it. Any
// other type decides nothing: the status does.
func ErrorTypes() []TypeRow {
	return slices.Concat(commonTypes(), anthropicDialect().types, openaiDialect().types, geminiDialect().types)
}

const (
	interrupted   = "stream_interrupted"
	formatRefused = "response_format_refused"
	noAnswer      = "no_answer"
)

// commonTypes are names for what happens with every provider.
func commonTypes() []TypeRow {
	const us = "tidings"
	return []TypeRow{
		{us, model.TypeInputTooLong, retry.InvalidInput, false}, // refused before a call
		{us, formatRefused, retry.Internal, false},              // a setting is wrong, not the input
		{us, interrupted, retry.StreamInterrupted, false},       // the answer broke off
		{us, noAnswer, retry.Unavailable, false},                // a success without the provider's answer in it
		{us, "too_long", retry.InvalidOutput, false},            // more than any answer may hold
		{us, "no_output", retry.InvalidOutput, false},           // an answer without text
		{us, "not_json", retry.InvalidOutput, false},            // text that is no JSON
		{us, "unknown_ending", retry.InvalidOutput, false},      // it stopped for a reason not in this table
		{us, "quota_in_words", retry.Quota, false},              // only the message says that the account is empty
	}
}

// dialect is what differs between providers in how they say that a call failed.
type dialect struct {
	provider  string
	types     []TypeRow
	requestID string // the header's name
	// read finds in an error's body what says more than its status.
	read func(body []byte) said
	// resets finds a wait hint in the provider's own headers; nil if it has none.
	resets func(x *exchange) time.Duration
	// refusals are words of an error about the way JSON was asked for.
	refusals []string
	// ownAddress: the provider's own, so that a name unknown there is unknown.
	ownAddress bool
}

// said is what an error's body says. It stays in this package.
type said struct {
	types []string // most telling first
	text  string
	wait  time.Duration
}

func (d dialect) row(typ string) (TypeRow, bool) {
	for _, rows := range [][]TypeRow{d.types, commonTypes()} {
		if i := slices.IndexFunc(rows, func(r TypeRow) bool { return r.Type == typ }); i >= 0 {
			return rows[i], true
		}
	}
	return TypeRow{}, false
}

// answered is the error of an answer: by the provider's type, then by the
// status, and by the text where neither decides (S3-22). A status of 400 or 401
// is never made into something to repeat (S1-04).
// status is the answer's, or the one that a gateway put into its body.
func (d dialect) answered(x *exchange, status int, s said) *model.Error {
	kind, _ := retry.Classify(status, s.text)
	e := &model.Error{Kind: kind, Status: status, RequestID: x.requestID(d)}
	row, known := TypeRow{}, false
	for _, t := range s.types {
		if row, known = d.row(t); known {
			e.Type = row.Type
			break
		}
	}
	switch {
	case (status == 400 || status == 422) && d.refusesFormat(s.text):
		e.Type, e.Kind = formatRefused, retry.Internal
	case known && !row.Weak:
		e.Kind = row.Kind
	case outOfMoney(status, s.text):
		e.Type, e.Kind = "quota_in_words", retry.Quota
	case known:
		e.Kind = row.Kind
	}
	if (status == 400 || status == 401) && e.Kind.Queued() {
		e.Kind = kind
	}
	if e.Kind.Queued() {
		e.RetryAfter = d.hint(x, s, e.Kind)
	}
	e.Advice = d.advice(e)
	return e
}

// unusable is the error of an answer that came with a good status. typ is ours
// or the provider's word for why it ended; an unknown one is not repeated.
func (d dialect) unusable(x *exchange, typ string) *model.Error {
	row, known := d.row(typ)
	if !known {
		row = TypeRow{Type: "unknown_ending", Kind: retry.InvalidOutput}
	}
	return &model.Error{Kind: row.Kind, Status: x.status, Type: row.Type, RequestID: x.requestID(d)}
}

// hint is how long the provider asks to be left alone: the standard headers or
// its own place for it, whichever is longer, and for a rate limit else the time
// its limits are full again.
func (d dialect) hint(x *exchange, s said, kind retry.Kind) time.Duration {
	wait := max(retry.Hint(x.header.Get, x.clock()), s.wait)
	if wait == 0 && kind == retry.RateLimited && d.resets != nil {
		wait = d.resets(x)
	}
	return min(max(wait, 0), retry.MaxHint)
}

func (d dialect) refusesFormat(text string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(d.refusals, func(w string) bool { return strings.Contains(text, w) })
}

// advice names what an operator can change.
func (d dialect) advice(e *model.Error) string {
	switch {
	case e.Type == formatRefused:
		return "this model does not take the way JSON is asked for: set TIDINGS_MODEL_OUTPUT to json_object or text"
	case e.Kind == retry.Auth:
		return "the provider does not accept the key for this: check " + KeyName(d.provider)
	case e.Kind == retry.Quota:
		return "the account at the provider is out of credit or at its limit"
	case e.Status == 404 && d.ownAddress:
		return "the provider does not know the model: check TIDINGS_MODEL"
	case e.Status == 404:
		return "nothing is there: check TIDINGS_MODEL, and how TIDINGS_MODEL_BASE_URL has to end"
	}
	return ""
}

// outOfMoney tells whether a message says that the account is empty or at a
// limit that no pause lifts. What speaks of a minute is a rate limit, whatever
// it calls it.
func outOfMoney(status int, text string) bool {
	switch status {
	case 400, 402, 403, 429:
	default:
		return false
	}
	text = strings.NewReplacer("_", " ", "-", " ").Replace(strings.ToLower(text))
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
	}
	if has("per minute", "per min", "/min", "per second", "perminute", "rpm", "tpm", "per hour") {
		return false
	}
	return has("credit balance", "insufficient quota", "insufficient credit", "insufficient balance", "out of credit",
		"not enough credit", "exceeded your current quota", "specified api usage limits", "spend limit", "spending limit",
		"billing hard limit")
}

// finish completes the response of an answer that came to its end, or says why
// it cannot be used. Its tokens are counted either way.
func (d dialect) finish(x *exchange, r model.Response, asked, stopped string, good ...string) (model.Response, error) {
	if r.Model == "" {
		r.Model = asked
	}
	r.RequestID = x.requestID(d)
	var e *model.Error
	switch {
	case !slices.Contains(good, stopped):
		e = d.unusable(x, stopped)
	case len(r.Content) == 0:
		e = d.unusable(x, "no_output")
	case !json.Valid(r.Content):
		e = d.unusable(x, "not_json")
	default:
		return r, nil
	}
	r.Content, e.Usage = nil, r.Usage
	return r, e
}
