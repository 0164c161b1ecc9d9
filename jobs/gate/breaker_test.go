package gate_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/retry"
)

// quick is settings whose breaker moves in fractions of a second.
func quick() gate.Settings {
	s := gate.Defaults()
	s.OpenFor, s.OpenMax, s.WindowCalls = 200*time.Millisecond, 800*time.Millisecond, 4
	return s
}

func TestBreaker_ProbesOfTheWholeFleet(t *testing.T) {
	each(t, func(w *world) {
		s := quick()
		s.Probes = 5
		gates := w.fleet(10, s)
		w.pass(w.outage(gates[0]).OpenUntil.Sub(w.now()))
		var probes, waits counter
		var all sync.WaitGroup
		for _, g := range gates {
			for range 20 {
				all.Go(func() {
					got, err := g.Ticket(w.t.Context(), w.first())
					switch {
					case err != nil:
						w.t.Error(err)
					case got.Verdict == gate.Go:
						probes.add(1)
					case got.Verdict == gate.Wait && got.Reason == gate.BreakerOpen && got.In > 0 && got.In <= 2*s.Busy:
						waits.add(1)
					default:
						w.t.Errorf("got %+v", got)
					}
				})
			}
		}
		all.Wait()
		if probes.n != 5 || waits.n != 195 {
			w.t.Errorf("%d probes and %d waits of 200 asks, want 5 and 195", probes.n, waits.n)
		}
	})
}

func TestBreaker_ReopensSlowly(t *testing.T) {
	each(t, func(w *world) {
		s := quick()
		s.Concurrency, s.FirstReserve, s.Growth = 6, 0, 0.5
		g := w.gate(s)
		w.pass(w.outage(g).OpenUntil.Sub(w.now()))

		// Admission stays on after the first good probe: two more, not a crowd.
		w.call(g, w.first(), gate.OK())
		two := []gate.Permit{w.mustGo(g, w.first()), w.mustGo(g, w.first())}
		w.mustNot(g, w.first(), gate.Wait, gate.BreakerOpen)
		for _, p := range two {
			w.report(g, p, gate.OK())
		}
		if st := w.inspect(g); st.Breaker != "closed" || st.Limit != 3 {
			w.t.Fatalf("after three good probes: %s with %v places, want closed with 3", st.Breaker, st.Limit)
		}

		var held []gate.Permit
		for range 3 {
			held = append(held, w.mustGo(g, w.first()))
		}
		w.mustNot(g, w.first(), gate.Wait, gate.Overloaded)
		w.report(g, held[0], gate.Failed(retry.InvalidInput, 0)) // no success, no growth
		held[0] = w.mustGo(g, w.first())
		w.mustNot(g, w.first(), gate.Wait, gate.Overloaded)
		w.report(g, held[0], gate.OK())
		w.report(g, held[1], gate.OK()) // two halves: one more place
		for range 3 {
			w.mustGo(g, w.first())
		}
		w.mustNot(g, w.first(), gate.Wait, gate.Overloaded)
		w.report(g, held[2], gate.Failed(retry.Timeout, 0))
		if got := w.inspect(g).Limit; got != 3 {
			w.t.Errorf("after a timeout there are %v places, want 4 x 0.75 = 3", got)
		}
	})
}

func TestBreaker_AHungProbeDoesNotKeepItHalfOpen(t *testing.T) {
	each(t, func(w *world) {
		s := quick()
		s.Probes, s.OpenFor, s.OpenMax = 1, 500*time.Millisecond, 2*time.Second
		g := w.gate(s)
		w.pass(w.outage(g).OpenUntil.Sub(w.now()))
		a := w.first()
		a.Lease = 100 * time.Millisecond
		hung := w.mustGo(g, a)
		w.mustNot(g, w.first(), gate.Wait, gate.BreakerOpen)
		w.pass(hung.ExpiresAt.Sub(w.now()))
		st := w.inspect(g)
		if st.Breaker != "open" || st.Trips != 2 || !st.OpenUntil.Equal(hung.ExpiresAt.Add(time.Second)) {
			w.t.Fatalf("%s, trips %d, until %s: want open from the end of the lease for a second", st.Breaker, st.Trips, st.OpenUntil)
		}
		w.report(g, hung, gate.OK()) // too late to say anything
		if st := w.inspect(g); st.Breaker != "open" {
			w.t.Errorf("a late probe moved the breaker to %s", st.Breaker)
		}
		w.recover(g)
	})
}

