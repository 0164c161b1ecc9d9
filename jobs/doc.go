// Package jobs knows what a job is and gets it done: it takes a request in,
// claims and runs attempts, and puts right what broke without a word.
//
// # One step
//
// A job's status is its last transition in the log. What may happen to a job is
// decided by package lifecycle and committed by package store, in one step that
// stores the record and the transition and publishes it. So there is no second place
// to forget, and a worker that was replaced can neither store nor publish.
//
// # Who may speak
//
// A claim has a token and a lease. The lease is renewed while the attempt runs;
// when it ends, another worker or the rescuer may go on, and the old token is
// refused from then on. The current run is the one Asynq task that may claim:
// the rescuer starts another run rather than touch an active task.
//
// # What counts
//
// The job record alone counts attempts and calls, before they happen, and only
// up. Deadline, call allowance and run are stored before the first call. Asynq's
// own counters decide nothing.
//
// # How it fails
//
// Redis away: no claim, no reservation, so no call; a finished call's result is
// kept and offered for as long as its lease may live. A lost answer: every verb
// may be repeated with its token. A crash between two steps: the record says
// what is next, and the rescuer or the next attempt goes on from it. Not
// promised: exactly one execution. A crash may cost one more call, within the
// allowance.
package jobs
