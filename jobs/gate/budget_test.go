package gate_test

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/retry"
)

func TestBudget_I_88_ExtraCallsTakeTokens(t *testing.T) {
	each(t, func(w *world) {
		g := w.gate(slow())
		for range 10 {
			w.call(g, w.again(), gate.OK())
		}
		got := w.mustNot(g, w.again(), gate.Stop, gate.RetryBudget)
		if got.In < 900*time.Second || got.In > 1000*time.Second {
			w.t.Errorf("a token by time alone is promised in %s, want about 1000 s", got.In)
		}
		w.call(g, w.first(), gate.OK()) // first calls need none
		if s := w.inspect(g); s.InUse != 0 {
			w.t.Errorf("%d permits are in use after all were reported", s.InUse)
		}
	})
}

func TestBudget_RefilledByTimeAndFirstCalls(t *testing.T) {
	each(t, func(w *world) {
		g := w.gate(slow())
		for range 10 {
			w.call(g, w.again(), gate.OK())
		}
		for range 5 {
			w.mustNot(g, w.again(), gate.Stop, gate.RetryBudget)
			w.call(g, w.first(), gate.OK())
		}
		w.call(g, w.again(), gate.OK())
		got := w.mustNot(g, w.again(), gate.Stop, gate.RetryBudget)
		if got.In < 900*time.Second || got.In > 1000*time.Second {
			w.t.Errorf("time alone makes a token in %s, want about 1000 s", got.In)
		}

		s := slow()
		s.RetryPerSecond = 5
		g = w.gate(s)
		w.pass(210 * time.Millisecond)
		w.call(g, w.again(), gate.OK())
	})
}

// drain makes calls that succeed until the bucket is empty.
func (w *world) drain(g *gate.Gate, ask func() gate.Ask) {
	w.t.Helper()
	for range 1000 {
		got := w.ticket(g, ask())
		if got.Verdict != gate.Go {
			return
		}
		w.report(g, got.Permit, gate.OK())
	}
	w.t.Fatal("the bucket has no bottom")
}

func TestBudget_RefillsToItsCapAndNotBeyond(t *testing.T) {
	each(t, func(w *world) {
		g := w.gate(slow())
		w.drain(g, w.again)
		w.drain(g, w.manual)
		n := 1000
		if w.virtual { // its interpreter of Lua is slow
			n = 100
		}
		for range n {
			w.call(g, w.first(), gate.OK())
		}
		if s := w.inspect(g); s.RetryTokens != 10 || s.ManualTokens != 5 {
			w.t.Errorf("after %d successes the buckets hold %v and %v, want 10 and 5", n, s.RetryTokens, s.ManualTokens)
		}
	})
}

func TestBudget_OneBucketPerDependencyAndClass(t *testing.T) {
	each(t, func(w *world) {
		g := w.gate(slow())
		w.drain(g, w.again)
		other := w.again()
		other.Dependency = "acme/model-2"
		w.call(g, other, gate.OK())
		for range 5 {
			w.call(g, w.manual(), gate.OK())
		}
		got := w.mustNot(g, w.manual(), gate.Stop, gate.RetryBudget)
		if got.In < 1900*time.Second || got.In > 2000*time.Second {
			w.t.Errorf("a manual token by time alone is promised in %s, want about 2000 s", got.In)
		}
		w.call(g, w.first(), gate.OK())
	})
}

func TestBudget_RefusalsTakeNothing(t *testing.T) {
	each(t, func(w *world) {
		s := slow()
		s.Concurrency, s.Probes = 1, 1
		g := w.gate(s)
		w.mustGo(g, w.first())
		for range 20 {
			w.mustNot(g, w.again(), gate.Wait, gate.Overloaded)
			w.mustNot(g, w.manual(), gate.Wait, gate.Overloaded)
		}
		if st := w.inspect(g); st.RetryTokens < 10 || st.ManualTokens < 5 || st.InUse != 1 {
			w.t.Errorf("refusals took something: %+v", st)
		}

		s = slow()
		s.RetryBurst = 3
		g = w.gate(s)
		for range 3 {
			w.mustGo(g, w.again())
		}
		for range 20 {
			w.mustNot(g, w.again(), gate.Stop, gate.RetryBudget)
		}
		if st := w.inspect(g); st.RetryTokens < 0 || st.InUse != 4 {
			w.t.Errorf("refusals for want of a token took something: %+v", st)
		}
	})
}

