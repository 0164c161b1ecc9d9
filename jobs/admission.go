package jobs

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/retry"
)

// Limits bound what is taken in. What is refused leaves nothing behind.
type Limits struct {
	// OpenJobs is how many jobs may be open at once; more are refused with
	// queue_full (TIDINGS_QUEUE_LIMIT).
	OpenJobs int
	// InputBytes is how much the inputs of open and failed jobs may take
	// together; more is refused with queue_full (TIDINGS_INPUT_BYTES).
	InputBytes int64
	// OwnerJobs is how many jobs of one owner may be open at once; more are
	// refused with too_many_live_jobs (TIDINGS_OWNER_JOBS). 0: as many as there is
	// room for.
	OwnerJobs int
	// Slots is how many jobs the fleet can work on at the same time at most,
	// however many processes it has: the calls that its gate lets through
	// (TIDINGS_MODEL_CONCURRENCY). 0: all that the processes offer.
	Slots int
	// Window is how many tokens the model takes; 0: unknown. An input that is
	// longer, or longer than its workload's MaxInputTokens, is refused with
	// input_too_long.
	Window int64
}

// The estimate of whether a job can be done in time (docs/retries.md). A mean is
// that of the last jobs, weighted as RFC 6298 smooths round-trip times, with 1/32
// where that has 1/8: jobs vary more.
const (
	// lookBack is how many jobs a mean looks back on, and how many must have been
	// seen before anything is refused by it.
	lookBack = 32
	// paceKeep is how long a mean says something after the last job that ended.
	paceKeep = time.Hour
	// presence is how many checks of the index a process may miss before its slots
	// do not count any more.
	presence = 3
)

// refusals are what a refused admission is told as, and its label in the metrics.
const (
	noRoom      = "queue_full"
	noInputRoom = "input_bytes"
	ownerFull   = "owner_jobs"
	tooLate     = "deadline"
	tooLong     = "input_too_long"
)

func indexKeys() []string {
	keys := []string{"index", "inputs", "sizes", "bytes", "live", "pace", "slots"}
	for i, k := range keys {
		keys[i] = "tidings:{open}:" + k
	}
	return keys
}

// admission is the answer to admit.
type admission struct {
	refused    string        // why; "" when it was taken in
	wait       time.Duration // until there is room, as far as known
	replicated bool
}

// place is what a job asks of the index.
type place struct {
	topic  events.Topic
	job    string
	bytes  int
	within time.Duration // in which it has to be done; 0: whenever
	hold   time.Duration // after which its input is forgotten at the latest
	after  string        // the failed job whose input it takes over; "": none
}

// admit takes a job into the index, if the limits allow it.
func (s *Store) admit(ctx context.Context, p place, l Limits) (admission, error) {
	after := ""
	if p.after != "" {
		after = member(p.topic, p.after)
	}
	reply, replicated, err := s.exec(ctx, "admit", indexKeys(), member(p.topic, p.job), p.bytes, l.OpenJobs, l.InputBytes,
		ms(s.CheckEvery), ms(p.hold), l.OwnerJobs, ms(p.within), l.Slots, lookBack, after)
	if err != nil {
		return admission{}, storageError("admit", err)
	}
	list, _ := reply.([]any)
	if len(list) < 2 {
		return admission{}, fmt.Errorf("jobs: admit answered %T", reply)
	}
	a := admission{replicated: replicated}
	switch list[0] {
	case int64(1):
	case int64(0):
		a.refused, a.wait = noRoom, queueFullRetry
	case int64(-1):
		a.refused, a.wait = noInputRoom, queueFullRetry
	case int64(-2):
		a.refused, a.wait = ownerFull, ownerFullRetry
	case int64(-3):
		late, _ := list[2].(int64)
		a.refused, a.wait = tooLate, time.Duration(late)*time.Millisecond
	default:
		return admission{}, fmt.Errorf("jobs: admit answered %v", list[0])
	}
	return a, nil
}

// leave takes a job out of the index; keep is how long its input stays, worked
// how long it held a slot in all, 0 if that is not known. A job whose input
// stays has failed, and operators will ask for it by its id.
func (s *Store) leave(ctx context.Context, t events.Topic, job string, keep, worked time.Duration) error {
	if keep > 0 {
		if err := s.findable(ctx, t, job); err != nil {
			return err
		}
	}
	err := s.verbs["leave"].Run(ctx, s.client, indexKeys(), member(t, job), ms(keep), ms(worked), lookBack, ms(paceKeep)).Err()
	if err != nil {
		return storageError("leave", err)
	}
	return nil
}

