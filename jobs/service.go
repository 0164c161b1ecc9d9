package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/lifecycle"
	"github.com/tidings/tidings/jobs/retry"
	"github.com/tidings/tidings/jobs/store"
)

// ServiceOptions is what a Service is made of.
type ServiceOptions struct {
	Store    *Store
	Queue    Queue
	Settings retry.Settings
	Limits   Limits
	// Outside names the workloads that outside workers do.
	Outside Routes
	// Dependency names the model that serves the jobs, and Gate is what its calls
	// pass; nil: nothing is known of it.
	Dependency string
	Gate       *gate.Gate
	// Simulate reads a submit's steps for the local model and returns what makes
	// it play them; nil outside dev.
	Simulate func(topic events.Topic, steps []string) (play func(), err error)
	Metrics  *Metrics
	Log      *slog.Logger
}

// Service is what a request can ask of the jobs. Every method answers with a
// *Refusal when it may not do what was asked, and with an error that wraps
// events.ErrUnavailable when the storage cannot be reached.
type Service struct {
	ServiceOptions
	openAt atomic.Int64 // when the gate was last seen open, ns
}

// NewService makes a Service.
func NewService(o ServiceOptions) *Service { return &Service{ServiceOptions: o} }

func (s *Service) rules() lifecycle.Rules { return lifecycle.Rules{Settings: s.Settings} }

// terms are what a new job is accepted under.
func (s *Service) terms(w Workload, job string) lifecycle.Terms {
	return lifecycle.Terms{JobID: job, Dependency: s.Dependency, Queue: s.Outside.Queue(w), Long: w.Long}
}

// Submit starts a job for a new version of the topic's document, or answers
// with the live one.
//
// Three steps, each safe to repeat: into the index (the admission), one commit
// on the session's keys (record, input, `queued` stored and published), into
// the queue. After a crash between them the rescuer goes on: an index entry
// without a job is dropped, a job without a task is enqueued.
func (s *Service) Submit(ctx context.Context, r Submit) (Accepted, error) {
	w, ok := WorkloadNamed(r.Topic.Workload)
	if !ok {
		return Accepted{}, &Refusal{Code: CodeNotFound}
	}
	if err := r.Input.Validate(); err != nil {
		return Accepted{}, err
	}
	if len(r.Simulate) > 0 && s.Simulate == nil {
		return Accepted{}, &Refusal{Code: CodeSimulateOnlyInDev, Field: "simulate"}
	}
	play := func() {}
	if len(r.Simulate) > 0 {
		var err error
		if play, err = s.Simulate(r.Topic, r.Simulate); err != nil {
			return Accepted{}, &Refusal{Code: CodeInvalidField, Field: "simulate", Why: err.Error()}
		}
	}
	input, err := json.Marshal(r.Input)
	if err != nil {
		return Accepted{}, fmt.Errorf("jobs: input: %w", err)
	}
	if err := s.fits(w, r.Input, len(input)); err != nil {
		return Accepted{}, err
	}
	job, since := ulid.Make().String(), time.Now()
	p := s.place(r.Topic, w, job, len(input))
	entry, err := s.admit(ctx, p)
	if err != nil {
		// A key or a job that is known is answered also when there is no room. But who
		// starts too much gets no further key of a live job stored, nor an answer that
		// would not be repeated.
		if a, known := s.known(ctx, r); known && (a.Replayed || r.IdempotencyKey == "" || entry.refused != ownerStarts) {
			return a, nil
		}
		s.refused(r.Topic, job, entry)
		return Accepted{}, err
	}
	var got lifecycle.Submitted
	_, replicated, err := s.Store.do(ctx, "submit", r.Topic, store.Want{Key: r.IdempotencyKey}, func(state lifecycle.State) (c lifecycle.Change) {
		c, got = s.rules().Submit(state, lifecycle.Submission{Terms: s.terms(w, job), Fingerprint: fingerprint(r.Input, r.Language),
			Language: r.Language, Input: input, Replace: r.Replace, Keyed: r.IdempotencyKey != ""})
		return c
	})
	if err != nil {
		// Whether it was stored is unknown: the rescuer prunes or goes on.
		s.stay(ctx, r.Topic, job, len(input), since)
		return Accepted{}, err
	}
	accepted := Accepted{JobID: got.JobID, Status: got.Status, Unreplicated: !replicated}
	switch {
	case got.Code == lifecycle.Created:
		s.stay(ctx, r.Topic, job, len(input), since)
	case got.Code == lifecycle.LiveJob && r.IdempotencyKey != "":
		s.leave(ctx, r.Topic, job, 0) // its key is stored and counts
	default:
		s.withdraw(ctx, p)
	}
	switch got.Code {
	case lifecycle.Created:
		s.Metrics.admitted(job, w.Name, false)
		if gone := got.Replaced; gone != nil {
			s.ended(ctx, r.Topic, *gone)
		}
		if got.Follows != "" {
			s.leave(ctx, r.Topic, got.Follows, 0) // its input has made way for the new one
		}
		play()
		s.enqueue(ctx, Task{Topic: r.Topic, JobID: job, Run: 1, Queue: s.Outside.Queue(w)}, time.Time{})
		s.Log.InfoContext(ctx, "job accepted", "job", job, "workload", w.Name, "bytes", len(input))
		accepted.Unreplicated = accepted.Unreplicated || !entry.replicated
		return accepted, nil
	case lifecycle.LiveJob:
		// A fail-over may have lost its place in the index, which is elsewhere.
		safe := s.readmit(ctx, r.Topic, got.JobID, len(input))
		accepted.Live, accepted.Unreplicated = true, accepted.Unreplicated || !safe
		return accepted, nil
	case lifecycle.Replay:
		accepted.Live, accepted.Replayed = got.Live, true
		return accepted, nil
	case lifecycle.JobRunning:
		return Accepted{}, &Refusal{Code: CodeJobRunning, JobID: got.JobID}
	case lifecycle.KeyReused:
		return Accepted{}, &Refusal{Code: CodeIdempotencyKeyReused}
	}
	return Accepted{}, fmt.Errorf("jobs: submit answered %q", got.Code)
}

