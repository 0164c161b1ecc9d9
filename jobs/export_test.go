package jobs

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
)

// Hash is how Redis knows a verb's script, for tests that lose its answer.
func (s *Store) Hash(verb string) string { return s.verbs[verb].Hash() }

// Load gives Redis all scripts, so that each verb is one command.
func (s *Store) Load(ctx context.Context) error {
	for _, script := range s.verbs {
		if err := script.Load(ctx, s.client).Err(); err != nil {
			return err
		}
	}
	return nil
}

// Record is a topic's job record.
func (s *Store) Record(ctx context.Context, t events.Topic) (map[string]string, error) {
	return s.client.HGetAll(ctx, t.Key("job")).Result()
}

// Counted is what the index of open jobs holds: jobs, and bytes of inputs.
func Counted(ctx context.Context, c redis.UniversalClient) (open, bytes int64, err error) {
	keys := indexKeys()
	if open, err = c.ZCard(ctx, keys[0]).Result(); err != nil {
		return 0, 0, err
	}
	bytes, err = c.HGet(ctx, keys[3], "*").Int64()
	if err == redis.Nil {
		err = nil
	}
	return open, bytes, err
}

// Admit takes a job into the index as the first step of a submit does.
func (s *Store) Admit(ctx context.Context, t events.Topic, job string, bytes int) error {
	_, err := s.admit(ctx, place{topic: t, job: job, bytes: bytes, hold: s.keep.Input}, Limits{OpenJobs: 1000, InputBytes: 1 << 20})
	return err
}

// Pace is what is known of a workload's jobs: how long they hold a slot, and how
// many were seen.
func Pace(ctx context.Context, c redis.UniversalClient, workload string) (mean, seen float64, err error) {
	key := indexKeys()[5]
	if mean, err = c.HGet(ctx, key, workload).Float64(); err != nil {
		return 0, 0, err
	}
	seen, err = c.HGet(ctx, key, "#"+workload).Float64()
	return mean, seen, err
}

// Leave takes a job out of the index as its end does.
func (s *Store) Leave(ctx context.Context, t events.Topic, job string, keep time.Duration) error {
	return s.leave(ctx, t, job, keep, 0)
}
