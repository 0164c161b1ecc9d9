package gate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/jobs/gate"
)

func (w *world) order(d time.Duration) gate.Order {
	return gate.Order{Owner: "kari", Note: "provider is down", Until: w.now().Add(d)}
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestSwitch_CountsAtTheNextTicketEverywhere(t *testing.T) {
	scopes := map[string]gate.Scope{"all": {}, "dependency": {Dependency: dep}, "workload": {Workload: "summary"}}
	for name, scope := range scopes {
		t.Run(name, func(t *testing.T) {
			each(t, func(w *world) {
				gates := w.fleet(3, slow())
				w.call(gates[0], w.again(), gate.OK())
				w.ok(gates[1].SwitchOff(w.t.Context(), scope, w.order(time.Hour)))
				before := w.inspect(gates[0])
				for _, g := range gates {
					got := w.mustNot(g, w.again(), gate.Stop, gate.RetriesDisabled)
					if got.In < 59*time.Minute || got.In > time.Hour {
						w.t.Errorf("off for %s, want an hour", got.In)
					}
					w.call(g, w.first(), gate.OK())
				}
				w.call(gates[0], w.manual(), gate.OK()) // a user's new job, within its share
				other := w.again()
				other.Dependency, other.Workload = "acme/model-2", "guidance"
				if got := w.ticket(gates[2], other); (got.Verdict == gate.Stop) != (name == "all") {
					w.t.Errorf("somebody else's repeated call: %+v", got)
				}
				if st := w.inspect(gates[0]); st.RetryTokens < before.RetryTokens {
					w.t.Errorf("a stopped call took a token: %v, before %v", st.RetryTokens, before.RetryTokens)
				}
				w.ok(gates[2].SwitchOn(w.t.Context(), scope, gate.Order{Owner: "ola"}))
				for _, g := range gates {
					w.call(g, w.again(), gate.OK())
				}
				w.ok(gates[0].SwitchOff(w.t.Context(), scope, w.order(600*time.Millisecond)))
				w.mustNot(gates[1], w.again(), gate.Stop, gate.RetriesDisabled)
				w.pass(650 * time.Millisecond)
				w.call(gates[1], w.again(), gate.OK())
			})
		})
	}
}

func TestSwitch_SaysWhoWhyAndUntilWhen(t *testing.T) {
	each(t, func(w *world) {
		g := w.gate(gate.Defaults())
		short := w.order(600 * time.Millisecond)
		long := w.order(time.Hour)
		w.ok(g.SwitchOff(w.t.Context(), gate.Scope{Workload: "guidance"}, short))
		w.ok(g.SwitchOff(w.t.Context(), gate.Scope{}, long))
		w.ok(g.SwitchOff(w.t.Context(), gate.Scope{Dependency: dep}, long))
		w.ok(g.SwitchOn(w.t.Context(), gate.Scope{Dependency: dep}, gate.Order{Owner: "ola", Note: "works again"}))
		w.pass(650 * time.Millisecond)
		got, err := g.Switches(w.t.Context())
		w.ok(err)
		if len(got.Off) != 1 || got.Off[0].Action != "off" || got.Off[0].Scope != (gate.Scope{}) || got.Off[0].Owner != "kari" ||
			got.Off[0].Note != "provider is down" || !got.Off[0].Until.Equal(long.Until) {
			w.t.Errorf("off: %+v, want the one for all", got.Off)
		}
		var trail []string
		for _, r := range got.Audit {
			trail = append(trail, strings.TrimSpace(fmt.Sprint(r.Action, " ", r.Dependency, r.Workload, " by ", r.Owner)))
			if age := w.now().Sub(r.At); age < 100*time.Millisecond || age > time.Minute {
				w.t.Errorf("%s: at %s", r.Action, r.At)
			}
		}
		want := "on acme/model-1 by ola; off acme/model-1 by kari; off  by kari; off guidance by kari"
		if got := strings.Join(trail, "; "); got != want {
			w.t.Errorf("audit: got %s\nwant %s", got, want)
		}
	})
}

func TestPause_WaitsUntilItsEndAndSaysWhoAndWhy(t *testing.T) {
	each(t, func(w *world) {
		s := gate.Defaults()
		s.Busy = 50 * time.Millisecond
		g, h := w.gate(s), w.gate(s)
		w.mustGo(g, w.first())
		o := w.order(time.Second)
		w.ok(g.Pause(w.t.Context(), dep, o))
		for _, a := range []gate.Ask{w.first(), w.again(), w.manual()} {
			got := w.mustNot(h, a, gate.Wait, gate.DependencyPaused)
			if after := got.Until.Sub(o.Until); after < 0 || after > s.Busy {
				w.t.Errorf("told to come %s after the pause, want within %s", after, s.Busy)
			}
		}
		st := w.inspect(h)
		if st.InUse != 1 {
			w.t.Errorf("a running call is not to be disturbed: %d are", st.InUse)
		}
		if !st.PausedUntil.Equal(o.Until) || st.PauseOwner != "kari" || st.PauseNote != "provider is down" {
			w.t.Errorf("paused: %+v", st)
		}
		w.pass(time.Second)
		w.call(h, w.first(), gate.OK())
		if st := w.inspect(h); !st.PausedUntil.IsZero() || st.PauseOwner != "" {
			w.t.Errorf("after the pause: %+v", st)
		}

		w.ok(g.Pause(w.t.Context(), dep, w.order(time.Hour)))
		w.call(h, other(w.first()), gate.OK())
		w.mustNot(h, w.first(), gate.Wait, gate.DependencyPaused)
		w.ok(h.Resume(w.t.Context(), dep, gate.Order{Owner: "ola", Note: "fixed"}))
		w.call(g, w.first(), gate.OK())
		st = w.inspect(g)
		if len(st.Audit) != 3 || st.Audit[0].Action != "resume" || st.Audit[0].Owner != "ola" || st.Audit[2].Action != "pause" {
			w.t.Errorf("audit: %+v", st.Audit)
		}
	})
}

func other(a gate.Ask) gate.Ask {
	a.Dependency = "acme/model-2"
	return a
}

// TestResumeEndsAProvidersHold: an operator who knows better says so by name.
func TestResumeEndsAProvidersHold(t *testing.T) {
	each(t, func(w *world) {
		g := w.gate(gate.Defaults())
		w.call(g, w.first(), gate.Failed("rate_limited", time.Hour))
		w.ok(g.Pause(w.t.Context(), dep, w.order(2*time.Hour)))
		w.mustNot(g, w.first(), gate.Wait, gate.DependencyPaused)
		if s := w.inspect(g); !s.ClosedUntil().Equal(s.PausedUntil) || g.Room(s) != 0 {
			w.t.Errorf("paused and held: %+v", s)
		}
		w.ok(g.Resume(w.t.Context(), dep, gate.Order{Owner: "ola", Note: "they have raised our limit"}))
		w.call(g, w.first(), gate.OK())
		s := w.inspect(g)
		if !s.HeldUntil.IsZero() || !s.ClosedUntil().IsZero() || g.Room(s) < 1000 || s.Audit[0].Action != "resume" || s.Audit[0].Owner != "ola" {
			w.t.Errorf("resumed: %+v", s)
		}
	})
}

// TestProbeEndsTheBreakersWait: the next calls test the dependency, as many as when
// the wait had ended by itself, and it closes by what they find.
func TestProbeEndsTheBreakersWait(t *testing.T) {
	each(t, func(w *world) {
		g := w.gate(gate.Defaults())
		w.ok(g.Probe(w.t.Context(), dep, gate.Order{Owner: "ola"})) // of a closed breaker: nothing to do
		if s := w.inspect(g); s.Breaker != "closed" || s.Audit[0].Action != "probe" {
			w.t.Fatalf("%+v", s)
		}
		for range 10 {
			w.call(g, w.first(), gate.Failed("unavailable", 0))
		}
		w.mustNot(g, w.first(), gate.Wait, gate.BreakerOpen)
		if s := w.inspect(g); !s.ClosedUntil().Equal(s.OpenUntil) || g.Room(s) != 0 {
			w.t.Errorf("open: %+v", s)
		}
		w.ok(g.Probe(w.t.Context(), dep, gate.Order{Owner: "ola"}))
		if s := w.inspect(g); s.Breaker != "half_open" || g.Room(s) != 3 {
			w.t.Errorf("probed: %+v", s)
		}
		for range 3 {
			w.call(g, w.first(), gate.OK())
		}
		if s := w.inspect(g); s.Breaker != "closed" {
			w.t.Errorf("after three good ones: %+v", s)
		}
	})
}

func TestOrders_AreRefused(t *testing.T) {
	inBubble(t, func(w *world) {
		g := w.gate(gate.Defaults())
		late := w.order(8 * 24 * time.Hour)
		for name, o := range map[string]gate.Order{
			"no end": {Owner: "kari"}, "past": w.order(-time.Second), "too far": late,
			"nobody": {Until: w.now().Add(time.Hour)},
			"novel":  {Owner: "kari", Note: strings.Repeat("x", 501), Until: w.now().Add(time.Hour)},
		} {
			if g.Pause(w.t.Context(), dep, o) == nil || g.SwitchOff(w.t.Context(), gate.Scope{}, o) == nil {
				w.t.Errorf("an order with %s was accepted", name)
			}
		}
		both := gate.Scope{Dependency: dep, Workload: "summary"}
		contains(w.t, g.SwitchOff(w.t.Context(), both, w.order(time.Hour)), "not for both")
		contains(w.t, g.SwitchOff(w.t.Context(), gate.Scope{Workload: "a b"}, w.order(time.Hour)), "visible ASCII")
		contains(w.t, g.Pause(w.t.Context(), "a{b}", w.order(time.Hour)), "visible ASCII")
		w.call(g, w.again(), gate.OK())
		if keys := w.keys(); len(keys) != 1 {
			w.t.Errorf("refused orders left %q behind", keys)
		}
	})
}

func TestInspect_ShowsWhoHoldsWhat(t *testing.T) {
	each(t, func(w *world) {
		g := w.gate(gate.Defaults())
		began := w.now()
		long, short := w.first(), w.again()
		long.Lease, short.Lease, short.Workload = time.Minute, 30*time.Second, "guidance"
		w.mustGo(g, long)
		p := w.mustGo(g, short)
		st := w.inspect(g)
		if st.InUse != 2 || len(st.Holders) != 2 {
			w.t.Fatalf("holders: %+v", st)
		}
		got := st.Holders[0]
		if got.Since.Before(began) || got.Since.After(w.now()) {
			w.t.Errorf("since %s", got.Since)
		}
		got.Since = time.Time{}
		if want := (gate.Holder{Permit: short.Token, Kind: "retry", Workload: "guidance", JobID: short.JobID, ExpiresAt: p.ExpiresAt}); got != want {
			w.t.Errorf("got %+v, want %+v", got, want)
		}
		if st.Breaker != "closed" || st.Limit != 100 || !st.OpenUntil.IsZero() || !st.HeldUntil.IsZero() || st.At.Before(began) {
			w.t.Errorf("fresh: %+v", st)
		}
	})
}

func TestInspect_ChangesNothing(t *testing.T) {
	each(t, func(w *world) {
		s := quick()
		s.Lease = 50 * time.Millisecond
		g := w.gate(s)
		w.inspect(g)
		if keys := w.keys(); len(keys) != 0 {
			w.t.Fatalf("a question about an unknown name left %q", keys)
		}
		w.mustGo(g, w.first())
		w.pass(s.Lease + time.Millisecond)
		if st := w.inspect(g); st.InUse != 0 || len(st.Holders) != 0 {
			w.t.Errorf("after the lease: %+v", st)
		}
		if n := w.redis.ZCard(w.t.Context(), w.keys()[0]).Val() + w.redis.ZCard(w.t.Context(), w.keys()[1]).Val(); n != 1 {
			w.t.Errorf("%d permits are stored, want the one that nobody has cleared away", n)
		}
	})
}

func TestKeys_AreBoundedAndEnd(t *testing.T) {
	each(t, func(w *world) {
		g := w.gate(quick())
		w.outage(g)
		for range 120 {
			w.ok(g.Pause(w.t.Context(), dep, w.order(time.Hour)))
			w.ok(g.SwitchOff(w.t.Context(), gate.Scope{}, w.order(time.Hour)))
		}
		w.ok(g.Resume(w.t.Context(), dep, w.order(0)))
		w.recover(g)
		w.mustGo(g, w.first())
		st, err := g.Switches(w.t.Context())
		w.ok(err)
		if len(st.Audit) != 100 || len(w.inspect(g).Audit) != 100 {
			w.t.Errorf("audits of %d and %d entries, want 100", len(st.Audit), len(w.inspect(g).Audit))
		}
		if n := w.redis.HLen(w.t.Context(), "tidings:{gate/"+dep+"}:state").Val(); n > 20 {
			w.t.Errorf("the state has %d fields", n)
		}
		keys := w.keys()
		if len(keys) != 5 {
			w.t.Errorf("keys: %q, want 5", keys)
		}
		for _, key := range keys {
			if !strings.HasPrefix(key, "tidings:{gate/"+dep+"}:") && !strings.HasPrefix(key, "tidings:{gate}:") {
				w.t.Errorf("%s has another tag", key)
			}
			if ttl := w.redis.PTTL(w.t.Context(), key).Val(); ttl < 7*24*time.Hour || ttl > 8*24*time.Hour {
				w.t.Errorf("%s ends in %s, want 8 days", key, ttl)
			}
		}
	})
	inBubble(t, func(w *world) {
		g := w.gate(gate.Defaults())
		w.call(g, w.first(), gate.OK())
		w.ok(g.SwitchOff(w.t.Context(), gate.Scope{}, w.order(time.Hour)))
		w.pass(9 * 24 * time.Hour)
		if keys := w.keys(); len(keys) != 0 {
			w.t.Errorf("after 9 days there are %q", keys)
		}
	})
	inBubble(t, func(w *world) { // permits that are never all back at once
		s := gate.Defaults()
		g := w.gate(s)
		for range 4 {
			a := w.first()
			a.Lease = time.Hour
			w.mustGo(g, a)
			w.pass(40 * time.Minute)
		}
		if ttl := w.redis.PTTL(w.t.Context(), "tidings:{gate/"+dep+"}:permits").Val(); ttl < 8*24*time.Hour-2*time.Hour {
			w.t.Errorf("the permits end in %s though they are in use", ttl)
		}
	})
}
