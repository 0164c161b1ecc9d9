package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
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
	"github.com/tidings/tidings/jobs/lifecycle"
	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/retry"
	"github.com/tidings/tidings/jobs/store"
)

// world is one simulated fleet.
type world struct {
	rng      *rand.Rand
	settings retry.Settings
	client   redis.UniversalClient
	records  *store.Memory
	queue    *queue
	gate     *gate.Gate
	topic    events.Topic
	story    []string // what the scheduler did
	began    time.Time
	skew     time.Duration // of the storage's clock
	calm     bool          // no more faults

	mu        sync.Mutex
	processes []*process
	parked    []*question
	asked     int
	running   int             // calls of the model that are being made
	sent      int             // calls of the model
	accepted  map[string]bool // jobs that a request was answered with

	seen seen // by the invariants
}

// process is one program of the fleet.
type process struct {
	w       *world
	name    string
	ctx     context.Context
	kill    context.CancelFunc
	dead    bool
	service *jobs.Service
	worker  *jobs.Worker
	rescuer *jobs.Rescuer
}

// fate is what becomes of a question.
type fate int

const (
	answered fate = iota
	refused       // it was not carried out
	unheard       // it was carried out, and its answer lost
)

// question is one that waits for the scheduler.
type question struct {
	who   string
	what  string
	n     int
	heard chan fate
}

// ask stops at the scheduler.
func (p *process) ask(what string) fate {
	w := p.w
	w.mu.Lock()
	if p.dead {
		w.mu.Unlock()
		return refused
	}
	w.asked++
	q := &question{who: p.name, what: what, n: w.asked, heard: make(chan fate, 1)}
	w.parked = append(w.parked, q)
	w.mu.Unlock()
	return <-q.heard
}

// through carries out a question as its fate has it.
func through[T any](p *process, what string, do func() (T, error)) (T, error) {
	var none T
	f := p.ask(what)
	if f == refused {
		return none, events.ErrUnavailable
	}
	got, err := do()
	if f == unheard {
		return none, events.ErrUnavailable
	}
	return got, err
}

// records are the store as one process sees it.
type records struct {
	store.Records
	p *process
}

type committed struct {
	next store.Snapshot
	got  store.Result
}

func (r records) Read(ctx context.Context, t events.Topic, w store.Want) (store.Snapshot, error) {
	return through(r.p, "read", func() (store.Snapshot, error) { return r.Records.Read(ctx, t, w) })
}

func (r records) ReadAll(ctx context.Context, topics []events.Topic, _ time.Time) ([]store.Snapshot, []error) {
	out, err := through(r.p, "read all", func() ([]store.Snapshot, error) {
		out, _ := r.Records.ReadAll(ctx, topics, r.p.w.now())
		return out, nil
	})
	errs := make([]error, len(topics))
	for i := range errs {
		errs[i] = err
	}
	if err != nil {
		out = make([]store.Snapshot, len(topics))
	}
	return out, errs
}

func (r records) Commit(ctx context.Context, verb string, t events.Topic, from store.Snapshot, c lifecycle.Change) (store.Snapshot, store.Result, error) {
	got, err := through(r.p, verb, func() (committed, error) {
		next, got, err := r.Records.Commit(ctx, verb, t, from, c)
		return committed{next, got}, err
	})
	return got.next, got.got, err
}

// provider is the model: each call takes its time and ends as the seed has it.
type provider struct{ p *process }

func (provider) Dependency() string { return "simulated" }

func (m provider) Generate(ctx context.Context, _ model.Request) (model.Response, error) {
	w := m.p.w
	w.mu.Lock()
	w.sent++
	n := w.sent
	w.running++
	took := time.Duration(w.rng.IntN(20_000)) * time.Millisecond
	end := w.rng.IntN(10)
	if w.calm {
		took, end = time.Second, 9
	}
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.running--
		w.mu.Unlock()
	}()
	select {
	case <-ctx.Done():
		return model.Response{}, ctx.Err()
	case <-time.After(took):
	}
	status := map[int]int{0: 503, 1: 529, 2: 502, 3: 500, 4: 401}[end]
	if status != 0 {
		kind, _ := retry.Classify(status, "")
		return model.Response{}, &model.Error{Kind: kind, Status: status}
	}
	body, _ := json.Marshal(map[string]any{"title": fmt.Sprint("call ", n), "summary": "S.", "key_points": []string{}})
	return model.Response{Content: body, Model: "simulated"}, nil
}

