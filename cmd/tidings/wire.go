package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/model/local"
	"github.com/tidings/tidings/jobs/model/provider"
	"github.com/tidings/tidings/jobs/store"
	"github.com/tidings/tidings/locales"
	"github.com/tidings/tidings/server"
)

const (
	// keepKey is how long an Idempotency-Key is known, as the protocol promises.
	keepKey = 24 * time.Hour
	// asynqSpare is how many tries Asynq is given beyond the job's attempts, so
	// that its own count never ends a job.
	asynqSpare = 20
	// asynqGrace is for handlers that are not at a call: those have been waited
	// for by then.
	asynqGrace = 5 * time.Second
	// dispatchers is how many jobs of outside workers a process looks after, and
	// claims how many of their requests for work may wait in one. Each costs
	// little more than its memory.
	dispatchers = 1000
	claims      = 1000
	// dispatcherSpare keeps Asynq's limit for looking after a job above the job's own.
	dispatcherSpare = time.Minute
)

// parts are one process, put together and not yet started.
type parts struct {
	mode  string
	s     *settings
	log   *slog.Logger
	close []func() // in the order of making

	client      redis.UniversalClient
	hub         *events.Hub
	queue       *jobs.Asynq
	worker      *jobs.Worker
	rescuer     *jobs.Rescuer
	outside     *jobs.Outside
	dispatchers *jobs.Asynq // serves the queue of outside workers' jobs; nil: not here
	server      *server.Server

	measures *jobs.Measures
}

// works tells whether the process takes jobs from the queue.
func (p *parts) works() bool { return p.mode != "serve" }

// serves tells whether the process has the API.
func (p *parts) serves() bool { return p.mode != "work" }

