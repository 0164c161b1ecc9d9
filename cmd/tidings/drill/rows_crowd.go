package drill

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"
)

// These rows are about what parallel clients and the whole fleet make of a fault
// together. The clients' moments come from the seed.

// overload gives the provider no capacity at all. The whole form leaves it so
// until every job has ended by itself; the short one ends it after a while.
func (r *runner) overload(ctx context.Context) ([]Line, error) {
	set := quick()
	set.calls, set.attempts, set.allowance, set.budget, set.firstPause = 2, 2, 4, 11*time.Second, 20*time.Millisecond
	set.deadline = time.Minute
	set.concurrency, set.queueLimit = 8, 40
	// So little that the breaker's probes alone would use up more.
	set.burst, set.perFirst, set.perSecond = 5, 0.05, 0.05
	set.window, set.breakerCalls, set.open, set.openMax, set.probes = 2*time.Second, 10, 500*time.Millisecond, 2*time.Second, 2
	h, err := r.build(ctx, "S4-54", set, r.workers())
	defer h.close()
	if err != nil {
		return nil, err
	}
	ops := h.ops(0, pick(r, 120, 400))
	spread := pick(r, 3*time.Second, 15*time.Second)
	h.standin.carry(0)
	h.standin.pace(20*time.Millisecond, 100*time.Millisecond) // who is overloaded is slow to say so
	if r.Short {
		lift := time.AfterFunc(spread, func() { h.standin.carry(set.concurrency) })
		defer lift.Stop()
	}
	r.traffic(h.row, "%d clients within %s, %d workers; the provider carries nothing%s", len(ops), spread, r.workers(),
		pick(r, ", and everything after that time", " to the end"))
	if err := h.client.crowd(ctx, ops, spread, h.seed, nil); err != nil {
		return nil, err
	}
	e, err := h.seen(ctx, ops)
	if err != nil {
		return nil, err
	}
	return []Line{e.atTheSameTime(), e.callsPerOperation(), e.extraCalls(), e.openJobs(), e.refusals(), e.oneEnd(), e.oneDocument(), e.ledgerTells(),
		e.tokens()}, nil
}

// refusals: what there is no room for is refused as such, at once, and leaves
// nothing.
func (e evidence) refusals() Line {
	refused, right := 0, 0
	for _, o := range e.ops {
		if o.Refused == "" {
			continue
		}
		refused++
		if o.Refused == "queue_full" && o.Final.Event == "idle" && o.Document == nil && e.perOp()[o.ID] == 0 {
			right++
		}
	}
	return e.line(right == refused && refused > 0, "refused because the queue was full, nothing stored, no call = all refused, and some",
		"%d of %d; %s", right, refused, e.outcomes())
}

// phase is a part of a row's time, with the clients that came in it.
type phase struct {
	name   string
	carry  int // what the provider carries
	ops    []*op
	spread time.Duration
	from   time.Time // when it began
}

