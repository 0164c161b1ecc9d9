package jobs

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/lifecycle"
	"github.com/tidings/tidings/jobs/store"
)

// OperatorsOptions is what an Operators is made of.
type OperatorsOptions struct {
	Store *Store
	Queue *Asynq
	Gate  *gate.Gate
	// Settings are those that Gate was made with.
	Settings gate.Settings
	// History is where transitions are read from.
	History events.Log
	// Measures are the fleet's.
	Measures *Measures
	// Dependency is the model that this process works with.
	Dependency string
	// Deadline is how long the shortest of jobs may take.
	Deadline time.Duration
	Log      *slog.Logger
}

// Operators is what operators see and do. Their orders are the gate's: they hold
// for the whole fleet from the next ticket on, end by themselves, and change no
// job. What they do is logged and kept in the gate's audit trail.
type Operators struct{ OperatorsOptions }

// NewOperators makes an Operators.
func NewOperators(o OperatorsOptions) *Operators { return &Operators{o} }

// Dependency is the model that this process works with.
func (o *Operators) Dependency() string { return o.OperatorsOptions.Dependency }

// Deadline is how long the shortest of jobs may take.
func (o *Operators) Deadline() time.Duration { return o.OperatorsOptions.Deadline }

// Bounds are the gate's settings of this process.
func (o *Operators) Bounds() gate.Settings { return o.Settings }

// SwitchRetries turns the scope's retries off until order.Until, or on again.
func (o *Operators) SwitchRetries(ctx context.Context, off bool, s gate.Scope, order gate.Order) error {
	if _, ok := WorkloadNamed(s.Workload); s.Workload != "" && !ok {
		return &Refusal{Code: CodeInvalidField, Field: "workload", Why: "there is no such workload"}
	}
	action, verb := o.Gate.SwitchOn, "on"
	if off {
		action, verb = o.Gate.SwitchOff, "off"
	}
	if err := refusedOrder(verb, action(ctx, s, order)); err != nil {
		return err
	}
	o.Log.WarnContext(ctx, "retries switched by an operator", "retries", verb, "dependency", s.Dependency, "workload", s.Workload,
		"owner", order.Owner, "until", order.Until)
	return nil
}

// Switches lists what is switched off, and the last orders.
func (o *Operators) Switches(ctx context.Context) (gate.Switches, error) {
	s, err := o.Gate.Switches(ctx)
	if err != nil {
		return s, store.Error("switches", err)
	}
	return s, nil
}

// OrderCalls makes every call to the dependency wait until order.Until (pause), ends
// that and what a provider's hint holds (resume), or ends the wait of an open breaker
// (probe).
func (o *Operators) OrderCalls(ctx context.Context, verb, dependency string, order gate.Order) error {
	action := o.Gate.Pause
	switch verb {
	case "resume":
		action = o.Gate.Resume
	case "probe":
		action = o.Gate.Probe
	}
	if err := refusedOrder(verb, action(ctx, dependency, order)); err != nil {
		return err
	}
	o.Log.WarnContext(ctx, "calls to a dependency changed by an operator", "action", verb, "dependency", dependency,
		"owner", order.Owner, "until", order.Until)
	return nil
}

// Inspect shows the gate in front of a dependency.
func (o *Operators) Inspect(ctx context.Context, dependency string) (gate.State, error) {
	s, err := o.Gate.Inspect(ctx, dependency)
	if err != nil {
		return s, store.Error("inspect", err)
	}
	return s, nil
}

// refusedOrder tells an order that cannot be carried out from a storage that
// cannot be asked.
func refusedOrder(verb string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, gate.ErrEnd):
		return &Refusal{Code: CodeInvalidField, Field: "for", Why: "up to 7d"}
	}
	return store.Error(verb, err)
}

// Measured sums up what became of the jobs that were offered since window ago.
func (o *Operators) Measured(ctx context.Context, window time.Duration) (Cohorts, error) {
	return o.Measures.Window(ctx, window)
}

