package events_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/events/eventstest"
)

// Faults of a real Redis and of the network before it.

// site is a hub that sees Redis through a bad network, and a log that writes
// to it directly.
type site struct {
	server *eventstest.Server
	proxy  *eventstest.Proxy
	far    *events.RedisLog // through the proxy
	near   *events.RedisLog
	client redis.UniversalClient // near
}

func newSite(t *testing.T) site {
	t.Helper()
	server := eventstest.StartRedis(t)
	proxy := eventstest.StartProxy(t, server.Addr)
	far := redis.NewClient(&redis.Options{Addr: proxy.Addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = far.Close() })
	near := server.Client()
	return site{server, proxy, events.NewRedisLog(far, week), events.NewRedisLog(near, week), near}
}

func TestDelayedConfirmationOfRedis(t *testing.T) {
	at := newSite(t)
	at.proxy.Delay("subscribe\r\n", 200*time.Millisecond)
	log := &watchful{Log: at.far}
	hub := run(t, log, events.HubOptions{})
	if err := hub.Probe(t.Context()); err != nil { // its own subscription is through
		t.Fatal(err)
	}
	eventstest.Append(t, at.near, topicOf("s"), "j1", events.Queued, events.Processing)
	read := log.read.Load()
	subscribed := make(chan reader)
	go func() { subscribed <- subscribe(t, hub, topicOf("s"), 0, false) }()
	eventually(t, "Redis is asked for the channel", func() bool {
		n, err := at.client.PubSubNumSub(t.Context(), topicOf("s").Key("live")).Result()
		return err == nil && n[topicOf("s").Key("live")] == 1
	})
	if got := log.read.Load(); got != read {
		t.Error("the log was read before the confirmation")
	}
	want := eventstest.Append(t, at.near, topicOf("s"), "j1", events.Completed)[0]
	s := <-subscribed
	if e := s.next(t); e.Transition != want {
		t.Errorf("got %+v, want %+v", e, want)
	}
	noMore(t, s)
}

// noMore checks that a completed topic's reader has nothing left, by the next
// thing that happens.
func noMore(t *testing.T, s reader) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if e, err := s.Next(ctx); err == nil {
		t.Errorf("got %+v, want nothing more", e)
	}
}

func TestPubSubKilledWhileTheLastIsPublished(t *testing.T) {
	at := newSite(t)
	var observed counts
	hub := run(t, at.far, events.HubOptions{Observer: observed.observer()})
	s := subscribe(t, hub, topicOf("s"), 0, false)
	s.next(t)
	eventstest.Append(t, at.near, topicOf("s"), "j1", events.Queued, events.Processing)
	s.next(t)
	s.next(t)
	at.proxy.Shut() // so that none is back before the last is published
	want := eventstest.Append(t, at.near, topicOf("s"), "j1", events.Completed)
	at.proxy.Open()
	start := time.Now()
	if e := s.next(t); e.Transition != want[0] || e.Reset {
		t.Errorf("got %+v, want %+v", e, want[0])
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %v, want the resubscription to find it", took)
	}
	observed.want(t, events.CauseResubscribed, 1)
}

func TestRedisRestartsUnderOpenStreams(t *testing.T) {
	at := newSite(t)
	var observed counts
	hub := run(t, at.far, events.HubOptions{Observer: observed.observer()})
	readers, topics := hundred(t, hub, at.near)

	at.proxy.Shut()
	at.server.Stop()
	at.server.Start()
	missed := make(map[int]events.Transition)
	for i := range 10 {
		missed[i*7] = eventstest.Append(t, at.near, topics[i*7], "j1", events.Processing)[0]
	}
	at.proxy.Open()
	for i, want := range missed {
		if e := readers[i].next(t); e.Transition != want || e.Reset {
			t.Errorf("got %+v, want %+v", e, want)
		}
	}
	// The other 90 have got nothing: what comes next is what happens next.
	for i, topic := range topics {
		want := eventstest.Append(t, at.near, topic, "j1", events.Processing)[0]
		if e := readers[i].next(t); e.Transition != want || e.Reset {
			t.Errorf("reader %d: got %+v, want %+v", i, e, want)
		}
	}
	observed.mu.Lock()
	defer observed.mu.Unlock()
	if n := observed.repaired[events.CauseResubscribed]; n < 10 || observed.reset != 0 {
		t.Errorf("repaired %v, %d resets; want the 10 and no reset", observed.repaired, observed.reset)
	}
}