// ended does what follows the end of a job that a request ended.
func (s *Service) ended(ctx context.Context, t events.Topic, c lifecycle.Cancelled) {
	w, _ := WorkloadNamed(t.Workload)
	s.discard(ctx, Task{Topic: t, JobID: c.JobID, Run: c.Run, Queue: queueOf(c.Queue, w)})
	s.ending().Ended(ctx, end{topic: t, job: c.JobID, End: lifecycle.End{Outcome: events.OutcomeFailed, Reason: events.Cancelled}})
}

// known looks whether a submit that found no room repeats something known.
// Nothing is written, so nothing is waited for.
func (s *Service) known(ctx context.Context, r Submit) (Accepted, bool) {
	read, err := s.Store.Records.Read(ctx, r.Topic, store.Want{Key: r.IdempotencyKey})
	if err != nil {
		return Accepted{}, false
	}
	asked, unsafe := fingerprint(r.Input, r.Language), s.Store.Sync.Replicas > 0
	if a, ok := read.Answered(asked); ok && a.Code == lifecycle.Replay {
		return Accepted{JobID: a.JobID, Status: a.Status, Live: a.Live, Replayed: true, Unreplicated: unsafe}, true
	}
	if read.Job.Fingerprint != asked || !read.Live() {
		return Accepted{}, false
	}
	return Accepted{JobID: read.Job.ID, Status: read.Last.Status, Live: true, Unreplicated: unsafe}, true
}

// Retry is the user's "try again": see the table in docs/protocol.md.
func (s *Service) Retry(ctx context.Context, topic events.Topic) (Accepted, error) {
	w, ok := WorkloadNamed(topic.Workload)
	if !ok {
		return Accepted{}, &Refusal{Code: CodeNotFound}
	}
	read, err := s.Store.Records.Read(ctx, topic, store.Want{})
	if err != nil {
		return Accepted{}, err
	}
	// Only an ended job needs room for a new one; the rules decide.
	var p place
	last, size := read.Last, read.InputBytes
	job, admitted, safe, since := ulid.Make().String(), false, true, time.Now()
	if last.Status == events.Failed && last.CanRetry {
		p = s.place(topic, w, job, size)
		p.after, p.retry = last.JobID, true
		entry, err := s.admit(ctx, p)
		if err != nil {
			// Another tap may have made the job meanwhile, and this one is answered with it.
			if now, lost := s.Store.Records.Read(ctx, topic, store.Want{}); lost != nil || now.Last.JobID == last.JobID {
				s.refused(topic, job, entry)
				return Accepted{}, err
			}
		} else {
			admitted, safe = true, entry.replicated
		}
	}
	var got lifecycle.Retried
	_, replicated, err := s.Store.do(ctx, "retry", topic, store.Want{}, func(state lifecycle.State) (c lifecycle.Change) {
		c, got = s.rules().Retry(state, s.terms(w, job))
		return c
	})
	if err != nil {
		if admitted {
			s.stay(ctx, topic, job, size, since)
		}
		return Accepted{}, err
	}
	if admitted && got.Code != lifecycle.Created {
		s.withdraw(ctx, p)
	}
	accepted := Accepted{JobID: got.JobID, Status: got.Status, Unreplicated: !replicated}
	switch got.Code {
	case lifecycle.Created:
		if !admitted {
			// It failed between the read and the decision.
			safe = s.readmit(ctx, topic, job, size)
		} else {
			s.stay(ctx, topic, job, size, since)
		}
		s.Metrics.admitted(job, w.Name, true)
		if got.Follows != "" {
			s.leave(ctx, topic, got.Follows, 0)
		}
		s.enqueue(ctx, Task{Topic: topic, JobID: job, Run: 1, Queue: s.Outside.Queue(w)}, time.Time{})
		s.Log.InfoContext(ctx, "job retried by hand", "job", job, "failed_job", got.Follows, "workload", w.Name)
		accepted.Unreplicated = accepted.Unreplicated || !safe
		return accepted, nil
	case lifecycle.RunNow:
		s.runNow(ctx, Task{Topic: topic, JobID: got.JobID, Run: got.Run, Queue: queueOf(got.Queue, w)})
		return accepted, nil
	case lifecycle.LiveJob:
		accepted.Live = true
		return accepted, nil
	case lifecycle.WaitRequired:
		return Accepted{}, &Refusal{Code: CodeWaitRequired, RetryAfter: got.In, JobID: got.JobID}
	case lifecycle.TooOften:
		return Accepted{}, &Refusal{Code: CodeTooOften, RetryAfter: got.In}
	case lifecycle.Completed:
		return Accepted{}, &Refusal{Code: CodeAlreadyCompleted, JobID: got.JobID}
	case lifecycle.NotRetryable:
		return Accepted{}, &Refusal{Code: CodeNotRetryable, JobID: got.JobID}
	case lifecycle.InputGone:
		return Accepted{}, &Refusal{Code: CodeInputGone}
	case lifecycle.Unknown:
		return Accepted{}, &Refusal{Code: CodeNotFound}
	}
	return Accepted{}, fmt.Errorf("jobs: retry answered %q", got.Code)
}

