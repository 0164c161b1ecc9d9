package retry_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/jobs/retry"
)

// I-75 and I-74.
func TestI75_ParseRetryAfter(t *testing.T) {
	now := time.Date(2026, 4, 7, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		name, value string
		want        time.Duration // 0: no hint
	}{
		{"seconds", "5", 5 * time.Second},
		{"spaces", " 171 ", 171 * time.Second},
		{"decimals", "1.5", 1500 * time.Millisecond},
		{"small decimals", "0.25", 250 * time.Millisecond},
		{"future date", now.Add(90 * time.Second).Format(http.TimeFormat), 90 * time.Second},
		{"future date, RFC 850", "Tuesday, 07-Apr-26 12:00:30 GMT", 30 * time.Second},
		{"future date, asctime", "Tue Apr  7 12:00:10 2026", 10 * time.Second},
		{"an hour", "3600", time.Hour},
		{"ten years in seconds", "315360000", time.Hour},
		{"ten years as a date", now.AddDate(10, 0, 0).Format(http.TimeFormat), time.Hour},
		{"more than any number", strings.Repeat("9", 400), time.Hour},

		{"empty", "", 0},
		{"zero", "0", 0},
		{"negative", "-1", 0},
		{"past date", now.Add(-time.Second).Format(http.TimeFormat), 0},
		{"date of now", now.Format(http.TimeFormat), 0},
		{"garbage", "abc", 0},
		{"unit", "5s", 0},
		{"exponent", "1e3", 0},
		{"hexadecimal", "0x10", 0},
		{"infinite", "inf", 0},
		{"not a number", "NaN", 0},
		{"two points", "1.2.3", 0},
		{"half a number", "1.", 0},
		{"the other half", ".5", 0},
		{"other digits", "٣", 0},
		{"a year", "2030", 2030 * time.Second},
		{"date without a zone", "Tue, 07 Apr 2026 12:00:30", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := retry.ParseRetryAfter(tt.value, now)
			if got != tt.want || ok != (tt.want > 0) {
				t.Errorf("%q: got %s, %v; want %s", tt.value, got, ok, tt.want)
			}
		})
	}
}

func TestHint(t *testing.T) {
	now := time.Date(2026, 4, 7, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		name      string
		ms, after string
		want      time.Duration
	}{
		{"none", "", "", 0},
		{"seconds", "", "7", 7 * time.Second},
		{"milliseconds count first", "1234.5", "2", 1234500 * time.Microsecond},
		{"bad milliseconds do not", "soon", "2", 2 * time.Second},
		{"negative milliseconds do not", "-5", "2", 2 * time.Second},
		{"both bad", "x", "y", 0},
		{"two hours in milliseconds", "7200000", "", time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := http.Header{}
			h.Set("retry-after-ms", tt.ms)
			h.Set("retry-after", tt.after)
			if got := retry.Hint(h.Get, now); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func FuzzParseRetryAfter(f *testing.F) {
	now := time.Date(2026, 4, 7, 12, 0, 0, 0, time.UTC)
	for _, s := range []string{"5", "1.5", "-1", "Tue, 07 Apr 2026 12:00:30 GMT", "1e9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, ok := retry.ParseRetryAfter(s, now)
		if d < 0 || d > retry.MaxHint || ok != (d > 0) {
			t.Errorf("%q: %s, %v", s, d, ok)
		}
	})
}
