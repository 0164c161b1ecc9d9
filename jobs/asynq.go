package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/hibiken/asynqmon"
	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/lifecycle"
)

// ErrTaskGone says that the queue does not know a task.
var ErrTaskGone = errors.New("jobs: the queue does not know this task")

const taskType = "tidings:attempt"

// taskRetention is how long operators see finished tasks in the web UI.
const taskRetention = time.Hour

// archiveRetention is how long failed tasks stay in Asynq's archive. Running
// one from there does nothing: its job has ended, and the claim refuses it.
const archiveRetention = 24 * time.Hour

// AsynqOptions is what the queue is made of.
type AsynqOptions struct {
	Client redis.UniversalClient
	// Concurrency is how many attempts run at once in this process.
	Concurrency int
	// Queues are the names to serve.
	Queues []string
	// Poll is how often an idle process looks for tasks. 5 ms starts a task
	// within 9 ms (p99); from ten processes up take 20 ms.
	Poll time.Duration
	// MaxRetry is above what the job records allow, so that Asynq's own counter
	// never ends a job.
	MaxRetry int
	// Timeout is Asynq's limit for an attempt, by queue: above the attempt's
	// own, in whole seconds.
	Timeout func(queue string) time.Duration
	// Grace is how long Stop waits for running handlers.
	Grace time.Duration
	Log   *slog.Logger
}

// Asynq is the queue, and the only thing that knows Asynq. It uses the given
// client and leaves it open.
type Asynq struct {
	o         AsynqOptions
	client    *asynq.Client
	inspector *asynq.Inspector
	server    *asynq.Server
}

// NewAsynq makes the queue. It does not talk to Redis.
func NewAsynq(o AsynqOptions) *Asynq {
	return &Asynq{o: o, client: asynq.NewClientFromRedisClient(o.Client), inspector: asynq.NewInspectorFromRedisClient(o.Client)}
}

// payload is what operators may see of a task: ids alone.
type payload struct {
	Topic string `json:"topic"`
	JobID string `json:"job_id"`
	Run   int    `json:"run"`
}

// forwardEvery is how often due tasks are moved to where workers take them. Asynq
// cuts their times to whole seconds, so a task comes up to a second before its
// time, and at most this much after it.
const forwardEvery = 100 * time.Millisecond

// Enqueue implements Queue.
func (q *Asynq) Enqueue(ctx context.Context, t Task, at time.Time) error {
	body, err := json.Marshal(payload{Topic: t.Topic.String(), JobID: t.JobID, Run: t.Run})
	if err != nil {
		return fmt.Errorf("jobs: enqueue: %w", err)
	}
	opts := []asynq.Option{asynq.TaskID(t.ID()), asynq.Queue(t.Queue), asynq.MaxRetry(q.o.MaxRetry),
		asynq.Timeout(q.o.Timeout(t.Queue)), asynq.Retention(taskRetention)}
	if !at.IsZero() {
		opts = append(opts, asynq.ProcessAt(at))
	}
	_, err = q.client.EnqueueContext(ctx, asynq.NewTask(taskType, body), opts...)
	if errors.Is(err, asynq.ErrTaskIDConflict) {
		return nil
	}
	return queueError("enqueue", err)
}

// RunNow implements Queue. A retained or archived task is not run again: that
// would be a run nobody asked for. Asynq refuses a task that has left the
// waiting set with an error that cannot be told from others, so its state is
// asked again.
func (q *Asynq) RunNow(ctx context.Context, t Task) error {
	var refused error
	for range 3 {
		states, err := q.States(ctx, []Task{t})
		switch {
		case err != nil:
			return err
		case states[0] == TaskPending || states[0] == TaskActive:
			return nil
		case states[0] != TaskScheduled:
			return ErrTaskGone
		}
		if refused = q.inspector.RunTask(t.Queue, t.ID()); refused == nil {
			return nil
		}
	}
	return queueError("run", refused)
}

