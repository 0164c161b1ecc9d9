package gate_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/tidings/tidings/events/eventstest"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/retry"
)

// line is a client whose scripts for a dependency can be stopped, which keeps those
// who come meanwhile waiting.
type line struct {
	redis.UniversalClient
	mu      sync.Mutex
	keys    string        // of scripts that are stopped and counted; "": a dependency's
	stopped chan struct{} // nil: scripts run at once
	scripts int
	failing int // scripts that do not come to Redis
}

var errNoRedis = errors.New("no Redis")

// in makes a gate of its own whose scripts can be stopped.
func (l *line) in(w *world, s gate.Settings) *gate.Gate {
	l.UniversalClient = w.client()
	l.AddHook(l)
	return gate.New(l, s)
}

func (l *line) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *line) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (l *line) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "evalsha" || !strings.HasPrefix(fmt.Sprint(cmd.Args()[3]), cmp.Or(l.keys, "tidings:{gate/")) {
			return next(ctx, cmd)
		}
		l.mu.Lock()
		l.scripts++
		stopped, fails := l.stopped, l.failing > 0
		l.failing--
		l.mu.Unlock()
		if stopped != nil {
			<-stopped
		}
		if fails {
			return errNoRedis
		}
		return next(ctx, cmd)
	}
}

// stop makes the next script wait for what it returns.
func (l *line) stop() (letGo func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	stopped := make(chan struct{})
	l.stopped, l.scripts = stopped, 0
	return func() {
		l.mu.Lock()
		l.stopped = nil
		l.mu.Unlock()
		close(stopped)
	}
}

// together has some verbs asked one after the other while a script runs that
// somebody else has asked for, so that all of them wait.
func (l *line) together(ask func(), verbs ...func()) {
	letGo := l.stop()
	var done sync.WaitGroup
	for _, verb := range append([]func(){ask}, verbs...) {
		done.Go(verb)
		synctest.Wait()
	}
	letGo()
	done.Wait()
}

func TestTurns_WhoWaitsGoesWithTheNextScript(t *testing.T) {
	inBubble(t, func(w *world) {
		s := gate.Defaults()
		s.Concurrency = 40
		var l line
		g := l.in(w, s)
		w.call(g, w.first(), gate.OK()) // both scripts are loaded
		var got [200]gate.Answer
		var verbs []func()
		for i := range got {
			a := w.first()
			verbs = append(verbs, func() { got[i] = w.ticket(g, a) })
		}
		l.together(verbs[0], verbs[1:]...)
		if want := 1 + 4; l.scripts != want { // 64 at most in each
			t.Errorf("%d scripts for one ticket and 199 that waited, want %d", l.scripts, want)
		}
		for i, a := range got {
			if want := map[bool]gate.Verdict{true: gate.Go, false: gate.Wait}[i < 40]; a.Verdict != want {
				t.Fatalf("ticket %d of 200 with 40 places: %s", i, a.Verdict)
			}
		}
		verbs = nil
		for _, a := range got[:40] {
			verbs = append(verbs, func() { w.report(g, a.Permit, gate.OK()) })
		}
		l.together(verbs[0], verbs[1:]...)
		if l.scripts != 2 {
			t.Errorf("%d scripts for 40 reports, want 2", l.scripts)
		}
		if s := w.inspect(g); s.InUse != 0 || s.Calls != 41 {
			t.Errorf("%d permits out after %d calls, want 0 and 41", s.InUse, s.Calls)
		}
	})
}

