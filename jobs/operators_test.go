package jobs_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/events/eventstest"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/retry"
	"github.com/tidings/tidings/jobs/store"
)

// newOperators is the operators' side of a real Redis.
func newOperators(t *testing.T, server *eventstest.Server) (*jobs.Operators, *jobs.Store, *jobs.Asynq) {
	t.Helper()
	c := server.Client()
	store := jobs.NewStore(c, store.Kept{Record: time.Hour, Document: time.Hour, Key: time.Hour}, store.Sync{}, nil)
	quiet, queue := slog.New(slog.DiscardHandler), newAsynq(c)
	return jobs.NewOperators(jobs.OperatorsOptions{Store: store, Queue: queue, Gate: gate.New(c, wide()), History: events.NewRedisLog(c, time.Hour),
		Measures: jobs.NewMeasures(c, quiet), Dependency: "openai/gpt-x", Log: quiet}), store, queue
}

// gathered is what gauges and counters say, by name and the values of the labels.
func gathered(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			all[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue() // it is one of them
		}
	}
	return all
}

// TestMetricsWithoutTheStorage: the gauges are of the whole fleet, read when
// they are asked for; a storage that hangs neither holds the scrape nor fails it.
func TestMetricsWithoutTheStorage(t *testing.T) {
	server := eventstest.StartRedis(t)
	o, store, queue := newOperators(t, server)
	topic := events.NewTopic("", "abc-123", "summary")
	if err := store.Admit(t.Context(), topic, "01JTEST0000000000000000001", 100); err != nil {
		t.Fatal(err)
	}
	for run, at := range []time.Time{{}, time.Now().Add(time.Hour)} {
		if err := queue.Enqueue(t.Context(), jobs.Task{Topic: topic, JobID: "01JTEST0000000000000000001", Run: run + 1, Queue: "summary"}, at); err != nil {
			t.Fatal(err)
		}
	}
	order := gate.Order{Owner: "ann", Until: time.Now().Add(time.Hour)}
	if err := errors.Join(o.OrderCalls(t.Context(), "pause", "openai/gpt-x", order), o.SwitchRetries(t.Context(), true, gate.Scope{}, order)); err != nil {
		t.Fatal(err)
	}
	r := prometheus.NewRegistry()
	jobs.NewGauges(r, o)
	got := gathered(t, r)
	for name, want := range map[string]float64{
		"tidings_storage_up": 1, "tidings_gate_breaker openai/gpt-x closed": 1, "tidings_gate_breaker openai/gpt-x open": 0,
		"tidings_gate_limit openai/gpt-x": 100, "tidings_gate_in_use openai/gpt-x": 0, "tidings_gate_retry_tokens openai/gpt-x": 10_000,
		"tidings_gate_manual_tokens openai/gpt-x": 2_500, "tidings_gate_paused openai/gpt-x": 1, "tidings_gate_held openai/gpt-x": 0,
		"tidings_retries_off": 1, "tidings_jobs_open": 1, "tidings_input_bytes": 100, "tidings_queue_tasks summary pending": 1,
		"tidings_queue_tasks summary scheduled": 1, "tidings_queue_tasks outside active": 0, "tidings_queue_paused summary": 0,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v (%t), want %v", name, v, ok, want)
		}
	}
	if age := got["tidings_queue_oldest_seconds summary"]; age <= 0 {
		t.Errorf("the oldest task waits %v s", age)
	}

	server.Freeze()
	again := prometheus.NewRegistry()
	jobs.NewGauges(again, o)
	got = gathered(t, again)
	server.Thaw()
	if len(got) != 1 || got["tidings_storage_up"] != 0 {
		t.Errorf("with a storage that hangs: %v", got)
	}
}