// Cancel ends the topic's live job and answers with how it stands then; a job
// that has already ended is left as it is. CodeNotFound when there is none.
func (s *Service) Cancel(ctx context.Context, topic events.Topic) (Accepted, error) {
	var got lifecycle.Cancelled
	_, replicated, err := s.Store.do(ctx, "cancel", topic, store.Want{}, func(state lifecycle.State) (c lifecycle.Change) {
		c, got = s.rules().Cancel(state)
		return c
	})
	switch {
	case err != nil:
		return Accepted{}, err
	case got.Code == lifecycle.Unknown:
		return Accepted{}, &Refusal{Code: CodeNotFound}
	case got.Code == lifecycle.CancelledNow:
		s.ended(ctx, topic, got)
		s.Log.InfoContext(ctx, "job cancelled", "job", got.JobID, "workload", topic.Workload)
	}
	return Accepted{JobID: got.JobID, Status: got.Status, Unreplicated: !replicated}, nil
}

// Document returns the topic's current document; CodeNoDocument when there is
// none yet.
func (s *Service) Document(ctx context.Context, topic events.Topic) (Document, error) {
	d, ok, err := s.Store.document(ctx, topic)
	if err == nil && !ok {
		err = &Refusal{Code: CodeNoDocument}
	}
	return d, err
}

// Attempts returns the ledger of the topic's newest job; CodeNotFound when no
// job is known.
func (s *Service) Attempts(ctx context.Context, topic events.Topic) (lifecycle.Ledger, error) {
	return s.Store.ledger(ctx, topic)
}

func (s *Service) ending() Ending {
	return Ending{Store: s.Store, Keep: s.Settings.InputRetention, Metrics: s.Metrics, Log: s.Log}
}

// leave is best effort: what stays in the index is dropped by the rescuer.
func (s *Service) leave(ctx context.Context, t events.Topic, job string, keep time.Duration) {
	if err := s.Store.leave(ctx, t, job, keep, 0); err != nil {
		s.Log.WarnContext(ctx, "a job stays in the index until the rescuer drops it", "job", job, "error", err)
	}
}

// discard takes a task out of the queue whose job was ended, unless a worker has it
// already. It is best effort: a worker drops it.
func (s *Service) discard(ctx context.Context, t Task) {
	if err := s.Queue.Delete(ctx, t); err != nil {
		s.Log.WarnContext(ctx, "the task of an ended job waits for a worker to drop it", "job", t.JobID, "run", t.Run, "error", err)
	}
}

// enqueue is best effort too: the job is stored, and the rescuer enqueues what
// the queue does not know.
func (s *Service) enqueue(ctx context.Context, t Task, at time.Time) {
	if err := s.Queue.Enqueue(ctx, t, at); err != nil {
		s.Log.WarnContext(ctx, "a job waits for the rescuer to enqueue it", "job", t.JobID, "run", t.Run, "error", err)
	}
}

// runNow starts a waiting task. The task may still be on its way into the
// waiting set, so it is tried three times in 100 ms; the rescuer does the rest.
func (s *Service) runNow(ctx context.Context, t Task) {
	var err error
	for try := range 3 {
		if try > 0 {
			select {
			case <-ctx.Done():
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
		if err = s.Queue.RunNow(ctx, t); err == nil {
			return
		}
	}
	s.Log.WarnContext(ctx, "a job waits for the rescuer to run it", "job", t.JobID, "run", t.Run, "error", err)
}
