package jobs_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/model/modeltest"
	"github.com/tidings/tidings/jobs/retry"
	"github.com/tidings/tidings/jobs/store"
)

// childRedis tells a test binary to be a worker process on that Redis.
const childRedis = "TIDINGS_TEST_CHILD_REDIS"

// TestChildWorker is not a test of its own: started by the others as a process
// that can be killed and frozen, it is a worker until its input ends.
func TestChildWorker(t *testing.T) {
	addr := os.Getenv(childRedis)
	if addr == "" {
		return
	}
	c := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1})
	defer c.Close()
	s := retry.Defaults()
	s.Lease, s.Plan = lease, plan(t, "1s")
	store := jobs.NewStore(c, store.Kept{Record: s.Retention, Document: time.Hour, Key: time.Hour}, store.Sync{}, nil)
	log := slog.New(slog.NewJSONHandler(os.Stdout, nil))
	q := newAsynq(c)
	w, err := jobs.NewWorker(jobs.WorkerOptions{Store: store, Queue: q, Settings: s, Name: "child", Log: log,
		Gate: gate.New(c, wide()), Model: model.NewRetrying(remote{c}, s, rand.Float64)})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Start(w.Attempt); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	q.Drain()
	w.Drain(context.Background(), 0)
	q.Stop()
}

// remote is the child's model: the test counts its calls and answers them.
type remote struct{ c redis.UniversalClient }

func (remote) Dependency() string { return "remote" }

func (r remote) Generate(context.Context, model.Request) (model.Response, error) {
	// Deaf: a model that does not notice that nobody waits for it any more.
	ctx := context.Background()
	if err := r.c.Publish(ctx, "called", "").Err(); err != nil {
		return model.Response{}, err
	}
	for {
		text, err := r.c.LPop(ctx, "answers").Result()
		if err == nil {
			return model.Response{Content: json.RawMessage(text), Model: "remote"}, nil
		}
		<-time.After(10 * time.Millisecond)
	}
}

// child is a worker process of its own.
type child struct {
	cmd   *exec.Cmd
	stop  io.Closer // its input
	lines chan string
}

// child starts a worker process and returns once the model has its call.
func (l *line) child() *child {
	l.Helper()
	sub := l.client.Subscribe(l.Context(), "called")
	defer sub.Close()
	if _, err := sub.Receive(l.Context()); err != nil {
		l.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestChildWorker$", "-test.v")
	cmd.Env = append(os.Environ(), childRedis+"="+l.server.Addr)
	in, err := cmd.StdinPipe()
	l.must(err)
	out, err := cmd.StdoutPipe()
	l.must(err)
	cmd.Stderr = os.Stderr
	l.must(cmd.Start())
	c := &child{cmd: cmd, stop: in, lines: make(chan string, 1000)}
	go func() { // ends with the process
		defer close(c.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			c.lines <- s.Text()
		}
	}()
	l.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if _, err := sub.ReceiveMessage(l.Context()); err != nil {
		l.Fatal(err)
	}
	return c
}

// wait ends the process politely and returns its log.
func (c *child) wait() string {
	_ = c.stop.Close()
	var b strings.Builder
	for line := range c.lines {
		b.WriteString(line + "\n")
	}
	return b.String()
}

// TestKill9: a real process, killed in the middle of a call. Asynq still has
// its task active; when it brings it back at last, it is dropped.
func TestKill9(t *testing.T) {
	t.Parallel()
	l := newLine(t, modeltest.NewScripted(good()))
	p := l.process(nil)
	job := p.submit("some text").JobID
	c := l.child()
	p.rescue()
	l.must(c.cmd.Process.Signal(syscall.SIGKILL))
	killed := time.Now()
	lost := l.becomes("told", because(events.Retrying, events.WorkerLost))
	if took := lost.At.Sub(killed); took > 3*lease {
		t.Errorf("told after %s, the lease is %s", took, lease)
	}
	l.expireAsynqLease(job + ":1")
	second := l.process(nil).work()
	l.becomes("completed", is(events.Completed))
	l.until("the old task dropped", func() bool { return second.book.has("a task was dropped", `"run":1`, `"because":"`) == 1 })
	l.told("queued 0/4", "processing 1/4 call 1/3", "retrying 1/4 queue worker_lost next 2", "processing 2/4 call 1/3", "completed 2/4 version 1")
	if started := l.history()[3].At; started.Before(lost.NextRetryAt) {
		t.Errorf("started %s before the time that was told", lost.NextRetryAt.Sub(started))
	}
	l.calls(1)
	l.tidy(0)
	record, err := p.store.Record(t.Context(), l.topic)
	if err != nil || record.Calls != 2 || record.Attempts != 2 {
		t.Errorf("record %+v %v", record, err)
	}
}

// TestAFrozenProcess: the same with SIGSTOP, and the process goes on while
// its replacement is at work.
func TestAFrozenProcess(t *testing.T) {
	t.Parallel()
	m := newGated(false)
	l := newLine(t, m)
	p := l.process(nil)
	job := p.submit("some text").JobID
	c := l.child()
	l.must(c.cmd.Process.Signal(syscall.SIGSTOP))
	p.rescue()
	l.becomes("told", because(events.Retrying, events.WorkerLost))
	p.work()
	<-m.arrived
	l.must(l.client.RPush(t.Context(), "answers", `{"title":"late","summary":"s","key_points":[]}`).Err())
	l.must(c.cmd.Process.Signal(syscall.SIGCONT))
	if log := c.wait(); !strings.Contains(log, "lease_lost") || !strings.Contains(log, job) {
		t.Errorf("no lease_lost line:\n%s", log)
	}
	told := []string{"queued 0/4", "processing 1/4 call 1/3", "retrying 1/4 queue worker_lost next 2", "processing 2/4 call 1/3"}
	l.told(told...)
	m.answer("second")
	l.becomes("completed", is(events.Completed))
	l.told(append(told, "completed 2/4 version 1")...)
	if got := p.title(); got != "second" {
		t.Errorf("the document is the %s one", got)
	}
}
