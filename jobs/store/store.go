package store

import (
	"context"
	"fmt"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/lifecycle"
)

// Good is for how long a decision may be committed after its time, by Redis's clock.
const Good = 2 * time.Second

// conflicts is how often a verb decides again before it gives up: others would have
// to be faster each time.
const conflicts = 32

// Want says what to read beside the record.
type Want struct {
	Input bool
	// Key is what an Idempotency-Key hashes to, Job and Attempt name an outside
	// worker's report; "" and 0 for none. At most one of the two.
	Key     string
	Job     string
	Attempt int
}

// Snapshot is a topic's state as it was read or committed.
type Snapshot struct {
	lifecycle.State
	Input []byte // if it was wanted

	want     Want
	version  string // of the record; "" for none
	received time.Time
}

// At is the state with the time as it is by now: Redis's clock as it was read, and
// what has passed here since.
func (s Snapshot) At() lifecycle.State {
	state := s.State
	state.Now = s.Now.Add(time.Since(s.received)).Truncate(time.Millisecond)
	return state
}

// Records keeps the job records. Errors wrap [events.ErrUnavailable] when the
// storage could not be asked, and leave open whether a change was stored.
type Records interface {
	// Read reads a topic's state.
	Read(ctx context.Context, t events.Topic, w Want) (Snapshot, error)
	// ReadAll reads many topics' records and newest transitions, without what
	// Want names and without documents and inputs. now is Redis's clock. Each
	// topic has its own error: one shard of many may be away.
	ReadAll(ctx context.Context, topics []events.Topic, now time.Time) ([]Snapshot, []error)
	// Commit stores a change that was decided on a snapshot. Not stored: the
	// snapshot returned is what to decide on next.
	Commit(ctx context.Context, verb string, t events.Topic, from Snapshot, c lifecycle.Change) (next Snapshot, r Result, err error)
	// Replicated tells whether what was written before has reached as many
	// replicas as the store waits for; true if it waits for none.
	Replicated(ctx context.Context, t events.Topic) (bool, error)
	// Document is the current document; its Version is 0 when there is none.
	Document(ctx context.Context, t events.Topic) (lifecycle.Document, error)
	// Ledger has the stored lines of the newest job, oldest first.
	Ledger(ctx context.Context, t events.Topic) ([]string, error)
}

// Result is what became of a change.
type Result struct {
	Stored     bool
	Replicated bool // as many replicas have it as the store waits for
}

// Apply decides and commits until nobody was faster. It returns the state that the
// decision left, and whether that is replicated as far as the verb promises it.
func Apply(ctx context.Context, r Records, verb string, t events.Topic, from Snapshot, decide func(lifecycle.State) lifecycle.Change) (Snapshot, bool, error) {
	for range conflicts {
		c := decide(from.At())
		switch {
		case c.Err() != nil:
			return from, false, fmt.Errorf("jobs: %s: %w", verb, c.Err())
		case c.Nothing() && !Promise(verb):
			return from, true, nil
		case c.Nothing(): // the answer is a promise of what others stored
			safe, err := r.Replicated(ctx, t)
			return from, safe, err
		}
		next, got, err := r.Commit(ctx, verb, t, from, c)
		if err != nil || got.Stored {
			return next, got.Replicated, err
		}
		from = next
	}
	return from, false, fmt.Errorf("jobs: %s: %w: others were faster %d times", verb, events.ErrUnavailable, conflicts)
}

// Promise tells whether a verb's answer is one that somebody relies on, so that it
// waits for replicas. Calls and renewals are not among them: what they lose costs a
// call or a lease, never a job.
func Promise(verb string) bool {
	switch verb {
	case "admit", "submit", "retry", "cancel", "claim", "hold", "settle", "resolve":
		return true
	}
	return false
}

// after is the snapshot that a stored change leaves.
func (s Snapshot) after(c lifecycle.Change, version string, now time.Time) Snapshot {
	s.received, s.Now = time.Now(), now
	if c.Job.ID != "" {
		s.Job, s.version = c.Job, version
	}
	if n := len(c.Transitions); n > 0 {
		s.Last = c.Transitions[n-1]
	}
	if c.Document != nil {
		s.DocumentVersion, s.DocumentJob = c.Document.Version, c.Document.JobID
	}
	if in := c.Input; in != nil && (in.Bytes != nil || in.Keep <= 0) {
		s.InputBytes = len(in.Bytes)
	}
	if c.Key != "" {
		s.Key = c.Key
	}
	if c.Report != "" {
		s.Report = c.Report
	}
	return s
}
