package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/lifecycle"
)

//go:embed *.lua
var sources embed.FS

// Cancels is the channel that tells workers about cancelled jobs.
const Cancels = "tidings:cancels"

// maxLedger is how many lines a ledger keeps, the newest.
const maxLedger = 200

// Kept says for how long things are stored.
type Kept struct {
	Record   time.Duration // records, logs, ledgers and reports, from their last change
	Document time.Duration // from its making
	Key      time.Duration // Idempotency-Keys; the contract says 24 h
}

// Redis keeps records in Redis, each in one hash beside its topic's log. It must be
// given a client that reads from masters.
type Redis struct {
	Scripts
	kept         Kept
	read, commit *redis.Script
}

// NewRedis makes the store; it does not talk to Redis.
func NewRedis(scripts Scripts, kept Kept) *Redis {
	text := func(name string) string {
		b, err := sources.ReadFile(name + ".lua")
		if err != nil { // it was compiled in, so only a build that no test has seen can lack it
			panic(err)
		}
		return string(b)
	}
	return &Redis{Scripts: scripts, kept: kept,
		read: redis.NewScript(text("state") + text("read")), commit: redis.NewScript(text("state") + text("commit"))}
}

// The keys of a topic, as the scripts number them from 1.
const (
	inputKey = iota + 3
	documentKey
	ledgerKey
	askedKey
)

func (w Want) keys(t events.Topic) []string {
	keys := []string{t.Key("job"), t.Key("log"), t.Key("input"), t.Key("document"), t.Key("ledger")}
	switch {
	case w.Key != "":
		sum := sha256.Sum256([]byte(w.Key))
		keys = append(keys, t.Key("idempotency:"+hex.EncodeToString(sum[:16])))
	case w.Job != "":
		keys = append(keys, t.Key("reports:"+w.Job))
	}
	return keys
}

func (w Want) field() string {
	if w.Attempt == 0 {
		return ""
	}
	return strconv.Itoa(w.Attempt)
}

// Read implements [Records].
func (r *Redis) Read(ctx context.Context, t events.Topic, w Want) (Snapshot, error) {
	input := ""
	if w.Input {
		input = "1"
	}
	reply, err := r.read.Run(ctx, r.Client, w.keys(t), w.field(), input).Slice()
	if err != nil {
		return Snapshot{}, Error("read", err)
	}
	return parse(reply, w)
}

// parse reads what the scripts answer a state with.
func parse(reply []any, w Want) (Snapshot, error) {
	s := Snapshot{want: w, received: time.Now()}
	text := func(i int) string {
		t, _ := reply[i].(string)
		return t
	}
	if len(reply) < 9 {
		return s, fmt.Errorf("jobs: a script answered %d values", len(reply))
	}
	now, _ := reply[0].(int64)
	size, _ := reply[6].(int64)
	s.Now, s.InputBytes, s.DocumentJob = time.UnixMilli(now).UTC(), int(size), text(5)
	s.DocumentVersion, _ = strconv.ParseInt(text(4), 10, 64)
	if w.Key != "" {
		s.Key = text(7)
	} else {
		s.Report = text(7)
	}
	if err := s.record(text(1), text(2), text(3)); err != nil {
		return s, err
	}
	if left, _ := reply[8].([]any); len(left) > 0 {
		fields := map[string]string{}
		for i := 0; i+1 < len(left); i += 2 {
			name, _ := left[i].(string)
			fields[name], _ = left[i+1].(string)
		}
		var err error
		if s.Last, err = events.ParseTransition(fields); err != nil {
			return s, err
		}
	}
	if len(reply) > 9 {
		s.Input = []byte(text(9))
	}
	return s, nil
}

// record reads the stored form of a job and its newest transition.
func (s *Snapshot) record(version, job, last string) error {
	if version == "" {
		return nil
	}
	s.version = version
	if err := json.Unmarshal([]byte(job), &s.Job); err != nil {
		return fmt.Errorf("jobs: a record cannot be read: %w", err)
	}
	fields := map[string]string{}
	if err := json.Unmarshal([]byte(last), &fields); err != nil {
		return fmt.Errorf("jobs: a record's transition cannot be read: %w", err)
	}
	var err error
	s.Last, err = events.ParseTransition(fields)
	return err
}

