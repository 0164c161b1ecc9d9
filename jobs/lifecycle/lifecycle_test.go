package lifecycle_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/lifecycle"
	"github.com/tidings/tidings/jobs/retry"
)

// topic is a state and what changes make of it, as a store would.
type topic struct {
	testing.TB
	lifecycle.State
	rules lifecycle.Rules
	told  []events.Transition
	lines []string
}

func newTopic(t testing.TB) *topic {
	s := retry.Defaults()
	s.QueueJitter = 0
	return &topic{TB: t, State: lifecycle.State{Now: time.UnixMilli(1_800_000_000_000).UTC()}, rules: lifecycle.Rules{Settings: s}}
}

// store applies a change.
func (p *topic) store(c lifecycle.Change) {
	p.Helper()
	if c.Err() != nil {
		p.Fatal(c.Err())
	}
	if c.Job.ID != "" {
		p.Job = c.Job
	}
	if n := len(c.Transitions); n > 0 {
		p.Last = c.Transitions[n-1]
		p.told = append(p.told, c.Transitions...)
	}
	if in := c.Input; in != nil && (in.Bytes != nil || in.Keep <= 0) {
		p.InputBytes = len(in.Bytes)
	}
	if d := c.Document; d != nil {
		p.DocumentVersion, p.DocumentJob = d.Version, d.JobID
	}
	if c.NewLedger {
		p.lines = nil
	}
	p.lines = append(p.lines, c.Lines...)
	if c.Key != "" {
		p.Key = c.Key
	}
	if c.Report != "" {
		p.Report = c.Report
	}
}

func (p *topic) pass(d time.Duration) { p.Now = p.Now.Add(d) }

func (p *topic) submit(job, text string) lifecycle.Submitted {
	p.Helper()
	c, got := p.rules.Submit(p.State, submission(job, text))
	p.store(c)
	return got
}

func submission(job, text string) lifecycle.Submission {
	return lifecycle.Submission{Terms: lifecycle.Terms{JobID: job, Queue: "summary"}, Fingerprint: text, Input: []byte(text)}
}

func (p *topic) claim(job, token string) lifecycle.Claimed {
	p.Helper()
	c, got := p.rules.Claim(p.State, lifecycle.Claiming{JobID: job, Run: p.Job.Run, Token: token, Worker: "w"})
	p.store(c)
	return got
}

func (p *topic) settle(token string, a lifecycle.Attempt) (lifecycle.Code, lifecycle.Settled) {
	p.Helper()
	c, code, got := p.rules.Settle(p.State, p.Job.ID, token, a)
	p.store(c)
	return code, got
}

func failed(reason events.Reason) lifecycle.Attempt {
	return lifecycle.Attempt{Outcome: events.OutcomeFailed, Reason: reason, CanRetry: true}
}

var again = lifecycle.Attempt{Kind: lifecycle.TryAgain, Reason: events.Overloaded}

