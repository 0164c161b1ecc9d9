package jobs

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/lifecycle"
	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/retry"
	"github.com/tidings/tidings/jobs/store"
)

// Why an attempt's context ended, when it was not its own time limit.
var (
	errClaimLost = errors.New("jobs: the claim is lost")
	errCancelled = errors.New("jobs: the job was cancelled")
	errDraining  = errors.New("jobs: the process shuts down")
)

// refusedCall is why no further call may be made: how the attempt then ends.
type refusedCall struct{ lifecycle.Attempt }

func (e refusedCall) Error() string { return "jobs: no further call: " + string(e.Reason) }

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
	listen(ctx, w.Store.Client, store.Cancels, func(job string) {
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
	byHand := false
	for {
		a, got, err := w.start(ctx, t, wl, byHand)
		switch {
		case err != nil:
			w.Log.WarnContext(ctx, "a claim failed", "job", t.JobID, "error", err)
			return Uncounted(time.Now().Add(busyPause), string(events.StorageFault))
		case a != nil:
			return w.attempt(ctx, a)
		case got.End != nil:
			w.ending().Ended(ctx, end{topic: t.Topic, job: t.JobID, End: *got.End})
			w.Log.InfoContext(ctx, "a job ended before its next attempt", "job", t.JobID, "workload", wl.Name,
				"outcome", got.End.Outcome, "reason", got.End.Reason)
			return verdictOf(*got.End)
		}
		switch got.Code {
		case lifecycle.Wait:
			// Asynq cuts times to whole seconds on its own clock; ours is Redis's.
			select {
			case <-ctx.Done():
				return Uncounted(time.Now().Add(got.In), "early")
			case <-w.drain:
				return draining()
			case <-time.After(got.In):
				continue
			}
		case lifecycle.AskQueue:
			// Only an operator may shorten the wait, not a queue that brings the task
			// back because it has lost a worker, or never got to know the time.
			ran, err := w.Queue.Ran(ctx, t, time.Now().Add(got.In))
			if err != nil {
				return Uncounted(time.Now().Add(busyPause), string(events.StorageFault))
			}
			if ran {
				byHand = true
				continue
			}
			return Uncounted(time.Now().Add(got.In), "early")
		case lifecycle.TooEarly:
			return Uncounted(time.Now().Add(got.In), "early")
		case lifecycle.Busy:
			return Uncounted(time.Now().Add(got.In+busyPause), "claimed elsewhere")
		case lifecycle.OK: // the gate lets it wait
			return Uncounted(time.Now().Add(got.In), string(got.Reason))
		}
		// This task does not speak for its job any more.
		w.Log.InfoContext(ctx, "a task was dropped", "job", t.JobID, "run", t.Run, "because", got.Code)
		return Dropped()
	}
}

// verdictOf is what the queue does with the task of a job that has ended.
func verdictOf(e lifecycle.End) Verdict {
	if e.Outcome == events.OutcomeCompleted {
		return Done()
	}
	return Final(string(e.Outcome) + ": " + string(e.Reason))
}

// notStarted is why there is no attempt.
type notStarted struct {
	lifecycle.Claimed
	Reason events.Reason // of the gate's wait
}

// start asks the gate and then claims, so that an attempt that would only wait is
// neither told nor counted. What the gate gave goes back when somebody else was
// faster: nothing was sent.
func (w *Worker) start(ctx context.Context, t Task, wl Workload, byHand bool) (*attempt, notStarted, error) {
	read, err := repeat(ctx, func() (store.Snapshot, error) {
		return w.Store.Records.Read(ctx, t.Topic, store.Want{Input: true})
	})
	if err != nil {
		return nil, notStarted{}, err
	}
	a := w.prepare(t, wl, read)
	ask := lifecycle.Claiming{JobID: t.JobID, Run: t.Run, Token: a.token, Worker: w.Name, ByHand: byHand, Worst: a.worst}
	state := read.At()
	c, got := w.rules().Claim(state, ask)
	switch {
	case got.Code != lifecycle.Claimable && c.Nothing():
		return nil, notStarted{Claimed: got}, nil
	case got.Code == lifecycle.Claimable:
		ticket, err := a.ticket(ctx, 1)
		if err != nil {
			return nil, notStarted{}, err
		}
		if ticket.Verdict != gate.Go {
			return nil, w.turnedAway(ctx, t, read, ask, ticket), nil
		}
		a.held = ticket.Permit
	}
	claimed, err := w.Store.goOn(ctx, "claim", t.Topic, read, func(s lifecycle.State) (c lifecycle.Change) {
		c, got = w.rules().Claim(s, ask)
		return c
	})
	if err == nil && got.Code == lifecycle.Claimable {
		a.begin(claimed)
		return a, notStarted{}, nil
	}
	if a.held.ID != "" {
		a.report(context.WithoutCancel(ctx), a.held, gate.NotSent())
	}
	return nil, notStarted{Claimed: got}, err
}

// turnedAway is what the gate's refusal of an attempt's first call means
// (docs/retries.md): a wait is told and counts no attempt; without a token the job
// ends.
func (w *Worker) turnedAway(ctx context.Context, t Task, read store.Snapshot, ask lifecycle.Claiming, g gate.Answer) notStarted {
	verb, held := "hold", lifecycle.Claimed{}
	decide := func(s lifecycle.State) (c lifecycle.Change) {
		c, held = w.rules().Hold(s, ask, holdOf(g))
		return c
	}
	if g.Verdict == gate.Stop {
		verb = "deny"
		decide = func(s lifecycle.State) (c lifecycle.Change) {
			c, held = w.rules().Deny(s, ask, events.Reason(g.Reason), retryIn(g))
			return c
		}
	}
	if _, err := w.Store.goOn(ctx, verb, t.Topic, read, decide); err != nil {
		w.Log.WarnContext(ctx, "a wait could not be told", "job", t.JobID, "error", err)
		return notStarted{Claimed: lifecycle.Claimed{Code: lifecycle.OK, In: busyPause}, Reason: events.StorageFault}
	}
	return notStarted{Claimed: held, Reason: events.Reason(g.Reason)}
}

// holdOf is the gate's wait; an operator may lift a pause before its end.
func holdOf(g gate.Answer) lifecycle.Hold {
	return lifecycle.Hold{Reason: events.Reason(g.Reason), For: max(time.Millisecond, g.In), MayEnd: g.Reason == gate.DependencyPaused}
}

// retryIn is when a manual retry has a chance, where time alone brings it.
func retryIn(g gate.Answer) time.Duration {
	if g.Reason == gate.RetryBudget {
		return g.In
	}
	return 0
}

// attempt runs a claimed attempt and settles it.
func (w *Worker) attempt(queue context.Context, a *attempt) Verdict {
	// The settlement must go on when the queue's context ends; the calls must not.
	ctx := context.WithoutCancel(queue)
	work, cancel := context.WithCancelCause(queue)
	defer cancel(nil)
	w.mu.Lock()
	w.running[a.token], w.byJob[a.t.JobID] = cancel, a.token
	if w.over {
		cancel(errDraining)
	}
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.running, a.token)
		if w.byJob[a.t.JobID] == a.token {
			delete(w.byJob, a.t.JobID)
		}
		w.mu.Unlock()
	}()
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		a.renew(work, cancel)
	}()

	w.Log.InfoContext(ctx, "attempt started", "job", a.t.JobID, "workload", a.wl.Name, "attempt", a.number, "run", a.t.Run)
	res, err := a.generate(work)
	cause := context.Cause(work)
	cancel(nil)
	<-renewed
	return a.settle(ctx, res, err, cause)
}

func (w *Worker) rules() lifecycle.Rules { return lifecycle.Rules{Settings: w.Settings} }

func (w *Worker) ending() Ending {
	return Ending{Store: w.Store, Keep: w.Settings.InputRetention, Metrics: w.Metrics, Log: w.Log}
}
