// Package lifecycle says what a job is and what may happen to it. A job is a
// value, and each verb is a pure function of it: no Redis, no clock of its own, no
// randomness. Package store reads the State that a verb decides on, and stores the
// Change that it returns, if nobody was faster.
//
//	         Submit, Retry                Claim               Settle
//	none ------------------> queued -------------> processing ---------> completed
//	completed, error           ^ ^                  |  ^  |  \---------> error
//	                           | |   hand-back      |  |  | Pause
//	                           | +------------------+  |  v
//	                           |  Retry (run now)      | retrying (call layer)
//	                           +-------- retrying <----+
//	                                    (queue layer) Settle
//
// # Who may speak
//
// A claim has a token and a lease. A verb of an attempt names its token; once
// another worker or the rescuer went on, that token is answered with Lost and
// changes nothing. The run is the one task of the queue that may claim.
//
// # Repeats
//
// Each verb may be repeated after a lost answer: it finds its own job id or token
// in the record and answers as before.
//
// # Bounds
//
// Attempts and calls are counted before they happen, and only up: attempts <=
// MaxAttempts, calls <= Allowance, and no call whose worst cost would pass CostCap.
package lifecycle
