package jobs_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/events/eventstest"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/model/modeltest"
	"github.com/tidings/tidings/jobs/model/provider"
	"github.com/tidings/tidings/jobs/retry"
	"github.com/tidings/tidings/jobs/store"
)

// play is a provider on the loopback. A job's text names the recorded answer
// that its calls get: "play:503;".
func play(t *testing.T, vendor string) *httptest.Server {
	t.Helper()
	wanted := regexp.MustCompile(`play:([a-z0-9-]+);`)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m := wanted.FindSubmatch(body)
		if m == nil {
			http.Error(w, "nothing to play", http.StatusTeapot)
			return
		}
		name := string(m[1])
		if name == "hang" {
			<-r.Context().Done()
			return
		}
		if name == "reset" {
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_ = c.(*net.TCPConn).SetLinger(0)
				_ = c.Close()
			}
			return
		}
		name, cut := strings.CutSuffix(name, "-cut")
		file, err := os.ReadFile("model/provider/testdata/" + vendor + "/" + name + ".http")
		if err != nil {
			t.Errorf("no answer %s of %s: %v", name, vendor, err)
			http.Error(w, name, http.StatusTeapot)
			return
		}
		res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(file)), nil)
		if err != nil {
			panic(err)
		}
		for k, v := range res.Header {
			w.Header()[k] = v
		}
		answer, _ := io.ReadAll(res.Body)
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		w.WriteHeader(res.StatusCode)
		if cut {
			w.Write(answer[:len(answer)/2])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		w.Write(answer)
	}))
	t.Cleanup(s.Close)
	return s
}

// text is a buffer that everybody writes to.
type text struct {
	mu sync.Mutex
	b  strings.Builder
}

func (x *text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.Write(p)
}

func (x *text) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.String()
}

// canaryRun puts one job through a real adapter, the worker and Asynq for each
// recorded answer, and collects everything that comes out.
type canaryRun struct {
	t       *testing.T
	client  redis.UniversalClient
	queue   *jobs.Asynq
	service *jobs.Service
	worker  *jobs.Worker
	log     *text
	metrics *prometheus.Registry
	events  events.Log
}

func newCanaryRun(t *testing.T, vendor string) *canaryRun {
	t.Helper()
	server := play(t, vendor)
	base := server.URL
	if vendor == "openai" {
		base += "/v1"
	}
	provider, err := provider.Open(vendor+"/some-model", provider.Access{Key: modeltest.CanaryKey, BaseURL: base})
	if err != nil {
		t.Fatal(err)
	}
	s := retry.Defaults()
	plan, err := retry.ParsePlan("1s")
	if err != nil {
		t.Fatal(err)
	}
	s.Calls, s.Attempts, s.Plan = 2, 2, plan
	s.FirstPause, s.Cap, s.MinRest, s.PerCall, s.LongPerCall = time.Millisecond, time.Millisecond, time.Millisecond, 1500*time.Millisecond, 1500*time.Millisecond
	r := &canaryRun{t: t, client: eventstest.StartRedis(t).Client(), log: &text{}, metrics: prometheus.NewRegistry()}
	log := slog.New(slog.NewJSONHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	counts := jobs.NewMetrics(r.metrics)
	store := jobs.NewStore(r.client, store.Kept{Record: time.Hour, Document: time.Hour, Key: time.Hour}, store.Sync{}, nil)
	r.queue = jobs.NewAsynq(jobs.AsynqOptions{Client: r.client, Concurrency: 20, Queues: jobs.QueueNames(), Poll: 5 * time.Millisecond,
		MaxRetry: 24, Timeout: func(string) time.Duration { return 55 * time.Second }, Grace: time.Second, Log: log})
	r.events = events.NewRedisLog(r.client, time.Hour)
	r.service = jobs.NewService(jobs.ServiceOptions{Store: store, Queue: r.queue, Settings: s, Metrics: counts,
		Limits: jobs.Limits{OpenJobs: 1000, InputBytes: 64 << 20}, Dependency: provider.Dependency(), Log: log})
	r.worker, err = jobs.NewWorker(jobs.WorkerOptions{Store: store, Queue: r.queue, Settings: s, Name: "w1", Log: log, Metrics: counts,
		Gate: gate.New(r.client, wide()), Model: model.NewRetrying(provider, s, rand.Float64)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// stored is every key of Redis with what it holds.
func (r *canaryRun) stored() map[string]string {
	r.t.Helper()
	ctx := r.t.Context()
	all := map[string]string{}
	keys, err := r.client.Keys(ctx, "*").Result()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, k := range keys {
		var v any
		switch kind := r.client.Type(ctx, k).Val(); kind {
		case "string":
			v = r.client.Get(ctx, k).Val()
		case "hash":
			v = r.client.HGetAll(ctx, k).Val()
		case "list":
			v = r.client.LRange(ctx, k, 0, -1).Val()
		case "set":
			v = r.client.SMembers(ctx, k).Val()
		case "zset":
			v = r.client.ZRange(ctx, k, 0, -1).Val()
		case "stream":
			v = r.client.XRange(ctx, k, "-", "+").Val()
		case "none": // gone in the meantime
			continue
		default:
			r.t.Errorf("%s is a %s: read it here", k, kind)
		}
		all[k] = fmt.Sprint(v)
	}
	return all
}

// S3-26, S4-62: prompt, output and key go to the provider and, the first two, to
// where they belong: the input's key and the document's. Nothing else holds a
// word of them, whatever a provider answers: no log, no error, no ledger, no
// transition, no task of Asynq and its last error, no metric.
func TestCanariesStayWhereTheyBelong(t *testing.T) {
	common := []string{"200", "200-cut", "200-empty", "200-broken", "200-html", "200-truncated", "200-refusal", "200-not-json",
		"400", "400-format", "401", "403", "404", "413", "429-quota", "500", "502-html", "503", "504", "529", "hang", "reset"}
	for _, vendor := range []string{"anthropic", "openai", "gemini"} {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			r := newCanaryRun(t, vendor)
			if err := r.queue.Start(r.worker.Attempt); err != nil {
				t.Fatal(err)
			}
			defer r.queue.Stop()
			names := append(slices.Clone(common), map[string]string{"anthropic": "429-ms", "openai": "429-ms", "gemini": "429-plain"}[vendor])
			var topics []events.Topic
			for _, name := range names {
				topics = append(topics, r.submit("summary", name))
			}
			if vendor == "anthropic" { // guidance is long, and streamed
				for _, name := range []string{"stream", "stream-cut", "stream-ends", "stream-overloaded-first", "stream-overloaded-later", "stream-unreadable"} {
					topics = append(topics, r.submit("guidance", name))
				}
			}
			// Asynq's own view while tasks wait for their second attempt: the last
			// error stands there.
			r.wait(topics, func(tr events.Transition) bool { return tr.Status == events.Retrying || ended(tr) })
			r.look("while they wait")
			r.wait(topics, ended)
			r.look(atTheEnd)

			outcomes := map[events.Status]int{}
			for _, topic := range topics {
				l, err := r.events.Last(t.Context(), []events.Topic{topic})
				if err != nil {
					t.Fatal(err)
				}
				outcomes[l[0].Status]++
			}
			if outcomes[events.Completed] != 1 || outcomes[events.Failed] != len(topics)-1 {
				t.Errorf("outcomes are %v of %d jobs, want one completed", outcomes, len(topics))
			}
			if !strings.Contains(r.log.String(), `"msg":"model call"`) {
				t.Error("no line of a call was seen: this test looks at the wrong log")
			}
		})
	}
}

func ended(tr events.Transition) bool {
	return tr.Status == events.Completed || tr.Status == events.Failed
}

func (r *canaryRun) submit(workload, name string) events.Topic {
	r.t.Helper()
	topic := events.NewTopic("", "s-"+name, workload)
	_, err := r.service.Submit(r.t.Context(), jobs.Submit{Topic: topic, Input: jobs.Input{Text: "play:" + name + "; " + modeltest.CanaryPrompt}})
	if err != nil {
		r.t.Fatal(err)
	}
	return topic
}

// wait follows the topics' logs until each has a transition as wanted.
func (r *canaryRun) wait(topics []events.Topic, wanted func(events.Transition) bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 60*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		last, err := r.events.Last(ctx, topics)
		if err != nil {
			r.t.Fatal(err)
		}
		left := 0
		for _, tr := range last {
			if !wanted(tr) {
				left++
			}
		}
		if left == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			r.t.Fatalf("%d jobs did not come so far", left)
		}
	}
}

