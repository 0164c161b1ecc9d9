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
)

//go:embed scripts/*.lua
var scripts embed.FS

// cancels is the channel that tells workers about cancelled jobs.
const cancels = "tidings:cancels"

// Keep says how long things are remembered.
type Keep struct {
	Job      time.Duration // job records, logs and ledgers, from their last change
	Input    time.Duration // inputs of jobs that ended as an error
	Document time.Duration // documents, from their making
	Key      time.Duration // Idempotency-Keys; the contract says 24 h
}

// Store holds the jobs in Redis. Each verb is one script on one session's keys:
// it checks who may speak, writes the record, and stores and publishes the
// transition, or changes nothing. Every verb may be repeated with its token
// when the answer was lost; a Redis failure comes out as events.ErrUnavailable
// and leaves open whether the verb was carried out.
type Store struct {
	// CheckEvery is how often the rescuer looks at an open job. NewStore sets
	// it to CheckEvery; a process that shares a Redis with others must not
	// differ from them.
	CheckEvery time.Duration
	// Sync says which replicas are waited for; nobody unless it is set.
	Sync Sync
	// Metrics counts what was not replicated in time; may be nil.
	Metrics *Metrics

	client redis.UniversalClient
	keep   Keep
	verbs  map[string]*redis.Script
}

// NewStore prepares the scripts; it does not talk to Redis.
func NewStore(client redis.UniversalClient, keep Keep) (*Store, error) {
	s := &Store{CheckEvery: CheckEvery, client: client, keep: keep, verbs: map[string]*redis.Script{}}
	text := func(name string) (string, error) {
		b, err := scripts.ReadFile("scripts/" + name + ".lua")
		return string(b), err
	}
	record, err := text("record")
	if err != nil {
		return nil, err
	}
	for _, verb := range []string{"submit", "retry", "cancel", "claim", "reserve", "pause", "renew", "settle", "account", "rescue", "resolve", "forget"} {
		body, err := text(verb)
		if err != nil {
			return nil, err
		}
		s.verbs[verb] = redis.NewScript(events.Lua() + "\n" + record + "\n" + body)
	}
	index, err := text("index")
	if err != nil {
		return nil, err
	}
	for _, verb := range []string{"admit", "leave", "due"} {
		body, err := text(verb)
		if err != nil {
			return nil, err
		}
		s.verbs[verb] = redis.NewScript(index + "\n" + body)
	}
	return s, nil
}

// answer is what a script replies: JSON of strings.
type answer struct {
	Code     string `json:"code"`
	JobID    string `json:"job"`
	Status   string `json:"status"`
	Outcome  string `json:"outcome"`
	Reason   string `json:"reason"`
	Language string `json:"language"`
	Replaced string `json:"replaced"`
	Old      string `json:"old"`
	Live     string `json:"live"`
	Ended    string `json:"ended"`
	Replay   string `json:"replay"`
	Queue    string `json:"queue"`

	unreplicated bool // Sync was not met

	At          int64 `json:"at,string"`
	Now         int64 `json:"now,string"`
	Deadline    int64 `json:"deadline,string"`
	Lease       int64 `json:"lease,string"`
	Version     int64 `json:"version,string"`
	Run         int   `json:"run,string"`
	Attempt     int   `json:"attempt,string"`
	MaxAttempts int   `json:"max_attempts,string"`
	MaxCalls    int   `json:"max_calls,string"`
	Calls       int   `json:"calls,string"`
	Allowance   int   `json:"allowance,string"`
	Cap         int64 `json:"cap,string"`
	Spent       int64 `json:"spent,string"`
	Worked      int64 `json:"worked,string"`
	Manual      int   `json:"manual,string"`
	Missing     int   `json:"missing,string"`
}

// worked is how long the job held a slot, in all its attempts.
func (a answer) worked() time.Duration { return time.Duration(a.Worked) * time.Millisecond }

// args are a verb's named arguments. Absent ones are left out, because JSON's
// null is a value in Lua.
type args map[string]any