func TestBudget_OnlyWhatWasNotSentComesBack(t *testing.T) {
	sent := map[string]gate.Result{"ok": gate.OK()}
	for _, k := range kinds() {
		sent[string(k)] = gate.Failed(k, 0)
	}
	for name, result := range sent {
		inBubble(t, func(w *world) {
			s := slow()
			s.WindowCalls = 100
			g := w.gate(s)
			p := w.mustGo(g, w.again())
			w.report(g, p, result)
			w.report(g, p, gate.NotSent()) // a repeat that says otherwise
			if got := w.inspect(g).RetryTokens; got > 9.1 {
				w.t.Errorf("%s: a token came back: %v", name, got)
			}
		})
	}
	each(t, func(w *world) {
		g := w.gate(slow())
		again, manual := w.mustGo(g, w.again()), w.mustGo(g, w.manual())
		for range 3 {
			w.report(g, again, gate.NotSent())
			w.report(g, manual, gate.NotSent())
			w.report(g, again, gate.OK())
		}
		st := w.inspect(g)
		if math.Abs(st.RetryTokens-10) > 0.01 || math.Abs(st.ManualTokens-5) > 0.01 || st.InUse != 0 {
			w.t.Errorf("after two calls that were not sent: %v and %v tokens, %d in use", st.RetryTokens, st.ManualTokens, st.InUse)
		}
		// A first call that was not sent has not earned anything.
		w.call(g, w.again(), gate.OK())
		w.call(g, w.first(), gate.NotSent())
		if got := w.inspect(g).RetryTokens; got > 9.1 {
			w.t.Errorf("a first call that was not sent earned: %v tokens", got)
		}
	})
}

func TestBudget_WhatADeadHolderTookStaysTaken(t *testing.T) {
	each(t, func(w *world) {
		g := w.gate(slow())
		a := w.again()
		a.Lease = 50 * time.Millisecond
		p := w.mustGo(g, a)
		f := w.first()
		f.Lease = a.Lease
		pf := w.mustGo(g, f)
		w.pass(100 * time.Millisecond)
		w.report(g, p, gate.NotSent())
		w.report(g, pf, gate.OK())
		if got := w.inspect(g).RetryTokens; got > 9.1 {
			w.t.Errorf("%v tokens after a holder died, want 9", got)
		}
	})
}

// The callers count what they were allowed to send; the gate's own numbers are
// not asked.
func TestBudget_TenClientsStayBelowTheFormula(t *testing.T) {
	each(t, func(w *world) {
		s := gate.Defaults()
		s.RetryBurst, s.RetryPerSecond, s.WindowCalls, s.Growth = 20, 2, 1000000, 10
		rounds := 40
		if w.virtual { // its interpreter of Lua is slow
			rounds = 8
		}
		for _, failing := range []bool{true, false} {
			gates := w.fleet(10, s)
			var firsts, retries, manuals counter
			began := w.now()
			var all sync.WaitGroup
			for n, g := range gates {
				all.Go(func() {
					for i := range rounds {
						result := gate.OK()
						if failing {
							result = gate.Failed(retry.Overloaded, 0)
						}
						// One first call, then as many more as the gate lets us.
						for j, a := range []gate.Ask{w.first(), w.again(), w.again(), w.manual(), w.again()} {
							a.Dependency = fmt.Sprintf("acme/failing-%v", failing)
							got, err := g.Ticket(w.t.Context(), a)
							if err != nil {
								w.t.Error(err)
								return
							}
							if got.Verdict != gate.Go {
								continue
							}
							if n == 3 && i%5 == 0 {
								_, _ = g.Ticket(w.t.Context(), a) // the answer was lost
							}
							switch {
							case !a.First:
								retries.add(1)
							case a.Manual:
								manuals.add(1)
							default:
								firsts.add(1)
							}
							if n == 4 && j == 1 {
								continue // dies
							}
							if err := g.Report(w.t.Context(), got.Permit, result); err != nil {
								w.t.Error(err)
							}
						}
					}
				})
			}
			all.Wait()
			seconds := w.now().Sub(began).Seconds()
			most := 20 + 0.2*float64(firsts.n) + 2*seconds
			if float64(retries.n) > most+1e-6 {
				w.t.Errorf("failing=%v: %d extra calls, at most %v for %d first calls in %v s", failing, retries.n, most, firsts.n, seconds)
			}
			if float64(manuals.n) > 0.25*most+1e-6 {
				w.t.Errorf("failing=%v: %d manual calls, at most %v", failing, manuals.n, 0.25*most)
			}
			if retries.n < 20 || manuals.n < 5 {
				w.t.Errorf("failing=%v: only %d extra and %d manual calls of a full bucket of 20", failing, retries.n, manuals.n)
			}
		}
	})
}