// Delete implements Queue. Asynq refuses to delete an active task with an error that
// cannot be told from others, and a task that moves with another, so its state is
// asked again.
func (q *Asynq) Delete(ctx context.Context, t Task) error {
	var refused error
	for range 3 {
		refused = q.inspector.DeleteTask(t.Queue, t.ID())
		if refused == nil || errors.Is(refused, asynq.ErrTaskNotFound) || errors.Is(refused, asynq.ErrQueueNotFound) {
			return nil
		}
		states, err := q.States(ctx, []Task{t})
		switch {
		case err != nil:
			return err
		case states[0] == TaskActive:
			return nil
		}
	}
	return queueError("delete", refused)
}

// States implements Queue. Asynq's inspector takes two round trips a task and
// knows no task of a queue whose name is lost, so the field is read as it is.
func (q *Asynq) States(ctx context.Context, tasks []Task) ([]TaskState, error) {
	pipe := q.o.Client.Pipeline()
	cmds := make([]*redis.StringCmd, len(tasks))
	for i, t := range tasks {
		cmds[i] = pipe.HGet(ctx, asynqKey(t.Queue, "t:"+t.ID()), "state")
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	states := make([]TaskState, len(tasks))
	for i, cmd := range cmds {
		state, err := cmd.Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, queueError("state", err)
		}
		states[i] = taskState(state)
	}
	return states, nil
}

func taskState(asynq string) TaskState {
	switch asynq {
	case "":
		return TaskMissing
	case "pending", "aggregating":
		return TaskPending
	case "active":
		return TaskActive
	case "scheduled", "retry":
		return TaskScheduled
	case "archived":
		return TaskArchived
	}
	return TaskDone
}

// Ran implements Queue. A task that waits after a try carries the time in its
// last error; one that was scheduled has none yet. Asynq itself writes another
// one when it takes a task back from a worker that died or ran out of time.
func (q *Asynq) Ran(_ context.Context, t Task, due time.Time) (bool, error) {
	info, err := q.inspector.GetTaskInfo(t.Queue, t.ID())
	if errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound) {
		return false, nil
	}
	if err != nil {
		return false, queueError("ran", err)
	}
	if info.LastErr == "" {
		return true, nil
	}
	_, at, _ := strings.Cut(info.LastErr, againAt)
	planned, err := time.Parse(time.RFC3339, at)
	return err == nil && planned.Sub(due).Abs() <= lifecycle.Early, nil
}

// Paused implements Queue. Asynq's own GetQueueInfo samples memory, which is
// too dear for a check every few seconds.
func (q *Asynq) Paused(ctx context.Context, queue string) (bool, error) {
	n, err := q.o.Client.Exists(ctx, asynqKey(queue, "paused")).Result()
	return n > 0, queueError("paused", err)
}

// Restore implements Queue: a client registers a queue's name once, and after
// Redis has lost its data nobody can see or run its tasks without it.
func (q *Asynq) Restore(ctx context.Context, queue string) error {
	return queueError("restore", q.o.Client.SAdd(ctx, "asynq:queues", queue).Err())
}

// Workers implements Queue.
func (q *Asynq) Workers(_ context.Context, queue string) (int, error) {
	servers, err := q.inspector.Servers()
	if err != nil {
		return 0, queueError("workers", err)
	}
	n := 0
	for _, s := range servers {
		if _, ok := s.Queues[queue]; ok && s.Status == "active" {
			n++
		}
	}
	return n, nil
}

// Depth is how full a queue is.
type Depth struct {
	Queue                                       string
	Pending, Active, Scheduled, Retry, Archived int64
	Oldest                                      time.Duration // how long the oldest pending task has been waiting
	Paused                                      bool
}

