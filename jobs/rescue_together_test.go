package jobs_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/model/modeltest"
)

// TestRescuersShareTheWork: each entry is looked at by one of two rescuers.
func TestRescuersShareTheWork(t *testing.T) {
	t.Parallel()
	l := newLine(t, modeltest.NewScripted(good()))
	const jobsOpen = 700
	fill(l, jobsOpen)
	var mu sync.Mutex
	looked, rounds := map[string]int{}, map[*process]int{}
	var wg sync.WaitGroup
	for range 2 {
		p := l.process(nil)
		p.store.CheckEvery = time.Minute
		p.life.look(func(c redis.Cmder) {
			if args := c.Args(); c.Name() == "hmget" {
				mu.Lock()
				defer mu.Unlock()
				looked[args[1].(string)]++
				rounds[p]++
			}
		})
		wg.Go(func() {
			for {
				n, err := p.rescuer.Round(t.Context())
				if err != nil {
					t.Error(err)
				}
				if n == 0 || err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	twice := 0
	for _, n := range looked {
		if n != 1 {
			twice++
		}
	}
	if len(looked) != jobsOpen || twice > 0 {
		t.Errorf("%d of %d looked at, %d not once", len(looked), jobsOpen, twice)
	}
	if len(rounds) != 2 {
		t.Error("one rescuer did it all")
	}
}

// TestAUsersTapDuringRescue: whoever comes second finds that something has
// changed, and leaves it.
func TestAUsersTapDuringRescue(t *testing.T) {
	t.Parallel()
	l := newLine(t, modeltest.NewScripted(modeltest.Timeout(), good()))
	l.setting.Plan = plan(t, "60s")
	p := l.process(nil).work()
	job := p.submit("some text").JobID
	l.becomes("a wait", inQueue)
	l.until("waiting", func() bool { return l.state(l.task(job, 1)) == "retry" })
	l.must(l.operator.PauseQueue("summary"))
	// The rescuer has looked and is about to say queue_paused when the user taps.
	slow := l.process(nil)
	tapped := false
	slow.life.look(func(c redis.Cmder) {
		if slow.store.Sends(c, "rescue") && !tapped {
			tapped = true
			if _, err := p.service.Retry(context.Background(), l.topic); err != nil {
				t.Error(err)
			}
		}
	})
	l.look(slow)
	if got := story(l.history()); !tapped || !strings.HasSuffix(got, "queued 1/4 run_by_user\n") {
		t.Errorf("tapped %v, told\n%s", tapped, got)
	}
	l.look(slow)
	l.must(l.operator.UnpauseQueue("summary"))
	l.becomes("completed", is(events.Completed))
	l.calls(2)
	l.tidy(0)
}

// TestAnAttemptDuringRescue: the rescuer has read that a job may start at once, and
// sees in the queue the wait that its attempt has come to since. It is kept.
func TestAnAttemptDuringRescue(t *testing.T) {
	t.Parallel()
	l := newLine(t, modeltest.NewScripted(modeltest.Timeout(), good()))
	l.setting.Plan = plan(t, "60s")
	job := l.process(nil).submit("some text").JobID
	queued := l.becomes("queued", is(events.Queued))
	l.until("queued for longer than a task is on its way", func() bool { return time.Since(queued.At) > 1100*time.Millisecond })
	slow, worker := l.process(nil), l.process(nil)
	began := false
	slow.life.look(func(c redis.Cmder) {
		if args := fmt.Sprint(c.Args()...); strings.HasPrefix(args, "hget") && strings.Contains(args, job) && !began {
			began = true
			worker.work()
			l.until("waiting", func() bool { return l.state(l.task(job, 1)) == "retry" })
		}
	})
	l.look(slow)
	if state := l.state(l.task(job, 1)); !began || state != "retry" {
		t.Errorf("began %v, the task is %s", began, state)
	}
	l.told("queued 0/4", "processing 1/4 call 1/3", "retrying 1/4 queue timeout next 2")
}