// A verb that is repeated after a lost answer says the same and changes nothing.
func TestEveryVerbMayBeRepeated(t *testing.T) {
	p := newTopic(t)
	twice := func(name string, verb func() (lifecycle.Change, any)) {
		t.Helper()
		c, first := verb()
		if c.Nothing() {
			t.Fatalf("%s changed nothing: %+v", name, first)
		}
		p.store(c)
		if c, second := verb(); !c.Nothing() || !reflect.DeepEqual(first, second) {
			t.Errorf("%s repeated: %+v, at first %+v; changes %+v", name, second, first, c)
		}
	}
	r := p.rules
	twice("submit", func() (lifecycle.Change, any) { c, got := r.Submit(p.State, submission("J1", "one")); return c, got })
	claim := func(job, token string) func() (lifecycle.Change, any) {
		return func() (lifecycle.Change, any) {
			c, got := r.Claim(p.State, lifecycle.Claiming{JobID: job, Run: 1, Token: token})
			return c, got
		}
	}
	twice("claim", claim("J1", "T1"))
	c, _ := r.Pause(p.State, "J1", "T1", time.Second, events.Overloaded, 0, nil)
	p.store(c)
	twice("reserve", func() (lifecycle.Change, any) { c, got, _ := r.Reserve(p.State, "J1", "T1", 2, 0, 0); return c, got })
	twice("settle", func() (lifecycle.Change, any) { c, _, got := r.Settle(p.State, "J1", "T1", again); return c, got })
	twice("run now", func() (lifecycle.Change, any) {
		c, got := r.Retry(p.State, lifecycle.Terms{JobID: "J2"})
		return c, got
	})
	twice("claim", claim("J1", "T2"))
	twice("settle", func() (lifecycle.Change, any) {
		c, _, got := r.Settle(p.State, "J1", "T2", failed(events.Internal))
		return c, got
	})
	twice("retry", func() (lifecycle.Change, any) {
		c, got := r.Retry(p.State, lifecycle.Terms{JobID: "J2"})
		return c, got
	})
	c, got := r.Cancel(p.State)
	p.store(c)
	if c, second := r.Cancel(p.State); !c.Nothing() || second.Code != lifecycle.Ended || second.JobID != got.JobID {
		t.Errorf("cancel repeated: %+v", second)
	}
	twice("submit", func() (lifecycle.Change, any) { c, got := r.Submit(p.State, submission("J3", "two")); return c, got })
	twice("claim", claim("J3", "T3"))
	report := lifecycle.Report{Token: "T3", Attempt: 1, Digest: "d"}
	c, _, first, _ := r.SettleReport(p.State, "J3", report, lifecycle.Attempt{Kind: lifecycle.Finished, Document: []byte("{}")})
	p.store(c)
	if c, code, second, known := r.SettleReport(p.State, "J3", report, lifecycle.Attempt{}); !c.Nothing() || code != lifecycle.OK || second != first || !known {
		t.Errorf("a report repeated: %s %+v, at first %+v", code, second, first)
	}
	report.Digest = "other"
	if _, code, _, _ := r.SettleReport(p.State, "J3", report, lifecycle.Attempt{}); code != lifecycle.Conflict {
		t.Errorf("a report that says something else: %s", code)
	}
}

// Only the current claim's token may speak, whatever it wants to say.
func TestAReplacedClaimChangesNothing(t *testing.T) {
	p := newTopic(t)
	p.submit("J1", "one")
	p.claim("J1", "old")
	p.pass(p.rules.Lease + time.Millisecond)
	if got := p.claim("J1", "new"); got.Code != lifecycle.Claimable || p.Job.Attempts != 2 {
		t.Fatalf("after a lost lease: %+v, %+v", got, p.Job)
	}
	check := func(verb string, c lifecycle.Change, code lifecycle.Code) {
		if code != lifecycle.Lost || !c.Nothing() {
			t.Errorf("%s of the replaced claim: %s, %+v", verb, code, c)
		}
	}
	c, code, _ := p.rules.Reserve(p.State, "J1", "old", 2, 0, 0)
	check("reserve", c, code)
	c, code = p.rules.Pause(p.State, "J1", "old", 1, events.Overloaded, 0, nil)
	check("pause", c, code)
	c, code = p.rules.Renew(p.State, "J1", "old", false)
	check("renew", c, code)
	for _, a := range []lifecycle.Attempt{{Kind: lifecycle.Finished}, again, {Kind: lifecycle.HandBack}, failed(events.Auth)} {
		c, code, _ := p.rules.Settle(p.State, "J1", "old", a)
		check("settle", c, code)
	}
	if got := p.claim("J1", "third"); got.Code != lifecycle.Busy || got.In <= 0 {
		t.Errorf("against a live claim: %+v", got)
	}
}

