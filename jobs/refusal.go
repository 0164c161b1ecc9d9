package jobs

import "time"

// Refusal is a request that cannot be served, and that changed nothing. It is
// not a fault: the server turns Code into a localized problem document.
type Refusal struct {
	Code Code
	// Field names the offending field of an invalid_field refusal.
	Field string
	// Why is for logs and developers, in English, without any input in it.
	Why string
	// JobID is the live job of job_running.
	JobID string
	// RetryAfter is how long to wait before asking again, where that is known.
	RetryAfter time.Duration
}

func (r *Refusal) Error() string {
	s := "jobs: " + string(r.Code)
	if r.Field != "" {
		s += " (" + r.Field + ")"
	}
	if r.Why != "" {
		s += ": " + r.Why
	}
	return s
}

// Code names a refusal; it is the `code` of the problem document.
type Code string

// The refusals of the service.
const (
	CodeInvalidField         Code = "invalid_field"          // 400
	CodeNotFound             Code = "not_found"              // 404, also for another owner's
	CodeNoDocument           Code = "no_document"            // 404
	CodeJobRunning           Code = "job_running"            // 409
	CodeNotRetryable         Code = "not_retryable"          // 409
	CodeAlreadyCompleted     Code = "already_completed"      // 409
	CodeInputGone            Code = "input_gone"             // 410
	CodeIdempotencyKeyReused Code = "idempotency_key_reused" // 422
	CodeInputTooLong         Code = "input_too_long"         // 413
	CodeTooManyLiveJobs      Code = "too_many_live_jobs"     // 429
	CodeTooOften             Code = "too_often"              // 429
	CodeWaitRequired         Code = "wait_required"          // 429
	CodeQueueFull            Code = "queue_full"             // 503
	CodeAdmissionDenied      Code = "admission_denied"       // 503
	CodeSimulateOnlyInDev    Code = "simulate_only_in_dev"   // 400
)
