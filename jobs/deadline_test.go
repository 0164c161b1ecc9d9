package jobs_test

import (
	"context"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/lifecycle"
	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/model/modeltest"
)

// TestOneDeadlineFromAcceptance: wherever the time goes, the job
// ends by what was told when it was accepted, and a call never gets what saving
// needs.
func TestOneDeadlineFromAcceptance(t *testing.T) {
	for _, tt := range []struct {
		name    string
		nobody  time.Duration // works for so long
		paused  time.Duration // by an operator
		steps   []modeltest.Step
		outcome events.Outcome
		calls   []time.Duration // what each call was given
	}{
		{"all of it in the queue", 11 * time.Minute, 0, []modeltest.Step{good()}, events.OutcomeDeadlineExceeded, nil},
		{"nearly all of it in the queue, then a call that hangs", 575 * time.Second, 0, []modeltest.Step{modeltest.Hang()},
			events.OutcomeDeadlineExceeded, []time.Duration{20 * time.Second}},
		{"nearly all of it in the queue, then good", 575 * time.Second, 0, []modeltest.Step{good().After(19 * time.Second)},
			events.OutcomeCompleted, []time.Duration{20 * time.Second}},
		{"only what saving needs is left", 596 * time.Second, 0, []modeltest.Step{good()}, events.OutcomeDeadlineExceeded, nil},
		{"in the provider's waits", 0, 0, []modeltest.Step{modeltest.RateLimited(400 * time.Second)},
			events.OutcomeDeadlineExceeded, []time.Duration{30 * time.Second, 30 * time.Second}},
		{"in calls and waits", 300 * time.Second, 0, []modeltest.Step{modeltest.Hang()},
			events.OutcomeDeadlineExceeded, []time.Duration{30 * time.Second, 30 * time.Second, 30 * time.Second}},
		{"at the gate", 0, 599 * time.Second, []modeltest.Step{good()}, events.OutcomeAdmissionDenied, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := modeltest.NewScripted(tt.steps...)
			inTestbed(t, m, nil, func(t *testing.T, h *testbed) {
				if tt.paused > 0 {
					g := h.gated(wide())
					if err := g.Pause(t.Context(), "scripted", gate.Order{Owner: "ops", Until: time.Now().Add(tt.paused)}); err != nil {
						t.Fatal(err)
					}
				}
				h.submit("some text to work on")
				deadline := h.last().At.Add(h.setting.Deadline)
				passed(tt.nobody)
				h.start()
				passed(time.Hour)
				all := h.history()
				for _, n := range all {
					if !n.DeadlineAt.Equal(deadline) {
						t.Errorf("%s is told with the deadline %s, want %s", n.Status, n.DeadlineAt, deadline)
					}
				}
				end := all[len(all)-1]
				if end.Outcome != tt.outcome {
					t.Errorf("told\n%s", story(all))
				}
				if tt.nobody < h.setting.Deadline && end.At.After(deadline) {
					t.Errorf("ended %s after its deadline", end.At.Sub(deadline))
				}
				var given []time.Duration
				for _, c := range m.Received() {
					given = append(given, c.Timeout.Round(time.Second))
					if last := c.At.Add(c.Timeout); last.After(deadline.Add(-h.setting.Saving)) {
						t.Errorf("a call may take until %s before the deadline", deadline.Sub(last))
					}
				}
				if len(given) != len(tt.calls) {
					t.Fatalf("calls were given %s, want %s\n%s", given, tt.calls, story(all))
				}
				for i := range given {
					if given[i] != tt.calls[i] {
						t.Errorf("call %d was given %s, want %s", i+1, given[i], tt.calls[i])
					}
				}
			})
		})
	}
}

// limits is a model that notes how its calls' time limits read.
type limits struct {
	model.Provider
	mu   sync.Mutex
	seen []string
}

func (l *limits) Generate(ctx context.Context, r model.Request) (model.Response, error) {
	end, _ := ctx.Deadline()
	l.mu.Lock()
	l.seen = append(l.seen, end.String())
	l.mu.Unlock()
	return l.Provider.Generate(ctx, r)
}

// TestTheLimitOfACallIsMonotonic: Go's times carry a reading of the
// monotonic clock ("m=") unless something has made them anew from a date.
func TestTheLimitOfACallIsMonotonic(t *testing.T) {
	t.Parallel()
	seen := &limits{Provider: modeltest.NewScripted(good())}
	l := newLine(t, seen)
	for _, deadline := range []time.Duration{l.setting.Deadline, 12 * time.Second} { // the second is the job's own
		p := l.process(nil)
		p.service.Settings.Deadline = deadline
		p.work().submit("text for " + deadline.String())
		l.becomes("completed", func(n events.Transition) bool {
			return n.Status == events.Completed && n.DeadlineAt.Sub(n.At) > deadline-10*time.Second
		})
	}
	if len(seen.seen) == 0 {
		t.Fatal("no call")
	}
	for _, end := range seen.seen {
		if !strings.Contains(end, " m=") {
			t.Errorf("a call ends at %s, which moves with the wall clock", end)
		}
	}
}

