// Package retry is the arithmetic of retrying: which failure may be repeated by
// whom, how long to wait, and what the settings add up to. It starts nothing,
// reads no clock and holds no state; time and chance are arguments.
//
// Two layers repeat a failed call, one after the other, and nobody else does:
//
//   - Layer 1, in the call: up to 3 calls in one attempt, [Backoff] with full
//     jitter in between, all inside one time budget. For failures that pass in
//     seconds: [Kind.InCall].
//   - Layer 2, the queue: up to 4 attempts, with the waits of a [Plan]. For
//     those and for everything else that may pass: [Kind.Queued].
//
// 3 calls x 4 attempts are 12 calls at most. [Settings] holds every number,
// [Settings.Check] refuses those that contradict each other, and
// [Settings.Worst] says what the rest adds up to.
//
// A provider's wait hint ([Hint]) only ever makes a wait longer.
//
// What a failure is follows from [Classify], one table that docs/retries.md
// repeats and a test compares.
package retry
