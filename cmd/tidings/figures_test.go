//go:build bench

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/events/eventstest"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/retry"
	"github.com/tidings/tidings/jobs/store"
)

// The figures of `make bench`. They pass or fail nothing: a machine that does
// something else as well shows worse ones.

const (
	latencySubmits  = 300
	throughputJobs  = 3000
	throughputRound = 3
	submitters      = 16
)

func TestFigures(t *testing.T) {
	latencies := measureLatency(t)
	var plain, whole []float64
	var cost redisCost
	for range throughputRound { // in turn, so that a busy moment hits both
		plain = append(plain, measurePlainAsynq(t))
		speed, c := measureWholeLine(t)
		whole, cost = append(whole, speed), c
	}
	for _, list := range [][]float64{latencies, plain, whole} {
		slices.Sort(list)
	}
	at := func(list []float64, part float64) float64 { return list[int(part*float64(len(list)-1))] }
	ratio := at(whole, .5) / at(plain, .5)
	fmt.Printf(`
| figure | value | aim |
| --- | --- | --- |
| submit to processing seen by a client, p50 of %d | %.1f ms | below 10 ms |
| the same, p99 | %.1f ms | |
| plain Asynq, a handler that does nothing | %.0f jobs/s | |
| the whole line, a model that does nothing | %.0f jobs/s | |
| the whole line of plain Asynq | %.0f %% | at least 45 %% |
| Redis's processor time for each job of the whole line, with Asynq's part | %.2f ms | 0.45 ms |
| scripts for each of its jobs, with Asynq's three | %.1f | 12 |

`, len(latencies), at(latencies, .5), at(latencies, .99), at(plain, .5), at(whole, .5), 100*ratio, cost.cpu/throughputJobs, cost.scripts/throughputJobs)
}

// redisCost is what Redis has done: ms of its processor, and scripts.
type redisCost struct{ cpu, scripts float64 }

func costOf(t *testing.T, c redis.UniversalClient) (cost redisCost) {
	t.Helper()
	info := c.InfoMap(t.Context(), "cpu", "commandstats")
	if err := info.Err(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
		seconds, _ := strconv.ParseFloat(info.Val()["CPU"][name], 64)
		cost.cpu += 1000 * seconds
	}
	for _, name := range []string{"cmdstat_evalsha", "cmdstat_eval"} {
		calls, _, _ := strings.Cut(strings.TrimPrefix(info.Val()["Commandstats"][name], "calls="), ",")
		n, _ := strconv.ParseFloat(calls, 64)
		cost.scripts += n
	}
	return cost
}

// measureLatency is the way a client goes: the program as built, one request
// after the other, each watched on a stream that was open before. In ms.
func measureLatency(t *testing.T) []float64 {
	p := serve(t, map[string]string{"TIDINGS_REDIS_URL": eventstest.StartRedis(t).URL(), "TIDINGS_LOG_LEVEL": "error"}, "all")
	body := `{"input":{"text":"` + someText + `"}}`
	var took []float64
	for i := range latencySubmits {
		session := p.session("s" + strconv.Itoa(i))
		s := openStream(t, session+"/status", "")
		s.until("idle")
		start := time.Now()
		if status, _, got := call(t, http.MethodPost, session, body); status != http.StatusAccepted {
			t.Fatalf("submit: %d %v", status, got)
		}
		s.until("processing")
		took = append(took, float64(time.Since(start).Microseconds())/1000)
		s.rest()
	}
	return took
}

