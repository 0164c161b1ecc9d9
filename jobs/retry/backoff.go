package retry

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Backoff is how long layer 1 waits between two calls of one attempt.
type Backoff struct {
	// Base is the bound of the first pause.
	Base time.Duration
	// Cap is what no bound exceeds; 0 is no cap, and then ten calls from 1 s
	// wait over 8 minutes (S3-08).
	Cap time.Duration
	// Jitter is the part of the bound that chance decides: 1 is full jitter, 0
	// is none (S0-12, S3-03).
	Jitter float64
}

// Bound is the longest pause before the n-th repeat, n from 1: the smaller of
// Cap and Base x 2^(n-1) (S3-01). It does not overflow; n below 1 gives 0.
func (b Backoff) Bound(n int) time.Duration {
	if n < 1 || b.Base <= 0 {
		return 0
	}
	limit := b.Cap
	if limit <= 0 {
		limit = math.MaxInt64
	}
	bound := min(b.Base, limit)
	for i := 1; i < n && bound < limit; i++ {
		if bound > limit/2 {
			return limit
		}
		bound *= 2
	}
	return bound
}

// Pause draws the pause before the n-th repeat. random gives numbers from 0 up
// to but not 1, as math/rand/v2.Float64 does. With full jitter the pause is
// uniform between 0 and the bound; with a fraction f it is uniform in the upper
// f of the bound. It never exceeds the bound, so worst cases stay sums of
// bounds.
func (b Backoff) Pause(n int, random func() float64) time.Duration {
	bound := b.Bound(n)
	jitter := min(max(b.Jitter, 0), 1)
	if jitter == 0 || bound == 0 {
		return bound
	}
	return min(bound, time.Duration(float64(bound)*(1-jitter+jitter*random())))
}

// Worst is the sum of all bounds between this many calls: there is no pause
// after the last (S3-04, S3-09).
func (b Backoff) Worst(calls int) time.Duration {
	var sum time.Duration
	for n := 1; n < calls; n++ {
		sum = add(sum, b.Bound(n))
	}
	return sum
}

// ParseJitter reads the jitter setting: "full", or a fraction from 0 to 1 such
// as "0.25".
func ParseJitter(s string) (float64, error) {
	if s == "full" {
		return 1, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(0 <= f && f <= 1) {
		return 0, fmt.Errorf("jitter %q: want \"full\" or a fraction from 0 to 1, such as 0.25", s)
	}
	return f, nil
}

// add saturates instead of overflowing.
func add(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
