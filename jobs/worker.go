package jobs

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/retry"
)

// Why an attempt's context ended, when it was not its own time limit.
var (
	errClaimLost = errors.New("jobs: the claim is lost")
	errCancelled = errors.New("jobs: the job was cancelled")
	errDraining  = errors.New("jobs: the process shuts down")
)

// refusedCall is why no further call may be made: the reservation's code.
type refusedCall struct{ code string }

func (e refusedCall) Error() string { return "jobs: no further call: " + e.code }

// end is how the job ends that may make no further call; empty when it may, or
// when that is no longer for this claim to say.
func (e refusedCall) end() (events.Outcome, events.Reason) {
	switch e.code {
	case "deadline":
		return events.OutcomeDeadlineExceeded, events.DeadlinePassed
	case "exhausted", "cost":
		return events.OutcomeRetriesExhausted, events.CallAllowance
	}
	return "", ""
}

// gateClosed is the gate's refusal of a call.
type gateClosed struct{ gate.Answer }

func (e gateClosed) Error() string {
	return "jobs: the gate says " + string(e.Verdict) + ": " + string(e.Reason)
}

// WorkerOptions is what a Worker is made of.
type WorkerOptions struct {
	Store *Store
	// Queue takes another run when the queue's task cannot carry on.
	Queue Queue
	Model *model.Retrying
	// Gate gives out the fleet's tickets, one a call.
	Gate     *gate.Gate
	Settings retry.Settings
	// Name tells operators which process it was.
	Name    string
	Metrics *Metrics
	Log     *slog.Logger
}

// Worker does one attempt at a time for each task it is given: claim, calls,
// settle. Each of the three speaks with the claim's token; a worker that was
// replaced can store and publish nothing.
type Worker struct {
	WorkerOptions
	schemas  schemas
	draining atomic.Bool
	drain    chan struct{} // closed when draining begins
	left     chan struct{} // a task has left; for Drain
	mu       sync.Mutex
	inside   int                                // tasks between coming and going
	over     bool                               // draining, and the grace is over
	running  map[string]context.CancelCauseFunc // by claim token
	byJob    map[string]string                  // job to claim token
}

// NewWorker makes a Worker; it fails when a workload's schema is not one.
func NewWorker(o WorkerOptions) (*Worker, error) {
	s, err := compileSchemas()
	if err != nil {
		return nil, err
	}
	return &Worker{WorkerOptions: o, schemas: s, drain: make(chan struct{}), left: make(chan struct{}, 1),
		running: map[string]context.CancelCauseFunc{}, byJob: map[string]string{}}, nil
}

// Listen stops attempts of jobs that are cancelled, until ctx ends. What it
// misses the renewal of the lease finds within a third of it.
func (w *Worker) Listen(ctx context.Context) {
	listen(ctx, w.Store.client, cancels, func(job string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if cancel := w.running[w.byJob[job]]; cancel != nil {
			cancel(errCancelled)
		}
	})
}

// Drain makes no new claims. Running attempts may go on for the grace; then
// they are cancelled and their jobs handed back, uncounted. It returns when
// none is left or ctx ends.
func (w *Worker) Drain(ctx context.Context, grace time.Duration) {
	w.mu.Lock()
	if !w.draining.Swap(true) {
		close(w.drain)
	}
	w.mu.Unlock()
	end := time.NewTimer(grace)
	defer end.Stop()
	for !w.idle() {
		select {
		case <-w.left:
		case <-end.C:
			w.handBack()
		case <-ctx.Done():
			return
		}
	}
}

// handBack cancels what runs, and what is just being claimed once it runs.
func (w *Worker) handBack() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	for _, cancel := range w.running {
		cancel(errDraining)
	}
}

// enter counts a task that may become an attempt, unless the worker drains.
func (w *Worker) enter() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.draining.Load() {
		return false
	}
	w.inside++
	return true
}

func (w *Worker) exit() {
	w.mu.Lock()
	w.inside--
	w.mu.Unlock()
	select {
	case w.left <- struct{}{}:
	default: // Drain has not taken the last one yet, and will look again
	}
}

func (w *Worker) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.inside == 0
}

// Running is how many attempts this process has claimed.
func (w *Worker) Running() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.running)
}

// busyPause is what a task waits that met another claim whose lease has just
// ended, or a storage that does not answer.
const busyPause = time.Second