// Depths reads queues in two round trips. Asynq's own GetQueueInfo samples memory.
func (q *Asynq) Depths(ctx context.Context, queues []string) ([]Depth, error) {
	type counts struct {
		ints [6]*redis.IntCmd
		tail *redis.StringSliceCmd
	}
	pipe := q.o.Client.Pipeline()
	asked := make([]counts, len(queues))
	for i, name := range queues {
		key := func(kind string) string { return asynqKey(name, kind) }
		asked[i] = counts{ints: [6]*redis.IntCmd{pipe.LLen(ctx, key("pending")), pipe.LLen(ctx, key("active")), pipe.ZCard(ctx, key("scheduled")),
			pipe.ZCard(ctx, key("retry")), pipe.ZCard(ctx, key("archived")), pipe.Exists(ctx, key("paused"))}, tail: pipe.LRange(ctx, key("pending"), -1, -1)}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, queueError("depths", err)
	}
	depths, since := make([]Depth, len(queues)), map[int]*redis.StringCmd{}
	pipe = q.o.Client.Pipeline()
	for i, a := range asked {
		n := a.ints
		depths[i] = Depth{Queue: queues[i], Pending: n[0].Val(), Active: n[1].Val(), Scheduled: n[2].Val(), Retry: n[3].Val(), Archived: n[4].Val(), Paused: n[5].Val() > 0}
		if tail := a.tail.Val(); len(tail) == 1 {
			since[i] = pipe.HGet(ctx, asynqKey(queues[i], "t:"+tail[0]), "pending_since")
		}
	}
	if len(since) == 0 {
		return depths, nil
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, queueError("depths", err)
	}
	for i, cmd := range since {
		if ns := number(cmd.Val()); ns > 0 { // else it has been taken meanwhile
			depths[i].Oldest = max(0, time.Since(time.Unix(0, ns)))
		}
	}
	return depths, nil
}

// TopicOf is the session of a task that the queue still has; ErrTaskGone.
func (q *Asynq) TopicOf(queue, id string) (events.Topic, error) {
	info, err := q.inspector.GetTaskInfo(queue, id)
	if errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound) {
		return events.Topic{}, ErrTaskGone
	}
	if err != nil {
		return events.Topic{}, queueError("find", err)
	}
	var p payload
	if err := json.Unmarshal(info.Payload, &p); err != nil {
		return events.Topic{}, ErrTaskGone // not one of ours
	}
	return events.ParseTopic(p.Topic)
}

// Sweep deletes tasks that have been in the archive for a day, at most 100 a
// call. The archive's own scores tell since when: a task that an operator put
// there may never have failed, and the inspector shows no other time.
func (q *Asynq) Sweep(ctx context.Context, queue string) (int, error) {
	old, err := q.o.Client.ZRangeByScore(ctx, asynqKey(queue, "archived"), &redis.ZRangeBy{
		Min: "-inf", Max: strconv.FormatInt(time.Now().Add(-archiveRetention).Unix(), 10), Count: 100,
	}).Result()
	if err != nil {
		return 0, queueError("sweep", err)
	}
	n := 0
	for _, id := range old {
		if err := q.inspector.DeleteTask(queue, id); err == nil {
			n++
		}
	}
	return n, nil
}

// asynqKey is one of Asynq's own keys.
func asynqKey(queue, kind string) string { return "asynq:{" + queue + "}:" + kind }

// verdictError carries a verdict through Asynq. Its text is what operators see
// as the task's last error, and what Ran reads.
type verdictError struct{ Verdict }

func (e verdictError) Error() string {
	if e.At.IsZero() {
		return e.Note
	}
	return e.Note + againAt + e.At.UTC().Format(time.RFC3339)
}

const againAt = ", again at "

