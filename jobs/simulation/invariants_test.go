package simulation

import (
	"context"
	"fmt"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/lifecycle"
	"github.com/tidings/tidings/jobs/store"
)

// seen is what the invariants remember from step to step.
type seen struct {
	told  int               // transitions that were looked at
	ended map[string]bool   // jobs
	calls map[string]int    // counted, by job
	taken int               // commits that were taken back
	runs  int               // tasks that an operator ran
	last  events.Transition // the newest
	job   lifecycle.Job     // as it was after the step before
}

// check looks at what has to hold after each step, and says what does not.
func (w *world) check() error {
	s := &w.seen
	if s.ended == nil {
		s.ended, s.calls = map[string]bool{}, map[string]int{}
	}
	log := w.records.Log(w.topic)
	for ; s.told < len(log); s.told++ {
		n, before := log[s.told], events.Transition{}
		if s.told > 0 {
			before = log[s.told-1]
		}
		switch {
		case !events.Follows(before, n):
			return fmt.Errorf("%s may not follow %s", n.Status, before.Status)
		case n.Seq <= before.Seq || n.Prev != before.Seq:
			return fmt.Errorf("place %d after %d follows %d", n.Seq, n.Prev, before.Seq)
		case s.ended[n.JobID]:
			return fmt.Errorf("job %s is told %s after its end", n.JobID, n.Status)
		case n.Attempt > n.MaxAttempts:
			return fmt.Errorf("attempt %d of %d", n.Attempt, n.MaxAttempts)
		case n.Status == events.Processing && before.Status == events.Retrying && n.JobID == before.JobID && n.At.Before(before.NextRetryAt) && before.Layer == events.QueueLayer:
			return fmt.Errorf("an attempt began %s before its time", before.NextRetryAt.Sub(n.At))
		case n.Status == events.Processing && n.Call == 1 && !n.At.Before(n.DeadlineAt.Add(-w.settings.Saving)):
			return fmt.Errorf("an attempt began %s before the deadline", n.DeadlineAt.Sub(n.At))
		}
		if n.Reason == events.RunByOperator {
			if s.runs--; s.runs < 0 && s.taken == 0 {
				return fmt.Errorf("an operator is said to have run the job, and nobody did")
			}
		}
		if n.Status.Terminal() {
			s.ended[n.JobID] = true
		}
		s.last = n
	}
	read, err := w.records.Read(context.Background(), w.topic, store.Want{})
	if err != nil || read.Job.ID == "" {
		return err
	}
	j, before := read.Job, s.job
	s.job = j
	s.calls[j.ID] = max(s.calls[j.ID], j.Calls)
	counted := 0
	for _, n := range s.calls {
		counted += n
	}
	ofQueue := read.Last.Status == events.Retrying && read.Last.Layer == events.QueueLayer
	switch {
	case j.Calls > j.Allowance || j.Attempts > j.MaxAttempts:
		return fmt.Errorf("%d calls of %d, %d attempts of %d", j.Calls, j.Allowance, j.Attempts, j.MaxAttempts)
	case w.sent > counted+s.taken:
		return fmt.Errorf("%d calls were sent, %d counted", w.sent, counted)
	case read.Live() && read.InputBytes == 0:
		return fmt.Errorf("a live job's input is gone")
	case (read.Last.Status == events.Completed || read.Last.Reason == events.Cancelled) && read.InputBytes > 0:
		return fmt.Errorf("the input of a job that is %s is kept", read.Last.Status)
	case read.Last.Status == events.Completed && read.DocumentVersion != read.Last.Version:
		return fmt.Errorf("version %d is told, %d is stored", read.Last.Version, read.DocumentVersion)
	case ofQueue && !read.Last.NextRetryAt.Equal(j.NextRetryAt):
		return fmt.Errorf("the countdown says %s, the record %s", read.Last.NextRetryAt, j.NextRetryAt)
	case read.Last.Status == events.Processing && j.Claim == nil:
		return fmt.Errorf("%s is told and nobody has a claim", read.Last.Status)
	case j.Claim != nil && (!read.Live() || read.Last.Status == events.Queued || ofQueue):
		return fmt.Errorf("%s is told and somebody has a claim", read.Last.Status)
	}
	if before.ID != j.ID || before.Claim == nil {
		return nil
	}
	switch {
	case j.Claim != nil && j.Claim.Token != before.Claim.Token && before.Claimed(j.Claim.At):
		return fmt.Errorf("a claim was taken over %s before its lease ended", before.Claim.LeaseUntil.Sub(j.Claim.At))
	case j.Settled != nil && (before.Settled == nil || j.Settled.Token != before.Settled.Token) && j.Settled.Token != before.Claim.Token:
		return fmt.Errorf("an attempt was settled by somebody else")
	}
	return nil
}

// forget forgets what is not in the log any more.
func (s *seen) forget(log []events.Transition) {
	s.told, s.last, s.job, s.ended = len(log), events.Transition{}, lifecycle.Job{}, map[string]bool{}
	for _, n := range log {
		s.last = n
		if n.Status.Terminal() {
			s.ended[n.JobID] = true
		}
	}
}

// atTheEnd is what holds when everything has come to rest.
func (w *world) atTheEnd(open int64) error {
	if w.seen.last.Seq != 0 && !w.seen.last.Status.Terminal() {
		return fmt.Errorf("the last job is %s for ever", w.seen.last.Status)
	}
	if w.seen.taken == 0 {
		for job := range w.accepted {
			if !w.seen.ended[job] {
				return fmt.Errorf("job %s was accepted and lost", job)
			}
		}
	}
	if open != 0 {
		return fmt.Errorf("%d jobs stay in the index", open)
	}
	return nil
}