func TestRedisLosesEverything(t *testing.T) {
	at := newSite(t)
	hub := run(t, at.far, events.HubOptions{HeadsEvery: 50 * time.Millisecond})
	seen := eventstest.Append(t, at.near, topicOf("s"), "j1", events.Queued, events.Processing)[1]
	s := subscribe(t, hub, topicOf("s"), 0, false)
	s.next(t)
	if err := at.client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if e := s.next(t); !e.Idle || !e.Reset {
		t.Errorf("got %+v, want idle, reset", e)
	}
	back := subscribe(t, hub, topicOf("s"), seen.Seq, true)
	if e := back.next(t); !e.Idle || !e.Reset {
		t.Errorf("a cursor from before: got %+v, want idle, reset", e)
	}
	want := eventstest.Append(t, at.near, topicOf("s"), "j2", events.Queued)[0]
	for _, s := range []reader{s, back} {
		if e := s.next(t); e.Transition != want || e.Reset {
			t.Errorf("got %+v, want %+v", e, want)
		}
	}
}

func TestRedisAway(t *testing.T) {
	t.Parallel()
	at := newSite(t)
	hub := run(t, at.far, events.HubOptions{Patience: time.Second, ProbeWithin: time.Second})
	s := subscribe(t, hub, topicOf("s"), 0, false)
	s.next(t)
	unavailable := func(when string, within time.Duration) {
		t.Helper()
		for _, topic := range []events.Topic{topicOf("s"), topicOf("new")} {
			start := time.Now()
			if _, err := hub.Subscribe(t.Context(), topic, 0, false); !errors.Is(err, events.ErrUnavailable) {
				t.Errorf("%s, subscribe: got %v, want ErrUnavailable", when, err)
			}
			if took := time.Since(start); took > within {
				t.Errorf("%s: it took %v to know", when, took)
			}
		}
		if err := hub.Probe(t.Context()); !errors.Is(err, events.ErrUnavailable) {
			t.Errorf("%s, probe: got %v, want ErrUnavailable", when, err)
		}
		if hub.Watching() != 1 {
			t.Errorf("%s: watching %d, want the open stream's alone", when, hub.Watching())
		}
	}
	heals := func(when string, status events.Status) {
		t.Helper()
		want := eventstest.Append(t, at.near, topicOf("s"), "j1", status)[0]
		if e := s.next(t); e.Transition != want || e.Reset {
			t.Errorf("%s, back: got %+v, want %+v", when, e, want)
		}
	}
	at.server.Freeze()
	unavailable("frozen", 2*time.Second)
	at.server.Thaw()
	heals("frozen", events.Queued)

	at.server.Kill()
	unavailable("killed", 2*time.Second)
	at.server.Start()
	heals("killed", events.Processing)
	subscribe(t, hub, topicOf("new"), 0, false).next(t)
	eventually(t, "the probe passes", func() bool { return hub.Probe(t.Context()) == nil })
}

// The live connection is there and carries nothing: no error ever comes, so
// only asking for a sign of life finds out.
func TestSilentConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	at := newSite(t)
	at.far.SetHealth(50*time.Millisecond, 700*time.Millisecond)
	var observed counts
	hub := run(t, at.far, events.HubOptions{ProbeWithin: 300 * time.Millisecond, Observer: observed.observer()})
	s := subscribe(t, hub, topicOf("s"), 0, false)
	s.next(t)
	at.proxy.Swallow()
	// The pool's connections are dead as well and are found so by timeouts.
	eventually(t, "Redis answers, and the hub hears nothing", func() bool {
		err := hub.Probe(t.Context())
		return errors.Is(err, events.ErrDeaf) || err == nil
	})
	want := eventstest.Append(t, at.near, topicOf("s"), "j1", events.Queued)[0]
	if e := s.next(t); e.Transition != want {
		t.Errorf("got %+v, want %+v", e, want)
	}
	eventually(t, "the probe passes", func() bool { return hub.Probe(t.Context()) == nil })
}