// Start implements Consumer.
func (q *Asynq) Start(h Handler) error {
	weights := map[string]int{}
	for _, name := range q.o.Queues {
		weights[name] = 1
	}
	q.server = asynq.NewServerFromRedisClient(q.o.Client, asynq.Config{
		Concurrency: q.o.Concurrency, Queues: weights,
		TaskCheckInterval: q.o.Poll, DelayedTaskCheckInterval: forwardEvery,
		ShutdownTimeout: q.o.Grace, Logger: asynqLog{q.o.Log}, LogLevel: asynq.InfoLevel,
		IsFailure: func(err error) bool {
			var v verdictError
			return !errors.As(err, &v) || v.kind != NextUncounted
		},
		RetryDelayFunc: func(_ int, err error, _ *asynq.Task) time.Duration {
			var v verdictError
			if errors.As(err, &v) && !v.At.IsZero() {
				return max(0, time.Until(v.At))
			}
			// A lease that Asynq has lost, or an end of its context: the claim
			// decides what the task is still good for.
			return time.Second
		},
	})
	return q.server.Start(asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		task, err := q.task(ctx, t)
		if err != nil {
			q.o.Log.ErrorContext(ctx, "a task that is not ours was dropped", "error", err)
			return fmt.Errorf("not a task of ours: %w", asynq.SkipRetry)
		}
		switch v := h(ctx, task); v.kind {
		case NextDone:
			return nil
		case NextFinal:
			return fmt.Errorf("%s: %w", v.Note, asynq.SkipRetry)
		default:
			return verdictError{v}
		}
	}))
}

func (q *Asynq) task(ctx context.Context, t *asynq.Task) (Task, error) {
	var p payload
	if err := json.Unmarshal(t.Payload(), &p); err != nil {
		return Task{}, err
	}
	topic, err := events.ParseTopic(p.Topic)
	if err != nil {
		return Task{}, err
	}
	name, _ := asynq.GetQueueName(ctx)
	return Task{Topic: topic, JobID: p.JobID, Run: p.Run, Queue: name}, nil
}

// Drain implements Consumer.
func (q *Asynq) Drain() { q.server.Stop() }

// Stop implements Consumer.
func (q *Asynq) Stop() { q.server.Shutdown() }

// WebUI is Asynq's own web interface below path. It shows ids and codes only,
// and changes nothing when readOnly.
func (q *Asynq) WebUI(path string, readOnly bool) http.Handler {
	return asynqmon.New(asynqmon.Options{
		RootPath: path, RedisConnOpt: shared{q.o.Client}, ReadOnly: readOnly,
		PayloadFormatter: asynqmon.PayloadFormatterFunc(func(kind string, body []byte) string {
			var p payload
			if kind != taskType || json.Unmarshal(body, &p) != nil {
				return "not shown"
			}
			return fmt.Sprintf("job %s, run %d", p.JobID, p.Run)
		}),
		ResultFormatter: asynqmon.ResultFormatterFunc(func(string, []byte) string { return "not shown" }),
	})
}

// shared hands our client to code that would open its own.
type shared struct{ client redis.UniversalClient }

// MakeRedisClient implements asynq.RedisConnOpt.
func (s shared) MakeRedisClient() any { return s.client }

func queueError(verb string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("jobs: queue %s: %w: %w", verb, events.ErrUnavailable, err)
}

// asynqLog passes Asynq's lines on. Its infos are of use when debugging alone.
type asynqLog struct{ log *slog.Logger }

func (l asynqLog) Debug(a ...any) { l.log.Debug(fmt.Sprint(a...), "part", "asynq") }
func (l asynqLog) Info(a ...any)  { l.log.Debug(fmt.Sprint(a...), "part", "asynq") }
func (l asynqLog) Warn(a ...any)  { l.log.Warn(fmt.Sprint(a...), "part", "asynq") }
func (l asynqLog) Error(a ...any) { l.log.Error(fmt.Sprint(a...), "part", "asynq") }
func (l asynqLog) Fatal(a ...any) { l.log.Error(fmt.Sprint(a...), "part", "asynq") }

// QueueNames lists the queues of all workloads.
func QueueNames() []string {
	var names []string
	for _, w := range Workloads() {
		if !slices.Contains(names, w.Queue) {
			names = append(names, w.Queue)
		}
	}
	return names
}
