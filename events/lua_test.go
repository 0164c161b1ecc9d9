package events_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/events/eventstest"
)

// What package jobs builds its scripts on, on both servers.
func TestLua(t *testing.T) {
	for _, on := range []struct {
		name   string
		client func(*testing.T) redis.UniversalClient
	}{
		{"redis", func(t *testing.T) redis.UniversalClient { return eventstest.StartRedis(t).Client() }},
		{"miniredis", func(t *testing.T) redis.UniversalClient {
			client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
			t.Cleanup(func() { _ = client.Close() })
			return client
		}},
	} {
		t.Run(on.name, func(t *testing.T) {
			client := on.client(t)
			luaAppendsTwiceInOneScript(t, client)
			luaWritesNumbersExactly(t, client)
			luaLeavesEmptyFieldsOut(t, client)
			luaRefuses(t, client)
		})
	}
}

func eval(t *testing.T, client redis.UniversalClient, topic events.Topic, script string) (any, error) {
	t.Helper()
	got, err := client.Eval(t.Context(), events.Lua()+script, []string{topic.Key("log")}, topic.Key("live")).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil // a script without a result
	}
	return got, err
}

// A running job is replaced: its end and the new job's start, in one step.
func luaAppendsTwiceInOneScript(t *testing.T, client redis.UniversalClient) {
	topic := topicOf("twice")
	log := events.NewRedisLog(client, week)
	first := eventstest.Append(t, log, topic, "j1", events.Queued)[0]
	_, err := eval(t, client, topic, `
		local newest, seq = last(KEYS[1])
		assert(newest.job == 'j1' and type(seq) == 'number' and string.format('%.0f', seq) == newest.seq)
		local ended = assert(append(KEYS[1], ARGV[1], {status = 'error', job = 'j1', outcome = 'failed', reason = 'cancelled'}, 60000))
		local began = assert(append(KEYS[1], ARGV[1], {status = 'queued', job = 'j2'}, 60000))
		assert(ended.prev == newest.seq and began.prev == ended.seq and ended.job == 'j1')
		assert(math.abs(now_ms() - tonumber(began.at)) < 1000)`)
	if err != nil {
		t.Fatal(err)
	}
	newer, _, known, err := log.After(t.Context(), topic, first.Seq)
	if err != nil || !known || len(newer) != 2 || newer[1].JobID != "j2" || newer[1].Seq <= newer[0].Seq {
		t.Errorf("got %+v, known %v, %v", newer, known, err)
	}
	if ttl := client.PTTL(t.Context(), topic.Key("log")).Val(); ttl <= 0 || ttl > time.Minute {
		t.Errorf("the log expires in %v, want the minute that the script said", ttl)
	}
}

func luaWritesNumbersExactly(t *testing.T, client redis.UniversalClient) {
	topic := topicOf("numbers")
	if _, err := eval(t, client, topic, `
		assert(append(KEYS[1], ARGV[1], {status = 'queued', job = 'j1', version = 9007199254740991,
			not_before = 1775563260123, attempt = 3}, 60000))`); err != nil {
		t.Fatal(err)
	}
	last, err := events.NewRedisLog(client, week).Last(t.Context(), []events.Topic{topic})
	if err != nil || last[0].Version != 1<<53-1 || last[0].NotBefore.UnixMilli() != 1775563260123 || last[0].Attempt != 3 {
		t.Errorf("got %+v, %v", last, err)
	}
}

func luaLeavesEmptyFieldsOut(t *testing.T, client redis.UniversalClient) {
	topic := topicOf("empty")
	if _, err := eval(t, client, topic, `
		local stored = assert(append(KEYS[1], ARGV[1], {status = 'queued', job = 'j1', reason = '', attempt = 0,
			call = '0', can_retry = false, version = nil}, 60000))
		local n = 0
		for name in pairs(stored) do n = n + 1 end
		assert(n == 4, 'seq, at, status, job')
		assert(append(KEYS[1], ARGV[1], {status = 'error', job = 'j1', can_retry = true}, 60000).can_retry == '1')`); err != nil {
		t.Error(err)
	}
}

func luaRefuses(t *testing.T, client redis.UniversalClient) {
	topic := topicOf("refuses")
	for script, want := range map[string]string{
		`append(KEYS[1], ARGV[1], {status = 'queued', job = 'j1', atempt = 1}, 60000)`: "unknown field atempt",
		`append(KEYS[1], ARGV[1], {status = 'queued'}, 60000)`:                         "status and job are needed",
		`append(KEYS[1], ARGV[1], {job = 'j1'}, 60000)`:                                "status and job are needed",
	} {
		if _, err := eval(t, client, topic, script); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", script, err, want)
		}
	}
	got, err := eval(t, client, topic, `
		local newest, seq = last(KEYS[1])
		assert(newest == nil and seq == 0)
		local stored, why = append(KEYS[1], ARGV[1], {status = 'processing', job = 'j1'}, 60000)
		assert(stored == nil)
		return why`)
	if err != nil || got != "illegal" {
		t.Errorf("got %v, %v, want illegal", got, err)
	}
	if n := client.Exists(t.Context(), topic.Key("log")).Val(); n != 0 {
		t.Error("something was stored all the same")
	}
}