func TestAClaimKeepsTheTime(t *testing.T) {
	for _, tt := range []struct {
		name string
		hint time.Duration
		pass time.Duration
		ran  bool
		want lifecycle.Code
	}{
		{name: "at its time", pass: 30 * time.Second, want: lifecycle.Claimable},
		{name: "a little early", pass: 29 * time.Second, want: lifecycle.Wait},
		{name: "early", want: lifecycle.AskQueue},
		{name: "run by an operator", ran: true, want: lifecycle.Claimable},
		{name: "a provider's wait, run by an operator", hint: time.Minute, ran: true, want: lifecycle.TooEarly},
	} {
		p := newTopic(t)
		p.submit("J1", "one")
		p.claim("J1", "T1")
		a := again
		a.Hint = tt.hint
		_, got := p.settle("T1", a)
		if want := max(30*time.Second, tt.hint); got.Next.Sub(p.Last.At) != want || p.Last.NextRetryAt != got.Next {
			t.Errorf("%s: waits %s, want %s", tt.name, got.Next.Sub(p.Last.At), want)
		}
		p.pass(tt.pass)
		c, claimed := p.rules.Claim(p.State, lifecycle.Claiming{JobID: "J1", Run: 1, Token: "T2", ByHand: tt.ran})
		if claimed.Code != tt.want || (claimed.Code == lifecycle.Claimable) == c.Nothing() {
			t.Errorf("%s: %+v", tt.name, claimed)
		}
		if tt.ran && tt.want == lifecycle.Claimable && (len(c.Transitions) != 2 || c.Transitions[0].Reason != events.RunByOperator) {
			t.Errorf("%s: told %+v", tt.name, c.Transitions)
		}
	}
}

func TestTheAllowanceHoldsOverClaims(t *testing.T) {
	p := newTopic(t)
	p.rules.Allowance = 4
	p.submit("J1", "one")
	p.claim("J1", "T1")
	for n := 2; n <= 3; n++ {
		c, code, _ := p.rules.Reserve(p.State, "J1", "T1", n, 0, 0)
		p.store(c)
		if code != lifecycle.OK || p.Job.Calls != n {
			t.Fatalf("call %d: %s, %d counted", n, code, p.Job.Calls)
		}
	}
	p.settle("T1", again)
	p.pass(30 * time.Second)
	p.claim("J1", "T2")
	if c, code, end := p.rules.Reserve(p.State, "J1", "T2", 2, 0, 0); code != lifecycle.Ended || end.Reason != events.CallAllowance || !c.Nothing() {
		t.Errorf("a fifth call: %s %+v", code, end)
	}
	if _, got := p.settle("T2", again); got.Outcome != events.OutcomeRetriesExhausted || got.Reason != events.CallAllowance {
		t.Errorf("settled %+v", got)
	}
}

// A job costs at most its cap: neither a claim nor a further call may pass it.
func TestTheCostIsCapped(t *testing.T) {
	p := newTopic(t)
	p.rules.Cost = 1e-6 // 1000 of 1e-9 US dollars
	p.submit("J1", "one")
	claim := func(token string, worst int64) lifecycle.Claimed {
		c, got := p.rules.Claim(p.State, lifecycle.Claiming{JobID: "J1", Run: 1, Token: token, Worst: worst})
		p.store(c)
		return got
	}
	claim("T1", 600)
	if c, code, _ := p.rules.Reserve(p.State, "J1", "T1", 2, 600, 600); code != lifecycle.Ended || !c.Nothing() {
		t.Errorf("600 more on top of 600: %s", code)
	}
	c, code, _ := p.rules.Reserve(p.State, "J1", "T1", 2, 100, 600)
	p.store(c)
	if code != lifecycle.OK || p.Job.Spent != 700 {
		t.Errorf("600 more on top of 100: %s, spent %d", code, p.Job.Spent)
	}
	a := again
	a.Spent, a.Worst = 700, 600
	if _, got := p.settle("T1", a); got.Reason != events.CallAllowance {
		t.Errorf("another attempt that cannot be paid: %+v", got)
	}
	q := newTopic(t)
	q.rules.Cost = 1e-6
	q.submit("J1", "one")
	p = q
	if got := claim("T1", 2000); got.End == nil || p.Last.CanRetry {
		t.Errorf("a job whose first call cannot be paid: %+v %+v", got, p.Last)
	}
}

