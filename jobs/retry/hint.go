package retry

import (
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// MaxHint is the longest wait a provider is believed to mean. Every default
// deadline is shorter, so a hint that is cut to it still ends the job rather
// than starting a call too early.
const MaxHint = time.Hour

// AbsurdHint is the wait from which on a provider cannot mean it: a clock that is
// wrong, or a number that is no wait. It counts as none, because what is cut to
// MaxHint would stop the whole fleet for an hour over a slip.
const AbsurdHint = 24 * time.Hour

// Believed is a wait hint as it is acted upon: none if it is absurd, at most
// MaxHint otherwise.
func Believed(wait time.Duration) time.Duration {
	if wait <= 0 || wait > AbsurdHint {
		return 0
	}
	return min(wait, MaxHint)
}

// Hint reads a provider's wait hint from an answer's headers; milliseconds come
// before seconds. get is the answer's http.Header.Get, now the time of the answer.
// 0 is none; it is as said, see Believed.
func Hint(get func(name string) string, now time.Time) time.Duration {
	for _, name := range []string{"Retry-After-Ms", "X-Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		if d := ParseWaitMS(get(name), now); d > 0 {
			return d
		}
	}
	for _, name := range []string{"Retry-After", "X-Retry-After"} {
		if d := ParseWait(get(name), now); d > 0 {
			return d
		}
	}
	return 0
}

// ParseWait reads how long to wait, 0 if it cannot: seconds, also "1.5" as some
// providers send; with units, such as "6m0s" or "20 seconds"; an instant as seconds,
// milliseconds or smaller units since 1970; a date of HTTP (RFC 9110, all three
// forms) or of RFC 3339. Garbage, zero, negative numbers and what is not after now
// are no hint (I-75).
func ParseWait(value string, now time.Time) time.Duration {
	value = strings.Trim(strings.TrimSpace(value), `"`)
	if n, ok := number(value); ok {
		return fromNumber(n, time.Second, now)
	}
	if d := span(value); d > 0 {
		return d
	}
	at, err := http.ParseTime(value)
	if err != nil {
		at = date(value)
	}
	if at.IsZero() {
		return 0
	}
	return max(0, at.Sub(now))
}

// ParseWaitMS reads a number of milliseconds by the rules of ParseWait.
func ParseWaitMS(value string, now time.Time) time.Duration {
	if n, ok := number(strings.TrimSpace(value)); ok {
		return fromNumber(n, time.Millisecond, now)
	}
	return ParseWait(value, now)
}

const (
	unitWord = `(?:milliseconds?|millis|msecs?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d)`
	spanText = `(?:\d+(?:\.\d+)?\s*` + unitWord + `\b[\s,]*(?:and\s+)?|\d+(?:\.\d+)?` + unitWord + `)+`
	dateText = `\d{4}-\d{2}-\d{2}(?:[T ]|\s+at\s+)\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?\s*(?:Z|UTC|GMT|[+-]\d{2}:\d{2})?`
)

// WaitIn finds in a message how long to wait: a number with a unit, or an instant,
// behind words that ask for it, such as "Please try again in 6.5s" or "resets at
// 2026-12-01 00:00 UTC". 0 is none.
func WaitIn(text string, now time.Time) time.Duration {
	const ask = `(?:try(?:ing)?\s+again|retry(?:ing)?|wait(?:ing)?|resets?|resetting|available|regain access|come back|back off)` +
		`(?:\s+(?:again|your|the|this|request|requests|will|be|is|a|at|least|about|approximately|for|in|after|until|on))*[\s:~=]*`
	var longest time.Duration
	for _, m := range regexp.MustCompile(`(?i)\b`+ask+`(`+dateText+`|\d{10}(?:\d{3})?\b|`+spanText+`)`).FindAllStringSubmatch(text, 9) {
		longest = max(longest, ParseWait(m[1], now))
	}
	for _, m := range regexp.MustCompile(`(\d+(?:\.\d+)?)\s*(毫秒|秒|分钟|小时)(?:钟)?(?:之?后|再)`).FindAllStringSubmatch(text, 9) {
		unit := map[string]string{"毫秒": "ms", "秒": "s", "分钟": "m", "小时": "h"}[m[2]]
		longest = max(longest, span(m[1]+unit))
	}
	return longest
}

// number reads digits with at most one point between them. ParseFloat alone
// would take "inf", "0x10" and "1e9" as well.
func number(s string) (float64, bool) {
	whole, frac, point := strings.Cut(s, ".")
	if !digits(whole) || (point && !digits(frac)) {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil { // so long that it is out of range
		f = math.MaxFloat64
	}
	return f, true
}

// fromNumber is a number of units, or an instant if it is so large that it can
// only be the time since 1970, in whatever unit that makes sense.
func fromNumber(n float64, unit time.Duration, now time.Time) time.Duration {
	const epoch = 1e9 // seconds, of 2001
	if unit == time.Second && n < epoch || unit == time.Millisecond && n < epoch*100 {
		return time.Duration(math.Round(n * float64(unit)))
	}
	for _, since := range []struct {
		below float64
		unit  time.Duration
	}{{1e11, time.Second}, {1e14, time.Millisecond}, {1e17, time.Microsecond}, {9e18, time.Nanosecond}} {
		if n < since.below {
			return max(0, time.UnixMilli(int64(n*float64(since.unit)/1e6)).Sub(now))
		}
	}
	return 0
}

// span reads numbers with units, such as "1h2m3.5s" or "2 minutes, 30 seconds".
func span(s string) time.Duration {
	s = strings.ToLower(strings.TrimSpace(s))
	if !regexp.MustCompile(`^` + spanText + `$`).MatchString(s) {
		return 0
	}
	var sum float64
	for _, m := range regexp.MustCompile(`(\d+(?:\.\d+)?)\s*(`+unitWord+`)`).FindAllStringSubmatch(s, -1) {
		n, _ := number(m[1])
		sum += n * float64(unitOf(m[2]))
	}
	if sum >= float64(math.MaxInt64) {
		return math.MaxInt64
	}
	return time.Duration(math.Round(sum))
}

func unitOf(word string) time.Duration {
	switch {
	case strings.HasPrefix(word, "ms"), strings.HasPrefix(word, "mil"):
		return time.Millisecond
	case word[0] == 's':
		return time.Second
	case word[0] == 'm':
		return time.Minute
	case word[0] == 'h':
		return time.Hour
	}
	return 24 * time.Hour
}

// date reads an instant as RFC 3339 and people write it; UTC where it names no
// zone. Zero if it cannot.
func date(s string) time.Time {
	m := regexp.MustCompile(`(?i)^(\d{4}-\d{2}-\d{2})(?:T|\s+at\s+|\s+)(\d{2}:\d{2})(:\d{2}(?:\.\d+)?)?\s*(Z|UTC|GMT|[+-]\d{2}:\d{2})?$`).FindStringSubmatch(strings.TrimSpace(s))
	if m == nil {
		return time.Time{}
	}
	if m[3] == "" {
		m[3] = ":00"
	}
	if !strings.ContainsAny(m[4], "+-") {
		m[4] = "Z"
	}
	at, err := time.Parse(time.RFC3339Nano, m[1]+"T"+m[2]+m[3]+m[4])
	if err != nil {
		return time.Time{}
	}
	return at
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
