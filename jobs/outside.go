package jobs

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/retry"
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
// same retry plan as our own. A job is offered by its chaperone, the handler of
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
	listen(ctx, o.Store.client, offers, func(string) { o.wake() })
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
		popped, err := o.Store.client.ZPopMin(ctx, offersKey(workload), 1).Result()
		if err != nil {
			return nil, storageError("take", err)
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
		// Lost between here and the claim, the offer is made anew by the chaperone.
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
	token, s := rand.Text(), o.Settings
	var input []byte
	got, err := repeat(ctx, func() (answer, error) {
		got, blob, err := o.Store.run(ctx, "claim", t.Topic, args{"job": t.JobID, "run": t.Run, "token": token, "worker": worker,
			"lease_ms": ms(s.Lease), "save_ms": ms(s.Saving), "input_ms": ms(s.InputRetention)}, nil)
		input = blob
		return got, err
	})
	if err != nil {
		return nil, err
	}
	if got.Ended == "1" {
		o.ending().Ended(ctx, got.end(t.Topic, t.JobID))
		return nil, nil
	}
	if got.Code != "claimed" {
		return nil, nil
	}
	if stopped, err := o.stopped(ctx, worker, t, token, got); stopped || err != nil {
		return nil, err
	}
	var in Input
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, fmt.Errorf("jobs: the input of a job cannot be read: %w", err)
	}
	// Its calls are not ours to count; the attempt stands for one, so that the
	// allowance bounds it as well.
	res, err := repeat(ctx, func() (answer, error) {
		res, _, err := o.Store.run(ctx, "reserve", t.Topic, args{"job": t.JobID, "token": token, "call": 1}, nil)
		return res, err
	})
	if err != nil {
		return nil, err
	}
	if outcome, reason := (refusedCall{res.Code}).end(); outcome != "" {
		return nil, o.endUnsent(ctx, worker, t, token, got.Attempt, outcome, reason)
	}
	if res.Code != "ok" {
		return nil, nil // lost
	}
	if got.Attempt == 1 {
		o.Metrics.claimed(t.JobID, wl.Name, s.DeadlineFor(wl.Long)-time.Duration(got.Deadline-got.Now)*time.Millisecond)
	}
	req := render(wl, t.Topic, got.Language, in)
	o.Log.InfoContext(ctx, "attempt started outside", "job", t.JobID, "workload", wl.Name, "attempt", got.Attempt, "worker", worker)
	return &Assignment{JobID: t.JobID, Workload: wl.Name, Attempt: got.Attempt, MaxAttempts: got.MaxAttempts,
		ClaimToken: token, LeaseMS: ms(s.Lease), HeartbeatMS: ms(s.Lease / 3), DeadlineAt: fromMS(got.Deadline),
		RemainingMS: got.Deadline - got.Now, Language: got.Language, Input: input, System: req.System, Prompt: req.Prompt,
		Schema: wl.Schema}, nil
}

// jobKey finds the session of a job by its id alone: one that was claimed from
// outside, or whose outcome is unknown.
func jobKey(job string) string { return "tidings:job:" + job }

func (s *Store) findable(ctx context.Context, t events.Topic, job string) error {
	if err := s.client.Set(ctx, jobKey(job), t.String(), s.keep.Job).Err(); err != nil {
		return storageError("findable", err)
	}
	return nil
}

