package drill

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// These rows look at one fault at a time, with fixed scripts and one worker.

// baseline is what everything else is compared with: one attempt, one call,
// nothing repeated.
func (r *runner) baseline(ctx context.Context) ([]Line, error) {
	set := quick()
	set.calls, set.attempts, set.budget = 1, 1, 5*time.Second
	h, err := r.build(ctx, "baseline", set, 1)
	defer h.close()
	if err != nil {
		return nil, err
	}
	ops := h.ops(0, pick(r, 20, 100))
	failing := 0
	for i, o := range ops {
		if i%5 == 4 {
			h.standin.script(o.ID, "503")
			failing++
		}
	}
	r.traffic(h.row, "%d operations within 1 s, %d of them with a 503", len(ops), failing)
	if err := h.client.crowd(ctx, ops, time.Second, h.seed, nil); err != nil {
		return nil, err
	}
	e, err := h.seen(ctx, ops)
	if err != nil {
		return nil, err
	}
	return []Line{e.callsEach(1), e.completed(len(ops) - failing), e.oneEnd(), e.oneDocument(), e.ledgerTells(), e.tokens()}, nil
}

// completed: just these many were of use.
func (e evidence) completed(want int) Line {
	n := 0
	for _, o := range e.ops {
		if o.end().Event == "completed" {
			n++
		}
	}
	return e.line(n == want, fmt.Sprintf("completed = %d of %d offered", want, len(e.ops)), "%s", e.outcomes())
}

// tokens: what the ledger says was used is what the stand-in gave in whole
// answers. Work whose answer never came is unknown to it, and said to be.
func (e evidence) tokens() Line {
	var given, known int64
	unknown := 0
	for _, c := range e.calls {
		if c.Step == answers && c.Done {
			given += tokensIn + tokensOut
		}
	}
	for _, o := range e.ops {
		for _, c := range o.Ledger.Calls {
			if c.In == nil || c.Out == nil {
				unknown++
				continue
			}
			known += *c.In + *c.Out
		}
	}
	return e.line(known == given, fmt.Sprintf("tokens in the ledger = %d given in whole answers", given), "%d, and %d calls of unknown use", known, unknown)
}

// each runs testbeds of one row beside each other.
func each(parts ...func() ([]Line, error)) ([]Line, error) {
	lines, errs := make([][]Line, len(parts)), make([]error, len(parts))
	var wg sync.WaitGroup
	for i, part := range parts {
		wg.Go(func() { lines[i], errs[i] = part() })
	}
	wg.Wait()
	var all []Line
	for _, l := range lines {
		all = append(all, l...)
	}
	return all, errors.Join(errs...)
}

// timeouts lets the provider read requests and say nothing.
func (r *runner) timeouts(ctx context.Context) ([]Line, error) {
	part := func(set settings, reason string, calls int, steps ...step) func() ([]Line, error) {
		return func() ([]Line, error) {
			h, err := r.build(ctx, "S4-53", set, 1)
			defer h.close()
			if err != nil {
				return nil, err
			}
			ops := h.ops(0, pick(r, 5, 20))
			for _, o := range ops {
				h.standin.script(o.ID, steps...)
			}
			r.traffic(h.row, "%d operations at once, each call: %v", len(ops), steps)
			if err := h.client.crowd(ctx, ops, 0, h.seed, nil); err != nil {
				return nil, err
			}
			e, err := h.seen(ctx, ops)
			if err != nil {
				return nil, err
			}
			lines := []Line{e.callsPerOperation(), e.endsAs("retries_exhausted", reason), e.oneEnd(), e.oneDocument(), e.ledgerTells()}
			if calls > 0 {
				lines = append(lines, e.callsEach(calls))
			}
			return lines, nil
		}
	}
	queue := quick() // the queue's layer alone: each attempt's budget ends its one call
	queue.calls, queue.attempts, queue.budget = 1, 4, 1500*time.Millisecond
	stored := queue // and the allowance that is stored with the job
	stored.allowance = 3
	parts := []func() ([]Line, error){part(queue, "attempts", 4, hangs), part(stored, "call_allowance", 3, hangs)}
	if !r.Short {
		call := quick() // the call's layer alone: its last call has what is left of the budget
		call.calls, call.attempts, call.budget = 3, 1, 12*time.Second
		both := quick()
		both.calls, both.attempts, both.allowance, both.budget = 2, 2, 4, 11*time.Second
		parts = append(parts, part(call, "attempts", 0, "503", "503", hangs), part(both, "attempts", 0, "503", hangs, "503", hangs))
	}
	return each(parts...)
}

