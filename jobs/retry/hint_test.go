package retry_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/jobs/retry"
)

// noon is what the tests of this file count from.
func noon() time.Time { return time.Date(2026, 4, 7, 12, 0, 0, 0, time.UTC) }

// I-75 and I-74.
func TestParseWait(t *testing.T) {
	now := noon()
	epoch := now.Unix()
	tests := []struct {
		name, value string
		want        time.Duration // 0: no hint
	}{
		{"seconds", "5", 5 * time.Second},
		{"spaces", " 171 ", 171 * time.Second},
		{"quotes", `"12"`, 12 * time.Second},
		{"decimals", "1.5", 1500 * time.Millisecond},
		{"small decimals", "0.25", 250 * time.Millisecond},
		{"future date", now.Add(90 * time.Second).Format(http.TimeFormat), 90 * time.Second},
		{"future date, RFC 850", "Tuesday, 07-Apr-26 12:00:30 GMT", 30 * time.Second},
		{"future date, asctime", "Tue Apr  7 12:00:10 2026", 10 * time.Second},
		{"future date, RFC 3339", "2026-04-07T12:00:10Z", 10 * time.Second},
		{"with an offset and a fraction", "2026-04-07T14:00:10.5+02:00", 10500 * time.Millisecond},
		{"as people write it", "2026-04-07 12:01 UTC", time.Minute},
		{"an hour", "3600", time.Hour},
		{"a year", "2030", 2030 * time.Second},
		{"one unit", "5s", 5 * time.Second},
		{"a space before it", "20 seconds", 20 * time.Second},
		{"several units", "6m0s", 6 * time.Minute},
		{"a fraction of one", "1h2m3.5s", time.Hour + 2*time.Minute + 3500*time.Millisecond},
		{"milliseconds", "350ms", 350 * time.Millisecond},
		{"words", "2 minutes and 30 seconds", 150 * time.Second},
		{"days", "1 day", 24 * time.Hour},
		{"an instant in seconds", strconv.FormatInt(epoch+4, 10), 4 * time.Second},
		{"an instant in decimals", strconv.FormatInt(epoch+4, 10) + ".5", 4500 * time.Millisecond},
		{"an instant in milliseconds", strconv.FormatInt(1000*epoch+4000, 10), 4 * time.Second},
		{"an instant in microseconds", strconv.FormatInt(1_000_000*epoch+4_000_000, 10), 4 * time.Second},
		{"an instant in nanoseconds", strconv.FormatInt(1_000_000_000*epoch+4_000_000_000, 10), 4 * time.Second},

		{"empty", "", 0},
		{"zero", "0", 0},
		{"negative", "-1", 0},
		{"negative with a unit", "-3s", 0},
		{"past date", now.Add(-time.Second).Format(http.TimeFormat), 0},
		{"date of now", now.Format(http.TimeFormat), 0},
		{"a past instant", "1700000000", 0},
		{"a past instant in milliseconds", "1700000000000", 0},
		{"garbage", "abc", 0},
		{"a unit alone", "s", 0},
		{"no unit of time", "5 tokens", 0},
		{"exponent", "1e3", 0},
		{"hexadecimal", "0x10", 0},
		{"infinite", "inf", 0},
		{"not a number", "NaN", 0},
		{"more than any number", strings.Repeat("9", 400), 0},
		{"two points", "1.2.3", 0},
		{"half a number", "1.", 0},
		{"the other half", ".5", 0},
		{"other digits", "٣", 0},
		{"date without a zone", "Tue, 07 Apr 2026 12:00:30", 0},
		{"no such day", "2026-13-07 12:00 UTC", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := retry.ParseWait(tt.value, now); (got - tt.want).Abs() > time.Microsecond {
				t.Errorf("%q: got %s, want %s", tt.value, got, tt.want)
			}
		})
	}
}

