package jobs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/retry"
)

// Metrics counts what happens to jobs. Labels are bounded: workload,
// dependency, outcome, reason; never an id. A nil *Metrics counts nothing.
type Metrics struct {
	// Measures counts the same for the whole fleet and by cohort; may be nil.
	Measures *Measures

	admittedJobs *prometheus.CounterVec
	refusedJobs  *prometheus.CounterVec
	endedJobs    *prometheus.CounterVec
	attempts     *prometheus.CounterVec
	calls        *prometheus.CounterVec
	tokens       *prometheus.CounterVec
	cost         *prometheus.CounterVec
	tickets      *prometheus.CounterVec
	discarded    *prometheus.CounterVec
	rescued      *prometheus.CounterVec
	unsafe       *prometheus.CounterVec
	age          *prometheus.HistogramVec
	callSeconds  *prometheus.HistogramVec
	jobSeconds   *prometheus.HistogramVec
}

// NewMetrics registers the jobs' metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidings_" + name, Help: help}, labels)
		r.MustRegister(c)
		return c
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "tidings_" + name, Help: help, Buckets: buckets}, labels)
		r.MustRegister(h)
		return h
	}
	return &Metrics{
		admittedJobs: counter("jobs_admitted_total", "Jobs taken in, manual retries included.", "workload"),
		refusedJobs:  counter("jobs_refused_total", "Submits and manual retries that were not taken in, by why.", "workload", "reason"),
		endedJobs:    counter("jobs_ended_total", "Jobs that ended, by outcome and reason.", "workload", "outcome", "reason"),
		attempts:     counter("attempts_total", "Attempts that ended, by what followed.", "workload", "result"),
		calls:        counter("calls_total", "Requests to the provider; first is the job's first call.", "dependency", "workload", "first", "class"),
		tokens:       counter("tokens_total", "Tokens as far as providers report them.", "dependency", "workload", "direction"),
		cost:         counter("cost_usd_total", "Cost in US dollars where the price is known.", "dependency", "workload"),
		tickets:      counter("tickets_total", "Answers of the gate, by verdict and reason.", "dependency", "verdict", "reason"),
		discarded:    counter("results_discarded_total", "Results of attempts that had been replaced or cancelled.", "workload"),
		rescued:      counter("rescues_total", "What the rescuer put right, by what it did.", "action"),
		unsafe:       counter("unreplicated_total", "Steps that the replicas asked for did not confirm in time.", "step"),
		age: histogram("queue_age_seconds", "From acceptance to the first claim.",
			[]float64{.005, .01, .02, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}, "workload"),
		callSeconds: histogram("call_seconds", "Duration of a request to the provider.",
			[]float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60}, "dependency"),
		jobSeconds: histogram("job_seconds", "From a job's acceptance to its end, by outcome.",
			[]float64{.1, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200}, "workload", "outcome"),
	}
}

// Expect puts at 0 what alert rules wait for and ratios count, for a model's name
// and whether its price is known. A counter that begins with its first event hides
// that event from rate() and increase(): nobody would hear of the one wrong key,
// two documents of two jobs would look like two of one, and where nothing has ever
// completed, "none of them" would be no number.
func (m *Metrics) Expect(dependency string, priced bool) {
	for _, w := range Workloads() {
		m.admittedJobs.WithLabelValues(w.Name)
		m.endedJobs.WithLabelValues(w.Name, string(events.OutcomeCompleted), "")
		for _, why := range []events.Reason{events.Internal, events.StorageFault} { // an outside worker's report; our own find
			m.endedJobs.WithLabelValues(w.Name, string(events.OutcomeUnknown), string(why))
		}
		for _, first := range []string{"yes", "no"} {
			for _, class := range []string{"ok", string(retry.Auth), string(retry.Quota), string(retry.Misconfigured)} {
				m.calls.WithLabelValues(dependency, w.Name, first, class)
			}
		}
		if priced { // else its cost is unknown, and not 0
			m.cost.WithLabelValues(dependency, w.Name)
		}
	}
}

func (m *Metrics) admitted(job, workload string, manual bool) {
	if m == nil {
		return
	}
	m.admittedJobs.WithLabelValues(workload).Inc()
	m.Measures.add(job, workload, "admitted", 1)
	if manual {
		m.Measures.add(job, workload, "manual", 1)
	}
}

// refused counts a submit by the id that its job would have had, "" for now.
func (m *Metrics) refused(job, workload, reason string) {
	if m != nil {
		m.refusedJobs.WithLabelValues(workload, reason).Inc()
		m.Measures.add(job, workload, "refused", 1)
	}
}

func (m *Metrics) ended(job, workload string, o events.Outcome, r events.Reason) {
	if m == nil {
		return
	}
	took := max(0, time.Since(acceptedAt(job)))
	m.endedJobs.WithLabelValues(workload, string(o), string(r)).Inc()
	m.jobSeconds.WithLabelValues(workload, string(o)).Observe(took.Seconds())
	m.Measures.add(job, workload, "ended/"+string(o), 1)
	if o == events.OutcomeCompleted {
		m.Measures.took(job, workload, "completion", took)
	}
}

func (m *Metrics) attempt(workload, result string) {
	if m != nil {
		m.attempts.WithLabelValues(workload, result).Inc()
	}
}

func (m *Metrics) ticket(dependency string, a gate.Answer) {
	if m != nil {
		m.tickets.WithLabelValues(dependency, string(a.Verdict), string(a.Reason)).Inc()
	}
}

func (m *Metrics) discard(workload string) {
	if m != nil {
		m.discarded.WithLabelValues(workload).Inc()
	}
}

func (m *Metrics) rescue(action string) {
	if m != nil {
		m.rescued.WithLabelValues(action).Inc()
	}
}

func (m *Metrics) claimed(job, workload string, age time.Duration) {
	if m != nil {
		m.age.WithLabelValues(workload).Observe(age.Seconds())
		m.Measures.took(job, workload, "queue_age", age)
	}
}

func (m *Metrics) call(job, dependency, workload string, first bool, c model.Call) {
	if m == nil {
		return
	}
	m.Measures.call(job, workload, first, c)
	class, which := "ok", "no"
	if c.Err != nil {
		class = string(c.Err.Kind)
		if c.Err.Adjusted { // nobody has to mend what is learnt from a refusal
			class = "adjusted"
		}
	}
	if first {
		which = "yes"
	}
	m.calls.WithLabelValues(dependency, workload, which, class).Inc()
	m.callSeconds.WithLabelValues(dependency).Observe(c.Duration.Seconds())
	if n := c.Usage.InputTokens; n != nil {
		m.tokens.WithLabelValues(dependency, workload, "in").Add(float64(*n))
	}
	if n := c.Usage.OutputTokens; n != nil {
		m.tokens.WithLabelValues(dependency, workload, "out").Add(float64(*n))
	}
	if c.Cost != nil {
		m.cost.WithLabelValues(dependency, workload).Add(*c.Cost)
	}
}

func (m *Metrics) unreplicated(step string) {
	if m != nil {
		m.unsafe.WithLabelValues(step).Inc()
	}
}
