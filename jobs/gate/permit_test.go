package gate_test

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/tidings/tidings/events/eventstest"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/retry"
)

func TestPermit_PlacesForAllKindsOfCalls(t *testing.T) {
	each(t, func(w *world) {
		s := gate.Defaults()
		s.Concurrency, s.FirstReserve = 3, 0
		g, h := w.gate(s), w.gate(s)
		held := w.mustGo(g, w.first())
		w.mustGo(h, w.again())
		w.mustGo(g, w.manual())
		for _, a := range []gate.Ask{w.first(), w.again(), w.manual()} {
			got := w.mustNot(h, a, gate.Wait, gate.Overloaded)
			if got.In < s.Busy || got.In > 2*s.Busy || got.Until.Before(w.now()) {
				w.t.Errorf("told to wait %s until %s, want 2 to 4 s", got.In, got.Until)
			}
		}
		w.report(h, held, gate.Failed(retry.Timeout, 0)) // whoever reports, before any wait
		w.mustGo(g, w.again())
		w.mustNot(g, w.first(), gate.Wait, gate.Overloaded)
	})
}

func TestPermit_FirstCallsGoBeforeRepeatedOnes(t *testing.T) {
	each(t, func(w *world) {
		s := gate.Defaults()
		s.Concurrency, s.FirstReserve = 10, 0.2
		g := w.gate(s)
		for range 8 {
			w.mustGo(g, w.again())
		}
		w.mustNot(g, w.again(), gate.Wait, gate.Overloaded)
		w.mustGo(g, w.first())
		w.mustGo(g, w.manual())
		w.mustNot(g, w.first(), gate.Wait, gate.Overloaded)
	})
	inBubble(t, func(w *world) { // repeated calls always keep one place
		s := gate.Defaults()
		s.Concurrency, s.Probes, s.FirstReserve = 1, 1, 0.9
		g := w.gate(s)
		w.mustGo(g, w.again())
	})
}

func TestPermit_ADeadHoldersPlaceReturns(t *testing.T) {
	each(t, func(w *world) {
		s := gate.Defaults()
		s.Concurrency, s.Probes, s.Lease, s.FirstReserve = 2, 1, 700*time.Millisecond, 0
		g := w.gate(s)
		dead := w.mustGo(g, w.first())
		long := w.first()
		long.Lease = time.Minute
		alive := w.mustGo(g, long)
		if got := alive.ExpiresAt.Sub(w.now()); got < 50*time.Second || got > time.Minute {
			w.t.Errorf("a permit with a lease of its own ends in %s, want a minute", got)
		}
		w.mustNot(g, w.first(), gate.Wait, gate.Overloaded)
		w.pass(dead.ExpiresAt.Sub(w.now()))
		w.mustGo(g, long) // the same place as before
		w.mustGo(g, w.first())
		w.mustNot(g, w.first(), gate.Wait, gate.Overloaded)
	})
}

func TestPermit_TheSameTokenGetsTheSameAnswer(t *testing.T) {
	each(t, func(w *world) {
		s := quick()
		s.Concurrency, s.Probes = 5, 1
		g, h := w.gate(s), w.gate(s)
		a := w.again()
		p := w.mustGo(g, a)
		before := w.inspect(g)
		for range 5 {
			if got := w.mustGo(h, a); got != p {
				w.t.Errorf("repeated: got %+v, want %+v", got, p)
			}
		}
		after := w.inspect(g)
		if after.InUse != 1 || after.RetryTokens < before.RetryTokens {
			w.t.Errorf("repeating took something: %+v", after)
		}
		w.outage(g) // the call may be under way already: nothing can change its answer
		if got := w.mustGo(h, a); got != p {
			w.t.Errorf("repeated during the outage: got %+v, want %+v", got, p)
		}
	})
}

// Two dependencies get the same verbs, the second one each of them up to three
// times: nobody can tell them apart.
func TestPermit_EveryVerbCanBeRepeated_Property(t *testing.T) {
	inBubble(t, func(w *world) {
		round := 0
		property(t, func(r *rapid.T) {
			round++
			s := quick()
			s.Concurrency, s.RetryBurst, s.Lease = 4, 6, 200*time.Millisecond
			g := w.gate(s)
			once, often := fmt.Sprintf("acme/once-%d", round), fmt.Sprintf("acme/often-%d", round)
			results := []gate.Result{gate.OK(), gate.NotSent(), gate.Failed(retry.RateLimited, 50*time.Millisecond)}
			for _, k := range kinds() {
				results = append(results, gate.Failed(k, 0))
			}
			both := func(verb func(dependency string) any) {
				want := verb(once)
				for range rapid.IntRange(1, 3).Draw(r, "times") {
					if got := verb(often); !reflect.DeepEqual(got, want) {
						r.Fatalf("repeated: got %+v, want %+v", got, want)
					}
				}
			}
			var ids []string
			ask := func(a gate.Ask) {
				both(func(dependency string) any {
					a.Dependency = dependency
					got := w.ticket(g, a)
					if got.Verdict == gate.Go && dependency == once {
						ids = append(ids, a.Token)
					}
					got.Permit.Dependency = ""
					return got
				})
			}
			verbs := map[string]func(*rapid.T){
				"first":  func(*rapid.T) { ask(w.first()) },
				"again":  func(*rapid.T) { ask(w.again()) },
				"manual": func(*rapid.T) { ask(w.manual()) },
				"time": func(r *rapid.T) {
					w.pass(time.Duration(rapid.IntRange(1, 300).Draw(r, "ms")) * time.Millisecond)
				},
				"": func(r *rapid.T) {
					var seen []gate.State
					for _, dependency := range []string{once, often} {
						st, err := g.Inspect(w.t.Context(), dependency)
						if err != nil {
							r.Fatal(err)
						}
						seen = append(seen, st)
					}
					if !reflect.DeepEqual(seen[0], seen[1]) {
						r.Fatalf("once:  %+v\noften: %+v", seen[0], seen[1])
					}
				},
			}
			verbs["report"] = func(r *rapid.T) {
				if len(ids) == 0 {
					r.SkipNow()
				}
				id := rapid.SampledFrom(ids).Draw(r, "permit")
				result := rapid.SampledFrom(results).Draw(r, "result")
				both(func(dependency string) any {
					w.report(g, gate.Permit{Dependency: dependency, ID: id}, result)
					return nil
				})
			}
			r.Repeat(verbs)
		})
	})
}

