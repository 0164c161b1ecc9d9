package jobs_test

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/events/eventstest"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/jobstest"
)

func newAsynq(c redis.UniversalClient) *jobs.Asynq {
	return jobs.NewAsynq(jobs.AsynqOptions{Client: c, Concurrency: 10, Queues: jobs.QueueNames(), Poll: 5 * time.Millisecond,
		MaxRetry: 24, Timeout: func(string) time.Duration { return 55 * time.Second }, Grace: time.Second,
		Log: slog.New(slog.DiscardHandler)})
}

func TestTheQueuesPassOneSuite(t *testing.T) {
	t.Run("asynq", func(t *testing.T) {
		t.Parallel()
		server := eventstest.StartRedis(t)
		// Asynq keeps whole seconds, cut: up to one second early.
		jobstest.Suite(t, time.Second, func(t *testing.T) (jobstest.Subject, func(bool)) {
			c := server.Client()
			if err := c.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			operator := asynq.NewInspectorFromRedisClient(c)
			return newAsynq(c), func(pause bool) {
				do := operator.UnpauseQueue
				if pause {
					do = operator.PauseQueue
				}
				if err := do("summary"); err != nil {
					t.Fatal(err)
				}
			}
		})
	})
	t.Run("in memory", func(t *testing.T) {
		t.Parallel()
		jobstest.Suite(t, 0, func(*testing.T) (jobstest.Subject, func(bool)) {
			q := jobstest.NewQueue()
			return q, func(pause bool) { q.Pause("summary", pause) }
		})
	})
}

// TestOperatorsSeeIdsAlone: Asynq's web UI shows neither the topic nor any text.
func TestOperatorsSeeIdsAlone(t *testing.T) {
	c := eventstest.StartRedis(t).Client()
	q := newAsynq(c)
	task := jobs.Task{Topic: events.NewTopic("someone", "secret-session", "summary"), JobID: "J1", Run: 3, Queue: "summary"}
	if err := q.Enqueue(t.Context(), task, time.Time{}); err != nil {
		t.Fatal(err)
	}
	ui := q.WebUI("/queues", true)
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		ui.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	code, list := get("/queues/api/queues/summary/pending_tasks")
	if code != 200 || !strings.Contains(list, "job J1, run 3") || strings.Contains(list, "secret-session") {
		t.Errorf("%d %s", code, list)
	}
	if code, page := get("/queues"); code != 200 || !strings.Contains(page, "<html") {
		t.Errorf("page: %d", code)
	}
	w := httptest.NewRecorder()
	ui.ServeHTTP(w, httptest.NewRequest(http.MethodDelete, "/queues/api/queues/summary/pending_tasks/J1:3", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("deleting in a read-only UI: %d", w.Code)
	}
}

func TestRestoreBringsAQueueBack(t *testing.T) {
	c := eventstest.StartRedis(t).Client()
	q := newAsynq(c)
	task := jobs.Task{Topic: events.NewTopic("", "s", "summary"), JobID: "J1", Run: 1, Queue: "summary"}
	if err := q.Enqueue(t.Context(), task, time.Time{}); err != nil {
		t.Fatal(err)
	}
	c.FlushAll(t.Context())
	if err := q.Enqueue(t.Context(), task, time.Time{}); err != nil {
		t.Fatal(err)
	}
	operator := asynq.NewInspectorFromRedisClient(c)
	if _, err := operator.GetTaskInfo("summary", task.ID()); !errors.Is(err, asynq.ErrQueueNotFound) {
		t.Fatalf("%v: Asynq registers names again, Restore may go", err)
	}
	if s, err := q.States(t.Context(), []jobs.Task{task}); err != nil || s[0] != jobs.TaskPending {
		t.Errorf("without the name: task is %v, %v", s, err)
	}
	if err := q.Restore(t.Context(), "summary"); err != nil {
		t.Fatal(err)
	}
	if info, err := operator.GetTaskInfo("summary", task.ID()); err != nil || info.State != asynq.TaskStatePending {
		t.Errorf("with the name: task is %+v, %v", info, err)
	}
}