// lostAnswers lets work be done and whoever asked for it not hear so: between
// the provider and the worker, between the client and the API, between Redis and
// the worker, and between the provider and a worker that dies.
func (r *runner) lostAnswers(ctx context.Context) ([]Line, error) {
	set := quick()
	set.attempts, set.allowance = 3, 9
	h, err := r.build(ctx, "S4-55", set, 1)
	defer h.close()
	if err != nil {
		return nil, err
	}
	n := pick(r, 5, 20)
	provider, submits, settled := h.ops(0, n), h.ops(1000, n), h.ops(2000, n)
	for _, o := range provider {
		h.standin.script(o.ID, loses, answers)
	}
	for _, o := range submits {
		o.Deaf = 2
	}
	r.traffic(h.row, "%d operations each: the provider's answer lost; two answers to the submit lost; the answer to the stored result lost", n)
	if err := h.client.crowd(ctx, append(append([]*op{}, provider...), submits...), 0, h.seed, nil); err != nil {
		return nil, err
	}
	h.line.loseAnswers(`"status":"completed"`, n)
	if err := h.client.crowd(ctx, settled, 0, h.seed, nil); err != nil {
		return nil, err
	}
	died := h.ops(3000, pick(r, 0, 3))
	if len(died) > 0 {
		r.traffic(h.row, "%d operations whose worker is killed when the provider has done the work", len(died))
		for _, o := range died {
			h.standin.script(o.ID, works, answers)
		}
		if err := h.killedAfterWork(ctx, died); err != nil {
			return nil, err
		}
	}
	e, err := h.seen(ctx, append(append(append(append([]*op{}, provider...), submits...), settled...), died...))
	if err != nil {
		return nil, err
	}
	lines := []Line{
		e.only("the provider's answer lost", provider).callsEach(2),
		e.only("the submit's answer lost", submits).callsEach(1),
		e.only("the stored result's answer lost", settled).callsEach(1),
		e.answersLost(h.line.answersLost(), n),
	}
	if len(died) > 0 {
		lines = append(lines, e.only("the worker killed", died).callsEach(2))
	}
	return append(lines, e.completed(len(e.ops)), e.oneEnd(), e.oneDocument(), e.effects()), nil
}

// only is the part of the evidence that is about some operations.
func (e evidence) only(what string, ops []*op) evidence {
	mine := map[string]bool{}
	for _, o := range ops {
		mine[o.ID] = true
	}
	part := e
	part.row, part.ops, part.calls = e.row+", "+what, ops, nil
	for _, c := range e.calls {
		if mine[c.Op] {
			part.calls = append(part.calls, c)
		}
	}
	return part
}

// answersLost: the fault was played; else the row has shown nothing.
func (e evidence) answersLost(lost, want int) Line {
	return e.line(lost == want, fmt.Sprintf("answers of Redis to a stored result that were lost = %d", want), "%d", lost)
}

// effects: what the provider did and what was kept of it. Its work can be done
// twice, which is said; what the business has is one.
func (e evidence) effects() Line {
	work, kept := 0, 0
	for _, c := range e.calls {
		if c.Done {
			work++
		}
	}
	for _, o := range e.ops {
		if o.Document != nil {
			kept += int(o.Document.Version)
		}
	}
	return e.line(kept == len(e.ops) && work >= kept, fmt.Sprintf("effects that were kept = %d operations", len(e.ops)),
		"%d of %d pieces of work", kept, work)
}

