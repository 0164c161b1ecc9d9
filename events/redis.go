package events

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedisLog is the Log in Redis: one stream per topic, and plain PUBLISH for the
// live copies, so that it runs on a single server, behind Sentinel and on a
// Cluster alike. It must be given a client that reads from masters: a replica
// lags behind, and a head read there would look like lost data.
type RedisLog struct {
	client    redis.UniversalClient
	retention time.Duration
	script    string // what append is made of
	append    *redis.Script
	health    health
}

// NewRedisLog makes the log that keeps a topic for retention after its newest
// transition.
func NewRedisLog(client redis.UniversalClient, retention time.Duration) *RedisLog {
	source := Lua() + appendScript
	return &RedisLog{
		client:    client,
		retention: retention,
		script:    source,
		append:    redis.NewScript(source),
		health:    health{pingEvery: 3 * time.Second, deadAfter: 5 * time.Second},
	}
}

const appendScript = `
-- KEYS[1] log. ARGV[1] live channel, ARGV[2] ttl in ms, then field names and values.
-- Returns the stored names and values in turn, or false: not allowed to follow.
local fields = {}
for i = 3, #ARGV, 2 do fields[ARGV[i]] = ARGV[i + 1] end
local stored = append(KEYS[1], ARGV[1], fields, ARGV[2])
if not stored then return false end
local flat = {}
for name, value in pairs(stored) do
    flat[#flat + 1] = name
    flat[#flat + 1] = value
end
return flat
`

// batch bounds one pipeline and one SUBSCRIBE command.
const batch = 500

// Append implements Log. A failure leaves open whether t was stored: nothing
// is sent twice behind the caller's back.
func (l *RedisLog) Append(ctx context.Context, topic Topic, t Transition) (Transition, error) {
	t.Seq, t.Prev, t.At = 0, 0, time.Time{} // the script sets them
	args := []any{topic.Key("live"), l.retention.Milliseconds()}
	for _, s := range t.Fields() {
		args = append(args, s)
	}
	stored, err := l.once(ctx, l.append, topic.Key("log"), args)
	if errors.Is(err, redis.Nil) {
		return Transition{}, ErrIllegal
	}
	if err != nil {
		return Transition{}, unavailable("append", err)
	}
	fields := make(map[string]string, len(stored)/2)
	for i := 0; i+1 < len(stored); i += 2 {
		fields[stored[i]] = stored[i+1]
	}
	return ParseTransition(fields)
}

// once runs a script that must not run twice: the client repeats a command
// whose answer got lost unless the command forbids it.
func (l *RedisLog) once(ctx context.Context, script *redis.Script, key string, args []any) ([]string, error) {
	run := func(verb, source string) ([]string, error) {
		cmd := redis.NewStringSliceCmd(ctx, append([]any{verb, source, 1, key}, args...)...)
		_ = l.client.Process(ctx, noRetry{cmd})
		return cmd.Result()
	}
	stored, err := run("evalsha", script.Hash())
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		// It has not run: Redis does not know it (any more).
		return run("eval", l.script)
	}
	return stored, err
}

type noRetry struct{ *redis.StringSliceCmd }

func (noRetry) NoRetry() bool { return true }

// After implements Log.
func (l *RedisLog) After(ctx context.Context, topic Topic, seq int64) ([]Transition, int64, bool, error) {
	answers, err := l.Read(ctx, []Ask{{Topic: topic, How: Resume, Seq: seq}})
	if err == nil {
		err = answers[0].Err
	}
	if err != nil {
		return nil, 0, false, err
	}
	return answers[0].Newer, answers[0].Head.Seq, answers[0].Known, nil
}

// Last implements Log: one round trip per 500 topics.
func (l *RedisLog) Last(ctx context.Context, topics []Topic) ([]Transition, error) {
	newest := make([]Transition, len(topics))
	for from := 0; from < len(topics); from += batch {
		to := min(from+batch, len(topics))
		pipe := l.client.Pipeline()
		cmds := make([]*redis.XMessageSliceCmd, 0, to-from)
		for _, topic := range topics[from:to] {
			cmds = append(cmds, pipe.XRevRangeN(ctx, topic.Key("log"), "+", "-", 1))
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return nil, unavailable("read the newest transitions", err)
		}
		for i, cmd := range cmds {
			entries, err := parseEntries(cmd.Val())
			if err != nil {
				return nil, err
			}
			if len(entries) == 1 {
				newest[from+i] = entries[0]
			}
		}
	}
	return newest, nil
}

// Now implements Log. On a Cluster it is the clock of any one node.
func (l *RedisLog) Now(ctx context.Context) (time.Time, error) {
	now, err := l.client.Time(ctx).Result()
	if err != nil {
		return time.Time{}, unavailable("ask the time", err)
	}
	return now.UTC(), nil
}

func parseEntries(entries []redis.XMessage) ([]Transition, error) {
	parsed := make([]Transition, 0, len(entries))
	for _, e := range entries {
		t, err := parse(func(name string) string {
			v, _ := e.Values[name].(string)
			return v
		})
		if err != nil {
			return nil, fmt.Errorf("%w (entry %s)", err, e.ID)
		}
		parsed = append(parsed, t)
	}
	return parsed, nil
}

func unavailable(what string, err error) error {
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, what, err)
}