// TestOperatorsFindAJobByItsId: a job that waits or runs by its task, one that
// failed by what is kept of it, and nothing else by guessing.
func TestOperatorsFindAJobByItsId(t *testing.T) {
	server := eventstest.StartRedis(t)
	o, store, queue := newOperators(t, server)
	service := jobs.NewService(jobs.ServiceOptions{Store: store, Queue: queue, Settings: retry.Defaults(),
		Limits: jobs.Limits{OpenJobs: 10, InputBytes: 1 << 20}, Dependency: "openai/gpt-x", Log: slog.New(slog.DiscardHandler)})
	topic := events.NewTopic("bo", "abc-123", "guidance")
	a, err := service.Submit(t.Context(), jobs.Submit{Topic: topic, Input: jobs.Input{Text: "material"}})
	if err != nil {
		t.Fatal(err)
	}
	found := func(id string) {
		t.Helper()
		got, job, err := o.Find(t.Context(), id)
		if err != nil || got != topic || job != a.JobID {
			t.Errorf("%s: found %v %s, %v", id, got, job, err)
		}
	}
	found(a.JobID)
	found(a.JobID + ":1")
	for _, id := range []string{"", "nothing", "01JTEST0000000000000000001", "abc-123"} {
		if _, _, err := o.Find(t.Context(), id); !isRefusal(err, jobs.CodeNotFound) {
			t.Errorf("%q: %v", id, err)
		}
	}
	open, err := o.Open(t.Context(), 10)
	if err != nil || open.Count != 1 || len(open.Jobs) != 1 || open.Jobs[0].Topic != topic || open.Jobs[0].JobID != a.JobID || time.Since(open.Jobs[0].Since) > time.Minute {
		t.Errorf("open %+v %v", open, err)
	}
	v, err := o.Overview(t.Context(), topic)
	if err != nil || v.ID != a.JobID || len(v.Transitions) != 1 || v.Transitions[0].Status != events.Queued || v.MaxAttempts != 4 || v.InputBytes == 0 || v.Dependency != "openai/gpt-x" {
		t.Errorf("overview %+v %v", v, err)
	}
	if _, err := o.Overview(t.Context(), events.NewTopic("", "abc-123", "guidance")); !isRefusal(err, jobs.CodeNotFound) {
		t.Errorf("another owner's: %v", err)
	}
	if err := queue.Delete(t.Context(), jobs.Task{Topic: topic, JobID: a.JobID, Run: 1, Queue: "guidance"}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := o.Find(t.Context(), a.JobID); !isRefusal(err, jobs.CodeNotFound) {
		t.Errorf("without its task: %v", err)
	}
	if err := store.Leave(t.Context(), topic, a.JobID, time.Hour); err != nil { // as when it fails
		t.Fatal(err)
	}
	found(a.JobID)
}

func isRefusal(err error, code jobs.Code) bool {
	var r *jobs.Refusal
	return errors.As(err, &r) && r.Code == code
}

// TestTheOutsideQueueWaitsForWorkersElsewhere: its tasks are active while their
// jobs are offered, and an offer that nobody takes is what an operator has to see.
func TestTheOutsideQueueWaitsForWorkersElsewhere(t *testing.T) {
	a := newOutsideLine(t, nil)
	o := jobs.NewOperators(jobs.OperatorsOptions{Store: a.store, Queue: a.queue, Log: slog.New(slog.DiscardHandler)})
	waits := func() time.Duration {
		t.Helper()
		depths, err := o.Depths(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range depths {
			if d.Queue == jobs.OutsideQueue {
				return d.Oldest
			}
		}
		t.Fatal("the outside queue is not among them")
		return 0
	}
	a.submit()
	offers := "tidings:{outside/summary}:offers"
	for a.client.ZCard(t.Context(), offers).Val() == 0 && t.Context().Err() == nil {
		<-time.After(5 * time.Millisecond)
	}
	made := a.client.ZRangeWithScores(t.Context(), offers, 0, 0).Val()
	if len(made) != 1 {
		t.Fatalf("%d offers", len(made))
	}
	a.client.ZIncrBy(t.Context(), offers, -60_000, made[0].Member.(string)) // it was made a minute ago
	if got := waits(); got < time.Minute || got > 2*time.Minute {
		t.Errorf("an offer of a minute ago has been waiting for %s", got)
	}
	a.claim()
	for late := time.After(20 * time.Second); waits() != 0; { // the dispatcher hears of the claim
		select {
		case <-late:
			t.Fatalf("an offer that was taken still waits, for %s", waits())
		case <-time.After(5 * time.Millisecond):
		}
	}
}
