package retry

import (
	"net/http"
	"strconv"
	"strings"
	"unicode"
)

// Row is one line of the classification: a range of statuses, a text, or both.
type Row struct {
	// First and Last bound the HTTP statuses the row is for; both are 0 in a
	// row that is for answers without an error status.
	First, Last int
	// Text is what the lower-cased message contains; empty in a row for any.
	Text string
	Kind Kind
	// InCall and Queued say which layers repeat it. Both false means final.
	InCall, Queued bool
}

// Table is the whole classification in the order in which it is read; the first
// row that matches counts. Statuses come before texts (S1-03, S1-04). 500 is
// permanent (section 6, row 5) unless it says that it is overload; 409 and its
// like are about the server's state and not about the input; 520 to 530 are what
// proxies say of a server that they do not reach. An adapter that knows the
// provider's own error type decides before it asks this table. The slice is the
// caller's.
func Table() []Row {
	rows := []Row{
		{First: 401, Kind: Auth},
		{First: 402, Kind: Quota},
		{First: 403, Kind: Auth},
		{First: 404, Last: 407, Kind: Misconfigured},
		{First: 408, Kind: Timeout},
		{First: 409, Kind: Unavailable},
		{First: 410, Last: 411, Kind: Misconfigured},
		{First: 415, Kind: Misconfigured},
		{First: 423, Last: 425, Kind: Unavailable},
		{First: 426, Kind: Misconfigured},
		{First: 429, Kind: RateLimited},
		{First: 498, Kind: Overloaded},
		{First: 499, Kind: Unavailable},
		{First: 400, Last: 499, Kind: InvalidInput},
		{First: 500, Text: "overloaded", Kind: Overloaded},
		{First: 501, Kind: Misconfigured},
		{First: 502, Kind: Unavailable},
		{First: 503, Kind: Unavailable},
		{First: 504, Kind: Timeout},
		{First: 529, Kind: Overloaded},
		{First: 520, Last: 530, Kind: Unavailable},
		{First: 598, Last: 599, Kind: Timeout},
		{First: 500, Last: 599, Kind: Internal},
		{Text: "overloaded", Kind: Overloaded},
		{Text: "rate limit", Kind: RateLimited},
		{Text: "too many requests", Kind: RateLimited},
		{Text: "temporarily unavailable", Kind: Unavailable},
		{Text: "timeout", Kind: Timeout},
	}
	for i := range rows {
		r := &rows[i]
		if r.Last == 0 {
			r.Last = r.First
		}
		r.InCall, r.Queued = r.Kind.InCall(r.First), r.Kind.Queued()
	}
	return rows
}

// Classify turns a provider's answer into a kind and says whether layer 1 may
// repeat it. The status decides, but for the row of 500 that has a text. Only where
// there is none that names an error (below 400, or above 599) does the text, whatever its case; a status that the
// text itself names ("400 Bad Request: timeout must be a number") still counts
// first, so that no wording makes a permanent error look temporary (S1-04).
// What nothing matches is Internal, which is final.
func Classify(status int, text string) (kind Kind, inCall bool) {
	if !named(status) {
		status = statusIn(text) // 0 where the text alone counts
	}
	text = strings.NewReplacer("_", " ", "-", " ").Replace(strings.ToLower(text))
	for _, r := range Table() {
		if r.First <= status && status <= r.Last && strings.Contains(text, r.Text) {
			return r.Kind, r.InCall
		}
	}
	return Internal, false
}

func named(status int) bool { return 400 <= status && status <= 599 }

// statusIn finds an error status that a message names: after "status", "code"
// or "http", or before its own standard text. A bare number is no status.
func statusIn(text string) int {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	for i, w := range words {
		n, err := strconv.Atoi(w)
		if err != nil || !named(n) {
			continue
		}
		if i > 0 && (words[i-1] == "status" || words[i-1] == "code" || words[i-1] == "http") {
			return n
		}
		rest := strings.Join(words[i+1:], " ") + " "
		if std := strings.ToLower(http.StatusText(n)); std != "" && strings.HasPrefix(rest, std+" ") {
			return n
		}
	}
	return 0
}