// Attempt is the queue's handler: it does one attempt of the task's job.
func (w *Worker) Attempt(ctx context.Context, t Task) Verdict {
	wl, ok := WorkloadNamed(t.Topic.Workload)
	if !ok {
		w.Log.ErrorContext(ctx, "a task of an unknown workload was dropped", "job", t.JobID, "workload", t.Topic.Workload)
		return Dropped()
	}
	draining := func() Verdict { return Uncounted(time.Now().Add(busyPause), string(events.Draining)) }
	if !w.enter() {
		return draining()
	}
	defer w.exit()
	token, ask := rand.Text(), true
	for {
		got, input, err := w.claim(ctx, t, token, ask)
		if err != nil {
			w.Log.WarnContext(ctx, "a claim failed", "job", t.JobID, "error", err)
			return Uncounted(time.Now().Add(busyPause), string(events.StorageFault))
		}
		wait := time.Duration(got.At-got.Now) * time.Millisecond
		switch got.Code {
		case "claimed":
			return w.attempt(ctx, t, wl, token, got, input)
		case "wait":
			// Asynq cuts times to whole seconds on its own clock; ours is Redis's.
			select {
			case <-ctx.Done():
				return Uncounted(time.Now().Add(wait), "early")
			case <-w.drain:
				return draining()
			case <-time.After(wait):
				continue
			}
		case "ran":
			// Only an operator may shorten the wait, not a queue that brings the task
			// back because it has lost a worker, or never got to know the time.
			ran, err := w.Queue.Ran(ctx, t, time.Now().Add(wait))
			if err != nil {
				return Uncounted(time.Now().Add(busyPause), string(events.StorageFault))
			}
			if ran {
				ask = false
				continue
			}
			return Uncounted(time.Now().Add(wait), "early")
		case "early":
			return Uncounted(time.Now().Add(wait), "early")
		case "busy":
			return Uncounted(time.Now().Add(wait+busyPause), "claimed elsewhere")
		}
		// ended, stale or gone: this task does not speak for its job any more.
		if got.Ended == "1" {
			w.ending().Ended(ctx, got.end(t.Topic, t.JobID))
			return Final(got.Outcome + ": " + got.Reason)
		}
		w.Log.InfoContext(ctx, "a task was dropped", "job", t.JobID, "run", t.Run, "because", got.Code)
		return Dropped()
	}
}

func (w *Worker) claim(ctx context.Context, t Task, token string, ask bool) (answer, []byte, error) {
	var input []byte
	got, err := repeat(ctx, func() (answer, error) {
		got, blob, err := w.Store.run(ctx, "claim", t.Topic, args{
			"job": t.JobID, "run": t.Run, "token": token, "worker": w.Name, "lease_ms": ms(w.Settings.Lease),
			"save_ms": ms(w.Settings.Saving), "input_ms": ms(w.Settings.InputRetention), "ask": ask,
		}, nil)
		input = blob
		return got, err
	})
	return got, input, err
}

// attempt runs a claimed attempt and settles it.
func (w *Worker) attempt(queue context.Context, t Task, wl Workload, token string, c answer, input []byte) Verdict {
	// The settlement must go on when the queue's context ends; the calls must not.
	ctx := context.WithoutCancel(queue)
	work, cancel := context.WithCancelCause(queue)
	defer cancel(nil)
	w.mu.Lock()
	w.running[token], w.byJob[t.JobID] = cancel, token
	if w.over {
		cancel(errDraining)
	}
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.running, token)
		if w.byJob[t.JobID] == token {
			delete(w.byJob, t.JobID)
		}
		w.mu.Unlock()
	}()
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		w.renew(work, t, token, cancel)
	}()

	a := &attempt{w: w, t: t, wl: wl, token: token, claim: c, start: time.Now()}
	w.Log.InfoContext(ctx, "attempt started", "job", t.JobID, "workload", wl.Name, "attempt", c.Attempt, "run", t.Run)
	if c.Attempt == 1 {
		w.Metrics.claimed(t.JobID, wl.Name, w.Settings.DeadlineFor(wl.Long)-time.Duration(c.Deadline-c.Now)*time.Millisecond)
	}
	res, err := a.generate(work, input)
	cause := context.Cause(work)
	cancel(nil)
	<-renewed
	return a.settle(ctx, res, err, cause)
}

// renew keeps the claim alive until work ends, and ends it when the claim is
// lost, or when it could not be renewed for as long as the lease lives: then
// another worker may have started.
func (w *Worker) renew(work context.Context, t Task, token string, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(w.Settings.Lease / 3)
	defer tick.Stop()
	alive := time.Now()
	for {
		select {
		case <-work.Done():
			return
		case <-tick.C:
		}
		sent := time.Now()
		ctx, done := context.WithTimeout(work, w.Settings.Lease/3)
		got, _, err := w.Store.run(ctx, "renew", t.Topic, args{"job": t.JobID, "token": token, "lease_ms": ms(w.Settings.Lease)}, nil)
		done()
		switch {
		case err == nil && got.Code == "ok":
			alive = sent
		case err == nil:
			cancel(errClaimLost)
			return
		case time.Since(alive) >= w.Settings.Lease:
			cancel(errClaimLost)
			return
		}
	}
}

func (w *Worker) ending() Ending {
	return Ending{Store: w.Store, Keep: w.Settings.InputRetention, Metrics: w.Metrics, Log: w.Log}
}