func TestBreaker_WhatCounts(t *testing.T) {
	bad := []retry.Kind{retry.Overloaded, retry.Unavailable, retry.Timeout, retry.Network, retry.StreamInterrupted}
	for _, kind := range kinds() {
		inBubble(t, func(w *world) {
			g := w.gate(quick())
			for range 4 {
				if got := w.ticket(g, w.first()); got.Verdict == gate.Go {
					w.report(g, got.Permit, gate.Failed(kind, 0))
				}
			}
			want := "closed"
			if slices.Contains(bad, kind) {
				want = "open"
			}
			if got := w.inspect(g).Breaker; got != want {
				w.t.Errorf("closed, 4 x %s: %s, want %s", kind, got, want)
			}
		})
		inBubble(t, func(w *world) {
			g := w.gate(quick())
			w.pass(w.outage(g).OpenUntil.Sub(w.now()))
			w.call(g, w.first(), gate.Failed(kind, 0))
			want := "half_open"
			if slices.Contains(append(bad, retry.RateLimited), kind) {
				want = "open"
			}
			if got := w.inspect(g); got.Breaker != want || got.ProbesOut != 0 {
				w.t.Errorf("half open, %s: %s with %d probes out, want %s with 0", kind, got.Breaker, got.ProbesOut, want)
			}
		})
	}
	each(t, func(w *world) { // what was not sent says nothing, and frees the probe
		g := w.gate(quick())
		w.pass(w.outage(g).OpenUntil.Sub(w.now()))
		for range 10 {
			w.call(g, w.first(), gate.NotSent())
		}
		w.recover(g)
	})
}

func TestBreaker_OverloadLowersAdmission(t *testing.T) {
	each(t, func(w *world) {
		s := quick()
		s.WindowCalls = 1000
		g := w.gate(s)
		w.call(g, w.first(), gate.Failed(retry.RateLimited, 0))
		w.call(g, w.first(), gate.Failed(retry.RateLimited, 0)) // within the same second
		if got := w.inspect(g).Limit; got != 75 {
			w.t.Errorf("%v places after two in a second, want 75", got)
		}
		w.pass(time.Second)
		w.call(g, w.first(), gate.Failed(retry.Overloaded, 0))
		if got := w.inspect(g).Limit; got != 56.25 {
			w.t.Errorf("%v places after another a second later, want 56.25", got)
		}
	})
}

func TestBreaker_TheWindowRolls(t *testing.T) {
	each(t, func(w *world) {
		s := quick()
		s.Window = time.Second
		g := w.gate(s)
		fails := func(n int) {
			for range n {
				w.call(g, w.first(), gate.Failed(retry.Timeout, 0))
			}
		}
		fails(3)
		w.pass(1100 * time.Millisecond)
		if st := w.inspect(g); st.Calls != 0 || st.Bad != 0 {
			w.t.Errorf("the window still has %d calls, %d bad", st.Calls, st.Bad)
		}
		fails(3)
		if got := w.inspect(g).Breaker; got != "closed" {
			w.t.Errorf("%s after 3 bad calls in the window, want closed", got)
		}
		for range 4 {
			w.call(g, w.first(), gate.OK())
		}
		w.pass(1100 * time.Millisecond)
		for range 3 {
			w.call(g, w.first(), gate.OK())
		}
		fails(2) // 2 of 5
		if got := w.inspect(g).Breaker; got != "closed" {
			w.t.Errorf("%s after 2 bad calls of 5, want closed", got)
		}
		fails(1) // 3 of 6
		if got := w.inspect(g).Breaker; got != "open" {
			w.t.Errorf("%s after 3 bad calls of 6, want open", got)
		}
	})
}

func TestBreaker_TheWindowAddsUpItsSlots(t *testing.T) {
	inBubble(t, func(w *world) {
		s := quick()
		s.WindowCalls = 8
		g := w.gate(s)
		for n := range 8 { // one every 3.5 s: 24.5 s from the first to the last, each in a slot of its own
			w.call(g, w.first(), gate.Failed(retry.Timeout, 0))
			if st := w.inspect(g); n < 7 && (st.Calls != n+1 || st.Bad != n+1 || st.Breaker != "closed") {
				w.t.Errorf("after %d: %d calls, %d bad, %s", n+1, st.Calls, st.Bad, st.Breaker)
			}
			w.pass(3500 * time.Millisecond)
		}
		if got := w.inspect(g).Trips; got != 1 {
			w.t.Errorf("after 8 bad calls within 24.5 s it has opened %d times, want once", got)
		}
	})
}

