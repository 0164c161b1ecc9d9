package jobs

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidings/tidings/jobs/gate"
)

// Gauges read what is now when /metrics is asked for: the gate, the queues, the
// index of open jobs. They are the fleet's, so every process says the same; take
// the maximum, not the sum. While the storage does not answer, tidings_storage_up
// is 0 and the others are absent, and the rest of /metrics is there all the same
// (S4-70).
type Gauges struct {
	o     *Operators
	descs map[string]*prometheus.Desc

	mu   sync.Mutex // one read at a time
	read time.Time
	last []prometheus.Metric
}

// gaugesWait bounds a read, and gaugesFor how often it is made.
const (
	gaugesWait = time.Second
	gaugesFor  = time.Second
)

// NewGauges registers the gauges.
func NewGauges(r prometheus.Registerer, o *Operators) *Gauges {
	g := &Gauges{o: o, descs: map[string]*prometheus.Desc{}}
	desc := func(name, help string, labels ...string) {
		g.descs[name] = prometheus.NewDesc("tidings_"+name, help, labels, nil)
	}
	desc("storage_up", "1 when this scrape could read the fleet's gauges.")
	desc("gate_breaker", "1 for the state that the breaker is in.", "dependency", "state")
	desc("gate_limit", "Calls that may run at the same time now.", "dependency")
	desc("gate_in_use", "Calls that hold a permit.", "dependency")
	desc("gate_retry_tokens", "Repeated calls in reserve.", "dependency")
	desc("gate_manual_tokens", "First calls of manual retries in reserve.", "dependency")
	desc("gate_paused", "1 while an operator lets all calls wait.", "dependency")
	desc("gate_held", "1 while the provider lets all calls wait.", "dependency")
	desc("retries_off", "Orders in force that switch retries off.")
	desc("jobs_open", "Jobs that have not ended.")
	desc("input_bytes", "Bytes of the inputs that are kept for jobs.")
	desc("queue_tasks", "Tasks in the queue, by their state there.", "queue", "state")
	desc("queue_oldest_seconds", "How long the oldest task has been waiting for a worker.", "queue")
	desc("queue_paused", "1 while an operator has paused the queue.", "queue")
	r.MustRegister(g)
	return g
}

// Describe implements prometheus.Collector.
func (g *Gauges) Describe(into chan<- *prometheus.Desc) {
	for _, d := range g.descs {
		into <- d
	}
}

// Collect implements prometheus.Collector.
func (g *Gauges) Collect(into chan<- prometheus.Metric) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last == nil || time.Since(g.read) >= gaugesFor {
		ctx, cancel := context.WithTimeout(context.Background(), gaugesWait)
		g.last, g.read = g.look(ctx), time.Now()
		cancel()
	}
	for _, m := range g.last {
		into <- m
	}
}

func (g *Gauges) look(ctx context.Context) (all []prometheus.Metric) {
	add := func(name string, v float64, labels ...string) {
		all = append(all, prometheus.MustNewConstMetric(g.descs[name], prometheus.GaugeValue, v, labels...))
	}
	dependency := g.o.Dependency()
	state, err := g.o.Inspect(ctx, dependency)
	var off gate.Switches
	var depths []Depth
	var open Open
	if err == nil {
		off, err = g.o.Switches(ctx)
	}
	if err == nil {
		depths, err = g.o.Depths(ctx)
	}
	if err == nil {
		open, err = g.o.Open(ctx, 0)
	}
	add("storage_up", yes(err == nil))
	if err != nil {
		return all
	}
	for _, name := range []string{"closed", "open", "half_open"} {
		add("gate_breaker", yes(state.Breaker == name), dependency, name)
	}
	add("gate_limit", state.Limit, dependency)
	add("gate_in_use", float64(state.InUse), dependency)
	add("gate_retry_tokens", state.RetryTokens, dependency)
	add("gate_manual_tokens", state.ManualTokens, dependency)
	add("gate_paused", yes(!state.PausedUntil.IsZero()), dependency)
	add("gate_held", yes(!state.HeldUntil.IsZero()), dependency)
	add("retries_off", float64(len(off.Off)))
	add("jobs_open", float64(open.Count))
	add("input_bytes", float64(open.InputBytes))
	for _, d := range depths {
		for name, n := range map[string]int64{"pending": d.Pending, "active": d.Active, "scheduled": d.Scheduled, "retry": d.Retry, "archived": d.Archived} {
			add("queue_tasks", float64(n), d.Queue, name)
		}
		add("queue_oldest_seconds", d.Oldest.Seconds(), d.Queue)
		add("queue_paused", yes(d.Paused), d.Queue)
	}
	return all
}

func yes(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
