package events

import (
	"fmt"
	"strconv"
	"time"
)

// maxNumber is the largest stored number: what Lua and JavaScript hold exactly.
const maxNumber = 1<<53 - 1

// field is one stored field of a transition: how it is called in the log and
// in live copies, and how it goes there and back. Empty strings and zeros are
// not stored.
type field struct {
	name string
	get  func(*Transition) string
	set  func(*Transition, string) error
}

// fields lists all of them, in the order in which they are stored. Lua gets
// the names from here.
//
//	name          type    what
//	seq           number  its place: Redis time in ms, or one more than prev
//	prev          number  the predecessor's seq, missing for the first
//	at            ms      when it happened
//	status        text    queued, processing, retrying, completed or error
//	job           text    the job's id
//	attempt       number  the one that runs or has just failed
//	max_attempts  number
//	deadline      ms      when the job ends at the latest
//	reason        text
//	outcome       text    completed and error
//	call          number  processing, and retrying in the call layer
//	max_calls     number
//	layer         text    retrying: queue or call
//	next_attempt  number  retrying, queue layer
//	next_call     number  retrying, call layer
//	next_retry    ms      retrying
//	not_before    ms      queued, when waiting for more than its turn
//	version       number  completed: the document's version
//	can_retry     "1"     error
//	retry_at      ms      error: when a manual retry is accepted again
//	replaced_by   text    error: the job whose submit cancelled this one
func fields() []field {
	return []field{
		number("seq", func(t *Transition) *int64 { return &t.Seq }),
		number("prev", func(t *Transition) *int64 { return &t.Prev }),
		moment("at", func(t *Transition) *time.Time { return &t.At }),
		text("status", func(t *Transition) *Status { return &t.Status }),
		text("job", func(t *Transition) *string { return &t.JobID }),
		number("attempt", func(t *Transition) *int { return &t.Attempt }),
		number("max_attempts", func(t *Transition) *int { return &t.MaxAttempts }),
		moment("deadline", func(t *Transition) *time.Time { return &t.DeadlineAt }),
		text("reason", func(t *Transition) *Reason { return &t.Reason }),
		text("outcome", func(t *Transition) *Outcome { return &t.Outcome }),
		number("call", func(t *Transition) *int { return &t.Call }),
		number("max_calls", func(t *Transition) *int { return &t.MaxCalls }),
		text("layer", func(t *Transition) *Layer { return &t.Layer }),
		number("next_attempt", func(t *Transition) *int { return &t.NextAttempt }),
		number("next_call", func(t *Transition) *int { return &t.NextCall }),
		moment("next_retry", func(t *Transition) *time.Time { return &t.NextRetryAt }),
		moment("not_before", func(t *Transition) *time.Time { return &t.NotBefore }),
		number("version", func(t *Transition) *int64 { return &t.Version }),
		flag("can_retry", func(t *Transition) *bool { return &t.CanRetry }),
		moment("retry_at", func(t *Transition) *time.Time { return &t.RetryAvailableAt }),
		text("replaced_by", func(t *Transition) *string { return &t.ReplacedBy }),
	}
}

// Fields returns t as it is stored: names and values in turn, without those
// that are empty. ParseTransition reads it back.
func (t Transition) Fields() []string {
	var pairs []string
	for _, f := range fields() {
		if v := f.get(&t); v != "" {
			pairs = append(pairs, f.name, v)
		}
	}
	return pairs
}

// ParseTransition reads stored fields. Names that it does not know are left
// alone, since a newer version may have written them; a place, a time, a job
// and a status of this version there must be.
func ParseTransition(stored map[string]string) (Transition, error) {
	var t Transition
	for _, f := range fields() {
		v, ok := stored[f.name]
		if !ok || v == "" {
			continue
		}
		if err := f.set(&t, v); err != nil {
			return Transition{}, fmt.Errorf("events: stored field %s: %w", f.name, err)
		}
	}
	switch t.Status {
	case Queued, Processing, Retrying, Completed, Failed:
	default:
		return Transition{}, fmt.Errorf("events: stored status %q is none of ours", t.Status)
	}
	if t.Seq == 0 || t.At.IsZero() || t.JobID == "" {
		return Transition{}, fmt.Errorf("events: a stored transition lacks seq, at or job")
	}
	if t.Prev >= t.Seq {
		return Transition{}, fmt.Errorf("events: stored seq %d is not above its predecessor %d", t.Seq, t.Prev)
	}
	return t, nil
}

func text[T ~string](name string, at func(*Transition) *T) field {
	return field{name,
		func(t *Transition) string { return string(*at(t)) },
		func(t *Transition, v string) error { *at(t) = T(v); return nil }}
}

func number[T int | int64](name string, at func(*Transition) *T) field {
	return field{name,
		func(t *Transition) string {
			if *at(t) == 0 {
				return ""
			}
			return strconv.FormatInt(int64(*at(t)), 10)
		},
		func(t *Transition, v string) error {
			n, err := parseNumber(v)
			*at(t) = T(n)
			return err
		}}
}

func moment(name string, at func(*Transition) *time.Time) field {
	return field{name,
		func(t *Transition) string {
			if at(t).IsZero() {
				return ""
			}
			return strconv.FormatInt(at(t).UnixMilli(), 10)
		},
		func(t *Transition, v string) error {
			n, err := parseNumber(v)
			*at(t) = time.UnixMilli(n).UTC()
			return err
		}}
}

func flag(name string, at func(*Transition) *bool) field {
	return field{name,
		func(t *Transition) string {
			if *at(t) {
				return "1"
			}
			return ""
		},
		func(t *Transition, v string) error {
			if v != "1" {
				return fmt.Errorf("%q is not 1", v)
			}
			*at(t) = true
			return nil
		}}
}

// parseNumber takes what the writers write and nothing else: digits without a
// sign or a leading zero, and no zero, which is left out.
func parseNumber(v string) (int64, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n <= 0 || n > maxNumber || v[0] == '+' || v[0] == '0' {
		return 0, fmt.Errorf("%q is not a number from 1 to 2^53-1", v)
	}
	return n, nil
}