const atTheEnd = "at the end"

// look searches everything for the canaries.
func (r *canaryRun) look(when string) {
	r.t.Helper()
	inInput, inDocument := false, false
	check := func(where, what string) {
		r.t.Helper()
		for _, canary := range []string{modeltest.CanaryPrompt, modeltest.CanaryOutput, modeltest.CanaryKey} {
			if i := strings.Index(what, canary); i >= 0 {
				r.t.Errorf("%s, %s holds %s: …%s…", when, where, canary, what[max(0, i-80):min(len(what), i+80)])
			}
		}
	}
	for k, v := range r.stored() {
		switch {
		case strings.Contains(v, modeltest.CanaryKey):
			check(k, v)
		case strings.HasSuffix(k, ":input"):
			inInput = inInput || strings.Contains(v, modeltest.CanaryPrompt)
			check(k, strings.ReplaceAll(v, modeltest.CanaryPrompt, ""))
		case strings.HasSuffix(k, ":document"):
			inDocument = inDocument || strings.Contains(v, modeltest.CanaryOutput)
			check(k, strings.ReplaceAll(v, modeltest.CanaryOutput, ""))
		default:
			check(k, v)
		}
	}
	if !inInput || !inDocument && when == atTheEnd {
		r.t.Errorf("%s: prompt in an input %v, output in a document %v: this test looks at the wrong keys", when, inInput, inDocument)
	}
	check("the log", r.log.String())
	families, err := r.metrics.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	check("the metrics", fmt.Sprint(families))
	operator := asynq.NewInspectorFromRedisClient(r.client)
	for _, queue := range jobs.QueueNames() {
		for _, list := range []func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error){operator.ListRetryTasks, operator.ListArchivedTasks, operator.ListPendingTasks} {
			tasks, err := list(queue)
			if err != nil {
				continue // the queue has had no task
			}
			for _, task := range tasks {
				check("a task of Asynq", task.LastErr+string(task.Payload))
			}
		}
	}
	for k := range r.stored() {
		if strings.HasSuffix(k, ":ledger") {
			lines, _ := json.Marshal(r.client.LRange(r.t.Context(), k, 0, -1).Val())
			check("a ledger", string(lines))
		}
	}
}
