package jobs

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/lifecycle"
	"github.com/tidings/tidings/jobs/store"
)

//go:embed scripts/*.lua
var scripts embed.FS

// Store holds what the fleet shares in Redis: the job records, and beside them the
// index of open jobs, offers to outside workers, and where jobs are found by id. A
// Redis failure comes out as events.ErrUnavailable and leaves open whether a verb
// was carried out; every verb may be repeated.
type Store struct {
	store.Scripts
	// Records are the job records.
	Records store.Records
	// CheckEvery is how often the rescuer looks at an open job. NewStore sets
	// it to CheckEvery; a process that shares a Redis with others must not
	// differ from them.
	CheckEvery time.Duration

	kept  store.Kept
	index map[string]*redis.Script
}

// NewStore makes the store; it does not talk to Redis.
func NewStore(client redis.UniversalClient, kept store.Kept, sync store.Sync, metrics *Metrics) *Store {
	run := store.Scripts{Client: client, Sync: sync, Unmet: metrics.unreplicated}
	s := &Store{Scripts: run, Records: store.NewRedis(run, kept), CheckEvery: CheckEvery, kept: kept, index: map[string]*redis.Script{}}
	for _, name := range []string{"admit", "leave", "due"} {
		s.index[name] = redis.NewScript(source("index") + "\n" + source(name))
	}
	return s
}

func source(name string) string {
	b, err := scripts.ReadFile("scripts/" + name + ".lua")
	if err != nil { // it was compiled in, so only a build that no test has seen can lack it
		panic(err)
	}
	return string(b)
}

// do reads a topic's state, decides and commits. It does so once more when an answer
// was lost: every verb may be repeated.
func (s *Store) do(ctx context.Context, verb string, t events.Topic, w store.Want, decide func(lifecycle.State) lifecycle.Change) (store.Snapshot, bool, error) {
	var after store.Snapshot
	replicated, err := repeat(ctx, func() (bool, error) {
		read, err := s.Records.Read(ctx, t, w)
		if err != nil {
			return false, err
		}
		var replicated bool
		after, replicated, err = store.Apply(ctx, s.Records, verb, t, read, decide)
		return replicated, err
	})
	return after, replicated, err
}

// goOn is do on a state that is known already.
func (s *Store) goOn(ctx context.Context, verb string, t events.Topic, from store.Snapshot, decide func(lifecycle.State) lifecycle.Change) (store.Snapshot, error) {
	return repeat(ctx, func() (store.Snapshot, error) {
		after, _, err := store.Apply(ctx, s.Records, verb, t, from, decide)
		return after, err
	})
}

func ms(d time.Duration) int64 { return d.Milliseconds() }

func fromMS(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// member is a job's entry in the index of open jobs.
func member(t events.Topic, job string) string { return t.String() + "/" + job }

func parseMember(m string) (events.Topic, string, error) {
	i := strings.LastIndexByte(m, '/')
	if i < 0 {
		return events.Topic{}, "", fmt.Errorf("jobs: %q is not topic/job", m)
	}
	t, err := events.ParseTopic(m[:i])
	return t, m[i+1:], err
}

// document reads the current document.
func (s *Store) document(ctx context.Context, t events.Topic) (Document, bool, error) {
	stored, err := s.Records.Document(ctx, t)
	if err != nil || stored.Version == 0 {
		return Document{}, false, err
	}
	var d Document
	if err := json.Unmarshal(stored.Body, &d); err != nil {
		return Document{}, false, fmt.Errorf("jobs: the document of a session cannot be read: %w", err)
	}
	d.Version, d.JobID, d.CreatedAt = stored.Version, stored.JobID, stored.At
	return d, true, nil
}

// place enqueues the task of a run that was started anew, and says so in the
// record: until then the rescuer takes a missing task for an interrupted step,
// not for one that an operator deleted.
func (s *Store) place(ctx context.Context, q Queue, t Task, at time.Time) error {
	if err := q.Enqueue(ctx, t, at); err != nil {
		return err
	}
	_, _, err := s.do(ctx, "placed", t.Topic, store.Want{}, func(state lifecycle.State) lifecycle.Change {
		c, _ := lifecycle.Rules{}.Rescue(state, lifecycle.Remedy{Action: lifecycle.Placed, JobID: t.JobID, Run: t.Run})
		return c
	})
	return err
}

// jobKey finds the session of a job by its id alone: one that was claimed from
// outside, or whose outcome is unknown.
func jobKey(job string) string { return "tidings:job:" + job }

func (s *Store) findable(ctx context.Context, t events.Topic, job string) error {
	if err := s.Client.Set(ctx, jobKey(job), t.String(), s.kept.Record).Err(); err != nil {
		return store.Error("findable", err)
	}
	return nil
}

// topicOf finds the session of such a job; CodeNotFound if it is not known.
func (s *Store) topicOf(ctx context.Context, job string) (events.Topic, error) {
	text, err := s.Client.Get(ctx, jobKey(job)).Result()
	if errors.Is(err, redis.Nil) {
		return events.Topic{}, &Refusal{Code: CodeNotFound}
	}
	if err != nil {
		return events.Topic{}, store.Error("find", err)
	}
	return events.ParseTopic(text)
}

// number reads a stored number; a missing one is 0.
func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

// young tells whether the submit that made this job id may still be between its
// first two steps: a minute, against clocks that differ and processes that hang.
func (s *Store) young(job string, now time.Time) bool {
	id, err := ulid.ParseStrict(job)
	return err == nil && now.Sub(ulid.Time(id.Time())) < 6*s.CheckEvery
}
