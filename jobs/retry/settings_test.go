package retry_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/jobs/retry"
)

func TestDefaultsAreThoseOfTheDocument(t *testing.T) {
	s := retry.Defaults()
	if err := s.Check(); err != nil {
		t.Fatalf("the defaults contradict themselves: %v", err)
	}
	if s.Calls != 3 || s.FirstPause != time.Second || s.Cap != 8*time.Second || s.Jitter != 1 || s.MinRest != 10*time.Second {
		t.Errorf("S0-08, S0-10, S0-11, S0-15: layer 1 is %+v", s)
	}
	if s.Attempts != 4 || s.Plan.String() != "30s,1m,2m" || s.QueueJitter != 0 || s.Allowance != 12 {
		t.Errorf("section 6 row 1: layer 2 is %+v", s)
	}
	if s.BudgetFor(false) != 45*time.Second || s.BudgetFor(true) != 90*time.Second ||
		s.PerCallFor(false) != 30*time.Second || s.PerCallFor(true) != 60*time.Second ||
		s.DeadlineFor(false) != 10*time.Minute || s.DeadlineFor(true) != 15*time.Minute {
		t.Errorf("S0-13, S1-06, S4-01: times are %+v", s)
	}
	if got := s.TaskTimeout(false); got != 55*time.Second {
		t.Errorf("I-73: Asynq's limit is %s, want 55s", got)
	}
	s.Budget += time.Millisecond
	if got := s.TaskTimeout(false); got != 56*time.Second {
		t.Errorf("Asynq's limit is %s, want whole seconds, rounded up", got)
	}
}

func TestWorstIsShown(t *testing.T) {
	source1 := retry.Defaults() // S1-05 to S1-09: 4 calls x 3 attempts
	source1.Calls, source1.Attempts = 4, 3
	jitter := retry.Defaults()
	jitter.QueueJitter = 0.1
	many := retry.Defaults()
	many.Calls, many.Attempts = 5, 4
	tests := []struct {
		name         string
		s            retry.Settings
		calls        int
		waits, total time.Duration
	}{
		{"default, section 6 row 1", retry.Defaults(), 12, 210 * time.Second, 395 * time.Second},
		{"S1-09", source1, 12, 90 * time.Second, 230 * time.Second},
		{"jitter", jitter, 12, 231 * time.Second, 416 * time.Second},
		{"the allowance bounds the product", many, 12, 210 * time.Second, 395 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.s.Check(); err != nil {
				t.Fatal(err)
			}
			w := tt.s.Worst()
			if w.Calls != tt.calls || w.Waits != tt.waits || w.Total != tt.total {
				t.Errorf("got %+v, want %d calls, %s, %s", w, tt.calls, tt.waits, tt.total)
			}
		})
	}
	const want = "at most 12 calls, 3m30s of queue waits, 6m35s in all (long workloads 9m35s)"
	if got := retry.Defaults().Worst().String(); got != want {
		t.Errorf("shown as %q, want %q", got, want)
	}
	if w := retry.Defaults().Worst(); w.Seconds(false) != 395 || w.Seconds(true) != 575 {
		t.Errorf("seconds are %v and %v", w.Seconds(false), w.Seconds(true))
	}
}