func TestTurns_WhoHasGoneTakesNothing(t *testing.T) {
	inBubble(t, func(w *world) {
		var l line
		g := l.in(w, gate.Defaults())
		w.call(g, w.first(), gate.OK())
		ctx, leave := context.WithCancel(w.t.Context())
		var gone error
		var stays gate.Answer
		l.together(
			func() { w.mustGo(g, w.first()) },
			func() { _, gone = g.Ticket(ctx, w.first()) },
			func() { stays = w.ticket(g, w.first()) },
			leave,
		)
		if !errors.Is(gone, context.Canceled) {
			t.Errorf("who left while waiting got %v", gone)
		}
		if s := w.inspect(g); stays.Verdict != gate.Go || s.InUse != 2 {
			t.Errorf("who stayed got %s, and %d permits are out, want 2", stays.Verdict, s.InUse)
		}

		// Who is cancelled while the script runs has its answer, and can give back what it took.
		ctx, leave = context.WithCancel(w.t.Context())
		letGo := l.stop()
		var done sync.WaitGroup
		var took gate.Answer
		done.Go(func() { took, gone = g.Ticket(ctx, w.first()) })
		synctest.Wait()
		leave()
		synctest.Wait()
		letGo()
		done.Wait()
		if gone != nil || took.Verdict != gate.Go {
			t.Fatalf("who was cancelled while the script ran got %s and %v", took.Verdict, gone)
		}
		w.report(g, took.Permit, gate.NotSent())
		if s := w.inspect(g); s.InUse != 2 {
			t.Errorf("%d permits are out, want 2", s.InUse)
		}

		// Who has no more time does not wait for it.
		ctx, leave = context.WithTimeout(w.t.Context(), time.Millisecond)
		defer leave()
		letGo = l.stop()
		if _, err := g.Ticket(ctx, w.first()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who had no more time got %v", err)
		}
		letGo()
	})
}

// A script that hangs in a dying connection holds up those who share it. Who waits
// behind it goes on beside it.
func TestTurns_ADyingConnectionHoldsUpNobodyElse(t *testing.T) {
	inBubble(t, func(w *world) {
		var l line
		g := l.in(w, gate.Defaults())
		p := w.mustGo(g, w.first())
		w.call(g, w.first(), gate.OK())
		letGo := l.stop()
		var first gate.Answer
		var done sync.WaitGroup
		done.Go(func() { first = w.ticket(g, w.first()) })
		synctest.Wait()
		l.mu.Lock()
		l.stopped = nil
		l.mu.Unlock()
		began := time.Now()
		w.mustGo(g, w.first())
		w.report(g, p, gate.OK())
		if waited := time.Since(began); waited == 0 || waited > time.Second || first.Verdict != "" {
			t.Errorf("who was behind waited %s, and the first has its answer: %q", waited, first.Verdict)
		}
		letGo()
		done.Wait()
		if s := w.inspect(g); first.Verdict != gate.Go || s.InUse != 2 {
			t.Errorf("the first got %q, and %d permits are out, want 2", first.Verdict, s.InUse)
		}
	})
}

func TestTurns_AFailedScriptIsEverybodysFailure(t *testing.T) {
	inBubble(t, func(w *world) {
		var l line
		g := l.in(w, gate.Defaults())
		w.call(g, w.first(), gate.OK())
		l.failing = 2
		var got [3]error
		var verbs []func()
		for i := range got {
			verbs = append(verbs, func() { _, got[i] = g.Ticket(w.t.Context(), w.first()) })
		}
		l.together(verbs[0], verbs[1:]...)
		for _, err := range got {
			if !errors.Is(err, errNoRedis) {
				t.Errorf("got %v, want that there is no Redis", err)
			}
		}
		w.mustGo(g, w.first())
	})
}

