package gate

import (
	"time"

	"github.com/tidings/tidings/jobs/retry"
)

// Result is what became of a call that had a permit: OK, Failed or NotSent. The
// zero value is none of them and is refused.
type Result struct {
	code string
	hint time.Duration
}

// OK is a call that succeeded.
func OK() Result { return Result{code: "good"} }

// NotSent is a call that was not made after all: the job's own reserve refused
// it, or the time was over. Say it only when certain that not a byte went out;
// it is the one result that hands a retry token back.
func NotSent() Result { return Result{code: "unsent"} }

// Failed is a call that failed after something may have been sent. wait is the
// provider's hint, 0 if there was none; the hint of a rate limit is about the
// account and holds everybody, others are about their call and hold nobody else.
func Failed(kind retry.Kind, wait time.Duration) Result {
	r := Result{code: "nothing"}
	switch kind {
	case retry.Overloaded, retry.Unavailable, retry.Timeout, retry.Network, retry.StreamInterrupted:
		r.code = "bad"
	case retry.RateLimited:
		r.code = "slow"
		r.hint = max(0, wait)
	}
	return r
}
