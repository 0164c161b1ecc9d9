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
	InvalidInput      Kind = "invalid_input"
	InvalidOutput     Kind = "invalid_output"
	Internal          Kind = "internal"
	Cancelled         Kind = "cancelled"
)