// ReadAll implements [Records].
func (r *Redis) ReadAll(ctx context.Context, topics []events.Topic, now time.Time) ([]Snapshot, []error) {
	pipe := r.Client.Pipeline()
	records, logs := make([]*redis.SliceCmd, len(topics)), make([]*redis.XMessageSliceCmd, len(topics))
	documents := make([]*redis.StringCmd, len(topics))
	for i, t := range topics {
		records[i] = pipe.HMGet(ctx, t.Key("job"), "version", "job", "last")
		logs[i] = pipe.XRevRangeN(ctx, t.Key("log"), "+", "-", 1)
		documents[i] = pipe.HGet(ctx, t.Key("document"), "job")
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	out, errs := make([]Snapshot, len(topics)), make([]error, len(topics))
	for i := range topics {
		out[i], errs[i] = one(records[i], logs[i], now)
		out[i].DocumentJob = documents[i].Val()
	}
	return out, errs
}

func one(record *redis.SliceCmd, log *redis.XMessageSliceCmd, now time.Time) (Snapshot, error) {
	s := Snapshot{received: time.Now()}
	s.Now = now
	values, err := record.Result()
	if err == nil {
		err = log.Err()
	}
	if err != nil {
		return s, Error("read", err)
	}
	var text [3]string
	for i, v := range values {
		text[i], _ = v.(string)
	}
	if err := s.record(text[0], text[1], text[2]); err != nil || s.version != "" || len(log.Val()) == 0 {
		return s, err
	}
	fields := map[string]string{}
	for k, v := range log.Val()[0].Values {
		fields[k], _ = v.(string)
	}
	s.Last, err = events.ParseTransition(fields)
	return s, err
}

// Commit implements [Records].
func (r *Redis) Commit(ctx context.Context, verb string, t events.Topic, from Snapshot, c lifecycle.Change) (Snapshot, Result, error) {
	version, record, now := rand.Text(), []byte(nil), from.At().Now
	if c.Job.ID != "" {
		var err error
		if record, err = json.Marshal(c.Job); err != nil {
			return from, Result{}, fmt.Errorf("jobs: %s: %w", verb, err)
		}
	}
	if n := len(c.Transitions); n > 0 {
		now = c.Transitions[n-1].At
	}
	argv := []any{verb, from.want.field(), from.version, version, now.UnixMilli(), Good.Milliseconds(), r.kept.Record.Milliseconds(),
		record, t.Key("live"), events.MaxLog, len(c.Transitions)}
	for _, tr := range c.Transitions {
		fields := tr.Fields()
		copied := make(map[string]string, len(fields)/2)
		for i := 0; i < len(fields); i += 2 {
			copied[fields[i]] = fields[i+1]
		}
		live, err := json.Marshal(copied)
		if err != nil {
			return from, Result{}, fmt.Errorf("jobs: %s: %w", verb, err)
		}
		argv = append(argv, tr.Seq, live, len(fields))
		for _, f := range fields {
			argv = append(argv, f)
		}
	}
	reply, replicated, err := r.Run(ctx, verb, r.commit, from.want.keys(t), append(argv, r.writes(c)...)...)
	if err != nil {
		return from, Result{}, Error(verb, err)
	}
	if at, stored := reply.(int64); stored {
		return from.after(c, version, time.UnixMilli(at).UTC()), Result{Stored: true, Replicated: replicated}, nil
	}
	state, _ := reply.([]any)
	next, err := parse(state, from.want)
	next.Input = from.Input
	return next, Result{}, err
}

// writes are the commands of a change beside its record and transitions.
func (r *Redis) writes(c lifecycle.Change) (argv []any) {
	write := func(command string, key int, args ...any) {
		argv = append(append(argv, command, key, len(args)), args...)
	}
	if in := c.Input; in != nil {
		switch {
		case in.Bytes != nil:
			write("SET", inputKey, in.Bytes, "PX", in.Keep.Milliseconds())
		case in.Keep > 0:
			write("PEXPIRE", inputKey, in.Keep.Milliseconds())
		default:
			write("DEL", inputKey)
		}
	}
	if d := c.Document; d != nil {
		write("HSET", documentKey, "version", d.Version, "job", d.JobID, "created", d.At.UnixMilli(), "body", d.Body)
		write("PEXPIRE", documentKey, r.kept.Document.Milliseconds())
	}
	if c.NewLedger {
		write("DEL", ledgerKey)
	}
	if len(c.Lines) > 0 {
		lines := make([]any, len(c.Lines))
		for i, l := range c.Lines {
			lines[i] = l
		}
		write("RPUSH", ledgerKey, lines...)
		write("LTRIM", ledgerKey, -maxLedger, -1)
		write("PEXPIRE", ledgerKey, r.kept.Record.Milliseconds())
	}
	if c.Key != "" {
		write("SET", askedKey, c.Key, "PX", r.kept.Key.Milliseconds())
	}
	if c.Report != "" {
		write("HSET", askedKey, c.Attempt, c.Report)
		write("PEXPIRE", askedKey, r.kept.Record.Milliseconds())
	}
	if c.Cancelled != "" {
		write("PUBLISH", 0, Cancels, c.Cancelled)
	}
	return argv
}

// Replicated implements [Records].
func (r *Redis) Replicated(ctx context.Context, t events.Topic) (bool, error) {
	if r.Sync.Replicas == 0 {
		return true, nil
	}
	_, replicated, err := r.Wait(ctx, r.read, Want{}.keys(t), "", "")
	if err != nil {
		return false, Error("read", err)
	}
	return replicated, nil
}

// Document implements [Records].
func (r *Redis) Document(ctx context.Context, t events.Topic) (lifecycle.Document, error) {
	h, err := r.Client.HGetAll(ctx, t.Key("document")).Result()
	if err != nil {
		return lifecycle.Document{}, Error("document", err)
	}
	version, _ := strconv.ParseInt(h["version"], 10, 64)
	created, _ := strconv.ParseInt(h["created"], 10, 64)
	return lifecycle.Document{Version: version, JobID: h["job"], At: time.UnixMilli(created).UTC(), Body: []byte(h["body"])}, nil
}

// Ledger implements [Records].
func (r *Redis) Ledger(ctx context.Context, t events.Topic) ([]string, error) {
	lines, err := r.Client.LRange(ctx, t.Key("ledger"), 0, -1).Result()
	if err != nil {
		return nil, Error("ledger", err)
	}
	return lines, nil
}

// Error tells a Redis that refuses a command, which is a defect of ours or a key of
// somebody else's, from one that could not be asked.
func Error(what string, err error) error {
	var reply redis.Error
	if errors.As(err, &reply) && !unavailable(reply.Error()) {
		return fmt.Errorf("jobs: %s: %w", what, err)
	}
	return fmt.Errorf("jobs: %s: %w: %w", what, events.ErrUnavailable, err)
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