// The gate's wait counts no attempt, is told with its time, and does not outlive the
// deadline; a pause is waited for until then.
func TestTheGatesWait(t *testing.T) {
	hold := func(p *topic, h lifecycle.Hold) lifecycle.Claimed {
		c, got := p.rules.Hold(p.State, lifecycle.Claiming{JobID: "J1", Run: 1, Token: "T"}, h)
		p.store(c)
		return got
	}
	p := newTopic(t)
	p.submit("J1", "one")
	got := hold(p, lifecycle.Hold{Reason: events.BreakerOpen, For: time.Minute})
	if got.In != time.Minute || p.Job.Attempts != 0 || p.Last.Status != events.Queued || p.Last.NotBefore != p.Now.Add(time.Minute) {
		t.Errorf("held %+v, told %+v", got, p.Last)
	}
	p.pass(time.Minute)
	if got := hold(p, lifecycle.Hold{Reason: events.BreakerOpen, For: time.Hour}); got.End == nil || got.End.Outcome != events.OutcomeAdmissionDenied {
		t.Errorf("a wait beyond the deadline: %+v", got)
	}
	p = newTopic(t)
	p.submit("J1", "one")
	last := p.Job.DeadlineAt.Add(-p.rules.Saving)
	if got := hold(p, lifecycle.Hold{Reason: events.DependencyPaused, For: time.Hour, MayEnd: true}); got.End != nil || !p.Job.NotBefore.Equal(last) {
		t.Errorf("a pause beyond the deadline: %+v, until %s", got, p.Job.NotBefore)
	}
	p.pass(last.Sub(p.Now))
	if got := p.claim("J1", "T2"); got.End == nil || got.End.Reason != events.DependencyPaused {
		t.Errorf("at the deadline: %+v", got)
	}
}

// A live job whose record is lost ends; it does not stay as it was told last.
func TestALostRecordEnds(t *testing.T) {
	lose := func(p *topic) {
		p.submit("J1", "one")
		p.claim("J1", "T1")
		p.Job = lifecycle.Job{}
	}
	p := newTopic(t)
	lose(p)
	c, got := p.rules.Rescue(p.State, lifecycle.Remedy{Action: lifecycle.EndIt, JobID: "J1", Seq: p.Last.Seq, Reason: events.StorageFault, Outcome: events.OutcomeFailed})
	p.store(c)
	if got.End == nil || p.Last.JobID != "J1" || p.Last.Reason != events.StorageFault || p.Last.CanRetry {
		t.Errorf("rescued %+v, told %+v", got, p.Last)
	}
	p = newTopic(t)
	lose(p)
	if got := p.submit("J2", "two"); got.Code != lifecycle.Created || got.Replaced == nil || p.told[2].JobID != "J1" || p.told[2].Status != events.Failed {
		t.Errorf("another submit: %+v, told %+v", got, p.told)
	}
	p = newTopic(t)
	lose(p)
	c, cancelled := p.rules.Cancel(p.State)
	p.store(c)
	if cancelled.Code != lifecycle.CancelledNow || p.Last.Reason != events.Cancelled {
		t.Errorf("cancelled %+v, told %+v", cancelled, p.Last)
	}
}

