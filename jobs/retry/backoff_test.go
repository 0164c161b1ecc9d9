package retry_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tidings/tidings/jobs/retry"
)

func seconds(ss ...float64) []time.Duration {
	var ds []time.Duration
	for _, s := range ss {
		ds = append(ds, time.Duration(s*float64(time.Second)))
	}
	return ds
}

func bounds(b retry.Backoff, repeats int) []time.Duration {
	var ds []time.Duration
	for n := 1; n <= repeats; n++ {
		ds = append(ds, b.Bound(n))
	}
	return ds
}

func TestBounds(t *testing.T) {
	tests := []struct {
		id        string
		base, cap float64
		calls     int
		want      []time.Duration
		sum       time.Duration
	}{
		{"S0-11 S3-02", 1, 8, 6, seconds(1, 2, 4, 8, 8), 23 * time.Second},
		{"S3-04", 0.5, 5, 6, seconds(0.5, 1, 2, 4, 5), 12500 * time.Millisecond},
		{"S3-05", 1, 8, 1, nil, 0},
		{"S3-07", 1, 4, 5, seconds(1, 2, 4, 4), 11 * time.Second},
		{"base above cap", 5, 2, 3, seconds(2, 2), 4 * time.Second},
		{"cap is no power", 1, 3, 4, seconds(1, 2, 3), 6 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.id, func(t *testing.T) {
			b := retry.Backoff{Base: seconds(tt.base)[0], Cap: seconds(tt.cap)[0]}
			if got := bounds(b, tt.calls-1); !slices.Equal(got, tt.want) {
				t.Errorf("bounds are %v, want %v", got, tt.want)
			}
			if got := b.Worst(tt.calls); got != tt.sum {
				t.Errorf("sum is %s, want %s", got, tt.sum)
			}
		})
	}
}

func TestTenCallsLastBoundIsTheCap(t *testing.T) {
	b := retry.Backoff{Base: time.Second, Cap: 8 * time.Second}
	if got := b.Bound(9); got != 8*time.Second {
		t.Errorf("last of nine bounds is %s, want 8s", got)
	}
}

func TestCapKeepsTenCallsShort(t *testing.T) {
	without := retry.Backoff{Base: time.Second}.Worst(10)
	with := retry.Backoff{Base: time.Second, Cap: 8 * time.Second}.Worst(10)
	if without <= 8*time.Minute {
		t.Errorf("without a cap ten calls wait %s, want over 8 minutes", without)
	}
	if with != 55*time.Second {
		t.Errorf("with a cap ten calls wait %s, want 55s", with)
	}
}

func TestBoundIsSafe(t *testing.T) {
	if got := (retry.Backoff{Base: time.Second}).Bound(100_000); got != math.MaxInt64 {
		t.Errorf("bound without a cap overflows to %s", got)
	}
	if got := (retry.Backoff{Base: time.Second, Cap: math.MaxInt64}).Worst(80); got != math.MaxInt64 {
		t.Errorf("sum overflows to %s", got)
	}
	for _, n := range []int{0, -1, math.MinInt} {
		if got := (retry.Backoff{Base: time.Second, Cap: time.Minute}).Bound(n); got != 0 {
			t.Errorf("Bound(%d) = %s, want 0", n, got)
		}
	}
	if got := (retry.Backoff{}).Pause(3, nil); got != 0 {
		t.Errorf("the zero backoff waits %s", got)
	}
}

func TestFullJitterIsUniform(t *testing.T) {
	b := retry.Backoff{Base: time.Second, Cap: 8 * time.Second, Jitter: 1}
	if got := b.Pause(3, func() float64 { return 0.25 }); got != time.Second {
		t.Errorf("a quarter of 4s is %s", got)
	}
	const draws = 40_000
	var tenths [10]int
	random := rand.New(rand.NewPCG(1, 2)).Float64
	for range draws {
		p := b.Pause(3, random)
		if p < 0 || p > 4*time.Second {
			t.Fatalf("pause %s is outside 0 to 4s", p)
		}
		tenths[min(9, int(p*10/(4*time.Second)))]++
	}
	for i, n := range tenths {
		if n < draws/10*9/10 || n > draws/10*11/10 {
			t.Errorf("tenth %d has %d of %d draws: not uniform", i, n, draws)
		}
	}
}

func TestFractionVariesByAtMostThatMuch(t *testing.T) {
	b := retry.Backoff{Base: time.Second, Cap: 8 * time.Second, Jitter: 0.25}
	low := b.Pause(2, func() float64 { return 0 })
	high := b.Pause(2, func() float64 { return math.Nextafter(1, 0) })
	if low != 1500*time.Millisecond || high > 2*time.Second || high < 1999*time.Millisecond {
		t.Errorf("pauses of 2s vary from %s to %s, want 1.5s to 2s", low, high)
	}
	if got := (retry.Backoff{Base: time.Second, Cap: time.Second}).Pause(1, nil); got != time.Second {
		t.Errorf("without jitter the pause is %s, want 1s exactly", got)
	}
}

func TestParseJitter(t *testing.T) {
	for s, want := range map[string]float64{"full": 1, "0.25": 0.25, "0": 0, "1": 1} {
		if got, err := retry.ParseJitter(s); err != nil || got != want {
			t.Errorf("%q: got %v, %v; want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "Full", "-0.1", "1.1", "NaN", "25%", "inf"} {
		if got, err := retry.ParseJitter(s); err == nil {
			t.Errorf("%q was taken as %v", s, got)
		}
	}
}
