package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/lifecycle"
	"github.com/tidings/tidings/jobs/retry"
	"github.com/tidings/tidings/jobs/store"
)

// Limits bound what is taken in. What is refused leaves nothing behind.
type Limits struct {
	// OpenJobs is how many jobs may be open at once; more are refused with
	// queue_full (TIDINGS_QUEUE_LIMIT).
	OpenJobs int
	// InputBytes is how much the inputs of open and failed jobs may take together
	// (TIDINGS_INPUT_BYTES). The oldest inputs of failed jobs make way for new ones;
	// what does not fit beside those of open jobs is refused with queue_full.
	InputBytes int64
	// Owner bounds each owner beside that; its zero value bounds nobody.
	Owner OwnerLimits
	// Slots is how many jobs the fleet can work on at the same time at most,
	// however many processes it has: the calls that its gate lets through
	// (TIDINGS_MODEL_CONCURRENCY). 0: all that the processes offer.
	Slots int
	// Window is how many tokens the model takes; 0: unknown. An input that is
	// longer, or longer than its workload's MaxInputTokens, is refused with
	// input_too_long.
	Window int64
}

// OwnerLimits bound one owner, so that nobody can stop everybody else. What is 0
// bounds nothing.
type OwnerLimits struct {
	// Jobs is how many jobs may be open at once; more are refused with
	// too_many_live_jobs (TIDINGS_OWNER_JOBS).
	Jobs int
	// InputBytes is how much the inputs of open and failed jobs may take together.
	// The owner's oldest failed ones make way; what does not fit beside those of open
	// jobs is refused with too_many_live_jobs.
	InputBytes int64
	// Starts is how many jobs may start, however they end; a further Idempotency-Key
	// of a live job counts as one. More are refused with too_often.
	Starts Rate
	// Retries is how many of them may be manual retries, whose first calls share a
	// small reserve; more are refused with too_often.
	Retries Rate
}

// OwnerShare are the limits of an owner who may have so many open jobs and start so
// many in a minute, in a fleet with these limits and this gate.
func OwnerShare(open, perMinute int, l Limits, g gate.Settings) OwnerLimits {
	// An eighth of the bytes: one owner alone, or two or three, leave most of them to
	// others. But a single input is always taken, and as JSON it may have six times
	// the bytes of its request.
	const share, leastBytes = 8, 8 << 20
	// Two fifths of the manual retries, as fast as they come and in reserve.
	const ofRetries = 0.4
	burst, perSecond := g.ManualRetries()
	return OwnerLimits{
		Jobs: open, InputBytes: max(l.InputBytes/share, leastBytes),
		Starts:  Rate{Burst: open, Every: time.Minute / time.Duration(perMinute)},
		Retries: Rate{Burst: max(1, int(burst*ofRetries)), Every: time.Duration(float64(time.Second) / (perSecond * ofRetries))},
	}
}

// Rate allows Burst at once and one more Every so often. No Burst: as many as come.
type Rate struct {
	Burst int
	Every time.Duration // at least 1 ms
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
	ownerInputs = "owner_bytes"
	ownerStarts = "owner_starts"
	ownerTaps   = "owner_retries"
	tooLate     = "deadline"
	gateShut    = "paused"
	tooLong     = "input_too_long"
)

func indexKeys() []string {
	keys := []string{"index", "inputs", "sizes", "bytes", "live", "pace", "slots", "failed", "used"}
	for i, k := range keys {
		keys[i] = "tidings:{open}:" + k
	}
	return keys
}

// admission is the answer to admit.
type admission struct {
	refused    string        // why; "" when it was taken in
	wait       time.Duration // until it is worth asking again
	gone       []string      // members of the index whose inputs made way
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
	retry  bool          // by hand
}

// admit takes a job into the index, if the limits allow it.
func (s *Store) admit(ctx context.Context, p place, l Limits) (admission, error) {
	after := ""
	if p.after != "" {
		after = member(p.topic, p.after)
	}
	rate := func(r Rate) map[string]any { return map[string]any{"burst": r.Burst, "every_ms": ms(r.Every)} }
	ask, err := json.Marshal(map[string]any{"bytes": p.bytes, "check_ms": ms(s.CheckEvery), "hold_ms": ms(p.hold), "within_ms": ms(p.within),
		"enough": lookBack, "after": after, "retry": p.retry,
		"jobs": l.OpenJobs, "input_bytes": l.InputBytes, "slots": l.Slots, "owner_jobs": l.Owner.Jobs, "owner_bytes": l.Owner.InputBytes,
		"starts": rate(l.Owner.Starts), "retries": rate(l.Owner.Retries)})
	if err != nil {
		return admission{}, fmt.Errorf("jobs: admit: %w", err)
	}
	reply, replicated, err := s.Run(ctx, "admit", s.index["admit"], indexKeys(), member(p.topic, p.job), ask)
	if err != nil {
		return admission{}, store.Error("admit", err)
	}
	list, _ := reply.([]any)
	if len(list) < 2 {
		return admission{}, fmt.Errorf("jobs: admit answered %T", reply)
	}
	a := admission{replicated: replicated}
	a.refused, _ = list[0].(string)
	wait, _ := list[1].(int64)
	a.wait = time.Duration(wait) * time.Millisecond
	for _, m := range list[2:] {
		text, _ := m.(string)
		a.gone = append(a.gone, text)
	}
	// How soon an open job ends is a mean at best.
	switch a.refused {
	case noRoom, noInputRoom:
		a.wait = max(a.wait, queueFullRetry)
	case ownerFull, ownerInputs:
		a.wait = max(a.wait, ownerFullRetry)
	}
	return a, nil
}