func TestAKeyIsBoundToWhatItAskedFor(t *testing.T) {
	p := newTopic(t)
	submit := func(job, text string) lifecycle.Submitted {
		ask := submission(job, text)
		ask.Keyed = true
		c, got := p.rules.Submit(p.State, ask)
		p.store(c)
		return got
	}
	submit("J1", "one")
	if got := submit("J2", "one"); got.Code != lifecycle.Replay || got.JobID != "J1" || got.Status != events.Queued {
		t.Errorf("the same again: %+v", got)
	}
	if got := submit("J3", "two"); got.Code != lifecycle.KeyReused {
		t.Errorf("another input: %+v", got)
	}
	p.Key = ""
	if got := submit("J4", "two"); got.Code != lifecycle.JobRunning || p.Key != "" {
		t.Errorf("another key while a job lives: %+v, remembered %q", got, p.Key)
	}
}

// Manual retries in a row are accepted at once three times, then ever later.
func TestTheCoolDown(t *testing.T) {
	p := newTopic(t)
	p.submit("J0", "one")
	for n, want := range []time.Duration{0, 0, 0, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second, 30 * time.Second} {
		p.claim(p.Job.ID, "T")
		p.settle("T", failed(events.Internal))
		var in time.Duration
		if at := p.Last.RetryAvailableAt; !at.IsZero() {
			in = at.Sub(p.Now)
		}
		if in != want {
			t.Errorf("after %d manual retries: %s, want %s", n, in, want)
		}
		p.pass(want)
		c, got := p.rules.Retry(p.State, lifecycle.Terms{JobID: p.Job.ID + "x"})
		p.store(c)
		if got.Code != lifecycle.Created {
			t.Fatalf("retry %d: %+v", n+1, got)
		}
	}
}

