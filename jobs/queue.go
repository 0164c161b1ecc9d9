package jobs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidings/tidings/events"
)

// Task is what the queue carries: ids only. The job record holds the rest.
type Task struct {
	Topic events.Topic
	JobID string
	// Run numbers the job's tasks from 1. A task of an older run is dropped at
	// the claim.
	Run int
	// Queue is the queue's name, from the workload.
	Queue string
}

// ID is unique for ever: the job's id and the run.
func (t Task) ID() string { return fmt.Sprintf("%s:%d", t.JobID, t.Run) }

// TaskState is where the queue has a task.
type TaskState string

// The states that the rescuer tells apart.
const (
	TaskMissing   TaskState = "missing"
	TaskPending   TaskState = "pending"
	TaskActive    TaskState = "active"
	TaskScheduled TaskState = "scheduled" // also waiting for a retry
	TaskArchived  TaskState = "archived"
	TaskDone      TaskState = "done"
)

// Queue brings a task to a worker, at least once and not before its time. What
// it says of a task is never the truth about a job, only a hint for the
// rescuer. Both implementations pass jobstest.Suite.
type Queue interface {
	// Enqueue adds the task, to be started not before at (zero: now). A task
	// that is already there is a success.
	Enqueue(ctx context.Context, t Task, at time.Time) error
	// RunNow starts a waiting task without its wait. Success when the task is
	// already on its way; ErrTaskGone when the queue does not know it.
	RunNow(ctx context.Context, t Task) error
	// Delete forgets a task that is not active. No error when it is missing or active.
	Delete(ctx context.Context, t Task) error
	// States tells where the queue has each of the tasks, in one round trip.
	States(ctx context.Context, tasks []Task) ([]TaskState, error)
	// Ran tells whether somebody ran the task before due, the time that it was
	// given. A task that comes too early for another reason (the queue lost its
	// worker, or never got to know the time) was not run by anybody.
	Ran(ctx context.Context, t Task, due time.Time) (bool, error)
	// Paused tells whether an operator has paused the queue.
	Paused(ctx context.Context, queue string) (bool, error)
	// Restore registers a queue's name anew if the storage has lost it.
	Restore(ctx context.Context, queue string) error
	// Workers is how many live processes serve the queue.
	Workers(ctx context.Context, queue string) (int, error)
}

// Routes names the workloads that outside workers do.
type Routes []string

// Queue is the queue that a workload's tasks wait in.
func (r Routes) Queue(w Workload) string {
	if slices.Contains(r, w.Name) {
		return OutsideQueue
	}
	return w.Queue
}

// queueOf is where a job's tasks wait: what its record says, which holds also
// when Routes have changed since. Records of older versions do not say it.
func queueOf(recorded string, w Workload) string {
	if recorded != "" {
		return recorded
	}
	return w.Queue
}

// Handler does one task and says what comes next.
type Handler func(ctx context.Context, t Task) Verdict

// Consumer hands tasks to a handler.
type Consumer interface {
	// Start begins to hand out tasks; it does not block.
	Start(h Handler) error
	// Drain stops handing out new tasks. Running ones go on.
	Drain()
	// Stop waits for running handlers, at most until its own grace is over.
	Stop()
}

func parseTaskID(id string) (job string, run int, err error) {
	job, tail, ok := strings.Cut(id, ":")
	if ok {
		_, err = fmt.Sscanf(tail, "%d", &run)
	}
	if !ok || err != nil || job == "" || run < 1 {
		return "", 0, fmt.Errorf("jobs: %q is not <job>:<run>", id)
	}
	return job, run, nil
}