// makeWay deletes the inputs of failed jobs that the index counts no more. What a
// failure leaves goes when its time is over.
func (s *Store) makeWay(ctx context.Context, members []string) error {
	var errs []error
	for _, m := range members {
		t, job, err := parseMember(m)
		if err == nil {
			_, _, err = s.do(ctx, "forget", t, store.Want{}, func(state lifecycle.State) lifecycle.Change {
				c, _ := lifecycle.Rules{}.Forget(state, job)
				return c
			})
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
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
	return s.out(ctx, t, job, keep, worked, 0, 0)
}

// withdraw takes a job out of the index that was never stored, and gives its owner's
// rates back what it took of them.
func (s *Store) withdraw(ctx context.Context, p place, l OwnerLimits) error {
	if !p.retry {
		l.Retries.Every = 0
	}
	return s.out(ctx, p.topic, p.job, 0, 0, l.Starts.Every, l.Retries.Every)
}

func (s *Store) out(ctx context.Context, t events.Topic, job string, keep, worked, starts, retries time.Duration) error {
	err := s.index["leave"].Run(ctx, s.Client, indexKeys(), member(t, job), ms(keep), ms(worked), lookBack, ms(paceKeep),
		ms(starts), ms(retries)).Err()
	if err != nil {
		return store.Error("leave", err)
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
	r, err := s.index["due"].Run(ctx, s.Client, indexKeys(), most, ms(s.CheckEvery), offer, ms(presence*s.CheckEvery)).StringSlice()
	if err != nil {
		return dueChecks{}, store.Error("due", err)
	}
	return dueChecks{fromMS(number(r[0])), r[1:]}, nil
}

// queueFullRetry is what a refused caller is told to wait at least: about the time
// in which a running job makes room. An owner's own jobs take longer to end.
const (
	queueFullRetry = 5 * time.Second
	ownerFullRetry = 10 * time.Second
)

// refusal is what a request is told that was not admitted.
func refusal(a admission) *Refusal {
	code := CodeQueueFull
	switch a.refused {
	case ownerFull, ownerInputs:
		code = CodeTooManyLiveJobs
	case ownerStarts, ownerTaps:
		code = CodeTooOften
	case tooLate, gateShut:
		code = CodeAdmissionDenied
	}
	return &Refusal{Code: code, RetryAfter: a.wait}
}

// place is what a new job of a topic asks of the index.
func (s *Service) place(t events.Topic, w Workload, job string, bytes int) place {
	deadline := s.Settings.DeadlineFor(w.Long)
	return place{topic: t, job: job, bytes: bytes, within: deadline - s.Settings.Saving, hold: deadline + s.Settings.InputRetention}
}

// admit takes a job in or answers with a *Refusal. Who hands that on counts it:
// some who are refused repeat what is known, and are answered after all.
func (s *Service) admit(ctx context.Context, p place) (admission, error) {
	if wait := s.shut(ctx, p); wait > 0 {
		a := admission{refused: gateShut, wait: wait}
		return a, refusal(a)
	}
	got, err := repeat(ctx, func() (admission, error) { return s.Store.admit(ctx, p, s.Limits) })
	if err != nil {
		return got, err
	}
	if len(got.gone) > 0 {
		s.Log.InfoContext(ctx, "inputs of failed jobs made way for newer ones", "count", len(got.gone))
		if err := s.Store.makeWay(context.WithoutCancel(ctx), got.gone); err != nil {
			s.Log.WarnContext(ctx, "inputs that made way are stored until their time is over", "error", err)
		}
	}
	if got.refused != "" {
		return got, refusal(got)
	}
	return got, nil
}

// seenOpen is how long a gate that was seen open is not asked again.
const seenOpen = time.Second

// shut is how much too long an operator's pause or a provider's hold lasts for a job
// to be done in time, 0 if it does not.
func (s *Service) shut(ctx context.Context, p place) time.Duration {
	w, _ := WorkloadNamed(p.topic.Workload)
	if s.Gate == nil || s.Outside.Queue(w) == OutsideQueue || time.Since(time.Unix(0, s.openAt.Load())) < seenOpen {
		return 0
	}
	state, err := s.Gate.Inspect(ctx, s.Dependency)
	if err != nil { // the storage: the admission will tell
		return 0
	}
	until := state.ClosedUntil()
	if !until.After(state.At) {
		s.openAt.Store(time.Now().UnixNano())
		return 0
	}
	return max(0, until.Sub(state.At)-p.within)
}

// withdraw is best effort, as leave.
func (s *Service) withdraw(ctx context.Context, p place) {
	if err := s.Store.withdraw(ctx, p, s.Limits.Owner); err != nil {
		s.Log.WarnContext(ctx, "a job stays in the index until the rescuer drops it", "job", p.job, "error", err)
	}
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
	p := place{topic: t, job: job, bytes: bytes, hold: settings.DeadlineFor(w.Long) + settings.InputRetention}
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
