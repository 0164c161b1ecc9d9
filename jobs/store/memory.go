package store

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/lifecycle"
)

// Memory keeps records in this process, for tests and simulations. What Redis
// forgets when its time is over, Memory keeps, but for inputs.
type Memory struct {
	now     func() time.Time
	publish func(events.Topic, events.Transition)

	mu     sync.Mutex
	topics map[events.Topic]*kept
}

type kept struct {
	before   *kept // this commit
	version  string
	job      lifecycle.Job
	log      []events.Transition
	input    []byte
	until    time.Time // the input's end
	document lifecycle.Document
	ledger   []string
	asked    map[string]string // idempotency records and reports
}

// NewMemory makes an empty store. now is its clock; publish gets each transition in
// the step that stores it, and may be nil.
func NewMemory(now func() time.Time, publish func(events.Topic, events.Transition)) *Memory {
	return &Memory{now: now, publish: publish, topics: map[events.Topic]*kept{}}
}

func (m *Memory) at(t events.Topic) *kept {
	k := m.topics[t]
	if k == nil {
		k = &kept{asked: map[string]string{}}
		m.topics[t] = k
	}
	return k
}

func (w Want) asked() string {
	if w.Key != "" {
		return "key " + w.Key
	}
	return "report " + w.Job + " " + strconv.Itoa(w.Attempt)
}

func (m *Memory) snapshot(k *kept, w Want) Snapshot {
	now := m.now().UTC().Truncate(time.Millisecond)
	if !k.until.After(now) {
		k.input = nil
	}
	s := Snapshot{want: w, version: k.version, received: time.Now()}
	s.Job, s.Now, s.DocumentVersion, s.DocumentJob, s.InputBytes = k.job, now, k.document.Version, k.document.JobID, len(k.input)
	if n := len(k.log); n > 0 {
		s.Last = k.log[n-1]
	}
	switch {
	case w.Key != "":
		s.Key = k.asked[w.asked()]
	case w.Job != "":
		s.Report = k.asked[w.asked()]
	}
	if w.Input {
		s.Input = k.input
	}
	return s
}

// Read implements [Records].
func (m *Memory) Read(_ context.Context, t events.Topic, w Want) (Snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.snapshot(m.at(t), w), nil
}

// ReadAll implements [Records].
func (m *Memory) ReadAll(_ context.Context, topics []events.Topic, now time.Time) ([]Snapshot, []error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]Snapshot, len(topics))
	for i, t := range topics {
		out[i] = m.snapshot(m.at(t), Want{})
		out[i].Now = now
	}
	return out, make([]error, len(topics))
}

// Commit implements [Records].
func (m *Memory) Commit(_ context.Context, _ string, t events.Topic, from Snapshot, c lifecycle.Change) (Snapshot, Result, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, decided := m.at(t), from.At().Now
	if n := len(c.Transitions); n > 0 {
		decided = c.Transitions[n-1].At
	}
	now := m.now().UTC().Truncate(time.Millisecond)
	if k.version != from.version || now.Sub(decided).Abs() > Good {
		next := m.snapshot(k, from.want)
		next.Input = from.Input
		return next, Result{}, nil
	}
	before := *k
	k.before, k.asked = &before, maps.Clone(k.asked)
	version := rand.Text()
	if c.Job.ID != "" {
		k.version, k.job = version, c.Job
	}
	k.log = append(k.log[:len(k.log):len(k.log)], c.Transitions...)
	if in := c.Input; in != nil {
		if in.Bytes != nil || in.Keep <= 0 {
			k.input = slices.Clone(in.Bytes)
		}
		k.until = now.Add(in.Keep)
	}
	if c.Document != nil {
		k.document = *c.Document
	}
	if c.NewLedger {
		k.ledger = nil
	}
	k.ledger = append(k.ledger[:len(k.ledger):len(k.ledger)], c.Lines...)
	k.ledger = k.ledger[max(0, len(k.ledger)-maxLedger):]
	if asked := c.Key + c.Report; asked != "" {
		k.asked[from.want.asked()] = asked
	}
	for _, n := range c.Transitions {
		if m.publish != nil {
			m.publish(t, n)
		}
	}
	return from.after(c, version, now), Result{Stored: true, Replicated: true}, nil
}

// Replicated implements [Records].
func (m *Memory) Replicated(context.Context, events.Topic) (bool, error) { return true, nil }

// Document implements [Records].
func (m *Memory) Document(_ context.Context, t events.Topic) (lifecycle.Document, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at(t).document, nil
}

// Ledger implements [Records].
func (m *Memory) Ledger(_ context.Context, t events.Topic) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.at(t).ledger), nil
}

// TakeBack loses the topic's last commit, as a fail-over to a replica that lags
// behind does; false if there is none.
func (m *Memory) TakeBack(t events.Topic) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.at(t)
	if k.before == nil {
		return false
	}
	m.topics[t] = k.before
	return true
}

// Log has a topic's transitions, oldest first.
func (m *Memory) Log(t events.Topic) []events.Transition {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.at(t).log)
}