func TestBreaker_OpensLongerEachTimeAndForgetsThatWhenItCloses(t *testing.T) {
	inBubble(t, func(w *world) {
		g := w.gate(quick())
		st := w.outage(g)
		for _, want := range []time.Duration{200, 400, 800, 800} {
			if got := st.OpenUntil.Sub(w.now()); got != want*time.Millisecond {
				w.t.Errorf("trip %d: open for %s, want %d ms", st.Trips, got, want)
			}
			got := w.mustNot(g, w.first(), gate.Wait, gate.BreakerOpen)
			if got.Until.Before(st.OpenUntil) || got.Until.After(st.OpenUntil.Add(gate.Defaults().Busy)) {
				w.t.Errorf("told to wait until %s, the breaker opens until %s", got.Until, st.OpenUntil)
			}
			w.pass(st.OpenUntil.Sub(w.now()))
			w.call(g, w.first(), gate.Failed(retry.Unavailable, 0))
			st = w.inspect(g)
		}
		w.recover(g)
		if got := w.outage(g).OpenUntil.Sub(w.now()); got != 200*time.Millisecond {
			w.t.Errorf("after closing it opens for %s, want 200 ms again", got)
		}
	})
}

func TestBreaker_ResultsOfEarlierStatesSayNothing(t *testing.T) {
	each(t, func(w *world) {
		s := quick()
		s.Probes = 1
		g := w.gate(s)
		var old []gate.Permit
		for range 10 {
			old = append(old, w.mustGo(g, w.first()))
		}
		open := w.outage(g)
		w.report(g, old[0], gate.OK())
		w.report(g, old[1], gate.Failed(retry.Timeout, 0))
		if st := w.inspect(g); !st.OpenUntil.Equal(open.OpenUntil) || st.Trips != 1 {
			w.t.Errorf("a call from before moved the end from %s to %s", open.OpenUntil, st.OpenUntil)
		}
		w.pass(open.OpenUntil.Sub(w.now()))
		w.report(g, old[2], gate.OK())
		w.report(g, old[3], gate.Failed(retry.Timeout, 0))
		if st := w.inspect(g); st.Breaker != "half_open" || st.ProbesGood != 0 || st.ProbesOut != 0 {
			w.t.Errorf("half open, calls from before: %+v", st)
		}
		w.recover(g)
		for _, p := range old[4:] {
			w.report(g, p, gate.Failed(retry.Timeout, 0))
		}
		if st := w.inspect(g); st.Breaker != "closed" || st.Bad != 0 || st.InUse != 0 {
			w.t.Errorf("closed again, calls from before: %+v", st)
		}
	})
}

// With everything failing and an empty budget, first calls are slowed down too.
func TestBreaker_FirstCallsAreSlowedDown(t *testing.T) {
	inBubble(t, func(w *world) {
		s := gate.Defaults()
		g := w.gate(s)
		calls, asks := 0, 0
		for end := w.now().Add(10 * time.Minute); w.now().Before(end); asks++ {
			got := w.ticket(g, w.first())
			if got.Verdict == gate.Go {
				// 10 calls open it; then one probe per opening of 15, 30, 60, 120, ... s.
				if calls++; calls > 20 {
					w.t.Fatalf("%d calls within ten minutes of failures, asked %d times", calls, asks)
				}
				w.report(g, got.Permit, gate.Failed(retry.Overloaded, 0))
				w.pass(10 * time.Millisecond)
				continue
			}
			if got.In <= 0 {
				w.t.Fatalf("a wait that does not wait: %+v", got)
			}
			w.pass(got.In)
		}
	})
}

func TestGate_ARateLimitHoldsEverybodyUntilItsReset(t *testing.T) {
	each(t, func(w *world) {
		s := gate.Defaults()
		s.Busy = 50 * time.Millisecond
		gates := w.fleet(5, s)
		w.call(gates[0], w.again(), gate.Failed(retry.RateLimited, 1500*time.Millisecond))
		reset := w.now().Add(1500 * time.Millisecond)
		before := w.inspect(gates[0]).RetryTokens
		for i := range 50 {
			a := []gate.Ask{w.first(), w.again(), w.manual()}[i%3]
			got := w.mustNot(gates[i%5], a, gate.Wait, gate.RateLimited)
			if off := got.Until.Sub(reset); off > 50*time.Millisecond || off < -500*time.Millisecond {
				w.t.Errorf("told to come %s after the reset", off)
			}
		}
		st := w.inspect(gates[0])
		if st.RetryTokens < before || st.InUse != 0 || st.Breaker != "closed" || st.HeldUntil.IsZero() {
			w.t.Errorf("while held: %+v", st)
		}
		w.pass(1500 * time.Millisecond)
		w.call(gates[1], w.first(), gate.OK())
	})
	inBubble(t, func(w *world) { // others' hints are about their call; too long ones are bounded
		g := w.gate(gate.Defaults())
		w.call(g, w.first(), gate.Failed(retry.Overloaded, time.Minute))
		w.call(g, w.first(), gate.Failed(retry.RateLimited, -time.Minute))
		w.call(g, w.first(), gate.Failed(retry.RateLimited, 100*time.Hour))
		if got := w.inspect(g).HeldUntil.Sub(w.now()); got != time.Hour {
			w.t.Errorf("held for %s, want at most an hour", got)
		}
	})
}

