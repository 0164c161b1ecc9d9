package jobs

import "time"

// Verdict is what a handler wants the queue to do with its task next. The job
// record has decided already; the queue only carries it out.
type Verdict struct {
	kind Next
	// At is when the task should come again, for Again and Uncounted.
	At time.Time
	// Note is shown to operators beside the task: a reason code, never text
	// from a provider or a user.
	Note string
}

// Next is what a queue has to do with a task.
type Next int

// NextDone: it succeeded. NextAgain: it failed and comes again at a time.
// NextUncounted: it comes again and did not fail. NextFinal: it failed for good.
const (
	NextDone Next = iota
	NextAgain
	NextUncounted
	NextFinal
)

// Next tells a queue what to do, and when.
func (v Verdict) Next() (Next, time.Time) { return v.kind, v.At }

// Done ends the task well.
func Done() Verdict { return Verdict{kind: NextDone} }

// Again brings the same task back at a stored time, as a failed try.
func Again(at time.Time, note string) Verdict { return Verdict{kind: NextAgain, At: at, Note: note} }

// Uncounted brings the task back without calling it a failure: handed back at
// shutdown, too early, or waiting for the gate.
func Uncounted(at time.Time, note string) Verdict {
	return Verdict{kind: NextUncounted, At: at, Note: note}
}

// Final ends the task as failed: operators find it in the archive.
func Final(note string) Verdict { return Verdict{kind: NextFinal, Note: note} }

// Dropped ends a task that no longer speaks for its job, without a trace in
// the queue's failures.
func Dropped() Verdict { return Done() }