// killedAfterWork kills the worker when the provider has done all this work and
// nobody has heard of it, and starts another one.
func (h *testbed) killedAfterWork(ctx context.Context, ops []*op) error {
	lives := make(chan error, 1)
	go func() { lives <- h.client.crowd(ctx, ops, 0, h.seed, nil) }() // ends with ctx at the latest
	err := h.standin.until(ctx, "the work done", func(all []received) bool {
		done := 0
		for _, c := range all {
			if c.Step == works && c.Done {
				done++
			}
		}
		return done >= len(ops)
	})
	if err == nil {
		h.fleet.killWorkers()
		err = h.fleet.startWorkers(ctx, 1, h.line.addr)
	}
	if err != nil {
		return err
	}
	return <-lives
}

// brokenOff lets answers end in the middle.
func (r *runner) brokenOff(ctx context.Context) ([]Line, error) {
	set := quick()
	set.attempts, set.allowance = 2, 6
	h, err := r.build(ctx, "S4-58", set, 1)
	defer h.close()
	if err != nil {
		return nil, err
	}
	once, always := h.ops(0, pick(r, 5, 20)), h.ops(1000, pick(r, 3, 10))
	for _, o := range once {
		h.standin.script(o.ID, cuts, answers)
	}
	for _, o := range always {
		h.standin.script(o.ID, cuts)
	}
	r.traffic(h.row, "%d operations whose first answer breaks off, %d whose every answer does", len(once), len(always))
	ops := append(append([]*op{}, once...), always...)
	if err := h.client.crowd(ctx, ops, 0, h.seed, nil); err != nil {
		return nil, err
	}
	e, err := h.seen(ctx, ops)
	if err != nil {
		return nil, err
	}
	return []Line{
		e.only("once", once).callsEach(2), e.only("always", always).callsEach(2), e.only("always", always).endsAs("retries_exhausted", "attempts"),
		e.completed(len(once)), e.oneEnd(), e.oneDocument(), e.markedBroken(), e.tokens(), e.cost(),
	}, nil
}

// markedBroken: each answer that broke off is marked as such, its use as unknown,
// and what follows is left to the queue.
func (e evidence) markedBroken() Line {
	broken, bytes, marked := 0, 0, 0
	for _, c := range e.calls {
		if c.Step == cuts {
			broken++
			bytes += c.Bytes
		}
	}
	for _, o := range e.ops {
		for _, c := range o.Ledger.Calls {
			if c.Class == "stream_interrupted" && c.Decision == "queue" && c.In == nil && c.Out == nil && c.Cost == nil {
				marked++
			}
		}
	}
	return e.line(marked == broken && broken > 0, fmt.Sprintf("calls marked stream_interrupted, of unknown use, for the queue to repeat = %d", broken),
		"%d; %d bytes had arrived of them", marked, bytes)
}

// cost: the ledger has the price of what is known, to the cent's millionth.
func (e evidence) cost() Line {
	known, whole, work := 0.0, 0, 0
	for _, c := range e.calls {
		if c.Done {
			work++
		}
		if c.Done && c.Step == answers {
			whole++
		}
	}
	for _, o := range e.ops {
		for _, c := range o.Ledger.Calls {
			if c.Cost != nil {
				known += *c.Cost
			}
		}
	}
	micro := func(usd float64) int64 { return int64(usd*1e6 + 0.5) }
	want := float64(whole) * costOfOne
	return e.line(micro(known) == micro(want), fmt.Sprintf("cost in the ledger = %.4f USD of %d whole answers", want, whole),
		"%.4f USD; all work of the provider would be %.4f USD", known, float64(work)*costOfOne)
}

