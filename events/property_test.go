package events_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/events/eventstest"
)

// Whatever happens to copies, connections, the log and the clients, every
// client sees one chain of transitions, each the successor of the one before
// unless it is marked reset, and ends in the log's last state. Half an hour of
// faults per seed, in virtual time. A seed that fails is run again with
//
//	go test ./events -run TestAnyInterleaving/seed=17
func TestAnyInterleavingEndsInTheLastState(t *testing.T) {
	seeds := 40
	if testing.Short() {
		seeds = 20
	}
	if flag.Lookup("test.count").Value.String() != "1" {
		seeds *= 10 // somebody is looking for trouble
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { interleave(t, uint64(seed)) })
		})
	}
}

// weather is the fate of copies, from bad to good.
type weather struct {
	mu   sync.Mutex
	rand *rand.Rand
	good bool
}

func (w *weather) fate(events.Topic, events.Transition) eventstest.Fate {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.good {
		return eventstest.Delivered()
	}
	f := eventstest.Fate{Copies: []int{0, 0, 1, 1, 1, 1, 2, 3}[w.rand.IntN(8)]}
	if w.rand.IntN(3) == 0 {
		f.Delay = time.Duration(w.rand.IntN(4000)) * time.Millisecond
	}
	return f
}

func interleave(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	sky := &weather{rand: rand.New(rand.NewPCG(seed, 2))}
	log := eventstest.NewMemory(eventstest.MemoryOptions{Fate: sky.fate})
	hub := run(t, log, events.HubOptions{Buffer: 1 + random.IntN(8)})
	var topics []events.Topic
	var clients []*client
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for i := range 3 {
		topics = append(topics, topicOf(fmt.Sprint("s", i)))
		for j := range 3 {
			c := &client{hub: hub, topic: topics[i], rand: rand.New(rand.NewPCG(seed, uint64(10*i+j+3)))}
			clients = append(clients, c)
			running.Go(func() { c.run(ctx, t) })
		}
	}

	job, away := 0, false
	for range 250 {
		time.Sleep(time.Duration(1+random.IntN(9000)) * time.Millisecond)
		topic := topics[random.IntN(len(topics))]
		switch n := random.IntN(100); {
		case n < 80:
			for range 1 + random.IntN(4) {
				job++
				appendAny(t, log, topic, random, job)
				time.Sleep(time.Duration(1+random.IntN(20)) * time.Millisecond)
			}
		case n < 86:
			log.Disconnect()
		case n < 90:
			log.Stop()
			away = true
		case n < 96:
			log.Start()
			away = false
		case n < 98 && !away:
			log.LoseTail(topic, 1+random.IntN(3))
		case n < 99 && !away:
			log.LoseTail(topic, events.MaxLog)
		default:
			for range 20 { // a flood
				job++
				appendAny(t, log, topic, random, job)
				time.Sleep(time.Millisecond)
			}
		}
	}

	sky.mu.Lock()
	sky.good = true
	sky.mu.Unlock()
	log.Start()
	time.Sleep(time.Minute)
	synctest.Wait()
	last, err := log.Last(t.Context(), topics)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range clients {
		c.mu.Lock()
		if c.last.Transition != last[i/3] {
			t.Errorf("client %d ends with\n%+v, the log with\n%+v", i, c.last, last[i/3])
		}
		c.mu.Unlock()
	}
	cancel()
	running.Wait()
}

// appendAny appends any transition that may follow, if the log is there.
func appendAny(t *testing.T, log events.Log, topic events.Topic, random *rand.Rand, job int) {
	last, err := log.Last(t.Context(), []events.Topic{topic})
	if err != nil {
		return
	}
	var legal []events.Transition
	for _, to := range []events.Status{events.Queued, events.Processing, events.Retrying, events.Completed, events.Failed} {
		for _, id := range []string{last[0].JobID, fmt.Sprint("j", job)} {
			step := eventstest.Step(id, to)
			step.Attempt = job // no two alike
			if id != "" && events.Follows(last[0], step) {
				legal = append(legal, step)
			}
		}
	}
	if _, err := log.Append(t.Context(), topic, legal[random.IntN(len(legal))]); err != nil {
		t.Error(err)
	}
}

// client follows a topic as an app does: it stalls, leaves, and comes back with
// the place that it has seen last.
type client struct {
	hub   *events.Hub
	topic events.Topic
	rand  *rand.Rand

	mu   sync.Mutex
	last events.Event
}

func (c *client) run(ctx context.Context, t *testing.T) {
	for connected := false; ctx.Err() == nil; {
		c.mu.Lock()
		cursor := c.last.Seq
		c.mu.Unlock()
		s, err := c.hub.Subscribe(ctx, c.topic, cursor, cursor > 0)
		if err != nil {
			pauseFor(ctx, time.Second)
			continue
		}
		for stay := c.rand.IntN(60); stay > 0; stay-- {
			e, err := s.Next(ctx)
			if err != nil {
				break
			}
			c.check(t, e, connected)
			connected = true
			if c.rand.IntN(10) == 0 {
				pauseFor(ctx, time.Duration(c.rand.IntN(20000))*time.Millisecond)
			}
		}
		s.Close()
	}
}

func (c *client) check(t *testing.T, e events.Event, connected bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.last
	c.last = e
	switch {
	case e.Idle != (e.Seq == 0):
		t.Errorf("idle %v with seq %d", e.Idle, e.Seq)
	case !connected || e.Reset:
	case last.Seq == 0 && e.Idle: // came back while there is still nothing
	case last.Seq == 0 && !e.Live: // came back without a place to resume from
	case e.Prev != last.Seq || e.Seq <= last.Seq:
		t.Errorf("after\n%+v came\n%+v", last, e)
	}
}

func pauseFor(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
