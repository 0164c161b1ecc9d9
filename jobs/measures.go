package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/store"
)

// Measures counts for the whole fleet, by cohort: whatever happens to a job is
// counted where the job was taken in, so that a ratio divides what belongs
// together (S4-64, S4-65). Counters of one process cannot do that, and their
// rates over a window set the calls of one hour's jobs against the first calls of
// the next.
//
// A cohort is ten minutes, from the time in the job's id. Each process adds up in
// memory and writes its sums every MeasuresEvery as one script, so a job
// costs Redis nothing. What is not written when a process is killed is lost;
// what was written but not confirmed may count twice. They are for people who
// judge how it goes, and nothing is decided by them.
//
//	tidings:{measures}:<start of the cohort, Unix>   hash: "<workload> <name>" -> sum
type Measures struct {
	client redis.UniversalClient
	log    *slog.Logger
	script *redis.Script

	mu      sync.Mutex
	pending map[int64]map[string]float64 // by cohort and field
}

// MeasuresEvery is how late the fleet's measures may be.
const MeasuresEvery = 10 * time.Second

const (
	cohortLength = 10 * time.Minute
	// cohortsKept is how long cohorts can be asked for, and a little more: the
	// longest window is a week.
	cohortsKept = 8 * 24 * time.Hour
)

// NewMeasures makes a Measures; nothing is written before Run.
func NewMeasures(client redis.UniversalClient, log *slog.Logger) *Measures {
	return &Measures{client: client, log: log, script: redis.NewScript(source("measure")), pending: map[int64]map[string]float64{}}
}

func cohortKey(cohort int64) string { return "tidings:{measures}:" + strconv.FormatInt(cohort, 10) }

// cohortOf is when the job was taken in, to ten minutes.
func cohortOf(job string) int64 {
	return acceptedAt(job).Truncate(cohortLength).Unix()
}

// acceptedAt is the time in a job's id, by the clock of the process that took it in.
func acceptedAt(job string) time.Time {
	if id, err := ulid.ParseStrict(job); err == nil {
		return ulid.Time(id.Time())
	}
	return time.Now()
}

// add counts something of a job.
func (m *Measures) add(job, workload, name string, n float64) {
	if m == nil || n == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	cohort := cohortOf(job)
	if m.pending[cohort] == nil {
		m.pending[cohort] = map[string]float64{}
	}
	m.pending[cohort][workload+" "+name] += n
}

// call counts one request to the provider.
func (m *Measures) call(job, workload string, first bool, c model.Call) {
	m.add(job, workload, "calls", 1)
	if first {
		m.add(job, workload, "first_calls", 1)
	}
	if n := c.Usage.InputTokens; n != nil {
		m.add(job, workload, "input_tokens", float64(*n))
	}
	if n := c.Usage.OutputTokens; n != nil {
		m.add(job, workload, "output_tokens", float64(*n))
	}
	if c.Cost != nil {
		m.add(job, workload, "cost_usd", *c.Cost)
	} else {
		m.add(job, workload, "unpriced_calls", 1)
	}
}

// spanBounds are the upper ends, in seconds, by which waits are counted.
func spanBounds() []float64 { return []float64{.1, .5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800} }

// took counts a time in the first bound that holds it.
func (m *Measures) took(job, workload, name string, d time.Duration) {
	for _, bound := range spanBounds() {
		if d.Seconds() <= bound {
			m.add(job, workload, name+"<="+strconv.FormatFloat(bound, 'f', -1, 64), 1)
			return
		}
	}
	m.add(job, workload, name+"<=+Inf", 1)
}

// Run writes what was counted until ctx ends, and once more after that.
func (m *Measures) Run(ctx context.Context) {
	tick := time.NewTicker(MeasuresEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
		if err := m.Write(context.WithoutCancel(ctx)); err != nil {
			m.log.DebugContext(ctx, "measures wait for the storage", "error", err)
		}
	}
}

// Write writes what was counted so far, in at most two seconds. What cannot be
// written is kept for the next time, for as long as anybody could ask for it.
func (m *Measures) Write(ctx context.Context) error {
	m.mu.Lock()
	sums := m.pending
	m.pending = map[int64]map[string]float64{}
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var failed error
	for cohort, fields := range sums {
		args := []any{ms(cohortsKept)}
		for field, n := range fields {
			args = append(args, field, strconv.FormatFloat(n, 'f', -1, 64))
		}
		if err := m.script.Run(ctx, m.client, []string{cohortKey(cohort)}, args...).Err(); err != nil {
			failed = store.Error("measures", err)
			m.keep(cohort, fields)
		}
	}
	return failed
}

// keep takes back what could not be written.
func (m *Measures) keep(cohort int64, fields map[string]float64) {
	if cohort < time.Now().Add(-cohortsKept).Unix() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pending[cohort] == nil {
		m.pending[cohort] = map[string]float64{}
	}
	for field, n := range fields {
		m.pending[cohort][field] += n
	}
}

