// Package model makes one request to a model provider, and repeats it inside
// one attempt where that is worth while.
//
// A [Provider] makes exactly one network request per call and turns every
// failure into an [*Error] at the one place where the vendor's own error type
// is still known (S3-22). Nothing below it retries: the vendor SDKs' own
// retries are off.
//
// [Retrying] is layer 1 of the two that repeat (jobs/retry names both). It
// spends one time budget per attempt on calls and pauses, asks the job's owner
// before each call and tells it after each ([Hooks]), and gives up early rather
// than late: what it cannot repeat in time is the queue's to repeat. It knows
// no job, no Redis and no queue.
//
// Nothing in this package logs. Errors, and what the hooks get, are safe to log
// but for [Response.Content].
//
// Package modeltest holds a scripted provider with its own call counter and the
// suite that every provider passes.
package model
