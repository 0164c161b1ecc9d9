package jobs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/events/eventstest"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/lifecycle"
	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/retry"
	"github.com/tidings/tidings/jobs/store"
)

// line is the whole line on a real Redis with real Asynq and short settings, in
// real time. The operator's hand is Asynq's inspector, which is what its web UI
// uses.
type line struct {
	testing.TB
	server   *eventstest.Server
	client   redis.UniversalClient
	log      events.Log
	operator *asynq.Inspector
	model    *watched
	setting  retry.Settings
	topic    events.Topic
	heard    <-chan *redis.Message // a signal for each transition of the topic
}

// lease is short, and long enough for a worker on a busy machine to renew it.
const lease = 600 * time.Millisecond

func newLine(t testing.TB, m model.Provider) *line {
	t.Helper()
	server := eventstest.StartRedis(t)
	c := server.Client()
	s := retry.Defaults()
	s.Lease, s.FirstPause, s.Cap = lease, time.Millisecond, time.Millisecond
	s.Plan = plan(t, "1s")
	l := &line{TB: t, server: server, client: c, log: events.NewRedisLog(c, time.Hour), operator: asynq.NewInspectorFromRedisClient(c),
		model: &watched{Provider: m}, setting: s, topic: events.NewTopic("", "abc-123", "summary")}
	sub := c.Subscribe(t.Context(), l.topic.Key("live"))
	t.Cleanup(func() { _ = sub.Close() })
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.heard = sub.Channel()
	return l
}

// watched counts the calls that are under way at the model at the same time.
type watched struct {
	model.Provider
	mu             sync.Mutex
	now, most, all int
}

func (w *watched) Generate(ctx context.Context, r model.Request) (model.Response, error) {
	w.mu.Lock()
	w.now++
	w.all++
	w.most = max(w.most, w.now)
	p := w.Provider
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.now--
		w.mu.Unlock()
	}()
	return p.Generate(ctx, r)
}

// counts are the calls that arrived, and the most at the same time.
func (w *watched) counts() (all, most int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all, w.most
}

// swap puts another model in the place of the first.
func (w *watched) swap(p model.Provider) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Provider = p
}

// running is how many calls are under way.
func (w *watched) running() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// gated is a model whose calls wait at a gate. A deaf one does not notice that
// nobody waits for its answer any more.
type gated struct {
	deaf    bool
	arrived chan struct{} // a signal for each call
	open    chan model.Response
}

func newGated(deaf bool) *gated {
	return &gated{deaf: deaf, arrived: make(chan struct{}, 100), open: make(chan model.Response, 100)}
}

func (g *gated) Dependency() string { return "gated" }

func (g *gated) Generate(ctx context.Context, _ model.Request) (model.Response, error) {
	g.arrived <- struct{}{}
	end := ctx.Done()
	if g.deaf {
		end = nil
	}
	select {
	case r := <-g.open:
		return r, nil
	case <-end:
		return model.Response{}, model.AsError(ctx, ctx.Err())
	}
}

// answer lets one call through.
func (g *gated) answer(title string) {
	g.open <- model.Response{Model: "gated", Content: json.RawMessage(`{"title":"` + title + `","summary":"s","key_points":[]}`)}
}

// process is one process of the fleet.
type process struct {
	*line
	life    *lifeline
	client  redis.UniversalClient
	store   *jobs.Store
	queue   *jobs.Asynq
	worker  *jobs.Worker
	service *jobs.Service
	rescuer *jobs.Rescuer
	book    *book
	counts  *prometheus.Registry
}

// process makes a process that has not been started. through changes the queue
// that its service, worker and rescuer see; nil leaves it.
func (l *line) process(through func(jobs.Queue) jobs.Queue) *process {
	l.Helper()
	return l.processAt(l.server.Addr, through)
}

