package events

import (
	"fmt"
	"strconv"
	"time"
)

// maxNumber is the largest stored number: what Lua and JavaScript hold exactly.
const maxNumber = 1<<53 - 1

// field is one stored field of a transition: how it is called in the log and
// in live copies, and where it is. Empty strings and zeros are not stored.
type field struct {
	name string
	at   func(*Transition) any // a pointer to it
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
//	detail        text    error: the provider's or the worker's own word for what failed
//	replaced_by   text    error: the job whose submit cancelled this one
func fields() [22]field {
	return [22]field{
		{"seq", func(t *Transition) any { return &t.Seq }},
		{"prev", func(t *Transition) any { return &t.Prev }},
		{"at", func(t *Transition) any { return &t.At }},
		{"status", func(t *Transition) any { return &t.Status }},
		{"job", func(t *Transition) any { return &t.JobID }},
		{"attempt", func(t *Transition) any { return &t.Attempt }},
		{"max_attempts", func(t *Transition) any { return &t.MaxAttempts }},
		{"deadline", func(t *Transition) any { return &t.DeadlineAt }},
		{"reason", func(t *Transition) any { return &t.Reason }},
		{"outcome", func(t *Transition) any { return &t.Outcome }},
		{"call", func(t *Transition) any { return &t.Call }},
		{"max_calls", func(t *Transition) any { return &t.MaxCalls }},
		{"layer", func(t *Transition) any { return &t.Layer }},
		{"next_attempt", func(t *Transition) any { return &t.NextAttempt }},
		{"next_call", func(t *Transition) any { return &t.NextCall }},
		{"next_retry", func(t *Transition) any { return &t.NextRetryAt }},
		{"not_before", func(t *Transition) any { return &t.NotBefore }},
		{"version", func(t *Transition) any { return &t.Version }},
		{"can_retry", func(t *Transition) any { return &t.CanRetry }},
		{"retry_at", func(t *Transition) any { return &t.RetryAvailableAt }},
		{"detail", func(t *Transition) any { return &t.Detail }},
		{"replaced_by", func(t *Transition) any { return &t.ReplacedBy }},
	}
}

// Fields returns t as it is stored: names and values in turn, without those
// that are empty. ParseTransition reads it back.
func (t Transition) Fields() []string {
	var pairs []string
	for _, f := range fields() {
		if v := format(f.at(&t)); v != "" {
			pairs = append(pairs, f.name, v)
		}
	}
	return pairs
}

// ParseTransition reads stored fields. Names that it does not know are left
// alone, since a newer version may have written them; a place, a time, a job
// and a status of this version there must be.
func ParseTransition(stored map[string]string) (Transition, error) {
	return parse(func(name string) string { return stored[name] })
}

func parse(stored func(name string) string) (Transition, error) {
	var t Transition
	for _, f := range fields() {
		v := stored(f.name)
		if v == "" {
			continue
		}
		if err := set(f.at(&t), v); err != nil {
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

func format(at any) string {
	switch p := at.(type) {
	case *string:
		return *p
	case *Status:
		return string(*p)
	case *Reason:
		return string(*p)
	case *Outcome:
		return string(*p)
	case *Layer:
		return string(*p)
	case *int:
		return formatNumber(int64(*p))
	case *int64:
		return formatNumber(*p)
	case *time.Time:
		if p.IsZero() {
			return ""
		}
		return formatNumber(p.UnixMilli())
	case *bool:
		if *p {
			return "1"
		}
		return ""
	}
	panic(fmt.Sprintf("events: no way to store a %T", at)) // a type new to fields
}

func set(at any, v string) error {
	var n int64
	var err error
	switch p := at.(type) {
	case *string:
		*p = v
	case *Status:
		*p = Status(v)
	case *Reason:
		*p = Reason(v)
	case *Outcome:
		*p = Outcome(v)
	case *Layer:
		*p = Layer(v)
	case *int:
		n, err = parseNumber(v)
		*p = int(n)
	case *int64:
		*p, err = parseNumber(v)
	case *time.Time:
		n, err = parseNumber(v)
		*p = time.UnixMilli(n).UTC()
	case *bool:
		if *p = v == "1"; !*p {
			err = fmt.Errorf("%q is not 1", v)
		}
	default:
		panic(fmt.Sprintf("events: no way to read a %T", at)) // a type new to fields
	}
	return err
}

func formatNumber(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
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