// dueChecks are members of the index whose check is due, and Redis's time.
type dueChecks struct {
	now     time.Time
	members []string
}

// due takes members of the index whose check is due, and pushes them on. It also
// says that the named process works on so many jobs at the same time, unless
// that is none.
func (s *Store) due(ctx context.Context, most int, process string, slots int) (dueChecks, error) {
	offer := ""
	if slots > 0 {
		offer = process + ":" + strconv.Itoa(slots)
	}
	r, err := s.verbs["due"].Run(ctx, s.client, indexKeys(), most, ms(s.CheckEvery), offer, ms(presence*s.CheckEvery)).StringSlice()
	if err != nil {
		return dueChecks{}, storageError("due", err)
	}
	return dueChecks{fromMS(number(r[0])), r[1:]}, nil
}

// queueFullRetry is what a refused caller is told to wait: about the time in
// which a running job makes room. An owner's own jobs take longer to end.
const (
	queueFullRetry = 5 * time.Second
	ownerFullRetry = 10 * time.Second
)

// refusal is what a request is told that was not admitted.
func refusal(a admission) *Refusal {
	code := CodeQueueFull
	switch a.refused {
	case ownerFull:
		code = CodeTooManyLiveJobs
	case tooLate:
		code = CodeAdmissionDenied
	}
	return &Refusal{Code: code, RetryAfter: a.wait}
}

// admit takes a job in or answers with a *Refusal. Who hands that on counts it:
// some who are refused repeat what is known, and are answered after all. after is
// the failed job that this one follows, with its input; "" for none.
func (s *Service) admit(ctx context.Context, t events.Topic, job, after string, bytes int, deadline time.Duration) (admission, error) {
	p := place{topic: t, job: job, after: after, bytes: bytes, within: deadline - s.Settings.Saving, hold: deadline + s.Store.keep.Input}
	got, err := repeat(ctx, func() (admission, error) { return s.Store.admit(ctx, p, s.Limits) })
	if err == nil && got.refused != "" {
		err = refusal(got)
	}
	return got, err
}

// refused counts a refusal for want of room; nothing if a is none.
func (s *Service) refused(t events.Topic, job string, a admission) {
	if a.refused != "" {
		s.Metrics.refused(job, t.Workload, a.refused)
	}
}

// stay makes sure that a job is in the index whose second step took so long that
// the rescuer may have taken it for one that was never stored.
func (s *Service) stay(ctx context.Context, t events.Topic, job string, bytes int, since time.Time) {
	if time.Since(since) >= s.Store.CheckEvery {
		s.readmit(context.WithoutCancel(ctx), t, job, bytes)
	}
}

// readmit takes a job in that is stored already: above the limits, rather than
// where no rescuer would find it.
func (s *Service) readmit(ctx context.Context, t events.Topic, job string, bytes int) (replicated bool) {
	got, err := repeat(ctx, func() (admission, error) { return s.Store.readmit(ctx, t, job, bytes, s.Settings) })
	if err != nil {
		s.Log.ErrorContext(ctx, "a job may be outside the index, where no rescuer finds it", "job", job, "error", err)
	}
	return got.replicated
}

// readmit is admit for a job that was admitted before: there is room for it.
func (s *Store) readmit(ctx context.Context, t events.Topic, job string, bytes int, settings retry.Settings) (admission, error) {
	w, _ := WorkloadNamed(t.Workload)
	p := place{topic: t, job: job, bytes: bytes, hold: settings.DeadlineFor(w.Long) + s.keep.Input}
	return s.admit(ctx, p, Limits{OpenJobs: math.MaxInt32, InputBytes: math.MaxInt64})
}

// fits refuses an input that is longer than its workload or the model takes, at
// the door and not after calls.
func (s *Service) fits(w Workload, in Input, bytes int) error {
	limit := int64(w.MaxInputTokens)
	if s.Limits.Window > 0 {
		limit = min(limit, s.Limits.Window)
	}
	if int64(bytes) <= limit { // no token is less than a byte
		return nil
	}
	if n := in.leastTokens(); n > limit {
		s.Metrics.refused("", w.Name, tooLong)
		return &Refusal{Code: CodeInputTooLong, Field: "input", Why: fmt.Sprintf("at least %d tokens, the limit is %d", n, limit)}
	}
	return nil
}