// run calls a verb on a topic's keys.
func (s *Store) run(ctx context.Context, verb string, t events.Topic, a args, blob []byte, extra ...string) (answer, []byte, error) {
	arg, err := json.Marshal(a)
	if err != nil {
		return answer{}, nil, fmt.Errorf("jobs: %s: %w", verb, err)
	}
	keys := append([]string{t.Key("log"), t.Key("job"), t.Key("input"), t.Key("document"), t.Key("ledger")}, extra...)
	reply, replicated, err := s.exec(ctx, verb, keys, t.Key("live"), ms(s.keep.Job), arg, blob)
	if err != nil {
		return answer{}, nil, storageError(verb, err)
	}
	var rest []byte
	if list, ok := reply.([]any); ok && len(list) > 0 {
		reply = list[0]
		if len(list) > 1 {
			text, _ := list[1].(string)
			rest = []byte(text)
		}
	}
	text, ok := reply.(string)
	if !ok {
		return answer{}, nil, fmt.Errorf("jobs: %s answered %T", verb, reply)
	}
	var out answer
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return answer{}, nil, fmt.Errorf("jobs: %s answered %q: %w", verb, text, err)
	}
	out.unreplicated = !replicated
	return out, rest, nil
}

// storageError tells a script's own complaint, which is a defect of ours, from
// a Redis that could not be asked.
func storageError(verb string, err error) error {
	var reply redis.Error
	if errors.As(err, &reply) && !unavailable(reply.Error()) {
		return fmt.Errorf("jobs: %s: %w", verb, err)
	}
	return fmt.Errorf("jobs: %s: %w: %w", verb, events.ErrUnavailable, err)
}

// unavailable knows the error replies of a Redis that cannot serve now.
func unavailable(reply string) bool {
	for _, p := range []string{"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "OOM", "NOREPLICAS", "MISCONF", "UNBLOCKED", "MOVED", "ASK"} {
		if strings.HasPrefix(reply, p) {
			return true
		}
	}
	return false
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

// Open is how many jobs are open.
func (s *Store) Open(ctx context.Context) (int64, error) {
	n, err := s.client.ZCard(ctx, indexKeys()[0]).Result()
	if err != nil {
		return 0, storageError("open", err)
	}
	return n, nil
}

// document reads the current document.
func (s *Store) document(ctx context.Context, t events.Topic) (Document, bool, error) {
	h, err := s.client.HGetAll(ctx, t.Key("document")).Result()
	if err != nil {
		return Document{}, false, storageError("document", err)
	}
	if len(h) == 0 {
		return Document{}, false, nil
	}
	var d Document
	if err := json.Unmarshal([]byte(h["body"]), &d); err != nil {
		return Document{}, false, fmt.Errorf("jobs: the document of a session cannot be read: %w", err)
	}
	d.Version, d.JobID, d.CreatedAt = number(h["version"]), h["job"], fromMS(number(h["created"]))
	return d, true, nil
}

// look reads a topic's job record and its last transition in one round trip.
func (s *Store) look(ctx context.Context, t events.Topic) (map[string]string, events.Transition, error) {
	pipe := s.client.Pipeline()
	record := pipe.HGetAll(ctx, t.Key("job"))
	log := pipe.XRevRangeN(ctx, t.Key("log"), "+", "-", 1)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, events.Transition{}, storageError("look", err)
	}
	last, err := newest(log.Val())
	return record.Val(), last, err
}

// newest reads what XREVRANGE gave of a log; the zero Transition for none.
func newest(entries []redis.XMessage) (events.Transition, error) {
	if len(entries) == 0 {
		return events.Transition{}, nil
	}
	fields := map[string]string{}
	for k, v := range entries[0].Values {
		fields[k], _ = v.(string)
	}
	return events.ParseTransition(fields)
}

// place enqueues the task of a run that was started anew, and says so in the
// record: until then the rescuer takes a missing task for an interrupted step,
// not for one that an operator deleted.
func (s *Store) place(ctx context.Context, q Queue, t Task, at time.Time) error {
	if err := q.Enqueue(ctx, t, at); err != nil {
		return err
	}
	_, _, err := s.run(ctx, "rescue", t.Topic, args{"job": t.JobID, "run": t.Run, "action": "placed"}, nil)
	return err
}

// now is Redis's clock, which all stored times are made with.
func (s *Store) now(ctx context.Context) (time.Time, error) {
	t, err := s.client.Time(ctx).Result()
	if err != nil {
		return time.Time{}, storageError("now", err)
	}
	return t.UTC(), nil
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