func TestTurns_TheSwitchIsReadForEachOfThem(t *testing.T) {
	inBubble(t, func(w *world) {
		l := line{keys: "tidings:{gate}:"}
		g := l.in(w, gate.Defaults())
		order := gate.Order{Owner: "ann", Until: w.now().Add(time.Minute)}
		for _, scope := range []gate.Scope{{Workload: "guidance"}, {Dependency: "acme/b"}} {
			if err := g.SwitchOff(w.t.Context(), scope, order); err != nil {
				t.Fatal(err)
			}
		}
		asks := []struct {
			dependency, workload string
			want                 gate.Verdict
		}{
			{"acme/a", "summary", gate.Go}, {"acme/a", "guidance", gate.Stop}, {"acme/b", "summary", gate.Stop},
			{"", "guidance", gate.Stop}, {"", "summary", gate.Go}, {"acme/a", "summary", gate.Go},
		}
		got := make([]gate.Answer, len(asks))
		var verbs []func()
		for i, a := range asks {
			verbs = append(verbs, func() {
				var err error
				if got[i], err = g.Switched(w.t.Context(), a.dependency, a.workload); err != nil {
					t.Error(err)
				}
			})
		}
		verbs[0]() // the script is loaded
		l.together(verbs[0], verbs[1:]...)
		if l.scripts != 2 {
			t.Errorf("%d scripts, want 2", l.scripts)
		}
		for i, a := range asks {
			want := gate.Answer{Verdict: a.want}
			if a.want == gate.Stop {
				want = gate.Answer{Verdict: gate.Stop, Reason: gate.RetriesDisabled, Until: order.Until.UTC(), In: time.Minute}
			}
			if got[i] != want {
				t.Errorf("%s of %q: got %+v, want %+v", a.workload, a.dependency, got[i], want)
			}
		}
	})
}

func TestTurns_APlaceThatCameBackIsGivenOnce(t *testing.T) {
	inBubble(t, func(w *world) {
		s := gate.Defaults()
		s.Concurrency, s.Probes = 2, 2
		var l line
		g := l.in(w, s)
		w.mustGo(g, w.first()) // and its holder dies
		w.pass(s.Lease / 2)
		w.mustGo(g, w.first())
		w.pass(s.Lease / 2)
		l.failing = 1
		var got [2]gate.Answer
		l.together(
			func() { _, _ = g.Ticket(w.t.Context(), w.first()) }, // fails, so that the next script is the first to see the end of the lease
			func() { got[0] = w.ticket(g, w.first()) },
			func() { got[1] = w.ticket(g, w.first()) },
		)
		if got[0].Verdict != gate.Go || got[1].Verdict != gate.Wait {
			t.Errorf("one place for two: %s and %s", got[0].Verdict, got[1].Verdict)
		}
	})
}

// A fleet that was killed leaves all its permits to their leases, and the next
// script clears them away: more than Lua hands to a command at once.
func TestTurns_ThousandsOfLeasesEndAtOnce(t *testing.T) {
	each(t, func(w *world) {
		s := gate.Defaults()
		s.Concurrency = 10_000
		g := w.gate(s)
		w.call(g, w.first(), gate.OK())
		key := "tidings:{gate/" + dep + "}:"
		for i := range s.Concurrency {
			permit := fmt.Sprintf("dead-%d", i)
			w.redis.ZAdd(w.t.Context(), key+"permits", redis.Z{Score: 1, Member: permit})
			w.redis.HSet(w.t.Context(), key+"state", "p/"+permit, "0 first 1 summary job")
		}
		w.mustGo(g, w.first())
		if s := w.inspect(g); s.InUse != 1 {
			w.t.Errorf("%d permits are out, want 1", s.InUse)
		}
		if members, fields := w.redis.ZCard(w.t.Context(), key+"permits").Val(), w.redis.HLen(w.t.Context(), key+"state").Val(); members != 1 || fields > 30 {
			w.t.Errorf("%d members and %d fields are left", members, fields)
		}
	})
}

// Places come back from a Redis that has no memory left.
func TestTurns_AReportNeedsNoMemory(t *testing.T) {
	w := &world{t: t}
	server := eventstest.StartRedis(t)
	w.client, w.redis = server.Client, server.Client()
	g := w.gate(gate.Defaults())
	w.call(g, w.first(), gate.OK())
	p := w.mustGo(g, w.first())
	if err := w.redis.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Ticket(t.Context(), w.first()); err == nil {
		t.Error("a ticket was written down without memory")
	}
	w.report(g, p, gate.OK())
	if s := w.inspect(g); s.InUse != 0 {
		t.Errorf("%d permits are out", s.InUse)
	}
}

