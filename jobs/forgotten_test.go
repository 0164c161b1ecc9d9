package jobs_test

import (
	"testing"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/model/modeltest"
)

// TestAForgottenJobIsFoundAgain: a fail-over of a Cluster can lose a job's place
// in the index and its task, which are on other masters than the job. Nobody
// looks for it then, until it is asked for again.
func TestAForgottenJobIsFoundAgain(t *testing.T) {
	t.Parallel()
	l := newLine(t, modeltest.NewScripted(good()))
	p := l.process(nil)
	first := p.submit("some text")
	l.must(l.client.Del(t.Context(), "tidings:{open}:index", "tidings:{open}:inputs", "tidings:{open}:sizes", "tidings:{open}:bytes").Err())
	l.must(l.operator.DeleteTask("summary", first.JobID+":1"))
	if again := p.submit("some text"); again.JobID != first.JobID || !again.Live {
		t.Fatalf("asked again: %+v, want %s", again, first.JobID)
	}
	p.work().rescue()
	l.becomes("completed", is(events.Completed))
	l.tidy(0)
}