// An absurd hint is none: it would stop the fleet for an hour.
func TestBelieved(t *testing.T) {
	for wait, want := range map[time.Duration]time.Duration{
		-time.Second: 0, 0: 0, time.Second: time.Second, time.Hour: time.Hour, 2 * time.Hour: time.Hour,
		24 * time.Hour: time.Hour, 24*time.Hour + 1: 0, 10 * 365 * 24 * time.Hour: 0,
	} {
		if got := retry.Believed(wait); got != want {
			t.Errorf("%s: %s, want %s", wait, got, want)
		}
	}
}

func TestHint(t *testing.T) {
	tests := []struct {
		name, header, value, after string
		want                       time.Duration
	}{
		{"none", "", "", "", 0},
		{"seconds", "", "", "7", 7 * time.Second},
		{"milliseconds count first", "retry-after-ms", "1234.5", "2", 1234500 * time.Microsecond},
		{"Azure's milliseconds", "x-ms-retry-after-ms", "1500", "2", 1500 * time.Millisecond},
		{"milliseconds that are an instant", "retry-after-ms", strconv.FormatInt(noon().UnixMilli()+3000, 10), "2", 3 * time.Second},
		{"bad milliseconds do not", "retry-after-ms", "soon", "2", 2 * time.Second},
		{"negative milliseconds do not", "retry-after-ms", "-5", "2", 2 * time.Second},
		{"both bad", "retry-after-ms", "x", "y", 0},
		{"its other name", "x-retry-after", "9", "", 9 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := http.Header{}
			h.Set(tt.header, tt.value)
			h.Set("retry-after", tt.after)
			if got := retry.Hint(h.Get, noon()); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// The wait that stands in a message alone, as vendors and gateways word it.
func TestWaitIn(t *testing.T) {
	instant := strconv.FormatInt(noon().Unix()+40, 10)
	for text, want := range map[string]time.Duration{
		"Limit 30000, Used 29937, Requested 385. Please try again in 6.5s.":                 6500 * time.Millisecond,
		"Quota exceeded for metric: x, limit: 15\nPlease retry in 6.429760048s.":            6429760048,
		"Rate limit reached (TPD). Please try again in 12m3.6s. Need more tokens? Visit us": 12*time.Minute + 3600*time.Millisecond,
		"try again in 350ms":                                 350 * time.Millisecond,
		"Please retry after 26 seconds. To increase":         26 * time.Second,
		"Please wait 50 seconds before retrying.":            50 * time.Second,
		"Try again in 2 minutes":                             2 * time.Minute,
		"Please wait for 1 minute and 5 seconds":             65 * time.Second,
		"Your limit resets in 1h30m.":                        90 * time.Minute,
		"Rate limit resets at 2026-04-07T12:00:20Z":          20 * time.Second,
		"You will regain access on 2026-04-07 at 12:10 UTC.": 10 * time.Minute,
		"available again at " + instant:                      40 * time.Second,
		"请在30秒后重试":                                           30 * time.Second,
		"请求过于频繁，请 5 秒后再试":                                    5 * time.Second,

		"":                                     0,
		"Overloaded, please try again later.":  0,
		"Retry after a while":                  0,
		"it took 30s":                          0,
		"try again in 30 tokens":               0,
		"Please try again in -5s":              0,
		"resets at 2020-01-01 00:00:00 UTC":    0,
		"limit: 15, retry with fewer than 20s": 0,
	} {
		if got := retry.WaitIn(text, noon()); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func FuzzParseWait(f *testing.F) {
	for _, s := range []string{"5", "1.5", "-1", "Tue, 07 Apr 2026 12:00:30 GMT", "1e9", "6m0s", "99999999999999999999d", "1796256000000", "2026-04-07 12:00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, d := range []time.Duration{retry.ParseWait(s, noon()), retry.ParseWaitMS(s, noon()), retry.WaitIn("try again in "+s, noon())} {
			if d < 0 || retry.Believed(d) > retry.MaxHint {
				t.Errorf("%q: %s", s, d)
			}
		}
	})
}
