package drill

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// settings are those of one row's fleet, as numbers, because the bounds are
// computed from them. Times are shorter than anybody would run with, and their
// proportions are kept.
type settings struct {
	calls, attempts, allowance int
	budget, firstPause         time.Duration
	jitter                     string
	delays                     string
	deadline                   time.Duration
	lease                      time.Duration

	concurrency         int // calls of the fleet at the same time
	firstReserve        float64
	burst               int
	perFirst, perSecond float64

	window        time.Duration
	breakerCalls  int
	ratio         float64
	open, openMax time.Duration
	probes        int
	growth        float64
	shrink        float64

	queueLimit int
	jobs       int // that one worker process works on at the same time
	poll       time.Duration
}

// quick are the settings that rows begin with: 3 calls in each of 4 attempts,
// and a gate that stands back until a row is about it.
func quick() settings {
	return settings{
		calls: 3, attempts: 4, allowance: 12, budget: 12 * time.Second, firstPause: 50 * time.Millisecond, jitter: "full",
		delays: "1s", deadline: 2 * time.Minute, lease: 2 * time.Second,
		concurrency: 100, firstReserve: 0.1, burst: 1000, perFirst: 0.2, perSecond: 1,
		window: 5 * time.Second, breakerCalls: 100_000, ratio: 0.5, open: time.Second, openMax: 4 * time.Second,
		probes: 3, growth: 0.25, shrink: 0.75, queueLimit: 1000, jobs: 20, poll: 20 * time.Millisecond,
	}
}

// mostCalls is how many calls one job may make.
func (s settings) mostCalls() int { return min(s.calls*s.attempts, s.allowance) }

// mostExtra is how many calls that are not their job's first the whole fleet may
// make in a time: the gate's formula.
func (s settings) mostExtra(firsts int, passed time.Duration) int {
	return int(float64(s.burst) + s.perFirst*float64(firsts) + s.perSecond*passed.Seconds())
}

// env is what the processes are told. Nothing else is in their environment.
func (s settings) env() []string {
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	return []string{
		"TIDINGS_CALLS=" + strconv.Itoa(s.calls),
		"TIDINGS_QUEUE_ATTEMPTS=" + strconv.Itoa(s.attempts),
		"TIDINGS_CALL_ALLOWANCE=" + strconv.Itoa(s.allowance),
		"TIDINGS_CALL_BUDGET=" + s.budget.String(),
		"TIDINGS_CALL_FIRST_PAUSE=" + s.firstPause.String(),
		"TIDINGS_CALL_JITTER=" + s.jitter,
		"TIDINGS_QUEUE_DELAYS=" + s.delays,
		"TIDINGS_DEADLINE=" + s.deadline.String(),
		"TIDINGS_LEASE=" + s.lease.String(),
		"TIDINGS_MODEL_CONCURRENCY=" + strconv.Itoa(s.concurrency),
		"TIDINGS_FIRST_RESERVE=" + number(s.firstReserve),
		"TIDINGS_RETRY_BURST=" + strconv.Itoa(s.burst),
		"TIDINGS_RETRY_PER_FIRST=" + number(s.perFirst),
		"TIDINGS_RETRY_PER_SECOND=" + number(s.perSecond),
		"TIDINGS_BREAKER_WINDOW=" + s.window.String(),
		"TIDINGS_BREAKER_CALLS=" + strconv.Itoa(s.breakerCalls),
		"TIDINGS_BREAKER_RATIO=" + number(s.ratio),
		"TIDINGS_BREAKER_OPEN=" + s.open.String(),
		"TIDINGS_BREAKER_OPEN_MAX=" + s.openMax.String(),
		"TIDINGS_BREAKER_PROBES=" + strconv.Itoa(s.probes),
		"TIDINGS_GROWTH=" + number(s.growth),
		"TIDINGS_SHRINK=" + number(s.shrink),
		"TIDINGS_QUEUE_LIMIT=" + strconv.Itoa(s.queueLimit),
		"TIDINGS_CONCURRENCY=" + strconv.Itoa(s.jobs),
		"TIDINGS_QUEUE_POLL=" + s.poll.String(),
		"TIDINGS_LOG_LEVEL=warn", "TIDINGS_LOG_FORMAT=json",
	}
}

// numbered is the name of an operation, which is its session's id too, so that
// the stand-in knows whose call it receives.
func numbered(row string, i int) string {
	return fmt.Sprintf("drill-%s-%04d", strings.ToLower(strings.ReplaceAll(row, "-", "")), i)
}