// A thousand readers come and go; connections are cut under them all the time.
func TestConnectionsAreCutUnderReadersThatComeAndGo(t *testing.T) {
	t.Parallel()
	at := newSite(t)
	hub := run(t, at.far, events.HubOptions{})
	const topics, steps = 20, 40
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var network, apps, writers sync.WaitGroup
	network.Go(func() {
		for pauseFor(ctx, 30*time.Millisecond); ctx.Err() == nil; pauseFor(ctx, 30*time.Millisecond) {
			at.proxy.Cut()
		}
	})
	for i := range topics {
		topic := topicOf(fmt.Sprint("s", i))
		apps.Go(func() { readToTheEnd(t, hub, topic) })
		writers.Go(func() {
			eventstest.Append(t, at.near, topic, "j1", events.Queued)
			for n := 1; n < steps; n++ {
				eventstest.Append(t, at.near, topic, "j1", statusAfter(n))
				pauseFor(ctx, 10*time.Millisecond)
			}
			eventstest.Append(t, at.near, topic, "j1", events.Failed)
		})
	}
	writers.Wait()
	cancel()
	network.Wait()
	apps.Wait()
}

// readToTheEnd reads a topic five events a stream and checks the chain.
func readToTheEnd(t *testing.T, hub *events.Hub, topic events.Topic) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var last events.Event
	for {
		s, err := hub.Subscribe(ctx, topic, last.Seq, last.Seq > 0)
		if errors.Is(err, events.ErrUnavailable) && ctx.Err() == nil {
			pauseFor(ctx, 10*time.Millisecond)
			continue
		}
		if err != nil {
			t.Errorf("after %+v: %v", last, err)
			return
		}
		for range 5 {
			e, err := s.Next(ctx)
			if err != nil {
				t.Errorf("after %+v: %v", last, err)
				s.Close()
				return
			}
			if last.Seq > 0 && (e.Prev != last.Seq || e.Reset) {
				t.Errorf("after %+v came %+v", last, e)
			}
			last = e
			if e.Status.Terminal() {
				s.Close()
				return
			}
		}
		s.Close()
	}
}

func TestNothingIsLeftBehind(t *testing.T) {
	at := newSite(t)
	hub := run(t, at.near, events.HubOptions{})
	if err := hub.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	channels := func() int { return len(at.client.PubSubChannels(t.Context(), "*").Val()) }
	before, was := runtime.NumGoroutine(), channels()
	var readers []*events.Subscription
	for i := range 1000 {
		s, err := hub.Subscribe(t.Context(), topicOf(fmt.Sprint("s", i%700)), 0, false)
		if err != nil {
			t.Fatal(err)
		}
		readers = append(readers, s)
	}
	if got := channels(); got != was+700 {
		t.Errorf("open: %d channels, want %d", got, was+700)
	}
	if got := runtime.NumGoroutine(); got > before+20 {
		t.Errorf("open: %d goroutines for 1,000 readers, were %d", got, before)
	}
	for _, s := range readers {
		s.Close()
	}
	eventually(t, "channels and goroutines are back", func() bool {
		return channels() == was && runtime.NumGoroutine() <= before+2
	})
}

// Where there is no Redis at all, a hub runs and says so.
func TestNoRedisAtAll(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	client := redis.NewClient(&redis.Options{Addr: l.Addr().String(), ContextTimeoutEnabled: true})
	defer client.Close()
	hub := run(t, events.NewRedisLog(client, week), events.HubOptions{})
	start := time.Now()
	if _, err := hub.Subscribe(t.Context(), topicOf("s"), 0, false); !errors.Is(err, events.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	if took := time.Since(start); took > 3500*time.Millisecond {
		t.Errorf("it took %v", took)
	}
	if err := hub.Probe(t.Context()); !errors.Is(err, events.ErrUnavailable) {
		t.Errorf("probe: got %v, want ErrUnavailable", err)
	}
}