// recovery takes all capacity away for a while and gives a quarter of it back.
func (r *runner) recovery(ctx context.Context) ([]Line, error) {
	set := quick()
	set.calls, set.attempts, set.allowance, set.budget, set.firstPause, set.delays = 2, 4, 8, 11*time.Second, 20*time.Millisecond, pick(r, "1s", "1s,2s,4s")
	set.concurrency, set.queueLimit = 20, 1000
	set.burst, set.perFirst, set.perSecond = 30, 0.2, 2
	set.window, set.breakerCalls, set.open, set.openMax, set.probes = 2*time.Second, 10, 500*time.Millisecond, 2*time.Second, 3
	// Calls here take a tenth of what they take elsewhere, and the places are
	// cut at most once a second as everywhere: each good one earns less.
	set.growth = 0.05
	h, err := r.build(ctx, "S4-57", set, r.workers())
	defer h.close()
	if err != nil {
		return nil, err
	}
	// So slow that whoever waited for the breaker would crowd there.
	h.standin.pace(300*time.Millisecond, 0)
	n := pick(r, 20, 60)
	phases := []phase{
		{name: "before", carry: 20, ops: h.ops(0, n), spread: pick(r, 1*time.Second, 4*time.Second)},
		{name: "outage", carry: 0, ops: h.ops(1000, 3*n), spread: pick(r, 2*time.Second, 6*time.Second)},
		{name: "after", carry: 5, ops: h.ops(2000, 2*n), spread: pick(r, 3*time.Second, 12*time.Second)},
	}
	var all []*op
	lives := make(chan error, len(phases))
	opened := make(chan struct{}) // the breaker: it stays so while nothing is carried
	tell := sync.OnceFunc(func() { close(opened) })
	for i := range phases {
		p := &phases[i]
		r.traffic(h.row, "%s: %d clients within %s, the provider carries %d calls at a time, %d workers", p.name, len(p.ops), p.spread, p.carry, r.workers())
		h.standin.carry(p.carry)
		p.from = time.Now()
		all = append(all, p.ops...)
		go func() { // ends with ctx at the latest
			lives <- h.client.crowd(ctx, p.ops, p.spread, h.seed+uint64(i), func(_ *op, e event) {
				if p.name == "outage" && e.Reason == "breaker_open" {
					tell()
				}
			})
		}()
		if p.name == "after" {
			break
		}
		select {
		case <-time.After(p.spread):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if p.name == "outage" {
			select {
			case <-opened:
			case <-ctx.Done():
				return nil, fmt.Errorf("nobody heard of an open breaker: %w", context.Cause(ctx))
			}
		}
	}
	returned := phases[len(phases)-1].from
	for range phases {
		if err := <-lives; err != nil {
			return nil, err
		}
	}
	e, err := h.seen(ctx, all)
	if err != nil {
		return nil, err
	}
	return []Line{e.stepByStep(returned), e.noNewOverload(returned), e.usable(phases), e.queueAge(phases), e.extraCalls(), e.atTheSameTime(),
		e.callsPerOperation(), e.oneEnd(), e.oneDocument(), e.tokens()}, nil
}

// after are the calls that arrived from a moment on.
func (e evidence) after(t time.Time) []received {
	i := slices.IndexFunc(e.calls, func(c received) bool { return !c.Arrived.Before(t) })
	if i < 0 {
		return nil
	}
	return e.calls[i:]
}

// stepByStep: after the return, no more calls at a time than the probes, and one
// more for what 1/growth good answers have earned.
func (e evidence) stepByStep(returned time.Time) Line {
	s, over, first, most := e.set, 0, 0, 0
	calls := e.after(returned)
	for _, c := range calls {
		good := 0
		for _, g := range calls {
			if g.Step == answers && g.Done && !g.Left.After(c.Arrived) {
				good++
			}
		}
		if float64(c.Beside) > float64(s.probes)+s.growth*float64(good) {
			over++
		}
		if good < s.probes {
			first = max(first, c.Beside)
		}
		most = max(most, c.Beside)
	}
	return e.line(over == 0 && len(calls) > 0,
		fmt.Sprintf("calls beyond %d probes + %g x good answers since the return = 0 of %d", s.probes, s.growth, len(calls)),
		"%d; %d at a time at first, %d later", over, first, most)
}

// noNewOverload: of the calls after the return, fewer are refused than would open
// the breaker.
func (e evidence) noNewOverload(returned time.Time) Line {
	refused, calls := 0, e.after(returned)
	for _, c := range calls {
		if c.Step == full {
			refused++
		}
	}
	return e.line(float64(refused) < e.set.ratio*float64(len(calls)),
		fmt.Sprintf("calls that the provider refused after the return < %g x %d", e.set.ratio, len(calls)), "%d", refused)
}

// usable: after the return more of what is asked for is served than in the outage.
// Counted are completions within a phase's time for each operation offered in it.
func (e evidence) usable(phases []phase) Line {
	var texts []string
	share := map[string]float64{}
	for i, p := range phases {
		within, mine := 0, 0
		for _, o := range p.ops {
			if o.end().Event == "completed" {
				mine++
			}
		}
		for _, o := range e.ops {
			end := o.end()
			if end.Event == "completed" && !end.At.Before(p.from) && (i == len(phases)-1 || end.At.Before(phases[i+1].from)) {
				within++
			}
		}
		share[p.name] = float64(within) / float64(len(p.ops))
		texts = append(texts, fmt.Sprintf("%s %d/%d (of its own %d)", p.name, within, len(p.ops), mine))
	}
	return e.line(share["after"] > share["outage"], "usable completions for each offered: after > outage", "%s", strings.Join(texts, ", "))
}

// queueAge: nobody waits for the first call beyond the job's own deadline.
func (e evidence) queueAge(phases []phase) Line {
	first := map[string]time.Time{}
	for _, c := range e.calls {
		if c.N == 1 {
			first[c.Op] = c.Arrived
		}
	}
	var texts []string
	most := time.Duration(0)
	for _, p := range phases {
		var ages []time.Duration
		for _, o := range p.ops {
			if at, called := first[o.ID]; called && len(o.Events) > 0 {
				ages = append(ages, max(0, at.Sub(o.Events[0].At)))
			}
		}
		if len(ages) == 0 {
			continue
		}
		slices.Sort(ages)
		most = max(most, ages[len(ages)-1])
		texts = append(texts, fmt.Sprintf("%s median %s, most %s", p.name, ages[len(ages)/2].Round(time.Millisecond), ages[len(ages)-1].Round(time.Millisecond)))
	}
	return e.line(most <= e.set.deadline && most > 0, fmt.Sprintf("wait for the first call <= the deadline of %s", e.set.deadline), "%s", strings.Join(texts, ", "))
}

// amplification measures extra calls when each call fails by chance.
func (r *runner) amplification(ctx context.Context) ([]Line, error) {
	var lines []Line
	for _, rate := range []float64{0, 0.1, 0.33, 1} {
		got, err := r.amplified(ctx, rate)
		if err != nil {
			return lines, err
		}
		lines = append(lines, got...)
	}
	return lines, nil
}

func (r *runner) amplified(ctx context.Context, rate float64) ([]Line, error) {
	set := quick()
	set.delays, set.deadline = "1s,2s,4s", 2*time.Minute
	set.burst, set.perFirst, set.perSecond = 100, 0.2, 1
	set.breakerCalls, set.probes = 10, 3
	h, err := r.build(ctx, "amplification", set, r.workers())
	defer h.close()
	if err != nil {
		return nil, err
	}
	h.standin.feel(func(op string, n int) step {
		hash := fnv.New64a()
		fmt.Fprint(hash, h.seed, op, n)
		if float64(hash.Sum64()%10_000) < rate*10_000 {
			return "503"
		}
		return answers
	})
	ops, spread := h.ops(0, pick(r, 100, 500)), pick(r, 2*time.Second, 5*time.Second)
	r.traffic(h.row, "%d clients within %s, %d workers, each call fails with probability %g", len(ops), spread, r.workers(), rate)
	if err := h.client.crowd(ctx, ops, spread, h.seed, nil); err != nil {
		return nil, err
	}
	e, err := h.seen(ctx, ops)
	if err != nil {
		return nil, err
	}
	e.row = fmt.Sprintf("amplification at %.0f %%", 100*rate)
	endless := 0.0 // what the two layers would make without the fleet's gate
	for n, p := 0, 1.0; n < set.mostCalls(); n, p = n+1, p*rate {
		endless += p
	}
	line := e.extraCalls()
	line.Observed += fmt.Sprintf("; without the gate %.2f; %s", endless, e.outcomes())
	return []Line{line, e.oneEnd()}, nil
}
