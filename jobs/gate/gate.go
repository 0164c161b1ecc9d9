package gate

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed scripts/*.lua
var scripts embed.FS

// Gate asks the fleet's gates in Redis. It keeps nothing but what is being asked
// just now and is safe for concurrent use.
type Gate struct {
	client redis.Scripter
	lease  time.Duration
	probes int
	verbs  map[string]*redis.Script

	mu      sync.Mutex
	waiting map[desk][]*turn // an entry while somebody serves it; who leaves takes its turn along
}

// New prepares the scripts; it does not talk to Redis. The client is any that runs
// scripts, of a single server, Sentinel or Cluster. The settings should have passed
// their Check.
func New(client redis.Scripter, s Settings) *Gate {
	g := &Gate{client: client, lease: s.Lease, probes: s.Probes, verbs: map[string]*redis.Script{}, waiting: map[desk][]*turn{}}
	for verb, parts := range map[string][]string{
		"ticket":   {"state", "budget", "ticket", "serve"},
		"report":   {"state", "budget", "window", "report", "serve"},
		"pause":    {"state", "pause"},
		"inspect":  {"state", "budget", "window", "inspect"},
		"switch":   {"switch"},
		"switched": {"switched"},
		"switches": {"switches"},
	} {
		var script strings.Builder
		for _, part := range parts {
			script.WriteString(text(part))
		}
		g.verbs[verb] = redis.NewScript(s.fill(script.String()))
	}
	return g
}

// text is a script that was compiled in, so it can only be missing from a build
// that no test has seen.
func text(name string) string {
	b, err := scripts.ReadFile("scripts/" + name + ".lua")
	if err != nil {
		panic(err)
	}
	return string(b)
}

// Ask is what a ticket is asked for. Names are up to 200 visible ASCII characters
// without braces.
type Ask struct {
	// Dependency is provider and model, such as "anthropic/claude-opus-4-1".
	Dependency string
	Workload   string
	JobID      string
	// Token names this one call, for ever: the attempt's claim token and the
	// number of the call. It becomes the permit's id.
	Token string
	// First is set for the first call that the job ever makes, over all its
	// attempts: what the job has reserved so far is 0.
	First bool
	// Manual is set for a job that a user's retry started.
	Manual bool
	// Lease is how long the permit lives; 0 is Settings.Lease.
	Lease time.Duration
}

func (a Ask) kind() string {
	switch {
	case !a.First:
		return "retry"
	case a.Manual:
		return "manual"
	default:
		return "first"
	}
}

// Verdict is the gate's answer in a word.
type Verdict string

// The three answers.
const (
	Go   Verdict = "go"   // make exactly one call, then Report
	Wait Verdict = "wait" // ask again with a new token, not before Until
	Stop Verdict = "stop" // no further call now; the retry owner decides what that means
)

// Reason says why not. The values are reasons of the contract.
type Reason string

// Why the gate says Wait (the first four) or Stop.
const (
	DependencyPaused Reason = "dependency_paused" // an operator's pause
	RateLimited      Reason = "rate_limited"      // the provider told the account to wait
	BreakerOpen      Reason = "breaker_open"
	Overloaded       Reason = "overloaded" // all places are taken
	RetryBudget      Reason = "retry_budget"
	RetriesDisabled  Reason = "retries_disabled" // an operator's switch
)

// Answer is what Ticket says.
type Answer struct {
	Verdict Verdict
	// Permit is set for Go. It has to be given back by Report.
	Permit Permit
	// Reason is set for Wait and Stop.
	Reason Reason
	// Until is when to ask again for Wait, when time alone will have earned a
	// token for RetryBudget, and when the switch ends for RetriesDisabled; Redis
	// time.
	Until time.Time
	// In is how long it is until then, for callers that wait by their own clock.
	In time.Duration
}

// Permit is the right to make one call. It holds nothing that another process
// could not write down: Dependency and ID are enough to report.
type Permit struct {
	Dependency string
	ID         string
	// ExpiresAt is when the lease ends, Redis time.
	ExpiresAt time.Time
}

// Ticket asks whether a call may be made, and takes what it needs. On an error
// the call must not be made. The same Ask may be repeated when the answer was
// lost, and should be, since what it took stays taken until the lease ends.
func (g *Gate) Ticket(ctx context.Context, a Ask) (Answer, error) {
	if err := names(a.Dependency, a.Workload, a.JobID, a.Token); err != nil {
		return Answer{}, err
	}
	lease := a.Lease
	if lease <= 0 {
		lease = g.lease
	}
	if !a.First {
		if off, err := g.Switched(ctx, a.Dependency, a.Workload); err != nil || off.Verdict != Go {
			return off, err
		}
	}
	got, err := g.ask(ctx, desk{a.Dependency, "ticket"}, a.Token, a.kind(), lease.Milliseconds(), spread(a.Token), a.Workload, a.JobID)
	if err != nil {
		return Answer{}, fmt.Errorf("gate: ticket for %s: %w", a.Dependency, err)
	}
	all := got.public()
	if all.Verdict == Go {
		all.Permit = Permit{Dependency: a.Dependency, ID: a.Token, ExpiresAt: got.at}
	}
	return all, nil
}

// Report gives the permit back and says what became of its call, before any wait
// (S4-23). It may be repeated; only the first report of a permit counts, and none
// after its lease has ended. After an error the permit goes back when its lease
// ends.
func (g *Gate) Report(ctx context.Context, p Permit, r Result) error {
	if r.code == "" {
		return errors.New("gate: a report needs a result")
	}
	if err := names(p.Dependency, p.ID); err != nil {
		return err
	}
	if _, err := g.ask(ctx, desk{p.Dependency, "report"}, p.ID, r.code, r.hint.Milliseconds()); err != nil {
		return fmt.Errorf("gate: report to %s: %w", p.Dependency, err)
	}
	return nil
}

// keys are a dependency's, all in one slot.
func keys(dependency string) []string {
	tag := "tidings:{gate/" + dependency + "}:"
	return []string{tag + "state", tag + "permits", tag + "audit"}
}

// MaxName is how long a name may be, in bytes.
const MaxName = 200

// Named tells whether a gate can be kept under a name: 1 to MaxName visible ASCII
// characters without braces. Any other would break a key, a hash tag or a record
// apart.
func Named(name string) bool {
	strange := strings.IndexFunc(name, func(r rune) bool { return r < '!' || r > '~' || r == '{' || r == '}' })
	return name != "" && len(name) <= MaxName && strange < 0
}

// names refuses what is not Named.
func names(all ...string) error {
	for _, name := range all {
		if !Named(name) {
			return fmt.Errorf("gate: %q is not 1 to %d visible ASCII characters without braces", name, MaxName)
		}
	}
	return nil
}

// spread is a number from 0 up to but not 1, always the same for a token.
func spread(token string) float64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(token)) // never fails
	return float64(h.Sum32()) / (math.MaxUint32 + 1)
}

// ms reads Redis time as the scripts write it.
func ms(s string) time.Time {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}