func (o *Outside) topicOf(ctx context.Context, job string) (events.Topic, error) {
	text, err := o.Store.client.Get(ctx, jobKey(job)).Result()
	if errors.Is(err, redis.Nil) {
		return events.Topic{}, &Refusal{Code: CodeNotFound}
	}
	if err != nil {
		return events.Topic{}, storageError("job", err)
	}
	return events.ParseTopic(text)
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
	topic, err := o.topicOf(ctx, r.JobID)
	if err != nil {
		return 0, err
	}
	got, err := repeat(ctx, func() (answer, error) {
		got, _, err := o.Store.run(ctx, "renew", topic, args{"job": r.JobID, "token": r.Token, "worker": r.Worker,
			"attempt": r.Attempt, "lease_ms": ms(o.Settings.Lease), "strict": true}, nil)
		return got, err
	})
	if err == nil && got.Code != "ok" {
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
	topic, err := o.topicOf(ctx, r.JobID)
	if err != nil {
		return Settled{}, err
	}
	if err := o.schemas.check(topic.Workload, content); err != nil {
		return Settled{}, &Refusal{Code: CodeInvalidField, Field: "content", Why: err.Error()}
	}
	return o.settle(ctx, topic, r, args{"kind": "completed", "document_ms": ms(o.Store.keep.Document)},
		&Document{Model: modelName, Usage: u, Content: content}, print("completed", string(content)), AttemptLine{})
}

// Fail ends an attempt as failed. The server decides what follows; message is
// part of the report's identity and is neither stored nor logged.
func (o *Outside) Fail(ctx context.Context, r Report, kind FailureType, message string) (Settled, error) {
	policy, ok := failurePolicies()[kind]
	if !ok {
		return Settled{}, &Refusal{Code: CodeUnknownFailureType, Field: "failure_type"}
	}
	topic, err := o.topicOf(ctx, r.JobID)
	if err != nil {
		return Settled{}, err
	}
	a := args{"kind": "error", "outcome": string(events.OutcomeFailed), "reason": string(policy.reason), "can_retry": !policy.reason.Lasting()}
	switch {
	case policy.retry:
		delay := o.Settings.Plan.Jittered(r.Attempt, r.JobID, r.Attempt, o.Settings.QueueJitter)
		a = args{"kind": "retrying", "reason": string(policy.reason), "delay_ms": ms(delay)}
	case kind == "outcome_unknown":
		a["outcome"], a["can_retry"] = string(events.OutcomeUnknown), false
	}
	a["detail"] = string(kind)
	line := AttemptLine{FailureType: kind, Message: model.Redact(message)}
	return o.settle(ctx, topic, r, a, nil, print(string(kind), message), line)
}

func print(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func (o *Outside) settle(ctx context.Context, topic events.Topic, r Report, a args, doc *Document, print string, line AttemptLine) (Settled, error) {
	s := o.Settings
	record, _, err := o.Store.look(ctx, topic) // of another job: then the report is a repeat, or late
	if err != nil {
		return Settled{}, err
	}
	var body []byte
	if doc != nil {
		doc.Language = record["language"]
		if body, err = json.Marshal(doc); err != nil {
			return Settled{}, &Refusal{Code: CodeInvalidField, Field: "content", Why: "not JSON"}
		}
	}
	a["job"], a["token"], a["worker"], a["attempt"], a["print"] = r.JobID, r.Token, r.Worker, r.Attempt, print
	a["save_ms"], a["input_ms"] = ms(s.Saving), ms(s.InputRetention)
	line.Attempt, line.Run, line.Worker = r.Attempt, int(number(record["run"])), r.Worker
	line.StartedAt, line.EndedAt, line.Status, line.Reason = fromMS(number(record["claimed"])), time.Now().UTC(), hole, hole
	a["lines"] = []string{ledgerLine{Attempt: &line}.text()}
	got, err := repeat(ctx, func() (answer, error) {
		got, _, err := o.Store.run(ctx, "settle", topic, a, body, topic.Key("reports:"+r.JobID))
		return got, err
	})
	switch {
	case err != nil:
		return Settled{}, err
	case got.Code == "conflict":
		return Settled{}, &Refusal{Code: CodeAttemptConflict}
	case got.Code != "ok":
		return Settled{}, &Refusal{Code: CodeClaimLost}
	}
	status := events.Status(got.Status)
	if status.Terminal() {
		o.ending().Ended(ctx, got.end(topic, r.JobID))
	}
	if got.Replay == "" { // a repeat counts nothing (S2-41)
		o.Metrics.attempt(topic.Workload, got.Status)
		o.Log.InfoContext(ctx, "attempt ended outside", "job", r.JobID, "workload", topic.Workload, "attempt", r.Attempt,
			"worker", r.Worker, "status", got.Status, "outcome", got.Outcome, "reason", got.Reason)
	}
	out := Settled{JobID: r.JobID, Attempt: r.Attempt, Status: status, At: fromMS(got.Now), Version: got.Version}
	if status == events.Retrying {
		out.NextRetryAt = fromMS(got.At)
	}
	return out, nil
}

// Resolve ends an unknown outcome by an operator's word: with a document it was
// completed, with none it failed.
func (o *Outside) Resolve(ctx context.Context, job string, content json.RawMessage) (events.Status, error) {
	topic, err := o.topicOf(ctx, job)
	if err != nil {
		return "", err
	}
	a, body := args{"job": job, "kind": "failed"}, []byte(nil)
	if content != nil {
		if err := o.schemas.check(topic.Workload, content); err != nil {
			return "", &Refusal{Code: CodeInvalidField, Field: "content", Why: err.Error()}
		}
		if body, err = json.Marshal(Document{Model: "operator", Content: content}); err != nil {
			return "", &Refusal{Code: CodeInvalidField, Field: "content", Why: "not JSON"}
		}
		a = args{"job": job, "kind": "completed", "document_ms": ms(o.Store.keep.Document)}
	}
	got, _, err := o.Store.run(ctx, "resolve", topic, a, body)
	switch {
	case err != nil:
		return "", err
	case got.Code == "unknown":
		return "", &Refusal{Code: CodeNotFound}
	case got.Code != "ok":
		return "", &Refusal{Code: CodeNotResolvable}
	}
	o.Log.WarnContext(ctx, "an unknown outcome was resolved", "job", job, "as", got.Status)
	return events.Status(got.Status), nil
}
