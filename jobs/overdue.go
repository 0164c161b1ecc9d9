package jobs

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/lifecycle"
	"github.com/tidings/tidings/jobs/store"
)

// Overdue puts live jobs of which nothing has been heard for too long back into
// the index of open jobs, should they be missing there: a round does the rest.
// The index and the queue are elsewhere on a Cluster than a job's own keys, and a
// fail-over can lose both and nothing of the job; then nobody looks for it but
// those who watch it. It is what a hub calls for them (events.HubOptions). newest
// are the topics' newest transitions.
func (r *Rescuer) Overdue(ctx context.Context, topics []events.Topic, newest []events.Transition) {
	pipe := r.Store.Client.Pipeline()
	places := make([]*redis.FloatCmd, len(topics))
	for i, t := range topics {
		places[i] = pipe.ZScore(ctx, indexKeys()[0], member(t, newest[i].JobID))
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for i, place := range places {
		if !errors.Is(place.Err(), redis.Nil) {
			continue // it has its place, or Redis is away and the next comparison asks again
		}
		topic, job := topics[i], newest[i].JobID
		// First its record: a task that is missing would look deleted by an operator.
		var got lifecycle.Rescued
		after, _, err := r.Store.do(ctx, "rescue", topic, store.Want{}, func(s lifecycle.State) (c lifecycle.Change) {
			c, got = r.rules().Rescue(s, lifecycle.Remedy{Action: lifecycle.Unplaced, JobID: job, Seq: newest[i].Seq})
			return c
		})
		if err != nil || got.Code != lifecycle.OK {
			continue
		}
		if _, err := r.Store.readmit(ctx, topic, job, after.InputBytes, r.Settings); err != nil {
			continue
		}
		r.Metrics.rescue("readmit")
		r.Log.WarnContext(ctx, "a live job was missing in the index of open jobs, and is back", "job", job, "workload", topic.Workload)
	}
}