func newWorld(t *testing.T, seed uint64) (*world, func()) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	s := retry.Defaults()
	s.QueueJitter, s.Attempts, s.Allowance = 0, 1+rng.IntN(4), 1+rng.IntN(6)
	s.Deadline = pick(rng, []time.Duration{time.Minute, 3 * time.Minute, 10 * time.Minute})
	mini := miniredis.NewMiniRedis()
	mini.ClockTTL(true)
	client := redis.NewClient(&redis.Options{
		Addr:                  "127.0.0.1:0", // an address, so that nothing is looked up
		Dialer:                func(context.Context, string, string) (net.Conn, error) { return mini.Dial() },
		ContextTimeoutEnabled: true, MaxRetries: -1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	w := &world{rng: rng, settings: s, client: client, topic: events.NewTopic("", "s-1", "summary"),
		began: time.Now(), accepted: map[string]bool{}}
	w.records = store.NewMemory(w.now, nil)
	g := gate.Defaults()
	g.WindowCalls, g.RetryBurst = 10_000, 10_000 // it turns nobody away: its own tests do
	w.gate = gate.New(client, g)
	w.queue = &queue{w: w, tasks: map[string]*task{}}
	for range 2 {
		w.start(t)
	}
	return w, func() {
		client.Close()
		mini.Close()
	}
}

// now is the storage's clock.
func (w *world) now() time.Time { return time.Now().Add(w.skew) }

// start adds a process to the fleet.
func (w *world) start(t *testing.T) *process {
	ctx, kill := context.WithCancel(context.Background())
	p := &process{w: w, name: fmt.Sprint("p", len(w.processes)+1), ctx: ctx, kill: kill}
	quiet := slog.New(slog.DiscardHandler)
	shared := jobs.NewStore(w.client, store.Kept{Record: 7 * 24 * time.Hour, Document: 90 * 24 * time.Hour, Key: 24 * time.Hour}, store.Sync{}, nil)
	shared.Records = records{w.records, p}
	q := processQueue{w.queue, p}
	p.service = jobs.NewService(jobs.ServiceOptions{Store: shared, Queue: q, Settings: w.settings, Dependency: "simulated", Log: quiet,
		Limits: jobs.Limits{OpenJobs: 1000, InputBytes: 64 << 20}})
	random := rand.New(rand.NewPCG(w.rng.Uint64(), 0))
	var err error
	p.worker, err = jobs.NewWorker(jobs.WorkerOptions{Store: shared, Queue: q, Settings: w.settings, Name: p.name, Log: quiet,
		Gate: w.gate, Model: model.NewRetrying(provider{p}, w.settings, func() float64 {
			w.mu.Lock()
			defer w.mu.Unlock()
			return random.Float64()
		})})
	if err != nil {
		t.Fatal(err)
	}
	p.rescuer = jobs.NewRescuer(jobs.RescuerOptions{Store: shared, Queue: q, Settings: w.settings, Log: quiet})
	w.processes = append(w.processes, p)
	return p
}

// die ends a process at whatever it waits for. Nobody hears of it any more.
func (w *world) die(p *process) {
	w.mu.Lock()
	p.dead = true
	var left []*question
	for _, q := range w.parked {
		if q.who == p.name {
			q.heard <- refused
		} else {
			left = append(left, q)
		}
	}
	w.parked = left
	w.mu.Unlock()
	p.kill()
}

func (w *world) alive() []*process {
	return slices.DeleteFunc(slices.Clone(w.processes), func(p *process) bool { return p.dead })
}

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }

// note adds to the story.
func (w *world) note(format string, args ...any) {
	w.story = append(w.story, fmt.Sprintf("%10s  ", time.Since(w.began).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

// waiting are the questions that wait, in an order that the seed fixes.
func (w *world) waiting() []*question {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortFunc(w.parked, func(a, b *question) int {
		return strings.Compare(a.who+a.what, b.who+b.what)*1000 + min(1, max(-1, a.n-b.n))
	})
	return slices.Clone(w.parked)
}

// let gives a question its fate.
func (w *world) let(q *question, f fate) {
	w.mu.Lock()
	w.parked = slices.DeleteFunc(w.parked, func(p *question) bool { return p == q })
	w.mu.Unlock()
	q.heard <- f
	synctest.Wait()
}

// request lets a user ask for something, in a process of the fleet.
func (w *world) request(p *process, what string, text string) {
	w.note("%s: a user's %s", p.name, what)
	go func() {
		var a jobs.Accepted
		var err error
		switch what {
		case "submit", "replace":
			a, err = p.service.Submit(p.ctx, jobs.Submit{Topic: w.topic, Input: jobs.Input{Text: text}, Replace: what == "replace"})
		case "retry":
			a, err = p.service.Retry(p.ctx, w.topic)
		default:
			_, err = p.service.Cancel(p.ctx, w.topic)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if err == nil && a.JobID != "" && !p.dead {
			w.accepted[a.JobID] = true
		}
	}()
	synctest.Wait()
}
