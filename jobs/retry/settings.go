package retry

import (
	"errors"
	"fmt"
	"time"
)

// Settings holds every number of the two layers. Defaults are those of
// docs/retries.md; the environment variable that sets a field is in brackets.
type Settings struct {
	// Calls is how many calls one attempt makes at most, the first included: 1
	// to 5 (S0-08, S0-09) [TIDINGS_CALLS].
	Calls int
	// FirstPause is the bound of the first pause: above 0, up to 5 s (S0-10)
	// [TIDINGS_CALL_FIRST_PAUSE].
	FirstPause time.Duration
	// Cap is what no pause exceeds: FirstPause to 8 s (S0-11).
	Cap time.Duration
	// Jitter is the part of a pause that chance decides, 0 to 1 (S0-12)
	// [TIDINGS_CALL_JITTER].
	Jitter float64
	// Budget is the time for all calls and pauses of one attempt, LongBudget
	// the same for a workload marked long (S0-13) [TIDINGS_CALL_BUDGET].
	Budget, LongBudget time.Duration
	// PerCall and LongPerCall limit one call inside the budget (S1-06).
	PerCall, LongPerCall time.Duration
	// MinRest is the rest below which no further call is made (S0-15).
	MinRest time.Duration

	// Attempts is how often the queue runs the job at most, the first included:
	// 1 to 10 (S4-10) [TIDINGS_QUEUE_ATTEMPTS].
	Attempts int
	// Plan is what the queue waits in between [TIDINGS_QUEUE_DELAYS].
	Plan Plan
	// QueueJitter lengthens those waits, 0 to 0.1 [TIDINGS_QUEUE_JITTER].
	QueueJitter float64
	// Allowance is how many calls a job makes at most, whatever the other
	// settings, over worker restarts too: 1 to 100 [TIDINGS_CALL_ALLOWANCE].
	Allowance int
	// Cost is what the calls of one job may cost in US dollars, over worker
	// restarts too; 0 is no limit [TIDINGS_JOB_COST].
	Cost float64
	// Deadline and LongDeadline count from the job's acceptance (S4-01)
	// [TIDINGS_DEADLINE].
	Deadline, LongDeadline time.Duration
	// Saving is kept back of the deadline for storing the result (S4-06).
	Saving time.Duration

	// Lease is how long a silent worker keeps its claim; renewed at a third
	// [TIDINGS_LEASE].
	Lease time.Duration
	// Retention is how long jobs and logs are kept, InputRetention the inputs
	// of ended jobs [TIDINGS_RETENTION, TIDINGS_INPUT_RETENTION].
	Retention, InputRetention time.Duration
	// Drain is how long streams take to close at shutdown, CallDrain how long a
	// running call may go on after that, Grace when the orchestrator kills the
	// process [TIDINGS_DRAIN; Grace is set in the orchestrator].
	Drain, CallDrain, Grace time.Duration
}

// taskMargin is how much later than the budget Asynq ends a task, and slack
// what a deadline needs beyond the sum of its parts: claims, gate and queue are
// not free.
const (
	taskMargin = 10 * time.Second
	slack      = 30 * time.Second
)

// MaxCost is the highest cap of a job's cost, in US dollars.
const MaxCost = 10_000

// Defaults are the numbers of docs/retries.md: 3 calls x 4 attempts, 45 s each,
// waits of 30, 60 and 120 s, 12 calls and 10 minutes in all.
func Defaults() Settings {
	return Settings{
		Calls: 3, FirstPause: time.Second, Cap: 8 * time.Second, Jitter: 1,
		Budget: 45 * time.Second, LongBudget: 90 * time.Second,
		PerCall: 30 * time.Second, LongPerCall: 60 * time.Second, MinRest: 10 * time.Second,

		Attempts: 4, Plan: Plan{steps: []time.Duration{30 * time.Second, 60 * time.Second, 120 * time.Second}},
		Allowance: 12, Deadline: 10 * time.Minute, LongDeadline: 15 * time.Minute, Saving: 5 * time.Second,

		Lease: 15 * time.Second, Retention: 7 * 24 * time.Hour, InputRetention: 24 * time.Hour,
		Drain: 10 * time.Second, CallDrain: 20 * time.Second, Grace: 40 * time.Second,
	}
}

