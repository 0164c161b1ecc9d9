package jobs_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/events/eventstest"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/retry"
	"github.com/tidings/tidings/jobs/store"
)

// topology is several Redis servers that stand in for each other.
type topology interface {
	Client() redis.UniversalClient
	MasterOf(key string) *eventstest.Server
	ReplicasOf(master *eventstest.Server) []*eventstest.Server
	Detach(master *eventstest.Server)
	Attach()
	FailedOver(old *eventstest.Server, key string)
	Mend()
}

// onEachGround runs a test on Sentinels and on a Cluster.
func onEachGround(t *testing.T, test func(t *testing.T, g topology)) {
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		test(t, eventstest.StartSentinels(t))
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		test(t, eventstest.StartCluster(t))
	})
}

// deployment is the whole line on such a topology, in real time and with short
// settings, with workers inside and outside.
type deployment struct {
	*testing.T
	topology
	client       redis.UniversalClient
	log          *events.RedisLog
	hub          *events.Hub
	store        *jobs.Store
	queue        *jobs.Asynq
	gate         *gate.Gate
	service      *jobs.Service
	let          *jobs.Service // whose jobs are for outside workers
	outside      *jobs.Outside
	rescuer      *jobs.Rescuer
	sessionModel *sessionModel
	setting      retry.Settings
	patience     time.Duration // of a test with all of this
}

func newDeployment(t *testing.T, g topology, sync store.Sync) *deployment {
	t.Helper()
	s := retry.Defaults()
	s.Calls, s.Plan, s.Lease = 1, plan(t, "1s"), 2*time.Second
	c := g.Client()
	e := &deployment{T: t, topology: g, client: c, setting: s, log: events.NewRedisLog(c, time.Hour), gate: gate.New(c, wide()),
		sessionModel: &sessionModel{calls: map[string]int{}, scripts: map[string][]func(context.Context) error{}}, patience: 40 * time.Second}
	e.hub = events.NewHub(e.log, events.HubOptions{HeadsEvery: time.Second, Overdue: func(ctx context.Context, topics []events.Topic, newest []events.Transition) {
		e.rescuer.Overdue(ctx, topics, newest)
	}})
	e.store = jobs.NewStore(c, store.Kept{Record: time.Hour, Document: time.Hour, Key: time.Hour}, sync, nil)
	e.store.CheckEvery = time.Second
	said := &book{}
	quiet := slog.New(slog.NewTextHandler(said, nil))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", said.lines.String())
		}
	})
	asynq := func(queues ...string) *jobs.Asynq {
		return jobs.NewAsynq(jobs.AsynqOptions{Client: c, Concurrency: 20, Queues: queues, Poll: 5 * time.Millisecond, MaxRetry: 24,
			Timeout: func(string) time.Duration { return time.Minute }, Grace: 100 * time.Millisecond, Log: quiet})
	}
	e.queue = asynq(jobs.QueueNames()...)
	dispatchers := asynq(jobs.OutsideQueue)
	calls := model.NewRetrying(e.sessionModel, s, dice())
	worker, err := jobs.NewWorker(jobs.WorkerOptions{Store: e.store, Queue: e.queue, Model: calls, Gate: e.gate, Settings: s, Name: "w", Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	if e.outside, err = jobs.NewOutside(jobs.OutsideOptions{Store: e.store, Queue: dispatchers, Settings: s, Workloads: []string{"summary"}, Gate: e.gate, Waiting: 10, Log: quiet}); err != nil {
		t.Fatal(err)
	}
	o := jobs.ServiceOptions{Store: e.store, Queue: e.queue, Settings: s, Dependency: calls.Dependency(), Log: quiet,
		Limits: jobs.Limits{OpenJobs: 1000, InputBytes: 1 << 20}}
	e.service = jobs.NewService(o)
	o.Outside = jobs.Routes{"summary"}
	e.let = jobs.NewService(o)
	e.rescuer = jobs.NewRescuer(jobs.RescuerOptions{Store: e.store, Queue: e.queue, Settings: s, Patience: 2 * time.Second, Sweep: e.queue.Sweep, Log: quiet})
	e.start(worker, dispatchers)
	return e
}

func (e *deployment) start(worker *jobs.Worker, dispatchers *jobs.Asynq) {
	e.Helper()
	ctx, end := context.WithCancel(context.Background())
	var parts sync.WaitGroup
	parts.Go(func() { _ = e.hub.Run(ctx) })
	parts.Go(func() { worker.Listen(ctx) })
	parts.Go(func() { e.outside.Listen(ctx) })
	parts.Go(func() { e.rescuer.Run(ctx) })
	if err := e.queue.Start(worker.Attempt); err != nil {
		e.Fatal(err)
	}
	if err := dispatchers.Start(e.outside.Dispatcher(ctx, e.hub)); err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() {
		worker.Drain(context.Background(), 0)
		e.queue.Stop()
		end()
		dispatchers.Stop()
		parts.Wait()
	})
}