func (l *line) processAt(addr string, through func(jobs.Queue) jobs.Queue) *process {
	l.Helper()
	p := &process{line: l, life: newLifeline(), book: &book{}, counts: prometheus.NewRegistry()}
	p.client = redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1})
	p.client.AddHook(p.life)
	l.Cleanup(func() { _ = p.client.Close() })
	var err error
	s := l.setting
	p.store = jobs.NewStore(p.client, store.Kept{Record: s.Retention, Document: time.Hour, Key: time.Hour}, store.Sync{}, nil)
	p.store.CheckEvery = 50 * time.Millisecond
	log, counts := slog.New(slog.NewJSONHandler(p.book, nil)), jobs.NewMetrics(p.counts)
	p.queue = jobs.NewAsynq(jobs.AsynqOptions{Client: p.client, Concurrency: 4, Queues: jobs.QueueNames(), Poll: 5 * time.Millisecond,
		MaxRetry: 24, Timeout: func(string) time.Duration { return 55 * time.Second }, Grace: 100 * time.Millisecond, Log: log})
	var q jobs.Queue = p.queue
	if through != nil {
		q = through(q)
	}
	calls := model.NewRetrying(l.model, s, dice())
	if p.worker, err = jobs.NewWorker(jobs.WorkerOptions{Store: p.store, Queue: q, Settings: s, Name: "w", Log: log, Metrics: counts,
		Gate: gate.New(p.client, wide()), Model: calls}); err != nil {
		l.Fatal(err)
	}
	p.service = jobs.NewService(jobs.ServiceOptions{Store: p.store, Queue: q, Settings: s, Metrics: counts, Log: log,
		Limits: jobs.Limits{OpenJobs: 1000, InputBytes: 64 << 20}, Dependency: calls.Dependency()})
	p.rescuer = jobs.NewRescuer(jobs.RescuerOptions{Store: p.store, Queue: q, Settings: s, Sweep: p.queue.Sweep, Metrics: counts, Log: log,
		Patience: 2 * time.Second})
	return p
}

// work starts the process's worker.
func (p *process) work() *process {
	p.Helper()
	return p.workAs(p.worker.Attempt)
}

func (p *process) workAs(h jobs.Handler) *process {
	p.Helper()
	if err := p.queue.Start(h); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		p.life.end()
		p.worker.Drain(context.Background(), 0)
		p.queue.Stop()
	})
	return p
}

// listen lets the worker hear of cancelled jobs.
func (p *process) listen() *process {
	p.Helper()
	go p.worker.Listen(p.Context()) // ends with the client at the latest
	for p.client.PubSubNumSub(p.Context(), "tidings:cancels").Val()["tidings:cancels"] == 0 {
		p.soon()
	}
	return p
}

// rescue lets the process's rescuer work.
func (p *process) rescue() *process {
	ctx, cancel := context.WithCancel(p.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.rescuer.Run(ctx)
	}()
	p.Cleanup(func() { cancel(); p.life.end(); <-done })
	return p
}

// soon waits a moment, for what gives no signal.
func (l *line) soon() { <-time.After(5 * time.Millisecond) }

// until waits for something that gives no signal.
func (l *line) until(what string, ok func() bool) {
	l.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); l.soon() {
		if time.Now().After(end) {
			l.Fatalf("%s: not within 20 s; so far\n%s", what, story(l.history()))
		}
	}
}

func (l *line) history() []events.Transition {
	l.Helper()
	all, _, _, err := l.log.After(context.Background(), l.topic, 0)
	if err != nil {
		l.Fatal(err)
	}
	return all
}

// becomes waits until the newest transition is what ok wants, and returns it.
func (l *line) becomes(what string, ok func(events.Transition) bool) events.Transition {
	l.Helper()
	end := time.After(20 * time.Second)
	for {
		all := l.history()
		if n := len(all); n > 0 && ok(all[n-1]) {
			return all[n-1]
		}
		select {
		case <-l.heard:
		case <-end:
			l.Fatalf("%s: not within 20 s; so far\n%s", what, story(all))
		}
	}
}

func is(s events.Status) func(events.Transition) bool {
	return func(t events.Transition) bool { return t.Status == s }
}

func because(s events.Status, r events.Reason) func(events.Transition) bool {
	return func(t events.Transition) bool { return t.Status == s && t.Reason == r }
}

// waits is a job's wait in the queue between two attempts.
func inQueue(t events.Transition) bool {
	return t.Status == events.Retrying && t.Layer == events.QueueLayer
}