// Backoff is the pauses of layer 1.
func (s Settings) Backoff() Backoff {
	return Backoff{Base: s.FirstPause, Cap: s.Cap, Jitter: s.Jitter}
}

// BudgetFor is the time for all calls and pauses of one attempt.
func (s Settings) BudgetFor(long bool) time.Duration {
	if long {
		return s.LongBudget
	}
	return s.Budget
}

// PerCallFor is the limit of one call inside the budget.
func (s Settings) PerCallFor(long bool) time.Duration {
	if long {
		return s.LongPerCall
	}
	return s.PerCall
}

// DeadlineFor is how long a job may take from its acceptance.
func (s Settings) DeadlineFor(long bool) time.Duration {
	if long {
		return s.LongDeadline
	}
	return s.Deadline
}

// TaskTimeout is Asynq's limit for one attempt, the budget and 10 s: always
// later than our own end, so that the reason is ours (I-73). Whole seconds,
// because Asynq cuts fractions.
func (s Settings) TaskTimeout(long bool) time.Duration {
	return (s.BudgetFor(long) + taskMargin + time.Second - 1).Truncate(time.Second)
}

// Worst is what a job can cost at most under some settings (S4-09).
type Worst struct {
	// Calls is the most calls to the provider: Calls x Attempts, or the
	// allowance where that is smaller.
	Calls int
	// Waits is the sum of the queue's waits, jitter included.
	Waits time.Duration
	// Total is waits, budgets of all attempts and saving; LongTotal the same
	// for a workload marked long. A provider's hint can add to it, up to the
	// deadline and no further.
	Total, LongTotal time.Duration
}

// Seconds is Total in seconds, LongTotal for a workload marked long.
func (w Worst) Seconds(long bool) float64 {
	if long {
		return w.LongTotal.Seconds()
	}
	return w.Total.Seconds()
}

func (w Worst) String() string {
	return fmt.Sprintf("at most %d calls, %s of queue waits, %s in all (long workloads %s)",
		w.Calls, short(w.Waits), short(w.Total), short(w.LongTotal))
}

// Worst adds up what the settings allow.
func (s Settings) Worst() Worst {
	waits := s.Plan.Total(s.Attempts - 1)
	waits += time.Duration(float64(waits) * s.QueueJitter)
	n := time.Duration(s.Attempts)
	return Worst{
		Calls:     min(s.Calls*s.Attempts, s.Allowance),
		Waits:     waits,
		Total:     waits + n*s.Budget + s.Saving,
		LongTotal: waits + n*s.LongBudget + s.Saving,
	}
}

// Check refuses settings that contradict each other or leave their bounds. The
// message of each says what to change; all that apply are joined (S0-19).
func (s Settings) Check() error {
	if err := s.checkBounds(); err != nil {
		return err // sums of numbers out of bounds would only add noise
	}
	return errors.Join(s.checkBudget(), s.checkDeadlines(), s.checkKeeping())
}

func (s Settings) checkBounds() error {
	var errs []error
	refuse := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	within := func(name string, d, low, high time.Duration) {
		refuse(low <= d && d <= high, "%s is %s: set it between %s and %s", name, short(d), short(low), short(high))
	}
	const day = 24 * time.Hour
	refuse(1 <= s.Calls && s.Calls <= 5, "TIDINGS_CALLS is %d: set it between 1 and 5", s.Calls)
	within("TIDINGS_CALL_FIRST_PAUSE", s.FirstPause, time.Millisecond, 5*time.Second)
	within("the longest pause", s.Cap, time.Millisecond, 8*time.Second)
	refuse(0 <= s.Jitter && s.Jitter <= 1, "TIDINGS_CALL_JITTER is %v: set it to full or between 0 and 1", s.Jitter)
	within("TIDINGS_CALL_BUDGET", s.Budget, 100*time.Millisecond, 10*time.Minute)
	within("the budget of long workloads", s.LongBudget, 100*time.Millisecond, 10*time.Minute)
	within("the limit of one call", s.PerCall, 100*time.Millisecond, 10*time.Minute)
	within("the limit of one call of long workloads", s.LongPerCall, 100*time.Millisecond, 10*time.Minute)
	within("the least rest for a further call", s.MinRest, time.Millisecond, time.Minute)
	refuse(1 <= s.Attempts && s.Attempts <= 10, "TIDINGS_QUEUE_ATTEMPTS is %d: set it between 1 and 10", s.Attempts)
	refuse(!s.Plan.IsZero(), "TIDINGS_QUEUE_DELAYS is empty: set a list such as 30s,60s,120s or exp:10s..5m")
	refuse(0 <= s.QueueJitter && s.QueueJitter <= MaxQueueJitter,
		"TIDINGS_QUEUE_JITTER is %v: set it between 0 and %v", s.QueueJitter, MaxQueueJitter)
	refuse(1 <= s.Allowance && s.Allowance <= 100, "TIDINGS_CALL_ALLOWANCE is %d: set it between 1 and 100", s.Allowance)
	refuse(0 <= s.Cost && s.Cost <= MaxCost, "TIDINGS_JOB_COST is %v: set it between 0 and %v", s.Cost, float64(MaxCost))
	within("TIDINGS_DEADLINE", s.Deadline, time.Second, day)
	within("the deadline of long workloads", s.LongDeadline, time.Second, day)
	within("the time for saving", s.Saving, time.Millisecond, taskMargin)
	within("TIDINGS_LEASE", s.Lease, 100*time.Millisecond, time.Minute)
	return errors.Join(errs...)
}

