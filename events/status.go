package events

import "slices"

// rule says what a status may become. It is the only table of this kind: May
// and Follows read it here, Lua renders it for every script in Redis.
type rule struct {
	from Status // "": no job yet
	// unresolved narrows from to transitions whose outcome is unknown.
	unresolved bool
	to         []Status
	sameJob    bool // false: another job only
}

func rules() []rule {
	return []rule{
		{from: "", to: []Status{Queued}},
		{from: Completed, to: []Status{Queued}},
		{from: Failed, to: []Status{Queued}},
		{from: Queued, to: []Status{Queued, Processing, Failed}, sameJob: true},
		{from: Processing, to: []Status{Processing, Retrying, Queued, Completed, Failed}, sameJob: true},
		{from: Retrying, to: []Status{Retrying, Queued, Processing, Failed}, sameJob: true},
		// An end is final, except the one end that says it does not know:
		// an operator resolves it.
		{from: Failed, unresolved: true, to: []Status{Completed, Failed}, sameJob: true},
	}
}

// May reports whether a topic's status may become to when it is from. A from
// of "" or Idle means that no job is known; sameJob tells whether both belong
// to one job. Follows knows one exception more.
func May(from, to Status, sameJob bool) bool {
	if from == Idle {
		from = ""
	}
	for _, r := range rules() {
		if !r.unresolved && r.from == from && r.sameJob == sameJob && slices.Contains(r.to, to) {
			return true
		}
	}
	return false
}

// Follows reports whether next may be appended after last, the zero Transition
// where there is none: what May says of their statuses, and the resolution of
// an OutcomeUnknown to Completed or to another error.
func Follows(last, next Transition) bool {
	same := last.JobID == next.JobID
	if May(last.Status, next.Status, same) {
		return true
	}
	if last.Outcome != OutcomeUnknown {
		return false
	}
	for _, r := range rules() {
		if r.unresolved && r.from == last.Status && r.sameJob == same && slices.Contains(r.to, next.Status) {
			return true
		}
	}
	return false
}
