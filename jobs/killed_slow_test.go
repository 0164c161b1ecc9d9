//go:build slow

package jobs_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/model/modeltest"
)

// TestAsynqsOwnRecovery waits for what the fast tests hurry along: Asynq
// finds the killed worker's task after a minute or two, when the job has long
// been done by another run. It is dropped.
func TestAsynqsOwnRecovery(t *testing.T) {
	t.Parallel()
	l := newLine(t, modeltest.NewScripted(good()))
	p := l.process(nil)
	job := p.submit("some text").JobID
	c := l.child()
	l.must(c.cmd.Process.Signal(syscall.SIGKILL))
	killed := time.Now()
	p.work().rescue()
	l.becomes("completed", is(events.Completed))
	before := story(l.history())
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for p.book.has("a task was dropped", job, `"run":1`) == 0 {
		if time.Since(killed) > 150*time.Second {
			t.Fatalf("the task is %s", l.state(l.task(job, 1)))
		}
		<-tick.C
	}
	t.Logf("dropped %s after the kill", time.Since(killed).Round(time.Second))
	if after := story(l.history()); after != before {
		t.Errorf("told\n%safter\n%s", after, before)
	}
	l.calls(1)
	l.tidy(0)
}
