package drill

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"
)

// Line is one gate of a row: what it demands, what was seen, and whether that
// will do.
type Line struct {
	Row      string `json:"row"`
	Gate     string `json:"gate"`
	Observed string `json:"observed"`
	Pass     bool   `json:"pass"`
}

// evidence is what a row has seen: the clients' side and the stand-in's.
type evidence struct {
	row   string
	set   settings
	ops   []*op
	calls []received
	// passed is the time between before the first submit and after the last end,
	// by Redis's clock.
	passed time.Duration
}

func (e evidence) line(pass bool, gate string, observed string, args ...any) Line {
	return Line{Row: e.row, Gate: gate, Observed: fmt.Sprintf(observed, args...), Pass: pass}
}

// perOp counts calls by operation.
func (e evidence) perOp() map[string]int {
	n := map[string]int{}
	for _, c := range e.calls {
		n[c.Op]++
	}
	return n
}

// extra is how many calls were not their operation's first, and how many were.
func (e evidence) extra() (extra, firsts int) {
	firsts = len(e.perOp())
	return len(e.calls) - firsts, firsts
}

func (e evidence) most() (most int) {
	for _, n := range e.perOp() {
		most = max(most, n)
	}
	return most
}

// callsPerOperation: the configured limit is never passed.
func (e evidence) callsPerOperation() Line {
	s := e.set
	return e.line(e.most() <= s.mostCalls() && len(e.calls) > 0,
		fmt.Sprintf("calls per operation <= %d (%d attempts of %d calls, allowance %d)", s.mostCalls(), s.attempts, s.calls, s.allowance),
		"%d at most, %d in all", e.most(), len(e.calls))
}

// callsEach: every operation made just as many calls.
func (e evidence) callsEach(want int) Line {
	least, most := math.MaxInt, 0
	n := e.perOp()
	for _, o := range e.ops {
		least, most = min(least, n[o.ID]), max(most, n[o.ID])
	}
	return e.line(least == want && most == want, fmt.Sprintf("calls received for each operation = %d", want), "%d to %d", least, most)
}

// extraCalls: all calls but first ones stay within the fleet's retry budget.
func (e evidence) extraCalls() Line {
	s := e.set
	extra, firsts := e.extra()
	most := s.mostExtra(firsts, e.passed)
	return e.line(extra <= most && firsts > 0,
		fmt.Sprintf("extra calls <= %d + %g x %d first calls + %g x %.1f s = %d", s.burst, s.perFirst, firsts, s.perSecond, e.passed.Seconds(), most),
		"%d (amplification %s)", extra, ratio(firsts+extra, firsts))
}

// atTheSameTime: the provider never has more calls than the fleet may make.
func (e evidence) atTheSameTime() Line {
	most := 0
	for _, c := range e.calls {
		most = max(most, c.Beside)
	}
	return e.line(most <= e.set.concurrency && most > 0, fmt.Sprintf("calls under way at the same time <= %d", e.set.concurrency), "%d", most)
}

// oneEnd: every operation that was taken in has one end, which it keeps, and one
// job.
func (e evidence) oneEnd() Line {
	taken, ended, broken := 0, 0, 0
	for _, o := range e.ops {
		if !o.taken() {
			continue
		}
		taken++
		ends := 0
		for _, ev := range o.Events {
			if ev.terminal() {
				ends++
			}
		}
		last := o.end()
		switch {
		case ends == 1 && len(o.Jobs) == 1 && o.Final.Event == last.Event && o.Final.Seq == last.Seq:
			ended++
		case ends > 0:
			broken++
		}
	}
	return e.line(taken > 0 && ended == taken, fmt.Sprintf("operations with one job and one lasting end = %d taken in", taken),
		"%d, %d lost, %d with another", ended, taken-ended-broken, broken)
}

// oneDocument: an operation that completed has one document, whole and in its
// first version; one that did not has none.
func (e evidence) oneDocument() Line {
	completed, right := 0, 0
	for _, o := range e.ops {
		done := o.end().Event == "completed"
		if done {
			completed++
		}
		switch {
		case done && o.Document != nil && o.Document.Version == 1 && o.Document.Job == o.Jobs[0] && whole(o.Document.Content):
			right++
		case !done && o.Document != nil: // it came from nowhere
			right--
		}
	}
	return e.line(right == completed, fmt.Sprintf("whole documents in their first version = %d completed", completed), "%d", right)
}

// whole tells that nothing is missing in a document's content.
func whole(content json.RawMessage) bool {
	var got, want bytes.Buffer
	return json.Compact(&got, content) == nil && json.Compact(&want, []byte(theDocument)) == nil && bytes.Equal(got.Bytes(), want.Bytes())
}

