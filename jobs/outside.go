package jobs

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/lifecycle"
	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/retry"
	"github.com/tidings/tidings/jobs/store"
)

// OutsideQueue is the queue of jobs that workers outside this program do.
const OutsideQueue = "outside"

// offers is the channel that tells waiting claims of a new offer.
const offers = "tidings:offers"

// FailureType is what an outside worker may report. The list is closed, and the
// policy behind it is ours: the worker never says whether to try again (S2-03).
type FailureType string

// failurePolicy says what a reported failure means (S2-05).
type failurePolicy struct {
	reason events.Reason
	retry  bool
}

// failurePolicies is the closed list.
func failurePolicies() map[FailureType]failurePolicy {
	return map[FailureType]failurePolicy{
		"storage_unavailable":   {events.StorageFault, true},
		"input_invalid":         {events.InvalidInput, false},
		"model_unavailable":     {events.Unavailable, true},
		"model_rate_limited":    {events.RateLimited, true},
		"model_timeout":         {events.Timeout, true},
		"model_output_invalid":  {events.InvalidOutput, false},
		"model_auth":            {events.Auth, false},
		"state_inconsistent":    {events.Internal, false},
		"worker_internal_error": {events.Internal, true},
		"outcome_unknown":       {events.Internal, false},
	}
}

// The refusals of outside workers' requests.
const (
	CodeUnknownFailureType Code = "unknown_failure_type" // 400
	CodeAttemptConflict    Code = "attempt_conflict"     // 409
	CodeClaimLost          Code = "claim_lost"           // 409
	CodeNotResolvable      Code = "not_resolvable"       // 409
)

// OutsideOptions is what Outside is made of.
type OutsideOptions struct {
	Store    *Store
	Queue    Queue
	Settings retry.Settings
	// Workloads are done outside; the others by this program's own workers.
	Workloads []string
	// Gate has the kill switch, which holds for their attempts as well. Their
	// calls are not ours, so they need no tickets.
	Gate *gate.Gate
	// Waiting bounds the claims that wait at the same time in this process.
	Waiting int
	Metrics *Metrics
	Log     *slog.Logger
}

// Outside serves workers in other programs and languages: they claim, keep the
// claim alive, and complete or fail the attempt, with the same fence and the
// same retry plan as our own. A job is offered by its dispatcher, the handler of
// its Asynq task, so operators see it where they see all others.
type Outside struct {
	OutsideOptions
	schemas schemas
	mu      sync.Mutex
	offered chan struct{} // closed and replaced with each offer
	waiting int
}

// NewOutside makes an Outside; it fails when a workload's schema is not one.
func NewOutside(o OutsideOptions) (*Outside, error) {
	s, err := compileSchemas()
	if err != nil {
		return nil, err
	}
	for _, name := range o.Workloads {
		if _, ok := WorkloadNamed(name); !ok {
			return nil, fmt.Errorf("jobs: outside workers cannot have %q: there is no such workload", name)
		}
	}
	return &Outside{OutsideOptions: o, schemas: s, offered: make(chan struct{})}, nil
}

// Listen hears of offers that other processes make, until ctx ends.
func (o *Outside) Listen(ctx context.Context) {
	listen(ctx, o.Store.Client, offers, func(string) { o.wake() })
}

// listen calls heard for each message on a channel, until ctx ends.
func listen(ctx context.Context, client redis.UniversalClient, channel string, heard func(payload string)) {
	sub := client.Subscribe(ctx, channel)
	// A read that waits does not notice the end of ctx; closing ends it.
	defer context.AfterFunc(ctx, func() { sub.Close() })()
	defer sub.Close()
	for {
		m, err := sub.ReceiveMessage(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			continue
		}
		heard(m.Payload)
	}
}

func (o *Outside) wake() {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.offered)
	o.offered = make(chan struct{})
}