// until waits for what gives no signal.
func (e *deployment) until(what string, ok func() bool) {
	e.Helper()
	if !e.comes(ok) {
		e.Fatalf("%s: not within %s", what, e.patience)
	}
}

// comes is until for goroutines, which may not end the test.
func (e *deployment) comes(ok func() bool) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(e.patience); !ok(); <-tick.C {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// submit asks as a client does, again and again while Redis is away.
func (e *deployment) submit(topic events.Topic, text string) jobs.Accepted {
	e.Helper()
	var a jobs.Accepted
	e.until("a submit of "+topic.Session, func() (ok bool) {
		a, ok = e.trySubmit(topic, text)
		return ok
	})
	return a
}

func (e *deployment) trySubmit(topic events.Topic, text string) (jobs.Accepted, bool) {
	a, err := e.service.Submit(e.Context(), jobs.Submit{Topic: topic, Input: jobs.Input{Text: text}, IdempotencyKey: text})
	if err != nil && !isAway(err) {
		e.Errorf("submit of %s: %v", topic.Session, err)
	}
	return a, err == nil
}

// empty waits until no job is open, so that nothing is forgotten.
func (e *deployment) empty() {
	e.Helper()
	e.until("an empty index", func() bool {
		n, _, err := jobs.Counted(e.Context(), e.store.Client)
		return err == nil && n == 0
	})
}

// one checks that a session has one document, of its first version, from one
// job that was completed once.
func (e *deployment) one(topic events.Topic) {
	e.Helper()
	d, err := e.service.Document(e.Context(), topic)
	if err != nil || d.Version != 1 {
		e.Errorf("%s: document of version %d, %v; want the first", topic.Session, d.Version, err)
	}
	all, _, _, err := e.log.After(e.Context(), topic, 0)
	if err != nil {
		e.Error(err)
	}
	completed, prev := 0, int64(0)
	for _, t := range all {
		if t.Prev != prev || t.Seq <= prev || t.JobID != all[0].JobID {
			e.Errorf("%s: not one chain:\n%s", topic.Session, story(all))
			break
		}
		prev = t.Seq
		if t.Status == events.Completed {
			completed++
		}
	}
	if completed != 1 {
		e.Errorf("%s: completed %d times:\n%s", topic.Session, completed, story(all))
	}
}

// reader follows a session as a client does.
type reader struct {
	e     *deployment
	topic events.Topic
	told  chan struct{} // something was

	mu  sync.Mutex
	all []events.Event
}

// follow reads a session's stream until the test ends, and checks that it never
// goes back without a word, and completes a job once.
func (e *deployment) follow(topic events.Topic) *reader {
	e.Helper()
	sub, err := e.hub.Subscribe(e.Context(), topic, 0, false)
	if err != nil {
		e.Fatal(err)
	}
	r := &reader{e: e, topic: topic, told: make(chan struct{}, 1)}
	ctx, end := context.WithCancel(context.Background())
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			ev, err := sub.Next(ctx)
			if err != nil {
				return
			}
			r.take(ev)
		}
	})
	e.Cleanup(func() { end(); sub.Close(); reading.Wait() })
	return r
}