// checkBudget keeps the settings of layer 1 from promising calls that its
// budget can never hold.
func (s Settings) checkBudget() error {
	var errs []error
	if s.Cap < s.FirstPause {
		errs = append(errs, fmt.Errorf("the longest pause of %s is shorter than the first: lower TIDINGS_CALL_FIRST_PAUSE to at most that",
			short(s.Cap)))
	}
	if s.Calls > 1 {
		pauses := s.Backoff().Worst(s.Calls)
		need := pauses + s.MinRest
		for _, long := range []bool{false, true} {
			if budget := s.BudgetFor(long); budget < need {
				errs = append(errs, fmt.Errorf("%s of %s cannot hold %d calls: the pauses take up to %s and the last call needs %s; "+
					"raise it to at least %s, or lower TIDINGS_CALLS or TIDINGS_CALL_FIRST_PAUSE",
					names(long).budget, short(budget), s.Calls, short(pauses), short(s.MinRest), short(need)))
			}
		}
	}
	return errors.Join(errs...)
}

func (s Settings) checkDeadlines() error {
	var errs []error
	w := s.Worst()
	for _, long := range []bool{false, true} {
		need := w.Total + slack
		if long {
			need = w.LongTotal + slack
		}
		if d := s.DeadlineFor(long); d < need {
			errs = append(errs, fmt.Errorf("%s of %s is too short: waits of %s, %d attempts of %s, %s for saving and %s of slack are %s; "+
				"raise it to at least that, or lower TIDINGS_QUEUE_ATTEMPTS, TIDINGS_QUEUE_DELAYS or %s",
				names(long).deadline, short(d), short(w.Waits), s.Attempts, short(s.BudgetFor(long)), short(s.Saving), short(slack),
				short(need), names(long).budget))
		}
	}
	return errors.Join(errs...)
}

// checkKeeping compares what is kept, and how long a shutdown takes, with how
// long a job can go on.
func (s Settings) checkKeeping() error {
	var errs []error
	horizon := max(s.Deadline, s.LongDeadline)
	if s.Retention <= horizon {
		errs = append(errs, fmt.Errorf("TIDINGS_RETENTION of %s ends before a job can (%s): raise it above that",
			short(s.Retention), short(horizon)))
	}
	if s.InputRetention <= horizon {
		errs = append(errs, fmt.Errorf("TIDINGS_INPUT_RETENTION of %s ends before a job can (%s): raise it above that",
			short(s.InputRetention), short(horizon)))
	}
	if s.Grace <= s.Drain+s.CallDrain {
		errs = append(errs, fmt.Errorf("the shutdown grace of %s is not longer than the drain of %s and the %s a running call gets: "+
			"lower TIDINGS_DRAIN, or raise the grace here and in the orchestrator", short(s.Grace), short(s.Drain), short(s.CallDrain)))
	}
	return errors.Join(errs...)
}

type settingNames struct{ budget, deadline string }

func names(long bool) settingNames {
	if long {
		return settingNames{"the budget of long workloads", "the deadline of long workloads"}
	}
	return settingNames{"TIDINGS_CALL_BUDGET", "TIDINGS_DEADLINE"}
}