// submitAll calls submit for each job from several goroutines and returns jobs
// per second once done has counted them all.
func submitAll(t *testing.T, done *atomic.Int64, finished <-chan struct{}, submit func(i int) error) float64 {
	t.Helper()
	start := time.Now()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range submitters {
		wg.Go(func() {
			for i := next.Add(1); i <= throughputJobs; i = next.Add(1) {
				if err := submit(int(i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case <-finished:
	case <-time.After(5 * time.Minute):
		t.Fatalf("%d of %d jobs after 5 minutes", done.Load(), throughputJobs)
	}
	return throughputJobs / time.Since(start).Seconds()
}

// counting closes finished when the last job is done.
func counting() (done *atomic.Int64, finished chan struct{}, count func()) {
	done, finished = &atomic.Int64{}, make(chan struct{})
	return done, finished, func() {
		if done.Add(1) == throughputJobs {
			close(finished)
		}
	}
}

func benchClient(t *testing.T) redis.UniversalClient {
	t.Helper()
	target, err := parseRedisURL(eventstest.StartRedis(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	c := target.open()
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// measurePlainAsynq uses the options that our queue uses, and nothing else.
func measurePlainAsynq(t *testing.T) float64 {
	client := benchClient(t)
	s := retry.Defaults()
	done, finished, count := counting()
	server := asynq.NewServerFromRedisClient(client, asynq.Config{
		Concurrency: 20, Queues: map[string]int{"summary": 1}, TaskCheckInterval: 5 * time.Millisecond,
		DelayedTaskCheckInterval: 500 * time.Millisecond, LogLevel: asynq.FatalLevel,
	})
	if err := server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { count(); return nil })); err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown()
	producer := asynq.NewClientFromRedisClient(client)
	return submitAll(t, done, finished, func(i int) error {
		payload := []byte(`{"topic":"0123456789abcdef0123456789abcdef/s` + strconv.Itoa(i) + `/summary","job_id":"` + strconv.Itoa(i) + `","run":1}`)
		_, err := producer.EnqueueContext(t.Context(), asynq.NewTask("attempt", payload), asynq.TaskID(strconv.Itoa(i)+":1"),
			asynq.Queue("summary"), asynq.MaxRetry(s.Attempts+asynqSpare), asynq.Timeout(s.TaskTimeout(false)), asynq.Retention(time.Hour))
		return err
	})
}

// idleModel answers at once.
type idleModel struct{ answer json.RawMessage }

func (idleModel) Dependency() string { return "idle" }

func (m idleModel) Generate(context.Context, model.Request) (model.Response, error) {
	return model.Response{Content: m.answer, Model: "idle"}, nil
}

// measureWholeLine goes through everything but HTTP: admission, record and log,
// queue, claim, gate, call, output check, document.
func measureWholeLine(t *testing.T) (float64, redisCost) {
	client := benchClient(t)
	s := retry.Defaults()
	quiet := slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError}))
	store := jobs.NewStore(client, store.Kept{Record: s.Retention, Document: 90 * 24 * time.Hour, Key: keepKey}, store.Sync{}, nil)
	queue := jobs.NewAsynq(jobs.AsynqOptions{
		Client: client, Queues: []string{"summary"}, Concurrency: 20, Poll: 5 * time.Millisecond, MaxRetry: s.Attempts + asynqSpare,
		Timeout: func(string) time.Duration { return s.TaskTimeout(false) }, Grace: asynqGrace, Log: quiet,
	})
	g := gate.Defaults()
	g.Concurrency = 10_000
	idle := idleModel{json.RawMessage(`{"title":"T","summary":"S.","key_points":[]}`)}
	worker, err := jobs.NewWorker(jobs.WorkerOptions{
		Store: store, Queue: queue, Settings: s, Gate: gate.New(client, g), Name: "bench", Log: quiet,
		Model: model.NewRetrying(idle, s, func() float64 { return 0 }),
	})
	if err != nil {
		t.Fatal(err)
	}
	service := jobs.NewService(jobs.ServiceOptions{
		Store: store, Queue: queue, Settings: s, Dependency: idle.Dependency(), Log: quiet,
		Limits: jobs.Limits{OpenJobs: 2 * throughputJobs, InputBytes: 1 << 30},
	})
	done, finished, count := counting()
	if err := queue.Start(func(ctx context.Context, task jobs.Task) jobs.Verdict {
		v := worker.Attempt(ctx, task)
		count()
		return v
	}); err != nil {
		t.Fatal(err)
	}
	defer queue.Stop()
	speed := submitAll(t, done, finished, func(i int) error {
		_, err := service.Submit(t.Context(), jobs.Submit{
			Topic: events.NewTopic("", "s"+strconv.Itoa(i), "summary"), Input: jobs.Input{Text: someText},
		})
		return err
	})
	return speed, costOf(t, client)
}