// build makes every part. Nothing runs and nothing is connected afterwards but
// the embedded Redis.
func build(mode string, s *settings, stderr io.Writer) (p *parts, err error) {
	p = &parts{mode: mode, s: s, log: newLogger(mode, s, stderr)}
	defer func() {
		if err != nil {
			p.shut()
		}
	}()
	target, stopRedis, err := redisFor(mode, s)
	if err != nil {
		return p, err
	}
	p.client = target.open()
	p.close = append(p.close, stopRedis, func() { _ = p.client.Close() })

	texts, err := locales.Load()
	if err != nil {
		return p, err
	}
	auth, err := newAuth(s)
	if err != nil {
		return p, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	counts := jobs.NewMetrics(registry)
	p.measures = jobs.NewMeasures(p.client, p.log)
	counts.Measures = p.measures
	observer, err := server.HubObserver(registry)
	if err != nil {
		return p, err
	}

	builtin := local.New()
	answers, err := openModel(s, builtin)
	if err != nil {
		return p, err
	}
	calls := model.NewRetrying(advised{answers, p.log}, s.retry, mathrand.Float64).Priced(s.price)
	if len(s.Unknown) > 0 {
		p.log.Warn("these variables are no settings and change nothing; --help lists those that do", "variables", s.Unknown)
	}
	if mode != "dev" && s.Model == local.Name {
		p.log.Warn("TIDINGS_MODEL is local: what is served are sentences of the material, quoted, and no model's summaries")
	}
	if s.retry.Cost > 0 && !priced(s) {
		p.log.Warn("TIDINGS_JOB_COST does not hold: there is no price for the model; give one with TIDINGS_PRICES", "model", s.Model)
	}
	if dear := tooDear(s); len(dear) > 0 {
		p.log.Warn("TIDINGS_JOB_COST is too little for a single call: these workloads' jobs all end without one", "workloads", dear, "job_cost", s.retry.Cost)
	}
	counts.Expect(calls.Dependency(), priced(s))
	history := events.NewRedisLog(p.client, s.Retention)
	p.hub = events.NewHub(history, events.HubOptions{Observer: observer, Overdue: func(ctx context.Context, topics []events.Topic, newest []events.Transition) {
		p.rescuer.Overdue(ctx, topics, newest)
	}})
	records := jobs.NewStore(p.client, store.Kept{Record: s.Retention, Document: s.DocumentRetention, Key: keepKey},
		store.Sync{Replicas: s.WaitReplicas, Timeout: s.WaitTimeout}, counts)
	p.queue = jobs.NewAsynq(jobs.AsynqOptions{
		Client: p.client, Queues: jobs.QueueNames(), Concurrency: s.Concurrency, Poll: s.QueuePoll,
		MaxRetry: s.retry.Attempts + asynqSpare, Timeout: taskTimeout(s), Grace: asynqGrace, Log: p.log,
	})
	tickets := gate.New(p.client, s.gate)
	if p.outside, err = jobs.NewOutside(jobs.OutsideOptions{
		Store: records, Queue: p.queue, Settings: s.retry, Workloads: s.Outside, Gate: tickets, Waiting: claims, Metrics: counts, Log: p.log,
	}); err != nil {
		return p, err
	}
	if p.works() && len(s.Outside) > 0 {
		p.dispatchers = jobs.NewAsynq(jobs.AsynqOptions{
			Client: p.client, Queues: []string{jobs.OutsideQueue}, Concurrency: dispatchers, Poll: s.QueuePoll,
			MaxRetry: s.retry.Attempts + asynqSpare, Timeout: taskTimeout(s), Grace: asynqGrace, Log: p.log,
		})
	}
	name := processName()
	service := jobs.ServiceOptions{
		Store: records, Queue: p.queue, Settings: s.retry, Outside: s.Outside, Dependency: calls.Dependency(), Gate: tickets, Metrics: counts, Log: p.log,
		Limits: limits(s, calls),
	}
	if p.worker, err = jobs.NewWorker(jobs.WorkerOptions{
		Store: records, Queue: p.queue, Model: calls, Gate: tickets, Settings: s.retry,
		Name: name, Metrics: counts, Log: p.log,
	}); err != nil {
		return p, err
	}
	p.rescuer = jobs.NewRescuer(jobs.RescuerOptions{
		Store: records, Queue: p.queue, Gate: tickets, Settings: s.retry, Sweep: p.queue.Sweep, Metrics: counts, Log: p.log,
		Name: name, Slots: slots(mode, s),
	})
	operators := jobs.NewOperators(jobs.OperatorsOptions{
		Store: records, Queue: p.queue, Gate: tickets, Settings: s.gate, History: history, Measures: p.measures, Dependency: calls.Dependency(),
		Deadline: s.retry.Deadline, Log: p.log,
	})
	jobs.NewGauges(registry, operators)
	options := server.Options{
		Hub: p.hub, Texts: texts, Logger: p.log, Metrics: registry,
		H2C: s.H2C, Auth: auth, Origins: s.Origins, Hosts: s.Hosts, AdminPassword: s.AdminPassword,
		Outside: p.outside, WorkerToken: s.WorkerToken,
		Operators: operators,
		Heartbeat: s.Heartbeat, MaxAge: s.StreamMaxAge, Drain: s.Drain,
		Warning: p.evictionWarning, OwnerSalt: s.OwnerSalt,
		Files: openFiles(), StreamLimit: s.StreamLimit, OwnerStreamLimit: s.OwnerStreams,
		Queues: p.queue.WebUI("/queues", !s.QueuesWrite),
	}
	options.Dev = mode == "dev"
	if options.Dev && s.Model == local.Name {
		builtin.Latency = s.LocalLatency
		service.Simulate = simulate(builtin)
		options.DevModelCalls = func(t events.Topic) int { return builtin.Calls(t.String()) }
	}
	options.Jobs = jobs.NewService(service)
	p.server, err = server.New(options)
	return p, err
}

// limits are what the API takes in. Where everybody is the same owner, the fleet's
// limits are the owner's.
func limits(s *settings, calls *model.Retrying) jobs.Limits {
	l := jobs.Limits{OpenJobs: s.QueueLimit, InputBytes: int64(s.InputBytes), Slots: s.ModelConcurrency, Window: calls.Window()}
	if s.Auth != "off" {
		l.Owner = jobs.OwnerShare(s.OwnerJobs, s.OwnerStarts, l, s.gate)
	}
	return l
}

// slots are the jobs that this process works on at the same time.
func slots(mode string, s *settings) int {
	if mode == "serve" {
		return 0
	}
	return s.Concurrency
}

// shut closes what build opened, last first.
func (p *parts) shut() {
	for i := len(p.close) - 1; i >= 0; i-- {
		p.close[i]()
	}
	p.close = nil
}

// openModel is the model that writes.
func openModel(s *settings, builtin *local.Model) (model.Provider, error) {
	if s.Model == local.Name {
		return builtin, nil
	}
	return provider.Open(s.Model, provider.Access{Key: s.ModelKey, BaseURL: s.ModelBaseURL, ClearText: s.ModelClearText, Output: provider.Output(s.ModelOutput)})
}

// simulate lets a submit in dev say what the local model does with its calls.
func simulate(builtin *local.Model) func(events.Topic, []string) (func(), error) {
	return func(topic events.Topic, texts []string) (play func(), err error) {
		steps, err := local.ParseSteps(texts)
		if err != nil {
			return nil, err
		}
		return func() { builtin.Play(topic.String(), steps) }, nil
	}
}

// taskTimeout is Asynq's limit for an attempt, by queue: that of the longest
// workload in it. A job of outside workers is looked after until it ends.
func taskTimeout(s *settings) func(queue string) time.Duration {
	limits := map[string]time.Duration{jobs.OutsideQueue: (s.retry.LongDeadline + dispatcherSpare).Truncate(time.Second)}
	for _, w := range jobs.Workloads() {
		limits[w.Queue] = max(limits[w.Queue], s.retry.TaskTimeout(w.Long))
	}
	return func(queue string) time.Duration { return limits[queue] }
}

func newAuth(s *settings) (server.Auth, error) {
	if s.Auth == "off" {
		return nil, nil
	}
	o := server.JWT{Secret: []byte(s.JWTSecret), Issuer: s.JWTIssuer, Audience: s.JWTAudience, MaxLifetime: s.JWTLifetime}
	if s.JWTPublicKey != "" {
		var err error
		if o.PublicKeys, err = os.ReadFile(s.JWTPublicKey); err != nil {
			return nil, fmt.Errorf("TIDINGS_JWT_PUBLIC_KEY: %w", err)
		}
	}
	return server.NewJWT(o)
}

func newLogger(mode string, s *settings, w io.Writer) *slog.Logger {
	var level slog.Level
	// The words were checked when they were read; info is the zero level.
	_ = level.UnmarshalText([]byte(s.LogLevel))
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: pointedTo}
	if s.LogFormat == "text" || s.LogFormat == "auto" && mode == "dev" {
		return slog.New(slog.NewTextHandler(w, o))
	}
	return slog.New(slog.NewJSONHandler(w, o))
}

// pointedTo shows numbers that may be unknown as such, in text as well: there
// slog prints a pointer's address.
func pointedTo(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case *int64:
		if v != nil {
			a.Value = slog.Int64Value(*v)
		}
	case *float64:
		if v != nil {
			a.Value = slog.Float64Value(*v)
		}
	}
	return a
}

// processName tells operators which process had a job.
func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), rand.Text()[:4])
}
