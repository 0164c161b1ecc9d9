package retry

// Kind says what went wrong with one call to a model provider. The values are
// the reasons of the contract, so that nothing has to be translated later.
type Kind string

// The kinds of failure. Retried in the call: Overloaded, RateLimited,
// Unavailable with status 503. Retried by the queue as well: every Unavailable,
// Timeout, Network, StreamInterrupted. The others are final.
const (
	Overloaded        Kind = "overloaded"
	RateLimited       Kind = "rate_limited"
	Unavailable       Kind = "unavailable"
	Timeout           Kind = "timeout"
	Network           Kind = "network"
	StreamInterrupted Kind = "stream_interrupted"
	Auth              Kind = "auth"
	Quota             Kind = "quota"
	Misconfigured     Kind = "misconfigured"
	InvalidInput      Kind = "invalid_input"
	InvalidOutput     Kind = "invalid_output"
	Internal          Kind = "internal"
	Cancelled         Kind = "cancelled"
)

// InCall reports whether layer 1 may repeat the call after a short pause. The
// status is the provider's, 0 if there was none. It matters for Unavailable
// alone: a 503 (S0-02), or the provider's own words where no status survived
// (S1-03), says "not now"; a 502 comes from something in between, and is left
// to the queue. Whatever is repeated in the call is repeated by the queue too.
func (k Kind) InCall(status int) bool {
	switch k {
	case Overloaded, RateLimited:
		return true
	case Unavailable:
		return status == 503 || status == 0
	}
	return false
}

// Queued reports whether layer 2 may run the job again after the plan's wait.
// Timeouts, network errors and broken streams are repeated here only: in the
// call they would use up the budget (S0-04 to S0-06).
func (k Kind) Queued() bool {
	switch k {
	case Overloaded, RateLimited, Unavailable, Timeout, Network, StreamInterrupted:
		return true
	}
	return false
}
