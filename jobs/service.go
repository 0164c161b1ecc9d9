package jobs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/retry"
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

// plan is what a new job's record is made of.
func (s *Service) plan(w Workload, job string) args {
	deadline := s.Settings.DeadlineFor(w.Long)
	return args{
		"job": job, "dependency": s.Dependency, "queue": s.Outside.Queue(w),
		"deadline_ms": ms(deadline), "input_ms": ms(deadline + s.Store.keep.Input),
		"max_attempts": s.Settings.Attempts, "max_calls": s.Settings.Calls, "allowance": s.Settings.Allowance,
		"cost_cap": nanos(s.Settings.Cost),
	}
}

// Submit starts a job for a new version of the topic's document, or answers
// with the live one.
//
// Three steps, each safe to repeat: into the index (the admission), one script
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
	safe := entry.replicated
	a := s.plan(w, job)
	a["fingerprint"], a["language"], a["replace"] = fingerprint(r.Input, r.Language), r.Language, r.Replace
	a["idem_ms"], a["cancels"] = ms(s.Store.keep.Key), cancels
	var extra []string
	if r.IdempotencyKey != "" {
		extra = append(extra, idempotencyKey(r.Topic, r.IdempotencyKey))
	}
	got, err := repeat(ctx, func() (answer, error) {
		got, _, err := s.Store.run(ctx, "submit", r.Topic, a, input, extra...)
		return got, err
	})
	if err != nil {
		// Whether it was stored is unknown: the rescuer prunes or goes on.
		s.stay(ctx, r.Topic, job, len(input), since)
		return Accepted{}, err
	}
	unsafe := got.unreplicated
	if got.Code == "created" {
		unsafe = unsafe || !safe
		s.stay(ctx, r.Topic, job, len(input), since)
	} else if got.Code == "live" && r.IdempotencyKey != "" {
		s.leave(ctx, r.Topic, job, 0) // its key is stored and counts
	} else {
		s.withdraw(ctx, p)
	}
	switch got.Code {
	case "created":
		s.Metrics.admitted(job, w.Name, false)
		if got.Replaced != "" {
			s.discard(ctx, Task{Topic: r.Topic, JobID: got.Replaced, Run: got.Run, Queue: queueOf(got.Queue, w)})
			s.ending().Ended(ctx, end{topic: r.Topic, job: got.Replaced, outcome: events.OutcomeFailed, reason: events.Cancelled})
		}
		if got.Old != "" {
			s.leave(ctx, r.Topic, got.Old, 0) // its input has made way for the new one
		}
		play()
		s.enqueue(ctx, Task{Topic: r.Topic, JobID: job, Run: 1, Queue: s.Outside.Queue(w)}, time.Time{})
		s.Log.InfoContext(ctx, "job accepted", "job", job, "workload", w.Name, "bytes", len(input))
		return Accepted{JobID: job, Status: events.Queued, Unreplicated: unsafe}, nil
	case "live":
		// A fail-over may have lost its place in the index, which is elsewhere.
		safe = s.readmit(ctx, r.Topic, got.JobID, len(input))
		return Accepted{JobID: got.JobID, Status: events.Status(got.Status), Live: true, Unreplicated: unsafe || !safe}, nil
	case "replay":
		return Accepted{JobID: got.JobID, Status: events.Status(got.Status), Live: got.Live == "1", Replayed: true, Unreplicated: unsafe}, nil
	case "job_running":
		return Accepted{}, &Refusal{Code: CodeJobRunning, JobID: got.JobID}
	case "key_reused":
		return Accepted{}, &Refusal{Code: CodeIdempotencyKeyReused}
	}
	return Accepted{}, fmt.Errorf("jobs: submit answered %q", got.Code)
}

// known looks whether a submit that found no room repeats something known.
// Nothing is written, so nothing is waited for.
func (s *Service) known(ctx context.Context, r Submit) (Accepted, bool) {
	print := fingerprint(r.Input, r.Language)
	if r.IdempotencyKey != "" {
		if text, err := s.Store.client.Get(ctx, idempotencyKey(r.Topic, r.IdempotencyKey)).Result(); err == nil {
			var k struct{ Fingerprint, Job, Status, Live string }
			if json.Unmarshal([]byte(text), &k) == nil && k.Fingerprint == print {
				return Accepted{JobID: k.Job, Status: events.Status(k.Status), Live: k.Live == "1", Replayed: true,
					Unreplicated: s.Store.Sync.Replicas > 0}, true
			}
		}
	}
	rec, last, err := s.Store.look(ctx, r.Topic)
	if err != nil || rec["fingerprint"] != print || last.JobID != rec["job"] || last.Seq == 0 || last.Status.Terminal() {
		return Accepted{}, false
	}
	return Accepted{JobID: last.JobID, Status: last.Status, Live: true, Unreplicated: s.Store.Sync.Replicas > 0}, true
}

func idempotencyKey(t events.Topic, key string) string {
	sum := sha256.Sum256([]byte(key))
	return t.Key("idempotency:" + hex.EncodeToString(sum[:16]))
}