// TestAFewRateLimitsHoldOnlyTheirJobs: one call in twenty is told to wait, which the
// others are not for; half of them are the whole account's.
func TestAFewRateLimitsHoldOnlyTheirJobs(t *testing.T) {
	each(t, func(w *world) {
		g := w.gate(gate.Defaults())
		for i := range 200 {
			result := gate.OK()
			if i%20 == 19 {
				result = gate.Failed(retry.RateLimited, time.Minute)
			}
			w.call(g, w.first(), result)
		}
		if st := w.inspect(g); !st.HeldUntil.IsZero() || st.Calls != 190 {
			w.t.Fatalf("by ten of 200 calls: %+v", st)
		}
		told := 10
		for ; w.inspect(g).HeldUntil.IsZero() && told < 500; told++ {
			w.call(g, w.first(), gate.Failed(retry.RateLimited, time.Minute))
		}
		if told != 190 {
			w.t.Errorf("held when %d of %d were told to wait", told, told+190)
		}
		w.mustNot(g, w.first(), gate.Wait, gate.RateLimited)
	})
}

// Whatever happens: never more probes than set, never more places than allowed,
// and whatever is admitted can be counted by who was admitted.
func TestBreaker_Property(t *testing.T) {
	inBubble(t, func(w *world) {
		round := 0
		property(t, func(r *rapid.T) {
			round++
			s := quick()
			s.Concurrency = rapid.IntRange(1, 8).Draw(r, "concurrency")
			s.Probes = rapid.IntRange(1, s.Concurrency).Draw(r, "probes")
			s.RetryBurst, s.Lease = 1000, 300*time.Millisecond
			g := w.gate(s)
			name := fmt.Sprintf("acme/property-%d", round)
			var open []gate.Permit
			live := func() (n int) {
				for _, p := range open {
					if p.ExpiresAt.After(w.now()) {
						n++
					}
				}
				return n
			}
			look := func() gate.State {
				st, err := g.Inspect(w.t.Context(), name)
				if err != nil {
					r.Fatal(err)
				}
				return st
			}
			results := []gate.Result{gate.OK(), gate.OK(), gate.OK(), gate.NotSent()}
			for _, k := range kinds() {
				results = append(results, gate.Failed(k, 0))
			}
			ask := func(a gate.Ask) {
				a.Dependency = name
				before := look()
				got := w.ticket(g, a)
				if got.Verdict != gate.Go {
					return
				}
				if before.Breaker == "half_open" && before.ProbesOut+before.ProbesGood >= s.Probes || before.Breaker == "open" {
					r.Fatalf("admitted by %+v", before)
				}
				if before.Breaker == "closed" && live() >= max(1, int(before.Limit)) {
					r.Fatalf("%d under way, admitted with %v places", live(), before.Limit)
				}
				open = append(open, got.Permit)
			}
			r.Repeat(map[string]func(*rapid.T){
				"first": func(*rapid.T) { ask(w.first()) },
				"again": func(*rapid.T) { ask(w.again()) },
				"report": func(r *rapid.T) {
					if len(open) == 0 {
						r.SkipNow()
					}
					i := rapid.IntRange(0, len(open)-1).Draw(r, "which")
					w.report(g, open[i], rapid.SampledFrom(results).Draw(r, "result"))
					open = append(open[:i:i], open[i+1:]...)
				},
				"time": func(r *rapid.T) {
					w.pass(time.Duration(rapid.IntRange(1, 400).Draw(r, "ms")) * time.Millisecond)
				},
				"": func(r *rapid.T) {
					st := look()
					if st.InUse != live() || st.InUse > s.Concurrency || st.ProbesOut < 0 || st.ProbesOut+st.ProbesGood > s.Probes ||
						st.Limit < float64(s.Probes) || st.Limit > float64(s.Concurrency) {
						r.Fatalf("%d live permits, settings %+v, state %+v", live(), s, st)
					}
				},
			})
			// Whatever it was left in, good calls bring it back.
			for i := 0; look().Breaker != "closed" || look().Limit < float64(s.Concurrency); i++ {
				if i > 500 {
					r.Fatalf("does not recover: %+v", look())
				}
				a := w.first()
				a.Dependency = name
				if got := w.ticket(g, a); got.Verdict == gate.Go {
					w.report(g, got.Permit, gate.OK())
				} else {
					w.pass(got.In)
				}
			}
		})
	})
}
