// Package simulation runs the whole line (service, workers, rescuers, queue, records)
// in one process and in virtual time, under a scheduler that a seed drives. Each
// question to the records, the queue or the model stops at the scheduler, which lets
// it happen, refuses it, or lets it happen and loses the answer. Between those it
// starts requests, hands out tasks, kills processes, turns the clock and takes back
// what was stored last, as a fail-over does.
//
// What has to hold is checked after each step (invariants_test.go). A seed that
// fails prints itself, and what happened, and plays the same again:
//
//	go test ./jobs/simulation -seed 1234 -v
//
// The index of open jobs and the gate are the real ones, on an in-process Redis that
// has no faults of its own here; tests on a real Redis play those.
package simulation
