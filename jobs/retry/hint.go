package retry

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxHint is the longest wait a provider is believed to mean. Every default
// deadline is shorter, so a hint that is cut to it still ends the job rather
// than starting a call too early.
const MaxHint = time.Hour

// Hint reads a provider's wait hint from an answer's headers, "retry-after-ms"
// (OpenAI) before "retry-after". get is the answer's http.Header.Get, now the
// time of the answer. 0 is none.
func Hint(get func(name string) string, now time.Time) time.Duration {
	if d, ok := ParseRetryAfterMS(get("Retry-After-Ms")); ok {
		return d
	}
	d, _ := ParseRetryAfter(get("Retry-After"), now)
	return d
}

// ParseRetryAfter reads a Retry-After value: seconds, also "1.5" as some
// providers send, or an HTTP date (RFC 9110, all three forms). Garbage, zero,
// negative numbers and dates not after now are no hint; longer ones are cut to
// MaxHint (I-75).
func ParseRetryAfter(value string, now time.Time) (time.Duration, bool) {
	value = strings.TrimSpace(value)
	if d, ok := number(value, time.Second); ok {
		return d, true
	}
	at, err := http.ParseTime(value)
	if err != nil || !at.After(now) {
		return 0, false
	}
	return min(at.Sub(now), MaxHint), true
}

// ParseRetryAfterMS reads a retry-after-ms value, milliseconds, by the rules of
// ParseRetryAfter.
func ParseRetryAfterMS(value string) (time.Duration, bool) {
	return number(strings.TrimSpace(value), time.Millisecond)
}

// number reads digits with at most one point between them. ParseFloat alone
// would take "inf", "0x10" and "1e9" as well.
func number(s string, unit time.Duration) (time.Duration, bool) {
	whole, frac, point := strings.Cut(s, ".")
	if !digits(whole) || (point && !digits(frac)) {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f >= float64(MaxHint/unit) { // err: so long that it is out of range
		return MaxHint, true
	}
	d := time.Duration(f * float64(unit))
	return d, d > 0
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