// Whatever happens in whatever order, every transition is legal, places grow, an end
// is final, counts only grow and stay within their bounds, and a live job has one
// claim at most.
func TestAnySequenceOfVerbs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := newTopic(t)
		p.rules.Attempts, p.rules.Allowance = 3, 5
		jobs, tokens := 0, 0
		verbs := []string{"submit", "replace", "claim", "pause", "reserve", "settle", "renew", "hold", "deny", "cancel", "retry", "rescue", "pass", "lose"}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			before := p.State
			token := ""
			if p.Job.Claim != nil {
				token = p.Job.Claim.Token
			}
			if rapid.IntRange(0, 5).Draw(rt, "stale") == 0 {
				token = "nobody's"
			}
			tokens++
			ask := lifecycle.Claiming{JobID: p.Job.ID, Run: p.Job.Run, Token: string(rune(tokens + 1000)), ByHand: rapid.Bool().Draw(rt, "by hand")}
			verb := rapid.SampledFrom(verbs).Draw(rt, "verb")
			var c lifecycle.Change
			switch verb {
			case "submit", "replace":
				jobs++
				s := submission(string(rune('A'+jobs)), rapid.SampledFrom([]string{"one", "two"}).Draw(rt, "input"))
				s.Replace = verb == "replace"
				c, _ = p.rules.Submit(p.State, s)
			case "claim":
				c, _ = p.rules.Claim(p.State, ask)
			case "pause":
				c, _ = p.rules.Pause(p.State, p.Job.ID, token, time.Second, events.Overloaded, 0, nil)
			case "reserve":
				c, _, _ = p.rules.Reserve(p.State, p.Job.ID, token, rapid.IntRange(1, 4).Draw(rt, "call"), 0, 0)
			case "settle":
				a := rapid.SampledFrom([]lifecycle.Attempt{{Kind: lifecycle.Finished, Document: []byte("{}")}, again, failed(events.Internal), failed(events.Auth),
					{Kind: lifecycle.HandBack, Hold: lifecycle.Hold{Reason: events.Draining}}, {Outcome: events.OutcomeUnknown, Reason: events.Internal}}).Draw(rt, "attempt")
				a.Hint = rapid.SampledFrom([]time.Duration{0, 0, time.Minute, time.Hour}).Draw(rt, "hint")
				if a.Kind == lifecycle.Finished && p.Last.Status == events.Retrying {
					continue // nobody has an answer between two calls
				}
				c, _, _ = p.rules.Settle(p.State, p.Job.ID, token, a)
			case "renew":
				c, _ = p.rules.Renew(p.State, p.Job.ID, token, rapid.Bool().Draw(rt, "strict"))
			case "hold":
				c, _ = p.rules.Hold(p.State, ask, lifecycle.Hold{Reason: events.DependencyPaused, For: time.Minute, MayEnd: rapid.Bool().Draw(rt, "may end")})
			case "deny":
				c, _ = p.rules.Deny(p.State, ask, events.RetryBudget, time.Second)
			case "cancel":
				c, _ = p.rules.Cancel(p.State)
			case "retry":
				jobs++
				c, _ = p.rules.Retry(p.State, lifecycle.Terms{JobID: string(rune('A' + jobs))})
			case "rescue":
				actions := []lifecycle.Action{lifecycle.LostLease, lifecycle.Rerun, lifecycle.TellWait, lifecycle.Adopt, lifecycle.Wake, lifecycle.Missing, lifecycle.EndIt, lifecycle.Unplaced, lifecycle.Placed}
				m := lifecycle.Remedy{Action: rapid.SampledFrom(actions).Draw(rt, "action"), JobID: p.Job.ID, Seq: p.Last.Seq, Outcome: events.OutcomeFailed, Reason: events.Removed}
				if !legal(p.State, m.Action) {
					continue // the rescuer's table never finds it
				}
				c, _ = p.rules.Rescue(p.State, m)
			case "pass":
				p.pass(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, 20 * time.Second, time.Minute, 10 * time.Minute, -time.Second}).Draw(rt, "time"))
			case "lose":
				if rapid.IntRange(0, 20).Draw(rt, "the record") == 0 {
					p.Job = lifecycle.Job{}
				}
			}
			p.store(c)
			j := p.Job
			if j.Attempts > p.rules.Attempts || j.Calls > p.rules.Allowance || j.Attempts < 0 {
				rt.Fatalf("%s: %d attempts, %d calls", verb, j.Attempts, j.Calls)
			}
			if j.ID != "" && j.ID == before.Job.ID && j.Calls < before.Job.Calls {
				rt.Fatalf("%s: %d calls are counted after %d", verb, j.Calls, before.Job.Calls)
			}
			if !p.Live() && j.Claim != nil {
				rt.Fatalf("%s: an ended job has a claim", verb)
			}
			if before.Last.Status.Terminal() && p.Last.Seq != before.Last.Seq && p.Last.JobID == before.Last.JobID {
				rt.Fatalf("%s: %s after the end", verb, p.Last.Status)
			}
			if p.Last.Status == events.Retrying && p.Last.Layer == events.QueueLayer && !p.Last.NextRetryAt.Equal(j.NextRetryAt) && j.ID != "" {
				rt.Fatalf("%s: told %s, stored %s", verb, p.Last.NextRetryAt, j.NextRetryAt)
			}
		}
		for i, n := range p.told {
			if i > 0 && (n.Prev != p.told[i-1].Seq || n.Seq <= n.Prev || !events.Follows(p.told[i-1], n)) {
				rt.Fatalf("%+v after %+v", n, p.told[i-1])
			}
		}
	})
}

// legal says which remedies the rescuer's table may find for a state.
func legal(s lifecycle.State, a lifecycle.Action) bool {
	waits := s.Last.Status == events.Queued || s.Last.Status == events.Retrying && s.Last.Layer == events.QueueLayer
	switch a {
	case lifecycle.LostLease:
		return !waits
	case lifecycle.Wake, lifecycle.Adopt, lifecycle.TellWait:
		return waits
	}
	return slices.Contains([]lifecycle.Action{lifecycle.Rerun, lifecycle.Missing, lifecycle.EndIt, lifecycle.Unplaced, lifecycle.Placed}, a)
}
