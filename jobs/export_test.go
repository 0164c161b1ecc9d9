package jobs

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/lifecycle"
	"github.com/tidings/tidings/jobs/store"
)

// Mark is what a verb's request has on the wire and others have not, for tests that
// lose its answer.
func (s *Store) Mark(verb string) string {
	if script, ok := s.index[verb]; ok {
		return script.Hash()
	}
	return "\r\n" + verb + "\r\n"
}

// Sends tells whether a command carries out the verb.
func (s *Store) Sends(c redis.Cmder, verb string) bool {
	args := c.Args()
	if len(args) < 3 || args[0] != "evalsha" && args[0] != "eval" {
		return false
	}
	if script, ok := s.index[verb]; ok {
		return args[1] == script.Hash()
	}
	keys, _ := args[2].(int)
	return len(args) > 3+keys && args[3+keys] == verb
}

// Reads tells whether a command reads a topic's state, to decide on it.
func (s *Store) Reads(c redis.Cmder) bool {
	args := c.Args()
	if len(args) < 4 || args[0] != "evalsha" && args[0] != "eval" {
		return false
	}
	keys, _ := args[2].(int)
	record, _ := args[3].(string)
	return len(args) == 5+keys && strings.HasSuffix(record, ":job")
}

// Load gives Redis all scripts, so that each verb is one command.
func (s *Store) Load(ctx context.Context) error {
	for _, script := range s.index {
		if err := script.Load(ctx, s.Client).Err(); err != nil {
			return err
		}
	}
	_, _, err := s.do(ctx, "load", events.NewTopic("", "load", "summary"), store.Want{Key: "load"}, func(lifecycle.State) lifecycle.Change {
		return lifecycle.Change{Key: "{}"}
	})
	return err
}

// Record is a topic's job record.
func (s *Store) Record(ctx context.Context, t events.Topic) (lifecycle.Job, error) {
	read, err := s.Records.Read(ctx, t, store.Want{})
	return read.Job, err
}

// Alter changes a topic's job record behind everybody's back.
func Alter(ctx context.Context, c redis.UniversalClient, t events.Topic, change func(*lifecycle.Job)) error {
	key := t.Key("job")
	text, err := c.HGet(ctx, key, "job").Result()
	if err != nil {
		return err
	}
	var j lifecycle.Job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	change(&j)
	b, err := json.Marshal(j)
	if err != nil {
		return err
	}
	return c.HSet(ctx, key, "job", b, "version", rand.Text()).Err()
}

// LoseEnd takes a job's end out of its log and record, and leaves its document.
func LoseEnd(ctx context.Context, c redis.UniversalClient, t events.Topic, end events.Transition) error {
	if err := c.XDel(ctx, t.Key("log"), fmt.Sprintf("%d-0", end.Seq)).Err(); err != nil {
		return err
	}
	newest, err := c.XRevRangeN(ctx, t.Key("log"), "+", "-", 1).Result()
	if err != nil {
		return err
	}
	last, err := json.Marshal(newest[0].Values)
	if err != nil {
		return err
	}
	return c.HSet(ctx, t.Key("job"), "last", last, "version", rand.Text()).Err()
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
	_, err := s.admit(ctx, place{topic: t, job: job, bytes: bytes, hold: time.Hour}, Limits{OpenJobs: 1000, InputBytes: 1 << 20})
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
