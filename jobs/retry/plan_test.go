package retry_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/jobs/retry"
)

func plan(t *testing.T, s string) retry.Plan {
	t.Helper()
	p, err := retry.ParsePlan(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestParsePlan(t *testing.T) {
	tests := []struct {
		id, text, written string
		want              []time.Duration
	}{
		{"S1-08 section 6 row 1", "30s,60s,120s", "30s,1m,2m", seconds(30, 60, 120, 120, 120)},
		{"S2-22", "exp:10s..5m", "exp:10s..5m", seconds(10, 20, 40, 80, 160, 300, 300)},
		{"dev", "1s,2s,4s", "1s,2s,4s", seconds(1, 2, 4, 4)},
		{"one", " 5s ", "5s", seconds(5, 5)},
		{"hour", "90m,1h30m", "", nil},
		{"longest", "59m59s, 1h", "59m59s,1h", seconds(3599, 3600, 3600)},
		{"constant", "exp:7s..7s", "exp:7s..7s", seconds(7, 7)},
	}
	for _, tt := range tests {
		t.Run(tt.id, func(t *testing.T) {
			p, err := retry.ParsePlan(tt.text)
			if tt.want == nil {
				if err == nil {
					t.Fatalf("%q was taken as %s", tt.text, p)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []time.Duration
			for n := range tt.want {
				got = append(got, p.Delay(n+1))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("delays are %v, want %v", got, tt.want)
			}
			if p.String() != tt.written {
				t.Errorf("written as %q, want %q", p, tt.written)
			}
			if again := plan(t, p.String()); again.String() != tt.written || again.Total(9) != p.Total(9) {
				t.Errorf("%q read back is %q", p, again)
			}
		})
	}
}

func TestParsePlanRefuses(t *testing.T) {
	for text, says := range map[string]string{
		"":             "no duration",
		"30":           "no duration",
		"30s,,60s":     "no duration",
		"soon":         "no duration",
		"0s":           "not between 10ms and 1h",
		"-5s":          "not between",
		"2h":           "not between",
		"60s,30s":      "must not shrink",
		"exp:10s":      "exp:10s..5m",
		"exp:5m..10s":  "must not shrink",
		"exp:..":       "no duration",
		"exp:1s..100h": "not between",
	} {
		_, err := retry.ParsePlan(text)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: error is %v, want one that says %q", text, err, says)
		}
	}
}

func TestPlanTotal(t *testing.T) {
	p := plan(t, "30s,60s,120s")
	for retries, want := range map[int]time.Duration{-1: 0, 0: 0, 1: 30 * time.Second, 3: 210 * time.Second, 4: 330 * time.Second} {
		if got := p.Total(retries); got != want {
			t.Errorf("%d retries wait %s, want %s", retries, got, want)
		}
	}
	if got := p.Delay(0); got != 30*time.Second {
		t.Errorf("Delay(0) = %s, want the first", got)
	}
	if !(retry.Plan{}).IsZero() || p.IsZero() || (retry.Plan{}).String() != "" {
		t.Error("the zero plan is not told apart")
	}
}

// Section 6 row 6: exact by default, jitter from a hash, so that each process
// finds the same time.
func TestPlanJittered(t *testing.T) {
	p := plan(t, "30s,60s,120s")
	if got := p.Jittered(2, "job", 2, 0); got != time.Minute {
		t.Errorf("without jitter the wait is %s, want 1m exactly", got)
	}
	const fraction = 0.1
	seen := map[time.Duration]bool{}
	var sum time.Duration
	for i := range 1000 {
		job := fmt.Sprintf("01J%04d", i)
		got := p.Jittered(1, job, 1, fraction)
		if got < 30*time.Second || got > 33*time.Second {
			t.Fatalf("%s waits %s, want 30s to 33s", job, got)
		}
		if again := plan(t, "30s,60s,120s").Jittered(1, job, 1, fraction); again != got {
			t.Fatalf("%s waits %s here and %s there", job, got, again)
		}
		seen[got.Truncate(time.Millisecond)] = true
		sum += got
	}
	if mean := sum / 1000; len(seen) < 500 || mean < 31300*time.Millisecond || mean > 31700*time.Millisecond {
		t.Errorf("%d different waits with a mean of %s: not spread", len(seen), mean)
	}
	if p.Jittered(3, "job", 3, fraction) == p.Jittered(3, "job", 4, fraction) {
		t.Error("the attempt does not count")
	}
	if got := p.Jittered(1, "job", 1, 5); got > 33*time.Second {
		t.Errorf("a fraction of 5 gives %s, want at most 33s", got)
	}
	// Processes of different versions must agree too.
	if got, want := p.Jittered(1, "01JTEST", 1, 0.1), 30739913131*time.Nanosecond; got != want {
		t.Errorf("the hash has changed: %s, want %s", got, want)
	}
}