// restarts ends all workers while jobs wait, and starts others.
func (r *runner) restarts(ctx context.Context) ([]Line, error) {
	job := quick() // the job's own limits
	job.calls, job.attempts, job.allowance, job.delays = 2, 4, 5, "3s"
	fleet := quick() // the fleet's retry budget, which fills by next to nothing
	fleet.calls, fleet.attempts, fleet.allowance, fleet.delays = 2, 4, 8, "3s"
	fleet.burst, fleet.perFirst, fleet.perSecond = 10, 0, 0.001
	n := pick(r, 4, 8)
	parts := []func() ([]Line, error){
		func() ([]Line, error) {
			e, err := r.restarted(ctx, job, n, "queue", 2)
			if err != nil {
				return nil, err
			}
			return []Line{e.callsEach(5), e.callsPerOperation(), e.endsAs("retries_exhausted", "call_allowance"),
				e.attemptsGoOn(), e.oneDeadline(), e.neverEarly(), e.oneEnd(), e.ledgerTells()}, nil
		},
		func() ([]Line, error) {
			e, err := r.restarted(ctx, fleet, n, "queue", 2)
			if err != nil {
				return nil, err
			}
			e.row += ", the fleet's budget"
			return []Line{e.extraCalls(), e.attemptsGoOn(), e.oneDeadline(), e.oneEnd()}, nil
		},
	}
	if !r.Short {
		inCall := quick() // a pause inside an attempt: the worker's claim is lost with it
		inCall.calls, inCall.attempts, inCall.allowance, inCall.delays = 3, 2, 3, "1s"
		inCall.firstPause, inCall.jitter, inCall.budget = 5*time.Second, "0", 24*time.Second
		parts = append(parts, func() ([]Line, error) {
			e, err := r.restarted(ctx, inCall, n, "call", 1)
			if err != nil {
				return nil, err
			}
			e.row += ", in the call"
			return []Line{e.callsPerOperation(), e.attemptsGoOn(), e.oneDeadline(), e.oneEnd()}, nil
		})
	}
	return each(parts...)
}

// restarted plays 503 for all calls and replaces the worker that often, each time
// that all jobs wait in that layer: the first time it is killed, then retired.
func (r *runner) restarted(ctx context.Context, set settings, n int, layer string, times int) (evidence, error) {
	h, err := r.build(ctx, "S4-56", set, 1)
	defer h.close()
	if err != nil {
		return evidence{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ops := h.ops(0, n)
	h.standin.feel(func(string, int) step { return "503" })
	r.traffic(h.row, "%d operations, every call a 503; the worker replaced %d times while all wait in the %s's backoff", n, times, layer)

	var mu sync.Mutex
	where := map[*op]event{}
	changed := make(chan struct{}, 1)
	lives := make(chan error, 1)
	go func() { // ends with ctx at the latest
		lives <- h.client.crowd(ctx, ops, 0, h.seed, func(o *op, e event) {
			mu.Lock()
			where[o] = e
			mu.Unlock()
			select {
			case changed <- struct{}{}:
			default:
			}
		})
	}()
	waiting := func(attempt int) bool {
		mu.Lock()
		defer mu.Unlock()
		in := 0
		for _, e := range where {
			if e.Event == "retrying" && e.Layer == layer && e.Attempt == attempt || e.terminal() {
				in++
			}
		}
		return in == len(ops)
	}
	for attempt := 1; attempt <= times; attempt++ {
		for !waiting(attempt) {
			select {
			case <-changed:
			case err := <-lives:
				return evidence{}, fmt.Errorf("the jobs have ended before they waited together (%w)", errors.Join(err, errEarly))
			case <-ctx.Done():
				return evidence{}, context.Cause(ctx)
			}
		}
		if attempt == 1 {
			h.fleet.killWorkers()
		} else if err := h.fleet.retireWorkers(ctx); err != nil {
			return evidence{}, err
		}
		if err := h.fleet.startWorkers(ctx, 1, h.line.addr); err != nil {
			return evidence{}, err
		}
	}
	if err := <-lives; err != nil {
		return evidence{}, err
	}
	return h.seen(ctx, ops)
}

var errEarly = errors.New("their waits are too short for this machine")