type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n += n
}

// The buckets follow the documented rule exactly, whatever happens in which order,
// and come back to their caps.
func TestBudget_Property(t *testing.T) {
	inBubble(t, func(w *world) {
		round := 0
		property(t, func(r *rapid.T) {
			round++
			s := gate.Defaults()
			s.RetryBurst = rapid.IntRange(4, 30).Draw(r, "burst")
			s.RetryPerFirst = rapid.Float64Range(0, 1).Draw(r, "per first")
			s.RetryPerSecond = rapid.Float64Range(0.01, 5).Draw(r, "per second")
			s.WindowCalls = 1000000
			g := w.gate(s)
			name := fmt.Sprintf("acme/property-%d", round)

			tokens, manual, last := float64(s.RetryBurst), 0.25*float64(s.RetryBurst), w.now()
			earn := func(firsts float64) {
				earned := s.RetryPerFirst*firsts + s.RetryPerSecond*w.now().Sub(last).Seconds()
				tokens = min(float64(s.RetryBurst), tokens+earned)
				manual = min(0.25*float64(s.RetryBurst), manual+0.25*earned)
				last = w.now()
			}
			var open []gate.Permit
			var took []*float64
			ask := func(a gate.Ask, bucket *float64) {
				a.Dependency = name
				got := w.ticket(g, a)
				earn(0)
				if bucket != nil && math.Abs(*bucket-1) > 1e-6 && (got.Verdict == gate.Go) != (*bucket >= 1) {
					r.Fatalf("%s with %v tokens", got.Verdict, *bucket)
				}
				if got.Verdict != gate.Go {
					return
				}
				if bucket != nil {
					*bucket--
				}
				open, took = append(open, got.Permit), append(took, bucket)
			}
			r.Repeat(map[string]func(*rapid.T){
				"first":  func(*rapid.T) { ask(w.first(), nil) },
				"again":  func(*rapid.T) { ask(w.again(), &tokens) },
				"manual": func(*rapid.T) { ask(w.manual(), &manual) },
				"report": func(r *rapid.T) {
					if len(open) == 0 {
						r.SkipNow()
					}
					i := rapid.IntRange(0, len(open)-1).Draw(r, "which")
					sent := rapid.Bool().Draw(r, "sent")
					p, bucket := open[i], took[i]
					open, took = append(open[:i:i], open[i+1:]...), append(took[:i:i], took[i+1:]...)
					alive := p.ExpiresAt.After(w.now())
					result := gate.NotSent()
					if sent {
						result = gate.OK()
					}
					w.report(g, p, result)
					switch {
					case alive && sent && bucket == nil:
						earn(1)
					case alive && !sent && bucket != nil:
						earn(0)
						limit := float64(s.RetryBurst)
						if bucket == &manual {
							limit *= 0.25
						}
						*bucket = min(limit, *bucket+1)
					}
				},
				"time": func(r *rapid.T) {
					w.pass(time.Duration(rapid.IntRange(1, 9000).Draw(r, "ms")) * time.Millisecond)
				},
				"": func(r *rapid.T) {
					st, err := g.Inspect(w.t.Context(), name)
					if err != nil {
						r.Fatal(err)
					}
					earn(0)
					if math.Abs(st.RetryTokens-tokens) > 1e-6 || math.Abs(st.ManualTokens-manual) > 1e-6 {
						r.Fatalf("the gate holds %v and %v tokens, the rule says %v and %v",
							st.RetryTokens, st.ManualTokens, tokens, manual)
					}
				},
			})
			w.pass(time.Duration(float64(s.RetryBurst)/s.RetryPerSecond*float64(time.Second)) + time.Millisecond)
			st, err := g.Inspect(w.t.Context(), name)
			if err != nil {
				r.Fatal(err)
			}
			if st.RetryTokens != float64(s.RetryBurst) || st.ManualTokens != 0.25*float64(s.RetryBurst) {
				r.Fatalf("the buckets never came back to their caps: %v and %v", st.RetryTokens, st.ManualTokens)
			}
		})
	})
}

func kinds() []retry.Kind {
	return []retry.Kind{retry.Overloaded, retry.RateLimited, retry.Unavailable, retry.Timeout, retry.Network,
		retry.StreamInterrupted, retry.Auth, retry.Quota, retry.InvalidInput, retry.InvalidOutput, retry.Internal, retry.Cancelled}
}