// ends: how the operations ended, which must be so for each.
func (e evidence) endsAs(outcome, reason string) Line {
	n := 0
	for _, o := range e.ops {
		if end := o.end(); end.Outcome == outcome && (reason == "" || end.Reason == reason) {
			n++
		}
	}
	want := outcome
	if reason != "" {
		want += "/" + reason
	}
	return e.line(n == len(e.ops) && n > 0, fmt.Sprintf("ended as %s = %d", want, len(e.ops)), "%s", e.outcomes())
}

// outcomes counts how operations ended, refused ones included.
func (e evidence) outcomes() string {
	n := map[string]int{}
	for _, o := range e.ops {
		name := "no end"
		if end := o.end(); end.Outcome != "" {
			name = end.Outcome
			if end.Event == "error" {
				name += "/" + end.Reason
			}
		} else if o.Refused != "" {
			name = "refused: " + o.Refused
		}
		n[name]++
	}
	return counted(n)
}

// ledgerTells: the product's own record has each call that the stand-in received.
// It may have one more that never arrived, because its time was over on the way.
func (e evidence) ledgerTells() Line {
	n, same, told := e.perOp(), 0, 0
	for _, o := range e.ops {
		told += len(o.Ledger.Calls)
		if len(o.Ledger.Calls) >= n[o.ID] {
			same++
		}
	}
	return e.line(same == len(e.ops), fmt.Sprintf("operations whose ledger has the calls received = %d", len(e.ops)),
		"%d; %d calls told, %d received", same, told, len(e.calls))
}

// openJobs: what waits is bounded. An operation is open from its first event to
// its last, both in Redis's time.
func (e evidence) openJobs() Line {
	type change struct {
		at time.Time
		by int
	}
	var all []change
	for _, o := range e.ops {
		if end := o.end(); end.Event != "" {
			all = append(all, change{o.Events[0].At, 1}, change{end.At, -1})
		}
	}
	slices.SortFunc(all, func(a, b change) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.by, b.by)) })
	open, most := 0, 0
	for _, c := range all {
		open += c.by
		most = max(most, open)
	}
	return e.line(most <= e.set.queueLimit && most > 0, fmt.Sprintf("open jobs at the same time <= %d", e.set.queueLimit), "%d", most)
}

// neverEarly: no call arrives before the time that was stored and published for
// its attempt.
func (e evidence) neverEarly() Line {
	waits, early, by := 0, 0, time.Duration(0)
	for _, o := range e.ops {
		for i, ev := range o.Events {
			if ev.Event != "retrying" || ev.Layer != "queue" || i == len(o.Events)-1 {
				continue
			}
			waits++
			since := ev.At.Add(time.Millisecond) // what follows is cut off it
			for _, c := range e.calls {
				if c.Op == o.ID && c.Arrived.After(since) && c.Arrived.Before(ev.NextRetry) {
					early++
					by = max(by, ev.NextRetry.Sub(c.Arrived))
				}
			}
		}
	}
	return e.line(early == 0 && waits > 0, fmt.Sprintf("calls before the stored time of one of %d waits = 0", waits), "%d, by up to %s", early, by)
}

// oneDeadline: a job's deadline is decided once.
func (e evidence) oneDeadline() Line {
	moved, seen := 0, 0
	for _, o := range e.ops {
		for _, ev := range o.Events {
			seen++
			if !ev.Deadline.Equal(o.Events[0].Deadline) {
				moved++
			}
		}
	}
	return e.line(moved == 0 && seen > 0, "events that name another deadline than the job's first = 0", "%d of %d", moved, seen)
}

// attemptsGoOn: attempts are counted without a gap and never anew.
func (e evidence) attemptsGoOn() Line {
	anew, most := 0, 0
	for _, o := range e.ops {
		last := 0
		for _, ev := range o.Events {
			if ev.Attempt < last || ev.Attempt > last+1 {
				anew++
			}
			last = ev.Attempt
		}
		most = max(most, last)
	}
	return e.line(anew == 0 && most <= e.set.attempts && most > 0,
		fmt.Sprintf("attempts counted on, <= %d", e.set.attempts), "%d at most, %d jumps", most, anew)
}

func ratio(a, b int) string {
	if b == 0 {
		return "n/a"
	}
	return fmt.Sprintf("%.2f", float64(a)/float64(b))
}

// counted writes counts by name, in a fixed order.
func counted(n map[string]int) string {
	names := make([]string, 0, len(n))
	for name := range n {
		names = append(names, name)
	}
	slices.Sort(names)
	text := ""
	for i, name := range names {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%d %s", n[name], name)
	}
	return text
}