// Retry is the user's "try again": see the table in docs/protocol.md.
func (s *Service) Retry(ctx context.Context, topic events.Topic) (Accepted, error) {
	w, ok := WorkloadNamed(topic.Workload)
	if !ok {
		return Accepted{}, &Refusal{Code: CodeNotFound}
	}
	_, last, err := s.Store.look(ctx, topic)
	if err != nil {
		return Accepted{}, err
	}
	// Only an ended job needs room for a new one; the script decides.
	var p place
	job, admitted, safe, size, since := ulid.Make().String(), false, true, 0, time.Now()
	if last.Status == events.Failed && last.CanRetry {
		n, err := s.Store.client.StrLen(ctx, topic.Key("input")).Result()
		if err != nil {
			return Accepted{}, storageError("retry", err)
		}
		size = int(n)
		p = s.place(topic, w, job, size)
		p.after, p.retry = last.JobID, true
		entry, err := s.admit(ctx, p)
		if err != nil {
			// Another tap may have made the job meanwhile, and this one is answered with it.
			if _, now, lost := s.Store.look(ctx, topic); lost != nil || now.JobID == last.JobID {
				s.refused(topic, job, entry)
				return Accepted{}, err
			}
		} else {
			admitted, safe = true, entry.replicated
		}
	}
	got, err := repeat(ctx, func() (answer, error) {
		got, _, err := s.Store.run(ctx, "retry", topic, s.plan(w, job), nil)
		return got, err
	})
	if err != nil {
		if admitted {
			s.stay(ctx, topic, job, size, since)
		}
		return Accepted{}, err
	}
	if admitted && got.Code != "created" {
		s.withdraw(ctx, p)
	}
	wait := time.Duration(got.At-got.Now) * time.Millisecond
	switch got.Code {
	case "created":
		if !admitted {
			// It failed between the look and the script.
			safe = s.readmit(ctx, topic, job, size)
		} else {
			s.stay(ctx, topic, job, size, since)
		}
		s.Metrics.admitted(job, w.Name, true)
		s.leave(ctx, topic, got.Old, 0)
		s.enqueue(ctx, Task{Topic: topic, JobID: job, Run: 1, Queue: s.Outside.Queue(w)}, time.Time{})
		s.Log.InfoContext(ctx, "job retried by hand", "job", job, "failed_job", got.Old, "workload", w.Name)
		return Accepted{JobID: job, Status: events.Queued, Unreplicated: got.unreplicated || !safe}, nil
	case "run_now":
		s.runNow(ctx, Task{Topic: topic, JobID: got.JobID, Run: got.Run, Queue: queueOf(got.Queue, w)})
		return Accepted{JobID: got.JobID, Status: events.Queued, Unreplicated: got.unreplicated}, nil
	case "live":
		return Accepted{JobID: got.JobID, Status: events.Status(got.Status), Live: true, Unreplicated: got.unreplicated}, nil
	case "wait":
		return Accepted{}, &Refusal{Code: CodeWaitRequired, RetryAfter: wait, JobID: got.JobID}
	case "too_often":
		return Accepted{}, &Refusal{Code: CodeTooOften, RetryAfter: wait}
	case "completed":
		return Accepted{}, &Refusal{Code: CodeAlreadyCompleted, JobID: got.JobID}
	case "not_retryable":
		return Accepted{}, &Refusal{Code: CodeNotRetryable, JobID: got.JobID}
	case "gone":
		return Accepted{}, &Refusal{Code: CodeInputGone}
	case "unknown":
		return Accepted{}, &Refusal{Code: CodeNotFound}
	}
	return Accepted{}, fmt.Errorf("jobs: retry answered %q", got.Code)
}

// Cancel ends the topic's live job and answers with how it stands then; a job
// that has already ended is left as it is. CodeNotFound when there is none.
func (s *Service) Cancel(ctx context.Context, topic events.Topic) (Accepted, error) {
	got, err := repeat(ctx, func() (answer, error) {
		got, _, err := s.Store.run(ctx, "cancel", topic, args{"cancels": cancels}, nil)
		return got, err
	})
	switch {
	case err != nil:
		return Accepted{}, err
	case got.Code == "unknown":
		return Accepted{}, &Refusal{Code: CodeNotFound}
	case got.Code == "cancelled":
		w, _ := WorkloadNamed(topic.Workload)
		s.discard(ctx, Task{Topic: topic, JobID: got.JobID, Run: got.Run, Queue: queueOf(got.Queue, w)})
		s.ending().Ended(ctx, end{topic: topic, job: got.JobID, outcome: events.OutcomeFailed, reason: events.Cancelled})
		s.Log.InfoContext(ctx, "job cancelled", "job", got.JobID, "workload", topic.Workload)
	}
	return Accepted{JobID: got.JobID, Status: events.Status(got.Status), Unreplicated: got.unreplicated}, nil
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
func (s *Service) Attempts(ctx context.Context, topic events.Topic) (Ledger, error) {
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
