// Package drill injects faults into the whole product and counts from outside
// what it does then (S4-53 to S4-62). It knows nothing of the product but what
// its users know: the program's modes and settings, its API, and what arrives at
// the provider. So it cannot be wrong in the same way as the product is, and it
// imports none of its packages.
//
//	client ---- API ----> serve --+
//	   |                          +--> Redis (the drill's own)
//	   | counts            work --+
//	   v                     |
//	evidence <-- counts -- stand-in for the provider
//
// The stand-in (standin.go) speaks OpenAI's Chat Completions, so that the real
// adapter and the vendor's real SDK are in the line. It plays faults by a script
// for each operation, has a capacity, and writes down each call that it
// receives: that record, and not what a client was told, is what rows are judged
// by (S4-62).
//
// The fleet (fleet.go) is the program itself, started as child processes: one
// serves, up to ten work. Their environment is made from nothing, so that no
// setting and no secret of the shell reaches them, and Redis is one that the
// drill starts (redis.go): it cannot be pointed at another.
//
// # Order
//
// First a baseline with one attempt, one call and no retries. Then one fault at a
// time, by fixed scripts, with one worker. Then parallel clients with seeded
// jitter against the whole fleet, with a phase of recovery (S4-61).
//
// # Gates
//
// A row (rows_*.go) arranges and acts, and what it has seen is judged by pure
// functions of the evidence (gates.go), which tests feed with evidence that must
// fail. No gate is about how long something took: each is a count, compared with
// a bound computed from the settings. The one formula with time in it, the retry
// budget's, takes the time that Redis's clock says has passed.
package drill
