package retry

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"time"
)

// The bounds of one delay in a plan. The lower one keeps a plan from being a
// tight loop (S3-15); the upper one is that of a provider's hint.
const (
	MinDelay = 10 * time.Millisecond
	MaxDelay = time.Hour
)

// MaxQueueJitter is the largest fraction by which the queue's waits may grow.
const MaxQueueJitter = 0.1

// Plan is what the queue waits between two attempts. The zero Plan waits
// nothing and is refused by [Settings.Check].
type Plan struct {
	steps []time.Duration // listed delays; empty for an exponential plan
	exp   Backoff
}

// ParsePlan reads a plan: a list whose last delay repeats ("30s,60s,120s",
// source 1), or "exp:10s..5m", which doubles from the first to the second
// (source 2: 10, 20, 40 s, at most 5 minutes). Each delay is between MinDelay
// and MaxDelay, and none is shorter than the one before it.
func ParsePlan(s string) (Plan, error) {
	if r, ok := strings.CutPrefix(s, "exp:"); ok {
		from, to, ok := strings.Cut(r, "..")
		if !ok {
			return Plan{}, fmt.Errorf("delay plan %q: want two durations, such as exp:10s..5m", s)
		}
		steps, err := delays(s, from, to)
		if err != nil {
			return Plan{}, err
		}
		return Plan{exp: Backoff{Base: steps[0], Cap: steps[1]}}, nil
	}
	steps, err := delays(s, strings.Split(s, ",")...)
	if err != nil {
		return Plan{}, err
	}
	return Plan{steps: steps}, nil
}

func delays(plan string, words ...string) ([]time.Duration, error) {
	var ds []time.Duration
	for i, w := range words {
		d, err := time.ParseDuration(strings.TrimSpace(w))
		switch {
		case err != nil:
			return nil, fmt.Errorf("delay plan %q: %q is no duration; want a list such as 30s,60s,120s or exp:10s..5m", plan, w)
		case d < MinDelay || d > MaxDelay:
			return nil, fmt.Errorf("delay plan %q: %s is not between %s and %s", plan, short(d), short(MinDelay), short(MaxDelay))
		case i > 0 && d < ds[i-1]:
			return nil, fmt.Errorf("delay plan %q: %s after %s; waits must not shrink", plan, short(d), short(ds[i-1]))
		}
		ds = append(ds, d)
	}
	return ds, nil
}

// Delay is the wait before retry n, from 1: after the first failed attempt n is
// 1. Smaller n count as 1.
func (p Plan) Delay(n int) time.Duration {
	n = max(n, 1)
	if len(p.steps) == 0 {
		return p.exp.Bound(n)
	}
	return p.steps[min(n, len(p.steps))-1]
}

// Jittered is Delay(n) lengthened by up to the fraction, 0 to MaxQueueJitter
// (larger counts as that). The amount follows from job and attempt alone, so
// that every process, and every repeat after a crash, finds the same time.
func (p Plan) Jittered(n int, job string, attempt int, fraction float64) time.Duration {
	d := p.Delay(n)
	fraction = min(max(fraction, 0), MaxQueueJitter)
	if fraction == 0 {
		return d
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", job, attempt))
	unit := float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53)
	return d + time.Duration(float64(d)*fraction*unit)
}

// Total is the sum of the first so many waits without jitter.
func (p Plan) Total(retries int) time.Duration {
	var sum time.Duration
	for n := 1; n <= retries; n++ {
		sum = add(sum, p.Delay(n))
	}
	return sum
}

// IsZero reports whether the plan was never set.
func (p Plan) IsZero() bool { return p.Delay(1) == 0 }

// String writes the plan as ParsePlan reads it.
func (p Plan) String() string {
	if len(p.steps) == 0 {
		if p.exp.Base == 0 {
			return ""
		}
		return "exp:" + short(p.exp.Base) + ".." + short(p.exp.Cap)
	}
	words := make([]string, len(p.steps))
	for i, d := range p.steps {
		words[i] = short(d)
	}
	return strings.Join(words, ",")
}

// short writes 120 s as "2m", not as "2m0s".
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
