package jobs

import (
	"context"
	"errors"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
)

// Overdue puts live jobs of which nothing has been heard for too long back into
// the index of open jobs, should they be missing there: a round does the rest.
// The index and the queue are elsewhere on a Cluster than a job's own keys, and a
// fail-over can lose both and nothing of the job; then nobody looks for it but
// those who watch it. It is what a hub calls for them (events.HubOptions). newest
// are the topics' newest transitions.
func (r *Rescuer) Overdue(ctx context.Context, topics []events.Topic, newest []events.Transition) {
	pipe := r.Store.client.Pipeline()
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
		got, _, err := r.Store.run(ctx, "rescue", topic, args{"job": job, "seq": strconv.FormatInt(newest[i].Seq, 10), "action": "unplaced"}, nil)
		if err != nil || got.Code != "ok" {
			continue
		}
		bytes, err := r.Store.client.StrLen(ctx, topic.Key("input")).Result()
		if err != nil {
			continue
		}
		if _, err := r.Store.readmit(ctx, topic, job, int(bytes), r.Settings); err != nil {
			continue
		}
		r.Metrics.rescue("readmit")
		r.Log.WarnContext(ctx, "a live job was missing in the index of open jobs, and is back", "job", job, "workload", topic.Workload)
	}
}