// Somebody deletes or evicts the set of permits: who holds one writes it back,
// with an end for the key.
func TestTurns_TheSetOfPermitsIsLost(t *testing.T) {
	each(t, func(w *world) {
		g := w.gate(gate.Defaults())
		a, b := w.first(), w.first()
		w.mustGo(g, a)
		w.mustGo(g, b)
		key := "tidings:{gate/" + dep + "}:permits"
		w.redis.Del(w.t.Context(), key)
		w.mustGo(g, b)
		if n, ttl := w.redis.ZCard(w.t.Context(), key).Val(), w.redis.PTTL(w.t.Context(), key).Val(); n != 1 || ttl <= 0 {
			w.t.Errorf("%d members, gone in %s", n, ttl)
		}
	})
}

// Several turns in one script are worth the same as one script for each: the same
// answers, and the same state afterwards.
func TestTurns_TogetherAsAlone_Property(t *testing.T) {
	inBubble(t, func(w *world) {
		n := 0
		property(t, func(r *rapid.T) {
			n++
			s := slow()
			s.Concurrency, s.WindowCalls, s.Probes, s.Busy = 6, 4, 2, time.Second
			names := [2]string{fmt.Sprintf("acme/together-%d", n), fmt.Sprintf("acme/alone-%d", n)}
			var l line
			together, alone := l.in(w, s), w.gate(s)
			var out []string // tokens of permits that may be out, in both
			results := []gate.Result{gate.OK(), gate.OK(), gate.NotSent(), gate.Failed(retry.Overloaded, 0),
				gate.Failed(retry.RateLimited, 2*time.Second), gate.Failed(retry.Auth, 0)}
			for round := range rapid.IntRange(1, 12).Draw(r, "rounds") {
				verb := rapid.SampledFrom([]string{"ticket", "ticket", "report", "pass"}).Draw(r, "verb")
				if verb == "pass" {
					w.pass(time.Duration(rapid.IntRange(1, 20).Draw(r, "seconds")) * time.Second)
					continue
				}
				var asks [2][]func() string
				for i := range rapid.IntRange(1, 8).Draw(r, "turns") {
					token := fmt.Sprintf("token-%d-%d", round, i)
					if verb != "ticket" || rapid.IntRange(0, 9).Draw(r, "repeated") == 0 {
						if len(out) == 0 {
							continue
						}
						token = rapid.SampledFrom(out).Draw(r, "token")
					}
					ask := gate.Ask{Workload: "summary", JobID: "job", Token: token, First: rapid.Bool().Draw(r, "first"), Manual: rapid.Bool().Draw(r, "manual")}
					result := rapid.SampledFrom(results).Draw(r, "result")
					for way, g := range [2]*gate.Gate{together, alone} {
						p := gate.Permit{Dependency: names[way], ID: token}
						a := ask
						a.Dependency = names[way]
						asks[way] = append(asks[way], func() string {
							if verb == "report" {
								return fmt.Sprint(g.Report(w.t.Context(), p, result))
							}
							got := w.ticket(g, a)
							return fmt.Sprint(got.Verdict, got.Reason, got.Until, got.In, got.Permit.ExpiresAt)
						})
					}
					out = append(out, token)
				}
				if len(asks[0]) == 0 {
					continue
				}
				got := make([]string, len(asks[0]))
				var verbs []func()
				for i, ask := range asks[0] {
					verbs = append(verbs, func() { got[i] = ask() })
				}
				l.together(verbs[0], verbs[1:]...)
				for i, ask := range asks[1] {
					if want := ask(); got[i] != want {
						r.Fatalf("%s %d of round %d: together %s, alone %s", verb, i, round, got[i], want)
					}
				}
			}
			var states [2]gate.State
			for way, g := range [2]*gate.Gate{together, alone} {
				got, err := g.Inspect(w.t.Context(), names[way])
				if err != nil {
					r.Fatal(err)
				}
				states[way] = got
			}
			if !reflect.DeepEqual(states[0], states[1]) {
				r.Fatalf("together\n%+v\nalone\n%+v", states[0], states[1])
			}
		})
	})
}
