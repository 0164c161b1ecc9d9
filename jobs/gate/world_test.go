package gate_test

import (
	"context"
	"flag"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/tidings/tidings/events/eventstest"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/retry"
)

const dep = "acme/model-1"

// world is a Redis that a test's gates share.
type world struct {
	t       *testing.T
	client  func() redis.UniversalClient // a new one for each process that is played
	redis   redis.UniversalClient
	tokens  atomic.Int64
	virtual bool
}

// each runs a test on miniredis in virtual time and on a real Redis in real time.
func each(t *testing.T, test func(w *world)) {
	t.Run("miniredis", func(t *testing.T) { inBubble(t, test) })
	t.Run("redis", func(t *testing.T) {
		server := eventstest.StartRedis(t)
		test(&world{t: t, client: server.Client, redis: server.Client()})
	})
}

// inBubble runs a test on miniredis in virtual time.
func inBubble(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		m := miniredis.NewMiniRedis()
		m.ClockTTL(true)
		t.Cleanup(m.Close)
		client := func() redis.UniversalClient {
			c := redis.NewClient(&redis.Options{
				Addr:                  "127.0.0.1:1", // a name would be looked up outside of the bubble
				ContextTimeoutEnabled: true,
				ReadTimeout:           -1, // pass may wait for days
				Dialer:                func(context.Context, string, string) (net.Conn, error) { return m.Dial() },
			})
			t.Cleanup(func() { _ = c.Close() })
			return c
		}
		test(&world{t: t, client: client, redis: client(), virtual: true})
	})
}

func (w *world) gate(s gate.Settings) *gate.Gate {
	w.t.Helper()
	if err := s.Check(); err != nil {
		w.t.Fatal(err)
	}
	return gate.New(w.client(), s)
}

// fleet is n processes with a client each.
func (w *world) fleet(n int, s gate.Settings) []*gate.Gate {
	w.t.Helper()
	var all []*gate.Gate
	for range n {
		all = append(all, w.gate(s))
	}
	return all
}

// now is Redis time, to the millisecond like in the scripts.
func (w *world) now() time.Time {
	w.t.Helper()
	now, err := w.redis.Time(w.t.Context()).Result()
	if err != nil {
		w.t.Fatal(err)
	}
	return now.Truncate(time.Millisecond)
}

// pass lets time pass on Redis's own clock.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	for end := w.now().Add(d); w.now().Before(end); {
		err := w.redis.Do(w.t.Context(), "BLPOP", "nothing-comes", fmt.Sprint(max(0.001, end.Sub(w.now()).Seconds()))).Err()
		if err != nil && err != redis.Nil {
			w.t.Fatal(err)
		}
	}
}

// The asks of the tests: a job's first call, a call that is not its first, and
// the first call of a job that a user's tap started.
func (w *world) first() gate.Ask  { return w.ask(true, false) }
func (w *world) again() gate.Ask  { return w.ask(false, false) }
func (w *world) manual() gate.Ask { return w.ask(true, true) }

func (w *world) ask(first, manual bool) gate.Ask {
	n := w.tokens.Add(1)
	return gate.Ask{Dependency: dep, Workload: "summary", JobID: fmt.Sprintf("job-%d", n), Token: fmt.Sprintf("token-%d", n),
		First: first, Manual: manual}
}

func (w *world) ticket(g *gate.Gate, a gate.Ask) gate.Answer {
	w.t.Helper()
	got, err := g.Ticket(w.t.Context(), a)
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

// mustGo is a ticket that has to be granted.
func (w *world) mustGo(g *gate.Gate, a gate.Ask) gate.Permit {
	w.t.Helper()
	got := w.ticket(g, a)
	if got.Verdict != gate.Go {
		w.t.Fatalf("ticket: got %s %s, want go", got.Verdict, got.Reason)
	}
	return got.Permit
}

// mustNot is a ticket that has to be refused.
func (w *world) mustNot(g *gate.Gate, a gate.Ask, v gate.Verdict, r gate.Reason) gate.Answer {
	w.t.Helper()
	got := w.ticket(g, a)
	if got.Verdict != v || got.Reason != r {
		w.t.Fatalf("ticket: got %q %q, want %q %q", got.Verdict, got.Reason, v, r)
	}
	if got.Permit != (gate.Permit{}) {
		w.t.Fatalf("a refusal came with the permit %+v", got.Permit)
	}
	return got
}

func (w *world) report(g *gate.Gate, p gate.Permit, r gate.Result) {
	w.t.Helper()
	if err := g.Report(w.t.Context(), p, r); err != nil {
		w.t.Fatal(err)
	}
}

// call makes a call that has to be admitted and ends with r.
func (w *world) call(g *gate.Gate, a gate.Ask, r gate.Result) {
	w.t.Helper()
	w.report(g, w.mustGo(g, a), r)
}

func (w *world) inspect(g *gate.Gate) gate.State {
	w.t.Helper()
	s, err := g.Inspect(w.t.Context(), dep)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// outage makes first calls fail until the breaker opens.
func (w *world) outage(g *gate.Gate) gate.State {
	w.t.Helper()
	for range 1000 {
		w.call(g, w.first(), gate.Failed(retry.Overloaded, 0))
		if s := w.inspect(g); s.Breaker == "open" {
			return s
		}
	}
	w.t.Fatal("the breaker never opened")
	return gate.State{}
}

// recover makes first calls succeed until the breaker closes.
func (w *world) recover(g *gate.Gate) {
	w.t.Helper()
	w.pass(w.inspect(g).OpenUntil.Sub(w.now()))
	for range 1000 {
		w.call(g, w.first(), gate.OK())
		if w.inspect(g).Breaker == "closed" {
			return
		}
	}
	w.t.Fatal("the breaker never closed")
}

// slow is settings without a budget that time refills within a test.
func slow() gate.Settings {
	s := gate.Defaults()
	s.RetryPerSecond, s.RetryBurst, s.ManualShare = 0.001, 10, 0.5
	return s
}

func (w *world) keys() []string {
	w.t.Helper()
	keys, err := w.redis.Keys(w.t.Context(), "tidings:*").Result()
	if err != nil {
		w.t.Fatal(err)
	}
	return keys
}

// property is rapid.Check with fewer rounds than usual, unless the command line
// asks for a number: miniredis takes milliseconds for a script.
func property(t *testing.T, check func(r *rapid.T)) {
	t.Helper()
	const usual = "100"
	if f := flag.Lookup("rapid.checks"); f.Value.String() == usual {
		if err := f.Value.Set("25"); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Value.Set(usual) }()
	}
	rapid.Check(t, check)
}

func contains(t *testing.T, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("got the error %v, want one with %q", err, part)
	}
}
