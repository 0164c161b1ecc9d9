package jobs_test

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/store"
)

// member is one of several processes of a testbed, on virtual time. It can be
// killed between any two of its steps.
type member struct {
	life    *lifeline
	model   *crashableModel
	client  redis.UniversalClient
	store   *jobs.Store
	worker  *jobs.Worker
	service *jobs.Service
	rescuer *jobs.Rescuer
}

// member adds a process to the testbed: same Redis, same queue, same model.
func (h *testbed) member(name string) *member {
	h.t.Helper()
	m := &member{life: newLifeline()}
	m.model = &crashableModel{Provider: h.model, life: m.life}
	m.client = redis.NewClient(&redis.Options{
		Addr:                  "127.0.0.1:0",
		Dialer:                func(context.Context, string, string) (net.Conn, error) { return h.redis.Dial() },
		ContextTimeoutEnabled: true, MaxRetries: -1,
		// Never full: who waits for a connection takes a timer that go-redis keeps for
		// the next one to wait, who may be in another bubble.
		PoolSize:                 10_000,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	m.client.AddHook(m.life)
	var err error
	s := h.setting
	m.store = jobs.NewStore(m.client, store.Kept{Record: s.Retention, Document: 90 * 24 * time.Hour, Key: 24 * time.Hour}, store.Sync{}, nil)
	quiet := slog.New(slog.DiscardHandler)
	q := crashableQueue{h.queue, m.life}
	if m.worker, err = jobs.NewWorker(jobs.WorkerOptions{Store: m.store, Queue: q, Settings: s, Name: name, Log: quiet,
		Gate: gate.New(m.client, wide()), Model: model.NewRetrying(m.model, s, dice())}); err != nil {
		h.t.Fatal(err)
	}
	m.service = jobs.NewService(jobs.ServiceOptions{Store: m.store, Queue: q, Settings: s,
		Limits: jobs.Limits{OpenJobs: 1000, InputBytes: 64 << 20}, Dependency: h.model.Dependency(), Log: quiet})
	m.rescuer = jobs.NewRescuer(jobs.RescuerOptions{Store: m.store, Queue: q, Settings: s, Log: quiet})
	return m
}

// work lets the member take the queue's tasks from now on.
func (h *testbed) work(m *member) {
	h.t.Helper()
	err := h.queue.Start(func(ctx context.Context, t jobs.Task) jobs.Verdict {
		v := m.worker.Attempt(ctx, t)
		m.life.rest()
		return v
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// rescue lets the member's rescuer work until stop is called.
func (m *member) rescue() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { m.rescuer.Run(ctx) })
	return func() { cancel(); wg.Wait() }
}

// close ends the member with its test.
func (m *member) close() {
	m.life.end()
	_ = m.client.Close()
}

// rest never returns in a dead process, before its test ends.
func (l *lifeline) rest() {
	if l.dead() {
		<-l.over
	}
}

// crashableModel is a model that a dead process cannot reach.
type crashableModel struct {
	model.Provider
	life *lifeline
}

func (m *crashableModel) Generate(ctx context.Context, r model.Request) (model.Response, error) {
	m.life.rest()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // a call ends with the process that made it
		select {
		case <-m.life.cut:
			cancel()
		case <-ctx.Done():
		}
	}()
	resp, err := m.Provider.Generate(ctx, r)
	m.life.rest()
	return resp, err
}

// crashableQueue is a queue that a dead process cannot reach. Reaching it is a step.
type crashableQueue struct {
	jobs.Queue
	life *lifeline
}

func (q crashableQueue) Enqueue(ctx context.Context, t jobs.Task, at time.Time) error {
	return q.life.step(func() error { return q.Queue.Enqueue(ctx, t, at) })
}

func (q crashableQueue) RunNow(ctx context.Context, t jobs.Task) error {
	return q.life.step(func() error { return q.Queue.RunNow(ctx, t) })
}