func (r *reader) take(ev events.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.all); n > 0 && !ev.Reset {
		before := r.all[n-1]
		if ev.Seq <= before.Seq {
			r.e.Errorf("%s: told %d after %d", r.topic.Session, ev.Seq, before.Seq)
		}
		if before.Status == events.Completed && ev.JobID == before.JobID {
			r.e.Errorf("%s: job %s went on after it was completed: %s", r.topic.Session, ev.JobID, ev.Status)
		}
	}
	r.all = append(r.all, ev)
	select {
	case r.told <- struct{}{}:
	default:
	}
}

// seen tells whether some event was.
func (r *reader) seen(ok func(events.Event) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ev := range r.all {
		if ok(ev) {
			return true
		}
	}
	return false
}

func (r *reader) last() events.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) == 0 {
		return events.Event{}
	}
	return r.all[len(r.all)-1]
}

// sees waits for an event.
func (r *reader) sees(what string, ok func(events.Event) bool) {
	r.e.Helper()
	r.wait(what, func() bool { return r.seen(ok) })
}

// ends waits until the last event is a completed job's.
func (r *reader) ends() {
	r.e.Helper()
	r.wait("completed in the end", func() bool { return r.last().Status == events.Completed })
}

func (r *reader) wait(what string, ok func() bool) {
	r.e.Helper()
	end := time.After(r.e.patience)
	for !ok() {
		select {
		case <-r.told:
		case <-end:
			r.mu.Lock()
			defer r.mu.Unlock()
			var told string
			for _, ev := range r.all {
				told += string(ev.Status) + map[bool]string{true: " (reset)"}[ev.Reset] + " "
			}
			all, _, _, err := r.e.log.After(r.e.Context(), r.topic, 0)
			r.e.Fatalf("%s: %s: not told within %s; only %s; the log (%v) has\n%s", r.topic.Session, what, r.e.patience, told, err, story(all))
		}
	}
}

func (r *reader) comes(s events.Status) {
	r.e.Helper()
	r.sees(string(s), func(ev events.Event) bool { return ev.Status == s })
}

// sessionModel is a model that counts its calls by session, and takes its time. A
// session may have a script: one function a call.
type sessionModel struct {
	mu      sync.Mutex
	calls   map[string]int
	scripts map[string][]func(context.Context) error
}

func (m *sessionModel) Dependency() string { return "sessionModel" }

func (m *sessionModel) Generate(ctx context.Context, r model.Request) (model.Response, error) {
	m.mu.Lock()
	m.calls[r.Topic]++
	step := grinds(100 * time.Millisecond)
	if s := m.scripts[r.Topic]; len(s) > 0 {
		step, m.scripts[r.Topic] = s[0], s[1:]
	}
	m.mu.Unlock()
	if err := step(ctx); err != nil {
		return model.Response{}, err
	}
	return model.Response{Model: "sessionModel", Content: json.RawMessage(outsideContent)}, nil
}

func (m *sessionModel) count(topic events.Topic) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls[topic.String()]
}

func (m *sessionModel) plays(topic events.Topic, steps ...func(context.Context) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.scripts[topic.String()] = steps
}

func grinds(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return model.AsError(ctx, ctx.Err())
		case <-time.After(d):
			return nil
		}
	}
}

func fails(kind retry.Kind) func(context.Context) error {
	return func(context.Context) error { return &model.Error{Kind: kind} }
}

// heldBack is a call that answers when released, or when nobody waits any more.
func heldBack() (step func(context.Context) error, release func()) {
	free := make(chan struct{})
	return func(ctx context.Context) error {
		select {
		case <-free:
			return nil
		case <-ctx.Done():
			return model.AsError(ctx, ctx.Err())
		}
	}, sync.OnceFunc(func() { close(free) })
}