// Measured is what was counted of one workload's jobs, or of all, that were
// offered in a window. A ratio without a denominator is nil: not applicable
// (S4-66).
type Measured struct {
	Offered  int64 `json:"offered"`  // admitted and refused
	Admitted int64 `json:"admitted"` // manual retries included
	Manual   int64 `json:"manual"`   // manual retries
	Refused  int64 `json:"refused"`  // nothing stored
	Open     int64 `json:"open"`     // admitted and not yet ended

	FirstCalls    int64   `json:"first_calls"`
	Calls         int64   `json:"calls"`
	ExtraCalls    int64   `json:"extra_calls"`
	UnpricedCalls int64   `json:"unpriced_calls"` // whose cost is unknown
	InputTokens   int64   `json:"input_tokens"`
	OutputTokens  int64   `json:"output_tokens"`
	CostUSD       float64 `json:"cost_usd"` // of calls with a known price

	Outcomes map[events.Outcome]int64 `json:"outcomes"` // every outcome, 0 included
	Accepted int64                    `json:"accepted"` // documents stored

	Amplification     *float64 `json:"amplification"`     // calls / first calls
	UsableCompletion  *float64 `json:"usable_completion"` // accepted / offered
	CostPerAccepted   *float64 `json:"cost_per_accepted"` // all cost, failed calls' too, / accepted
	TokensPerAccepted *float64 `json:"tokens_per_accepted"`

	QueueAge   Spread `json:"queue_age"`  // from acceptance to the first claim
	Completion Spread `json:"completion"` // from acceptance to the document
}

// Spread is how long something took. The quantiles are upper bounds in seconds:
// that many were not slower. nil: there is none, or it lies above 1800 s.
type Spread struct {
	Count int64    `json:"count"`
	P50   *float64 `json:"p50_seconds"`
	P95   *float64 `json:"p95_seconds"`
	P99   *float64 `json:"p99_seconds"`
}

// Cohorts is what Window answers.
type Cohorts struct {
	From, To  time.Time
	All       Measured
	Workloads map[string]Measured
}

// Window sums up what became of the jobs that were offered since window ago, to
// whole cohorts: up to ten minutes more.
func (m *Measures) Window(ctx context.Context, window time.Duration) (Cohorts, error) {
	now := time.Now()
	c := Cohorts{From: now.Add(-window).Truncate(cohortLength).UTC(), To: now.UTC(), Workloads: map[string]Measured{}}
	pipe := m.client.Pipeline()
	var hashes []*redis.MapStringStringCmd
	for at := c.From; !at.After(now); at = at.Add(cohortLength) {
		hashes = append(hashes, pipe.HGetAll(ctx, cohortKey(at.Unix())))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return c, store.Error("measures", err)
	}
	all, each := map[string]float64{}, map[string]map[string]float64{}
	for _, w := range Workloads() {
		each[w.Name] = map[string]float64{}
	}
	for _, hash := range hashes {
		for field, text := range hash.Val() {
			workload, name, _ := strings.Cut(field, " ")
			n, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return c, fmt.Errorf("jobs: measures: %s is %q", field, text)
			}
			all[name] += n
			if sums := each[workload]; sums != nil {
				sums[name] += n
			}
		}
	}
	c.All = measured(all)
	for name, sums := range each {
		c.Workloads[name] = measured(sums)
	}
	return c, nil
}

func measured(sums map[string]float64) Measured {
	n := func(name string) int64 { return int64(sums[name]) }
	m := Measured{
		Admitted: n("admitted"), Manual: n("manual"), Refused: n("refused"), Offered: n("admitted") + n("refused"),
		FirstCalls: n("first_calls"), Calls: n("calls"), ExtraCalls: n("calls") - n("first_calls"), UnpricedCalls: n("unpriced_calls"),
		InputTokens: n("input_tokens"), OutputTokens: n("output_tokens"), CostUSD: sums["cost_usd"],
		Outcomes: map[events.Outcome]int64{}, QueueAge: spread(sums, "queue_age"), Completion: spread(sums, "completion"),
	}
	ended := int64(0)
	for _, o := range events.Outcomes() {
		m.Outcomes[o] = n("ended/" + string(o))
		ended += m.Outcomes[o]
	}
	m.Accepted, m.Open = m.Outcomes[events.OutcomeCompleted], max(0, m.Admitted-ended)
	m.Amplification = ratio(float64(m.Calls), m.FirstCalls)
	m.UsableCompletion = ratio(float64(m.Accepted), m.Offered)
	m.CostPerAccepted = ratio(m.CostUSD, m.Accepted)
	m.TokensPerAccepted = ratio(float64(m.InputTokens+m.OutputTokens), m.Accepted)
	return m
}

func ratio(of float64, by int64) *float64 {
	if by == 0 {
		return nil
	}
	return ptr(of / float64(by))
}

// spread reads what took counted.
func spread(sums map[string]float64, name string) Spread {
	counts := map[float64]float64{}
	total := 0.0
	for field, n := range sums {
		if text, ok := strings.CutPrefix(field, name+"<="); ok {
			if bound, err := strconv.ParseFloat(text, 64); err == nil {
				counts[bound] += n
				total += n
			}
		}
	}
	s := Spread{Count: int64(total)}
	for _, q := range []struct {
		share float64
		into  **float64
	}{{.5, &s.P50}, {.95, &s.P95}, {.99, &s.P99}} {
		so := 0.0
		for _, bound := range slices.Sorted(maps.Keys(counts)) {
			if so += counts[bound]; so >= q.share*total {
				if bound <= spanBounds()[len(spanBounds())-1] {
					*q.into = ptr(bound)
				}
				break
			}
		}
	}
	return s
}