func TestCheckRefuses(t *testing.T) {
	longPlan := plan(t, "exp:10s..5m")
	tests := []struct {
		id     string
		change func(*retry.Settings)
		says   string // what to change
	}{
		{"S0-09 no call", func(s *retry.Settings) { s.Calls = 0 }, "TIDINGS_CALLS is 0: set it between 1 and 5"},
		{"S0-09 six calls", func(s *retry.Settings) { s.Calls = 6 }, "TIDINGS_CALLS is 6"},
		{"S0-10 first pause", func(s *retry.Settings) { s.FirstPause = 5001 * time.Millisecond }, "TIDINGS_CALL_FIRST_PAUSE is 5.001s"},
		{"S3-15 no pause", func(s *retry.Settings) { s.FirstPause = 0 }, "TIDINGS_CALL_FIRST_PAUSE"},
		{"S0-11 cap", func(s *retry.Settings) { s.Cap = 9 * time.Second }, "longest pause is 9s"},
		{"cap below the first", func(s *retry.Settings) { s.Cap, s.FirstPause = time.Second, 2*time.Second }, "shorter than the first"},
		{"jitter", func(s *retry.Settings) { s.Jitter = 1.5 }, "TIDINGS_CALL_JITTER"},
		{"budget", func(s *retry.Settings) { s.Budget = 0 }, "TIDINGS_CALL_BUDGET"},
		{"attempts", func(s *retry.Settings) { s.Attempts = 0 }, "TIDINGS_QUEUE_ATTEMPTS"},
		{"plan", func(s *retry.Settings) { s.Plan = retry.Plan{} }, "TIDINGS_QUEUE_DELAYS"},
		{"queue jitter", func(s *retry.Settings) { s.QueueJitter = 0.11 }, "TIDINGS_QUEUE_JITTER"},
		{"allowance", func(s *retry.Settings) { s.Allowance = 0 }, "TIDINGS_CALL_ALLOWANCE"},
		{"S4-06 saving beside Asynq's limit", func(s *retry.Settings) { s.Saving = 11 * time.Second }, "time for saving"},
		{"lease", func(s *retry.Settings) { s.Lease = time.Millisecond }, "TIDINGS_LEASE"},

		// S0-19: what would leave the budget silently.
		{"S0-19 many calls", func(s *retry.Settings) { s.Budget, s.Calls, s.FirstPause = 30*time.Second, 5, 5*time.Second },
			"cannot hold 5 calls: the pauses take up to 29s and the last call needs 10s; raise it to at least 39s"},
		{"S0-19 small budget", func(s *retry.Settings) { s.Budget = 12 * time.Second }, "raise it to at least 13s"},
		{"S0-19 small long budget", func(s *retry.Settings) { s.LongBudget = 12 * time.Second }, "the budget of long workloads of 12s"},
		{"deadline", func(s *retry.Settings) { s.Deadline = 5 * time.Minute },
			"TIDINGS_DEADLINE of 5m is too short: waits of 3m30s, 4 attempts of 45s, 5s for saving and 30s of slack are 7m5s"},
		{"deadline and plan", func(s *retry.Settings) { s.Plan, s.Attempts = longPlan, 9 }, "TIDINGS_QUEUE_DELAYS"},
		{"long deadline", func(s *retry.Settings) { s.LongDeadline = 10 * time.Minute }, "deadline of long workloads of 10m"},
		{"S4-47 retention", func(s *retry.Settings) { s.Retention = 15 * time.Minute }, "TIDINGS_RETENTION of 15m"},
		{"S4-47 inputs", func(s *retry.Settings) { s.InputRetention = time.Minute }, "TIDINGS_INPUT_RETENTION"},
		{"shutdown", func(s *retry.Settings) { s.Drain = 20 * time.Second }, "lower TIDINGS_DRAIN"},
	}
	for _, tt := range tests {
		t.Run(tt.id, func(t *testing.T) {
			s := retry.Defaults()
			tt.change(&s)
			err := s.Check()
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error is %v, want one that says %q", err, tt.says)
			}
		})
	}
}

func TestCheckAccepts(t *testing.T) {
	tests := map[string]func(*retry.Settings){
		"S0-09 one call":            func(s *retry.Settings) { s.Calls = 1 },
		"S0-09 five calls":          func(s *retry.Settings) { s.Calls = 5 },
		"S0-10 five seconds":        func(s *retry.Settings) { s.FirstPause = 5 * time.Second },
		"one call in a tiny budget": func(s *retry.Settings) { s.Calls, s.Budget = 1, time.Second },
		"dev": func(s *retry.Settings) {
			s.Plan, s.FirstPause = plan(t, "1s,2s,4s"), 10*time.Millisecond
		},
		"S2-22":      func(s *retry.Settings) { s.Plan = plan(t, "exp:10s..5m") },
		"tests":      func(s *retry.Settings) { s.Lease, s.MinRest = 300*time.Millisecond, 10*time.Millisecond },
		"just fits":  func(s *retry.Settings) { s.Deadline = 425 * time.Second },
		"S0-18 60 s": func(s *retry.Settings) { s.Budget = 60 * time.Second },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			s := retry.Defaults()
			change(&s)
			if err := s.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCheckJoinsWhatIsWrong(t *testing.T) {
	s := retry.Defaults()
	s.Calls, s.Attempts = 9, 99
	err := s.Check()
	if err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("error is %v, want two lines", err)
	}
	s = retry.Defaults()
	s.Deadline, s.Drain, s.Budget = time.Minute, time.Minute, 11*time.Second
	err = s.Check()
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("error is %v, want three lines", err)
	}
}