// The callers count how many of them are in a call.
func TestPermit_TheFleetStaysBelowItsConcurrency(t *testing.T) {
	each(t, func(w *world) {
		s := gate.Defaults()
		s.Concurrency, s.Busy = 7, 10*time.Millisecond
		gates := w.fleet(10, s)
		var mu sync.Mutex
		running, most, calls := 0, 0, 0
		var all sync.WaitGroup
		rounds := 20
		if w.virtual { // its interpreter of Lua is slow
			rounds = 4
		}
		for _, g := range gates {
			for range 4 {
				all.Go(func() {
					for range rounds {
						got, err := g.Ticket(w.t.Context(), w.first())
						if err != nil {
							w.t.Error(err)
							return
						}
						if got.Verdict != gate.Go {
							continue
						}
						mu.Lock()
						running, calls = running+1, calls+1
						most = max(most, running)
						mu.Unlock()
						w.inspect(g) // takes a moment
						mu.Lock()
						running--
						mu.Unlock()
						if err := g.Report(w.t.Context(), got.Permit, gate.OK()); err != nil {
							w.t.Error(err)
						}
					}
				})
			}
		}
		all.Wait()
		if most > 7 || calls < 7 {
			w.t.Errorf("%d calls at the same time, at most 7 are allowed (%d calls in all)", most, calls)
		}
		if st := w.inspect(gates[0]); st.InUse != 0 {
			w.t.Errorf("%d permits are left over", st.InUse)
		}
	})
}

func TestGate_WithoutRedisNobodyCalls(t *testing.T) {
	server := eventstest.StartRedis(t)
	client := server.Client()
	w := &world{t: t, client: func() redis.UniversalClient { return client }, redis: client}
	g := w.gate(slow())
	p := w.mustGo(g, w.again())
	refused := func(what string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		for _, a := range []gate.Ask{w.first(), w.again(), w.manual()} {
			if got, err := g.Ticket(ctx, a); err == nil || got != (gate.Answer{}) {
				t.Errorf("%s: ticket: got %+v, %v, want an error", what, got, err)
			}
		}
		if err := g.Report(ctx, p, gate.OK()); err == nil {
			t.Errorf("%s: report: no error", what)
		}
		if _, err := g.Inspect(ctx, dep); err == nil {
			t.Errorf("%s: inspect: no error", what)
		}
		if _, err := g.Switches(ctx); err == nil {
			t.Errorf("%s: switches: no error", what)
		}
	}
	server.Freeze()
	refused("frozen")
	server.Thaw()
	server.Stop()
	refused("stopped")
	server.Start()
	w.report(g, p, gate.OK())
	if st := w.inspect(g); st.RetryTokens > 9.1 || st.RetryTokens < 6.9 {
		t.Errorf("%v tokens after a restart: what was taken is forgotten, or refusals took more than the three asks could", st.RetryTokens)
	}
}

// A Cluster refuses a script whose keys are in several slots, and a client that
// asks the wrong node.
func TestGate_OnACluster(t *testing.T) {
	server := eventstest.StartRedis(t, "--cluster-enabled", "yes")
	if err := server.Client().Do(t.Context(), "CLUSTER", "ADDSLOTSRANGE", 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr}})
	t.Cleanup(func() { _ = cluster.Close() })
	for i := 0; ; i++ { // until the node has seen that all slots are served
		err := cluster.Ping(t.Context()).Err()
		if err == nil {
			err = cluster.Set(t.Context(), "ready", 1, 0).Err()
		}
		if err == nil {
			break
		}
		if i == 100 {
			t.Fatal(err)
		}
		<-time.After(20 * time.Millisecond)
	}
	w := &world{t: t, client: func() redis.UniversalClient { return cluster }, redis: cluster}
	g := w.gate(slow())
	p := w.mustGo(g, w.again())
	w.report(g, p, gate.OK())
	w.ok(g.Pause(t.Context(), dep, w.order(time.Hour)))
	w.mustNot(g, w.first(), gate.Wait, gate.DependencyPaused)
	w.ok(g.Resume(t.Context(), dep, w.order(0)))
	w.ok(g.SwitchOff(t.Context(), gate.Scope{}, w.order(time.Hour)))
	w.mustNot(g, w.again(), gate.Stop, gate.RetriesDisabled)
	if got, err := g.Switches(t.Context()); err != nil || len(got.Off) != 1 {
		t.Errorf("switches: %+v, %v", got, err)
	}
	if st := w.inspect(g); st.InUse != 0 || len(st.Audit) != 2 {
		t.Errorf("state: %+v", st)
	}
}