func (p *process) submit(text string) jobs.Accepted {
	p.Helper()
	a, err := p.service.Submit(p.Context(), jobs.Submit{Topic: p.topic, Input: jobs.Input{Text: text}})
	if err != nil {
		p.Fatalf("submit: %v", err)
	}
	return a
}

func (l *line) task(job string, run int) jobs.Task {
	return jobs.Task{Topic: l.topic, JobID: job, Run: run, Queue: "summary"}
}

// state is where Asynq has a task, as its web UI shows it; "" for nowhere.
func (l *line) state(t jobs.Task) string {
	l.Helper()
	info, err := l.operator.GetTaskInfo(t.Queue, t.ID())
	if errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound) {
		return ""
	}
	if err != nil {
		l.Fatal(err)
	}
	return info.State.String()
}

// must is for what an operator does.
func (l *line) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// tidy checks what must hold when nothing is open any more.
func (l *line) tidy(bytes int64) {
	l.Helper()
	l.until("an empty index", func() bool {
		open, counted, err := jobs.Counted(l.Context(), l.client)
		return err == nil && open == 0 && counted == bytes
	})
	all := l.history()
	for i := 1; i < len(all); i++ {
		if all[i].Prev != all[i-1].Seq || all[i].Seq <= all[i-1].Seq {
			l.Errorf("transition %d does not follow its predecessor:\n%s", i, story(all))
		}
	}
	if _, most := l.model.counts(); most > 1 {
		l.Errorf("%d calls at the same time", most)
	}
}

// calls checks how many calls the model received.
func (l *line) calls(want int) {
	l.Helper()
	if got, _ := l.model.counts(); got != want {
		l.Errorf("the model received %d calls, want %d; history\n%s", got, want, story(l.history()))
	}
}

// told checks the history from the first transition on.
func (l *line) told(want ...string) {
	l.Helper()
	if got := strings.TrimSpace(story(l.history())); got != strings.Join(want, "\n") {
		l.Errorf("told\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// book keeps a process's log lines.
type book struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

func (b *book) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lines.Write(line)
}

// has counts the lines that contain all the words.
func (b *book) has(words ...string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for line := range strings.Lines(b.lines.String()) {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			n++
		}
	}
	return n
}

// count is the sum of a counter over all its labels.
func (p *process) count(name string) float64 {
	p.Helper()
	families, err := p.counts.Gather()
	if err != nil {
		p.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

func plan(t testing.TB, text string) retry.Plan {
	t.Helper()
	p, err := retry.ParsePlan(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func ulidNow() string { return ulid.Make().String() }

// fill makes n open jobs of other sessions, all due for a check: nine in ten wait
// in the queue, one is claimed.
func fill(l *line, n int) {
	l.Helper()
	ctx := l.Context()
	p := l.process(nil)
	p.service.Limits.OpenJobs = n
	var wg sync.WaitGroup
	next := make(chan int)
	for range 8 {
		wg.Go(func() {
			for i := range next {
				topic := events.NewTopic("", fmt.Sprintf("s-%d", i), "summary")
				_, err := p.service.Submit(ctx, jobs.Submit{Topic: topic, Input: jobs.Input{Text: "some text"}})
				if err == nil && i%10 == 0 {
					err = jobs.Alter(ctx, p.client, topic, func(j *lifecycle.Job) {
						j.Claim = &lifecycle.Claim{Token: "T", LeaseUntil: time.Now().Add(time.Hour)}
					})
				}
				if err != nil {
					l.Error(err)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	l.allDue()
}

// allDue makes the check of every open job due.
func (l *line) allDue() {
	l.Helper()
	l.must(l.client.ZUnionStore(l.Context(), "tidings:{open}:index", &redis.ZStore{
		Keys: []string{"tidings:{open}:index"}, Weights: []float64{0},
	}).Err())
}

// look lets a process look at everything that is open, once.
func (l *line) look(p *process) (rounds int) {
	l.Helper()
	l.allDue()
	for {
		rounds++
		n, err := p.rescuer.Round(l.Context())
		l.must(err)
		if n < 200 {
			return rounds
		}
	}
}