// Depths shows every queue. A task of the outside queue is active from the moment
// that its job is offered, so what has waited longest there is an offer.
func (o *Operators) Depths(ctx context.Context) ([]Depth, error) {
	depths, err := o.Queue.Depths(ctx, append(QueueNames(), OutsideQueue))
	if err != nil {
		return nil, err
	}
	offered, err := o.Store.oldestOffer(ctx)
	if err != nil {
		return nil, err
	}
	if !offered.IsZero() {
		outside := &depths[len(depths)-1]
		outside.Oldest = max(outside.Oldest, time.Since(offered))
	}
	return depths, nil
}

// Open is what has not ended.
type Open struct {
	Count      int64
	InputBytes int64 // of failed jobs' inputs too
	Jobs       []OpenJob
}

// OpenJob is an entry of the index of open jobs.
type OpenJob struct {
	Topic events.Topic
	JobID string
	Since time.Time // its acceptance, by its id
}

// Open counts the open jobs and names at most that many of them, in no order.
func (o *Operators) Open(ctx context.Context, most int) (Open, error) {
	keys, pipe := indexKeys(), o.Store.Client.Pipeline()
	count, bytes := pipe.ZCard(ctx, keys[0]), pipe.HGet(ctx, keys[3], "*")
	var members *redis.StringSliceCmd
	if most > 0 {
		members = pipe.ZRange(ctx, keys[0], 0, int64(most)-1)
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return Open{}, store.Error("open", err)
	}
	open := Open{Count: count.Val(), InputBytes: number(bytes.Val())}
	if members == nil {
		return open, nil
	}
	for _, m := range members.Val() {
		t, job, err := parseMember(m)
		if err != nil {
			return open, err
		}
		open.Jobs = append(open.Jobs, OpenJob{Topic: t, JobID: job, Since: acceptedAt(job)})
	}
	return open, nil
}

// Find tells which session a job belongs to, by its id or its task's (<job>:<run>).
// CodeNotFound when neither the queue nor the store knows it any more: the queue
// keeps the tasks of jobs that completed for an hour and those of others for a
// day, the store keeps the ids of jobs that failed, or that outside workers had,
// as long as their records.
func (o *Operators) Find(ctx context.Context, id string) (topic events.Topic, job string, err error) {
	job, tail, _ := strings.Cut(id, ":")
	text, err := o.Store.Client.Get(ctx, jobKey(job)).Result()
	switch {
	case err == nil:
		topic, err = events.ParseTopic(text)
		return topic, job, err
	case !errors.Is(err, redis.Nil):
		return topic, job, store.Error("find", err)
	}
	runs := []int{1, 2, 3}
	if run, err := strconv.Atoi(tail); err == nil && run > 3 && run < 1000 {
		runs = append(runs, run)
	}
	for _, queue := range append(QueueNames(), OutsideQueue) {
		for _, run := range runs {
			t, err := o.Queue.TopicOf(queue, Task{JobID: job, Run: run}.ID())
			if err == nil || !errors.Is(err, ErrTaskGone) {
				return t, job, err
			}
		}
	}
	return topic, job, &Refusal{Code: CodeNotFound}
}

// Overview is what is known of a session's workload: its newest job's record
// and ledger, and every transition that is kept, oldest first. No material and no
// output are in it.
type Overview struct {
	lifecycle.Job
	Topic       events.Topic
	InputBytes  int   // 0: not kept any more
	Version     int64 // of the current document; 0: there is none
	Ledger      lifecycle.Ledger
	Transitions []events.Transition
	Now         time.Time // Redis time
}

// Overview looks at a session's workload; CodeNotFound when nothing is known of it.
func (o *Operators) Overview(ctx context.Context, t events.Topic) (Overview, error) {
	read, err := o.Store.Records.Read(ctx, t, store.Want{})
	if err != nil {
		return Overview{}, err
	}
	transitions, _, _, err := o.History.After(ctx, t, 0)
	if err != nil {
		return Overview{}, err
	}
	j := read.Job
	if j.ID == "" && len(transitions) == 0 {
		return Overview{}, &Refusal{Code: CodeNotFound}
	}
	v := Overview{Job: j, Topic: t, InputBytes: read.InputBytes, Version: read.DocumentVersion, Transitions: transitions, Now: read.Now}
	var gone *Refusal
	if v.Ledger, err = o.Store.ledger(ctx, t); err != nil && !errors.As(err, &gone) {
		return Overview{}, err
	}
	return v, nil
}