// Assignment is a claimed attempt, and all that a worker needs for it.
type Assignment struct {
	JobID       string          `json:"job_id"`
	Workload    string          `json:"workload"`
	Attempt     int             `json:"attempt"`
	MaxAttempts int             `json:"max_attempts"`
	ClaimToken  string          `json:"claim_token"`
	LeaseMS     int64           `json:"lease_ms"`     // without a heartbeat the claim ends after it
	HeartbeatMS int64           `json:"heartbeat_ms"` // how often to send one
	DeadlineAt  time.Time       `json:"deadline_at"`
	RemainingMS int64           `json:"remaining_ms"` // until then, for workers with other clocks
	Language    string          `json:"language,omitempty"`
	Input       json.RawMessage `json:"input"`
	System      string          `json:"system"`
	Prompt      string          `json:"prompt"`
	Schema      json.RawMessage `json:"schema"`
}

// again is how often a waiting claim looks although it heard nothing.
const lookAgain = time.Second

// Claim waits up to wait for a job of one of the workloads and claims it; nil
// when none came. CodeTooOften when too many claims wait already. The end of ctx
// ends the wait, not a claim that is being made.
func (o *Outside) Claim(ctx context.Context, worker string, workloads []string, wait time.Duration) (*Assignment, error) {
	for _, name := range workloads {
		if !slices.Contains(o.Workloads, name) {
			return nil, &Refusal{Code: CodeInvalidField, Field: "workloads", Why: "one of them is not done outside"}
		}
	}
	o.mu.Lock()
	if o.waiting >= o.Waiting {
		o.mu.Unlock()
		return nil, &Refusal{Code: CodeTooOften, RetryAfter: lookAgain}
	}
	o.waiting++
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		o.waiting--
		o.mu.Unlock()
	}()
	end := time.NewTimer(wait)
	defer end.Stop()
	for {
		o.mu.Lock()
		offered := o.offered
		o.mu.Unlock()
		for _, name := range workloads {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if a, err := o.take(context.WithoutCancel(ctx), worker, name); a != nil || err != nil {
				return a, err
			}
		}
		look := time.NewTimer(lookAgain)
		select {
		case <-offered:
		case <-look.C:
		case <-end.C:
			look.Stop()
			return nil, nil
		case <-ctx.Done():
			look.Stop()
			return nil, ctx.Err()
		}
		look.Stop()
	}
}

func (o *Outside) ending() Ending {
	return Ending{Store: o.Store, Keep: o.Settings.InputRetention, Metrics: o.Metrics, Log: o.Log}
}

func offersKey(workload string) string { return "tidings:{outside/" + workload + "}:offers" }

// take claims the oldest offer that can still be claimed.
func (o *Outside) take(ctx context.Context, worker, workload string) (*Assignment, error) {
	for {
		popped, err := o.Store.Client.ZPopMin(ctx, offersKey(workload), 1).Result()
		if err != nil {
			return nil, store.Error("take", err)
		}
		if len(popped) == 0 {
			return nil, nil
		}
		name, _ := popped[0].Member.(string)
		topic, id, err := parseMember(name)
		if err != nil {
			o.Log.ErrorContext(ctx, "an offer that is not ours was dropped", "error", err)
			continue
		}
		job, run, err := parseTaskID(id)
		if err != nil {
			o.Log.ErrorContext(ctx, "an offer that is not ours was dropped", "error", err)
			continue
		}
		// Lost between here and the claim, the offer is made anew by the dispatcher.
		a, err := o.claim(ctx, worker, Task{Topic: topic, JobID: job, Run: run, Queue: OutsideQueue})
		if a != nil || err != nil {
			return a, err
		}
	}
}

