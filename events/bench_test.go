package events_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/events/eventstest"
)

// One round of the comparison over 10,000 watched topics on a real Redis, as
// it happens every 10 s, and what a subscription weighs.
//
// Measured on 2 shared cores: see docs/benchmarks.md.
func BenchmarkTenThousandTopics(b *testing.B) {
	const topics = 10_000
	server := eventstest.StartRedis(b)
	log := events.NewRedisLog(server.Client(), week)
	round := make(chan struct{}, 1)
	hub := benchHub(b, &rounds{Log: log, every: topics / 500, done: round}, events.HubOptions{HeadsEvery: time.Millisecond})

	weight := heap()
	for i := range topics {
		topic := topicOf(fmt.Sprint("s", i))
		if _, err := log.Append(b.Context(), topic, eventstest.Step("j1", events.Queued)); err != nil {
			b.Fatal(err)
		}
		s, err := hub.Subscribe(b.Context(), topic, 0, false)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Next(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(s.Close)
	}
	weight = heap() - weight
	for b.Loop() {
		<-round
	}
	b.ReportMetric(float64(weight)/topics, "B/subscription")
}

// rounds signals each time that so many questions for heads were answered.
type rounds struct {
	events.Log
	every, asked int
	done         chan struct{}
}

func (r *rounds) Last(ctx context.Context, topics []events.Topic) ([]events.Transition, error) {
	last, err := r.Log.Last(ctx, topics)
	if len(topics) == 1 {
		return last, err // a subscription's first read
	}
	if r.asked++; r.asked%r.every == 0 {
		select {
		case r.done <- struct{}{}:
		default:
		}
	}
	return last, err
}

// From Append to Next through a real Redis, one at a time.
func BenchmarkAppendToNext(b *testing.B) {
	log := events.NewRedisLog(eventstest.StartRedis(b).Client(), week)
	hub := benchHub(b, log, events.HubOptions{})
	s, err := hub.Subscribe(b.Context(), topicOf("s"), 0, false)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Next(b.Context()); err != nil {
		b.Fatal(err)
	}
	n := 0
	for b.Loop() {
		status := events.Queued
		if n > 0 {
			status = statusAfter(n)
		}
		n++
		if _, err := log.Append(b.Context(), topicOf("s"), eventstest.Step("j1", status)); err != nil {
			b.Fatal(err)
		}
		if _, err := s.Next(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// One transition to a thousand readers of one topic, without Redis.
func BenchmarkFanOutToThousand(b *testing.B) {
	log := eventstest.NewMemory(eventstest.MemoryOptions{})
	hub := benchHub(b, log, events.HubOptions{})
	var readers []*events.Subscription
	for range 1000 {
		s, err := hub.Subscribe(b.Context(), topicOf("s"), 0, false)
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		if _, err := s.Next(b.Context()); err != nil {
			b.Fatal(err)
		}
		readers = append(readers, s)
	}
	n := 0
	for b.Loop() {
		status := events.Queued
		if n > 0 {
			status = statusAfter(n)
		}
		n++
		if _, err := log.Append(b.Context(), topicOf("s"), eventstest.Step("j1", status)); err != nil {
			b.Fatal(err)
		}
		for _, s := range readers {
			if _, err := s.Next(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func benchHub(b *testing.B, log events.Log, o events.HubOptions) *events.Hub {
	hub := events.NewHub(log, o)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- hub.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		<-ended
	})
	return hub
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
