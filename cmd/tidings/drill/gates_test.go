package drill

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// Each gate passes what is right and fails what is not. The evidence is made
// here; that a real fleet's passes, the program's own tests show.

var start = time.Date(2026, 4, 7, 12, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

// right is what a row sees that goes well: three operations, the first with one
// call, the second with a 503 before it, the third refused.
func right() evidence {
	set := quick()
	set.concurrency, set.burst, set.perFirst, set.perSecond, set.queueLimit = 2, 1, 0, 0.001, 2
	deadline := at(120_000)
	e := evidence{row: "S4-00", set: set, passed: time.Second, ops: []*op{
		{ID: "a", Jobs: []string{"j1"}, Events: []event{
			{Event: "queued", Job: "j1", Seq: 1, At: at(0), Deadline: deadline},
			{Event: "processing", Job: "j1", Seq: 2, At: at(1), Attempt: 1, Deadline: deadline},
			{Event: "completed", Job: "j1", Seq: 3, At: at(30), Attempt: 1, Deadline: deadline, Outcome: "completed"},
		}},
		{ID: "b", Jobs: []string{"j2"}, Events: []event{
			{Event: "queued", Job: "j2", Seq: 4, At: at(0), Deadline: deadline},
			{Event: "processing", Job: "j2", Seq: 5, At: at(1), Attempt: 1, Deadline: deadline},
			{Event: "retrying", Job: "j2", Seq: 6, At: at(10), Attempt: 1, Deadline: deadline, Layer: "queue", NextRetry: at(1000)},
			{Event: "processing", Job: "j2", Seq: 7, At: at(1001), Attempt: 2, Deadline: deadline},
			{Event: "completed", Job: "j2", Seq: 8, At: at(1030), Attempt: 2, Deadline: deadline, Outcome: "completed"},
		}},
		{ID: "c", Refused: "queue_full", Final: event{Event: "idle"}},
	}, calls: []received{
		{Op: "a", N: 1, Arrived: at(2), Left: at(29), Step: answers, Done: true, Beside: 1},
		{Op: "b", N: 1, Arrived: at(3), Left: at(4), Step: "503", Beside: 2},
		{Op: "b", N: 2, Arrived: at(1002), Left: at(1029), Step: answers, Done: true, Beside: 1},
	}}
	for i, o := range e.ops[:2] {
		o.Final = o.end()
		o.Document = &document{Version: 1, Job: o.Jobs[0], Content: json.RawMessage(theDocument)}
		o.Ledger = ledgerOf(strings.Repeat(`{"attempt":1,"class":"unavailable","decision":"queue"},`, i) +
			fmt.Sprintf(`{"attempt":1,"decision":"done","input_tokens":%d,"output_tokens":%d,"cost_usd":%g}`, tokensIn, tokensOut, costOfOne))
	}
	return e
}

func ledgerOf(calls string) (l ledger) {
	if err := json.Unmarshal([]byte(`{"calls":[`+calls+`]}`), &l); err != nil {
		panic(err)
	}
	return l
}

// extraCall is one more call of b, as a fleet would make that does not count.
func extraCall(e *evidence) {
	e.calls = append(e.calls, received{Op: "b", N: 3, Arrived: at(1040), Left: at(1041), Step: answers, Done: true, Beside: 1})
}

func TestEachGateCanFail(t *testing.T) {
	for name, c := range map[string]struct {
		gate  func(evidence) Line
		wrong func(*evidence)
	}{
		"S4-53 calls per operation": {evidence.callsPerOperation, func(e *evidence) { e.set.allowance = 1 }},
		"S4-53 no calls at all":     {evidence.callsPerOperation, func(e *evidence) { e.calls = nil }},
		"S4-53 calls of each": {func(e evidence) Line { e.ops = e.ops[1:2]; return e.callsEach(2) },
			extraCall},
		"S4-53 the way it ends": {func(e evidence) Line { e.ops = e.ops[:2]; return e.endsAs("completed", "") },
			func(e *evidence) { e.ops[1].Events[4].Outcome = "failed" }},
		"S4-54 extra calls":          {evidence.extraCalls, extraCall},
		"S4-54 at the same time":     {evidence.atTheSameTime, func(e *evidence) { e.calls[1].Beside = 3 }},
		"S4-54 open jobs":            {evidence.openJobs, func(e *evidence) { e.set.queueLimit = 1 }},
		"S4-54 refused, but stored":  {evidence.refusals, func(e *evidence) { e.ops[2].Final.Event = "queued" }},
		"S4-54 refused, but called":  {evidence.refusals, func(e *evidence) { e.calls[2].Op = "c" }},
		"S4-54 refused for no room?": {evidence.refusals, func(e *evidence) { e.ops[2].Refused = "internal" }},
		"S4-54 tokens":               {evidence.tokens, extraCall},
		"S4-55 no end":               {evidence.oneEnd, func(e *evidence) { e.ops[0].Events = e.ops[0].Events[:2] }},
		"S4-55 two jobs":             {evidence.oneEnd, func(e *evidence) { e.ops[0].Jobs = append(e.ops[0].Jobs, "j9") }},
		"S4-55 an end that changes":  {evidence.oneEnd, func(e *evidence) { e.ops[0].Final.Event = "error" }},
		"S4-55 two documents":        {evidence.oneDocument, func(e *evidence) { e.ops[0].Document.Version = 2 }},
		"S4-55 a lost document":      {evidence.oneDocument, func(e *evidence) { e.ops[0].Document = nil }},
		"S4-55 a document of no job": {evidence.oneDocument, func(e *evidence) { e.ops[2].Document = e.ops[1].Document }},
		"S4-58 part of a document": {evidence.oneDocument, func(e *evidence) {
			e.ops[0].Document.Content = json.RawMessage(`{"title":"A drill"}`)
		}},
		"S4-55 two effects": {func(e evidence) Line { e.ops = e.ops[:2]; return e.effects() },
			func(e *evidence) { e.ops[0].Document.Version = 2 }},
		"S4-55 the fault was not played": {func(e evidence) Line { return e.answersLost(len(e.calls), 3) },
			func(e *evidence) { e.calls = nil }},
		"S4-55 all complete":            {func(e evidence) Line { return e.completed(2) }, func(e *evidence) { e.ops[0].Events[2].Event = "error" }},
		"S4-56 a deadline that moves":   {evidence.oneDeadline, func(e *evidence) { e.ops[1].Events[3].Deadline = at(999_999) }},
		"S4-56 attempts anew":           {evidence.attemptsGoOn, func(e *evidence) { e.ops[1].Events[3].Attempt = 0 }},
		"S4-56 an attempt left out":     {evidence.attemptsGoOn, func(e *evidence) { e.ops[1].Events[3].Attempt = 3 }},
		"S4-56 too many attempts":       {evidence.attemptsGoOn, func(e *evidence) { e.set.attempts = 1 }},
		"S4-56 a call before its time":  {evidence.neverEarly, func(e *evidence) { e.calls[2].Arrived = at(900) }},
		"S4-56 a call not in the books": {evidence.ledgerTells, func(e *evidence) { e.ops[1].Ledger.Calls = e.ops[1].Ledger.Calls[1:] }},
	} {
		t.Run(name, func(t *testing.T) {
			if l := c.gate(right()); !l.Pass {
				t.Errorf("what is right does not pass: %+v", l)
			}
			e := right()
			if c.wrong(&e); c.gate(e).Pass {
				t.Errorf("what is wrong passes: %+v", c.gate(e))
			}
		})
	}
}

// broken is a row of answers that broke off: one of them, and then a whole one.
func broken() evidence {
	e := right()
	e.ops = e.ops[1:2]
	e.calls = e.calls[1:]
	e.calls[0].Step, e.calls[0].Done, e.calls[0].Bytes = cuts, true, 100
	e.ops[0].Ledger.Calls[0].Class = "stream_interrupted"
	return e
}

func TestGatesOfBrokenAnswersCanFail(t *testing.T) {
	known, price := int64(5), 0.1
	for name, c := range map[string]struct {
		gate  func(evidence) Line
		wrong func(*evidence)
	}{
		"taken for whole":   {evidence.markedBroken, func(e *evidence) { e.ops[0].Ledger.Calls[0].Class = "" }},
		"repeated in place": {evidence.markedBroken, func(e *evidence) { e.ops[0].Ledger.Calls[0].Decision = "again" }},
		"use made up":       {evidence.markedBroken, func(e *evidence) { e.ops[0].Ledger.Calls[0].In = &known }},
		"cost made up":      {evidence.cost, func(e *evidence) { e.ops[0].Ledger.Calls[0].Cost = &price }},
		"cost forgotten":    {evidence.cost, func(e *evidence) { e.ops[0].Ledger.Calls[1].Cost = nil }},
		"tokens made up":    {evidence.tokens, func(e *evidence) { l := &e.ops[0].Ledger.Calls[0]; l.In, l.Out = &known, &known }},
	} {
		t.Run(name, func(t *testing.T) {
			if l := c.gate(broken()); !l.Pass {
				t.Errorf("what is right does not pass: %+v", l)
			}
			e := broken()
			if c.wrong(&e); c.gate(e).Pass {
				t.Errorf("what is wrong passes: %+v", c.gate(e))
			}
		})
	}
}

// recovered is a return of capacity: three probes one after the other, and then
// as many at a time as good answers have earned.
func recovered() (evidence, []phase) {
	e := evidence{row: "S4-57", set: quick()}
	phases := []phase{{name: "before", from: at(-2000)}, {name: "outage", from: at(-1000)}, {name: "after", from: start}}
	for i := range 12 {
		o := &op{ID: numbered("S4-57", i), Events: []event{{Event: "queued", At: at(0)}, {Event: "completed", At: at(100*i + 51)}}}
		e.ops = append(e.ops, o)
		phases[2].ops = append(phases[2].ops, o)
		e.calls = append(e.calls, received{Op: o.ID, N: 1, Arrived: at(100 * i), Left: at(100*i + 50), Step: answers, Done: true, Beside: 1})
	}
	e.calls[11].Beside = 5 // 3 probes + 0.25 x 11
	failed := &op{ID: "failed", Events: []event{{Event: "queued", At: at(0)}, {Event: "error", At: at(51)}}}
	phases[1].ops = []*op{failed}
	phases[0].ops = []*op{failed}
	return e, phases
}

func TestGatesOfRecoveryCanFail(t *testing.T) {
	for name, c := range map[string]struct {
		gate  func(evidence, []phase) Line
		wrong func(*evidence, []phase)
	}{
		"a crowd of probes": {func(e evidence, _ []phase) Line { return e.stepByStep(start) },
			func(e *evidence, _ []phase) { e.calls[1].Beside = 4 }},
		"more than was earned": {func(e evidence, _ []phase) Line { return e.stepByStep(start) },
			func(e *evidence, _ []phase) { e.calls[11].Beside = 6 }},
		"nothing returned": {func(e evidence, _ []phase) Line { return e.stepByStep(start) },
			func(e *evidence, _ []phase) { e.calls = nil }},
		"overload again": {func(e evidence, _ []phase) Line { return e.noNewOverload(start) }, func(e *evidence, _ []phase) {
			for i := range e.calls[:6] {
				e.calls[i].Step = "529"
			}
		}},
		"nobody is served": {evidence.usable, func(e *evidence, p []phase) {
			for _, o := range p[2].ops {
				o.Events[1].Event = "error"
			}
		}},
		"no better than the outage": {evidence.usable, func(e *evidence, p []phase) {
			e.ops = append(e.ops, p[1].ops...)
			p[1].ops[0].Events[1] = event{Event: "completed", At: at(-500)}
			p[2].ops[0].Events[1].Event = "error"
		}},
		"a wait without an end": {evidence.queueAge, func(e *evidence, p []phase) { e.calls[11].Arrived = at(121_000) }},
	} {
		t.Run(name, func(t *testing.T) {
			e, phases := recovered()
			if l := c.gate(e, phases); !l.Pass {
				t.Errorf("what is right does not pass: %+v", l)
			}
			if c.wrong(&e, phases); c.gate(e, phases).Pass {
				t.Errorf("what is wrong passes: %+v", c.gate(e, phases))
			}
		})
	}
}

func TestAReportNamesEverything(t *testing.T) {
	r := newReport(Options{Seed: 7, Replicas: 10, Short: true, Versions: map[string]string{"SDK": "v9"}})
	r.Traffic["S4-53"], r.Settings["S4-53"] = []string{"5 operations"}, []string{strings.Join(quick().env(), " ")}
	if r.Passed() {
		t.Error("a report without a gate passes")
	}
	r.Lines = []Line{{Row: "S4-53", Gate: "a|b", Observed: "4", Pass: true}}
	if !r.Passed() {
		t.Error("a report whose every gate passed does not")
	}
	for _, part := range []string{"All gates passed", "short form", "seed 7", "3 workers", "SDK: v9", "5 operations", "TIDINGS_CALL_ALLOWANCE=12",
		`| S4-53 | a\|b | 4 | yes |`} {
		if !strings.Contains(r.markdown(), part) {
			t.Errorf("%q is missing in\n%s", part, r.markdown())
		}
	}
	r.Lines = append(r.Lines, Line{Row: "S4-54"})
	if r.Passed() || !strings.Contains(r.markdown(), "Not all gates passed") {
		t.Error("a report with a gate that failed passes")
	}
}

func TestUnknownRowsAreRefused(t *testing.T) {
	if _, err := Run(t.Context(), Options{Rows: []string{"S4-99"}}); err == nil || !strings.Contains(err.Error(), "S4-54") {
		t.Errorf("got %v, want an error that names the rows", err)
	}
}

func TestTheBaselineComesFirstAndCrowdsLast(t *testing.T) {
	names := Names()
	if names[0] != "baseline" || slices.Index(names, "S4-58") > slices.Index(names, "S4-54") {
		t.Errorf("the order is %v", names)
	}
}