func (o *Outside) claim(ctx context.Context, worker string, t Task) (*Assignment, error) {
	wl, ok := WorkloadNamed(t.Topic.Workload)
	if !ok {
		return nil, nil
	}
	// First, because a claim whose job nobody finds would be lost.
	if err := o.Store.findable(ctx, t.Topic, t.JobID); err != nil {
		return nil, err
	}
	// Its calls are not ours to count; the attempt stands for one, so that the
	// allowance bounds it as well.
	token, s := rand.Text(), o.Settings
	ask := lifecycle.Claiming{JobID: t.JobID, Run: t.Run, Token: token, Worker: worker, ByHand: true}
	read, err := o.Store.Records.Read(ctx, t.Topic, store.Want{Input: true})
	if err != nil {
		return nil, err
	}
	off, err := o.switchedOff(ctx, t, read.Job)
	if err != nil {
		return nil, err
	}
	var got lifecycle.Claimed
	claimed, err := o.Store.goOn(ctx, "claim", t.Topic, read, func(state lifecycle.State) (c lifecycle.Change) {
		if off != "" {
			c, got = o.rules().Deny(state, ask, off, 0)
			return c
		}
		c, got = o.rules().Claim(state, ask)
		return c
	})
	if err != nil {
		return nil, err
	}
	if got.End != nil {
		o.ending().Ended(ctx, end{topic: t.Topic, job: t.JobID, End: *got.End})
	}
	if got.Code != lifecycle.Claimable {
		return nil, nil
	}
	input, job := read.Input, claimed.Job
	var in Input
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, fmt.Errorf("jobs: the input of a job cannot be read: %w", err)
	}
	if job.Attempts == 1 {
		o.Metrics.claimed(t.JobID, wl.Name, claimed.Now.Sub(job.AcceptedAt))
	}
	req := render(wl, t.Topic, job.Language, in)
	o.Log.InfoContext(ctx, "attempt started outside", "job", t.JobID, "workload", wl.Name, "attempt", job.Attempts, "worker", worker)
	return &Assignment{JobID: t.JobID, Workload: wl.Name, Attempt: job.Attempts, MaxAttempts: job.MaxAttempts,
		ClaimToken: token, LeaseMS: ms(s.Lease), HeartbeatMS: ms(s.Lease / 3), DeadlineAt: job.DeadlineAt,
		RemainingMS: ms(job.DeadlineAt.Sub(claimed.Now)), Language: job.Language, Input: input, System: req.System, Prompt: req.Prompt,
		Schema: wl.Schema}, nil
}

// Report is what an outside worker says of an attempt. Worker and Token are
// those of the claim.
type Report struct {
	JobID   string
	Attempt int
	Worker  string
	Token   string
}

// Heartbeat keeps a claim alive for another lease, which it returns. A claim
// whose lease has ended cannot be revived: CodeClaimLost, stop working.
func (o *Outside) Heartbeat(ctx context.Context, r Report) (time.Duration, error) {
	topic, err := o.Store.topicOf(ctx, r.JobID)
	if err != nil {
		return 0, err
	}
	var code lifecycle.Code
	_, _, err = o.Store.do(ctx, "renew", topic, store.Want{}, func(state lifecycle.State) (c lifecycle.Change) {
		if j := state.Job; j.Claim == nil || j.Claim.Worker != r.Worker || j.Attempts != r.Attempt {
			code = lifecycle.Lost
			return c
		}
		c, code = o.rules().Renew(state, r.JobID, r.Token, true)
		return c
	})
	if err == nil && code != lifecycle.OK {
		err = &Refusal{Code: CodeClaimLost}
	}
	return o.Settings.Lease, err
}

// Settled is the fixed result of a reported attempt: a repeat of the report
// gets the same one, whatever has become of the job since (S2-07).
type Settled struct {
	JobID       string
	Attempt     int
	Status      events.Status
	At          time.Time
	NextRetryAt time.Time // zero: there is no next attempt
	Version     int64
}

// Complete ends an attempt with its output. Output that does not satisfy the
// workload's schema is refused and changes nothing.
func (o *Outside) Complete(ctx context.Context, r Report, content json.RawMessage, modelName string, u model.Usage) (Settled, error) {
	topic, err := o.Store.topicOf(ctx, r.JobID)
	if err != nil {
		return Settled{}, err
	}
	if err := o.schemas.check(topic.Workload, content); err != nil {
		return Settled{}, &Refusal{Code: CodeInvalidField, Field: "content", Why: err.Error()}
	}
	return o.settle(ctx, topic, r, digest("completed", string(content)), func(language string) lifecycle.Attempt {
		body, err := json.Marshal(Document{Model: modelName, Language: language, Usage: u, Content: content})
		if err != nil { // the content was checked to be JSON
			return ends(events.OutcomeFailed, events.InvalidOutput, true)
		}
		return lifecycle.Attempt{Kind: lifecycle.Finished, Document: body}
	})
}

