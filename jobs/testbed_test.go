package jobs_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/jobstest"
	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/model/modeltest"
	"github.com/tidings/tidings/jobs/retry"
	"github.com/tidings/tidings/jobs/store"
)

// testbed is the whole line on virtual time: the real scripts in an in-process
// Redis, the real worker, a queue that waits in the bubble, a scripted model.
type testbed struct {
	t       testing.TB
	client  redis.UniversalClient
	redis   *miniredis.Miniredis
	log     events.Log
	store   *jobs.Store
	queue   *jobstest.Queue
	model   *modeltest.Scripted
	worker  *jobs.Worker
	service *jobs.Service
	rescuer *jobs.Rescuer
	setting retry.Settings
	topic   events.Topic
}

// inTestbed runs a test in a bubble, with the settings changed as wanted.
func inTestbed(t *testing.T, m *modeltest.Scripted, change func(*retry.Settings), body func(t *testing.T, h *testbed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newTestbed(t, m, change)
		defer h.redis.Close() // last; after a failure too, or the bubble never ends
		defer h.client.Close()
		defer h.queue.Stop()
		body(t, h)
	})
}

func newTestbed(t testing.TB, m *modeltest.Scripted, change func(*retry.Settings)) *testbed {
	t.Helper()
	s := retry.Defaults()
	if change != nil {
		change(&s)
	}
	if err := s.Check(); err != nil {
		t.Fatalf("settings: %v", err)
	}
	mini := miniredis.NewMiniRedis()
	mini.ClockTTL(true)
	client := redis.NewClient(&redis.Options{
		Addr:                  "127.0.0.1:0", // an address, so that nothing is looked up
		Dialer:                func(context.Context, string, string) (net.Conn, error) { return mini.Dial() },
		ContextTimeoutEnabled: true, MaxRetries: -1,
		// Or go-redis may leave a goroutine in the bubble.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	store := jobs.NewStore(client, store.Kept{Record: s.Retention, Document: 90 * 24 * time.Hour, Key: 24 * time.Hour}, store.Sync{}, nil)
	h := &testbed{t: t, client: client, redis: mini, store: store, queue: jobstest.NewQueue(), model: m, setting: s,
		log: events.NewRedisLog(client, s.Retention), topic: events.NewTopic("", "abc-123", "summary")}
	quiet := slog.New(slog.DiscardHandler)
	h.service = jobs.NewService(jobs.ServiceOptions{Store: store, Queue: h.queue, Settings: s,
		Limits: jobs.Limits{OpenJobs: 1000, InputBytes: 64 << 20}, Dependency: m.Dependency(), Log: quiet})
	var err error
	h.worker, err = jobs.NewWorker(jobs.WorkerOptions{Store: store, Queue: h.queue, Settings: s, Name: "w1", Log: quiet,
		Gate: gate.New(client, wide()), Model: model.NewRetrying(m, s, dice())})
	if err != nil {
		t.Fatal(err)
	}
	h.rescuer = jobs.NewRescuer(jobs.RescuerOptions{Store: store, Queue: h.queue, Settings: s, Log: quiet})
	return h
}

// wide is a gate that turns nobody away, for tests of what stands behind it.
func wide() gate.Settings {
	s := gate.Defaults()
	s.WindowCalls, s.RetryBurst = 10_000, 10_000
	return s
}

// gated puts another gate before the worker's calls.
func (h *testbed) gated(s gate.Settings) *gate.Gate {
	h.t.Helper()
	if err := s.Check(); err != nil {
		h.t.Fatal(err)
	}
	g := gate.New(h.client, s)
	h.worker.Gate = g
	return g
}

func (h *testbed) start() {
	if err := h.queue.Start(h.worker.Attempt); err != nil {
		h.t.Fatal(err)
	}
}

func (h *testbed) submit(text string) jobs.Accepted {
	h.t.Helper()
	a, err := h.service.Submit(h.t.Context(), jobs.Submit{Topic: h.topic, Input: jobs.Input{Text: text}})
	if err != nil {
		h.t.Fatalf("submit: %v", err)
	}
	return a
}

// history is every transition of the topic so far.
func (h *testbed) history() []events.Transition {
	h.t.Helper()
	all, _, _, err := h.log.After(h.t.Context(), h.topic, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	return all
}

// last is the newest transition.
func (h *testbed) last() events.Transition {
	h.t.Helper()
	l, err := h.log.Last(h.t.Context(), []events.Topic{h.topic})
	if err != nil {
		h.t.Fatal(err)
	}
	return l[0]
}

// dice are thrown alike in each run, by several workers at a time.
func dice() func() float64 {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(1, 2))
	return func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return r.Float64()
	}
}