// TestProcessesNeedNotAgreeOnTheTime: what passes between them is a time of
// Redis, and what is left of it is told with the claim.
func TestProcessesNeedNotAgreeOnTheTime(t *testing.T) {
	for _, off := range []time.Duration{-3 * time.Hour, 0, 3 * time.Hour} {
		m := modeltest.NewScripted(good())
		inTestbed(t, m, nil, func(t *testing.T, h *testbed) {
			redis := time.Now().Add(off)
			h.redis.SetTime(redis)
			a := h.submit("some text to work on")
			h.redis.SetTime(redis.Add(580 * time.Second))
			h.worker.Attempt(t.Context(), jobs.Task{Topic: h.topic, JobID: a.JobID, Run: 1, Queue: "summary"})
			if l := h.last(); l.Status != events.Completed {
				t.Fatalf("off by %s: %+v", off, l)
			}
			if got := m.Received()[0].Timeout.Round(time.Second); got != 15*time.Second {
				t.Errorf("off by %s: the call was given %s, want what 20 s leave after saving", off, got)
			}
		})
	}
}

// TestARestartMovesNothing: who and what it is and until when
// stand in the record before the first call, and no worker's death moves them.
func TestARestartMovesNothing(t *testing.T) {
	m := modeltest.NewScripted(modeltest.Hang())
	inTestbed(t, m, nil, func(t *testing.T, h *testbed) {
		defer h.member("healer").rescue()()
		job := h.submit("some text to work on").JobID
		kept := func(j lifecycle.Job) lifecycle.Job {
			return lifecycle.Job{ID: j.ID, Fingerprint: j.Fingerprint, AcceptedAt: j.AcceptedAt, DeadlineAt: j.DeadlineAt,
				Allowance: j.Allowance, MaxAttempts: j.MaxAttempts, MaxCalls: j.MaxCalls}
		}
		var first *lifecycle.Job
		for n := range 3 {
			doomed := h.member("doomed")
			defer doomed.close()
			h.work(doomed)
			for m.Calls() == n {
				passed(time.Second)
			}
			record, err := h.store.Record(t.Context(), h.topic)
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = &record
			}
			if !reflect.DeepEqual(kept(record), kept(*first)) {
				t.Errorf("at call %d %+v, at first %+v", n+1, kept(record), kept(*first))
			}
			if record.Calls != n+1 || record.ID != job {
				t.Errorf("at call %d the record has %d calls", n+1, record.Calls)
			}
			doomed.life.kill()
			passed(crashBound)
		}
	})
}

// TestAnotherModelIsAnotherAttempt: a job that goes on with another model,
// as when a process with another setting takes it, counts on. The gate in front of
// the other one gives a repeated call for it, the metrics and the ledger say who
// was asked, and what it says has to fit as well.
func TestAnotherModelIsAnotherAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		says    modeltest.Step
		outcome events.Outcome
		class   string
	}{
		"it answers":                   {good(), events.OutcomeCompleted, "ok"},
		"its answer is not a document": {modeltest.Answer(`{"title":"alone"}`), events.OutcomeFailed, "ok"},
		"it fails":                     {modeltest.Status(400), events.OutcomeFailed, "invalid_input"},
	} {
		t.Run(name, func(t *testing.T) { anotherModel(t, c.says, c.outcome, c.class) })
	}
}

func anotherModel(t *testing.T, says modeltest.Step, outcome events.Outcome, class string) {
	m := modeltest.NewScripted(modeltest.Timeout())
	inTestbed(t, m, nil, func(t *testing.T, h *testbed) {
		budget := wide()
		budget.RetryBurst, budget.RetryPerFirst, budget.RetryPerSecond = 50, 0, 0.001
		g := h.gated(budget)
		registry := prometheus.NewRegistry()
		h.worker.Metrics = jobs.NewMetrics(registry)
		var now relay
		now.to(m)
		h.worker.Model = model.NewRetrying(&now, h.setting, dice())
		h.start()
		h.submit("some text to work on")
		passed(10 * time.Second)
		now.to(renamed{modeltest.NewScripted(says), "another"})
		passed(time.Minute)
		end := h.last()
		record, err := h.store.Record(t.Context(), h.topic)
		if err != nil || end.Outcome != outcome || end.Attempt != 2 || record.Calls != 2 {
			t.Errorf("%v calls, %v\n%s", record.Calls, err, story(h.history()))
		}
		if _, err := h.service.Document(t.Context(), h.topic); (err == nil) != (outcome == events.OutcomeCompleted) {
			t.Errorf("the document: %v", err)
		}
		ledger, err := h.service.Attempts(t.Context(), h.topic)
		if err != nil || len(ledger.Calls) != 2 || ledger.Calls[0].Dependency != "scripted" || ledger.Calls[1].Dependency != "another" {
			t.Errorf("ledger %+v %v", ledger.Calls, err)
		}
		for dependency, taken := range map[string]float64{"scripted": 0, "another": 1} {
			state, err := g.Inspect(t.Context(), dependency)
			if left := 50 - taken; err != nil || state.RetryTokens < left || state.RetryTokens > left+0.5 {
				t.Errorf("%s has %v repeated calls in reserve, want %v: %v", dependency, state.RetryTokens, left, err)
			}
		}
		counted := gathered(t, registry)
		for _, call := range []string{"tidings_calls_total timeout scripted yes summary", "tidings_calls_total " + class + " another no summary"} {
			if counted[call] != 1 {
				t.Errorf("%q is counted %v times in %v", call, counted[call], counted)
			}
		}
	})
}

// relay passes calls on to the model of the moment.
type relay struct {
	at atomic.Pointer[model.Provider]
}

func (r *relay) to(p model.Provider) { r.at.Store(&p) }

func (r *relay) Dependency() string { return (*r.at.Load()).Dependency() }

func (r *relay) Generate(ctx context.Context, q model.Request) (model.Response, error) {
	return (*r.at.Load()).Generate(ctx, q)
}

// renamed is a model under another name.
type renamed struct {
	model.Provider
	name string
}

func (r renamed) Dependency() string { return r.name }