// Fail ends an attempt as failed. The server decides what follows; message is
// part of the report's identity and is neither stored nor logged.
func (o *Outside) Fail(ctx context.Context, r Report, kind FailureType, message string) (Settled, error) {
	policy, ok := failurePolicies()[kind]
	if !ok {
		return Settled{}, &Refusal{Code: CodeUnknownFailureType, Field: "failure_type"}
	}
	topic, err := o.Store.topicOf(ctx, r.JobID)
	if err != nil {
		return Settled{}, err
	}
	came := ends(events.OutcomeFailed, policy.reason, !policy.reason.Lasting())
	switch {
	case policy.retry:
		came = tryAgain(policy.reason, 0)
	case kind == "outcome_unknown":
		came = ends(events.OutcomeUnknown, policy.reason, false)
	}
	came.Detail = string(kind)
	came.Line.FailureType, came.Line.Message = string(kind), model.Redact(message)
	return o.settle(ctx, topic, r, digest(string(kind), message), func(string) lifecycle.Attempt { return came })
}

func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func (o *Outside) settle(ctx context.Context, topic events.Topic, r Report, digest string, came func(language string) lifecycle.Attempt) (Settled, error) {
	var code lifecycle.Code
	var got lifecycle.Settled
	var again bool
	_, _, err := o.Store.do(ctx, "settle", topic, store.Want{Job: r.JobID, Attempt: r.Attempt}, func(state lifecycle.State) (c lifecycle.Change) {
		report := lifecycle.Report{Worker: r.Worker, Attempt: r.Attempt, Token: r.Token, Digest: digest}
		c, code, got, again = o.rules().SettleReport(state, r.JobID, report, came(state.Job.Language))
		return c
	})
	switch {
	case err != nil:
		return Settled{}, err
	case code == lifecycle.Conflict:
		return Settled{}, &Refusal{Code: CodeAttemptConflict}
	case code != lifecycle.OK:
		return Settled{}, &Refusal{Code: CodeClaimLost}
	}
	if e := got.End(); e != nil {
		o.ending().Ended(ctx, end{topic: topic, job: r.JobID, End: *e, replay: again})
	}
	if !again { // a repeat counts nothing (S2-41)
		o.Metrics.attempt(topic.Workload, string(got.Status))
		o.Log.InfoContext(ctx, "attempt ended outside", "job", r.JobID, "workload", topic.Workload, "attempt", r.Attempt,
			"worker", r.Worker, "status", got.Status, "outcome", got.Outcome, "reason", got.Reason)
	}
	out := Settled{JobID: r.JobID, Attempt: r.Attempt, Status: got.Status, At: got.At, Version: got.Version}
	if got.Status == events.Retrying {
		out.NextRetryAt = got.Next
	}
	return out, nil
}

func (o *Outside) rules() lifecycle.Rules { return lifecycle.Rules{Settings: o.Settings} }

// Resolve ends an unknown outcome by an operator's word: with a document it was
// completed, with none it failed.
func (o *Outside) Resolve(ctx context.Context, job string, content json.RawMessage) (events.Status, error) {
	topic, err := o.Store.topicOf(ctx, job)
	if err != nil {
		return "", err
	}
	var body []byte
	if content != nil {
		if err := o.schemas.check(topic.Workload, content); err != nil {
			return "", &Refusal{Code: CodeInvalidField, Field: "content", Why: err.Error()}
		}
		if body, err = json.Marshal(Document{Model: "operator", Content: content}); err != nil {
			return "", &Refusal{Code: CodeInvalidField, Field: "content", Why: "not JSON"}
		}
	}
	var got lifecycle.Resolved
	_, _, err = o.Store.do(ctx, "resolve", topic, store.Want{}, func(state lifecycle.State) (c lifecycle.Change) {
		c, got = o.rules().Resolve(state, job, body)
		return c
	})
	switch {
	case err != nil:
		return "", err
	case got.Code == lifecycle.Unknown:
		return "", &Refusal{Code: CodeNotFound}
	case got.Code != lifecycle.OK:
		return "", &Refusal{Code: CodeNotResolvable}
	}
	o.Log.WarnContext(ctx, "an unknown outcome was resolved", "job", job, "as", got.Status)
	return got.Status, nil
}
