package store_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/events/eventstest"
	"github.com/tidings/tidings/jobs/lifecycle"
	"github.com/tidings/tidings/jobs/retry"
	"github.com/tidings/tidings/jobs/store"
	"github.com/tidings/tidings/jobs/store/storetest"
)

func inRedis(c redis.UniversalClient) storetest.Store {
	log := events.NewRedisLog(c, time.Hour)
	return storetest.Store{
		Records: store.NewRedis(store.Scripts{Client: c}, store.Kept{Record: time.Hour, Document: time.Hour, Key: time.Hour}),
		Log: func(ctx context.Context, t events.Topic) ([]events.Transition, error) {
			all, _, _, err := log.After(ctx, t, 0)
			return all, err
		},
	}
}

func TestRedis(t *testing.T) {
	storetest.Suite(t, func(t *testing.T) storetest.Store { return inRedis(eventstest.StartRedis(t).Client()) })
}

func TestEmbeddedRedis(t *testing.T) {
	storetest.Suite(t, func(t *testing.T) storetest.Store {
		c := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
		t.Cleanup(func() { c.Close() })
		return inRedis(c)
	})
}

func TestMemory(t *testing.T) {
	storetest.Suite(t, func(*testing.T) storetest.Store {
		m := store.NewMemory(time.Now, nil)
		return storetest.Store{Records: m, Log: func(_ context.Context, t events.Topic) ([]events.Transition, error) { return m.Log(t), nil }}
	})
}

// Redis takes nothing back of a script that fails midway. A key of the wrong type,
// whichever it is, leaves everything as it was, and a repeat after it is mended does
// the whole.
func TestACommitThatCannotBeWrittenChangesNothing(t *testing.T) {
	c := eventstest.StartRedis(t).Client()
	s := inRedis(c)
	rules := lifecycle.Rules{Settings: retry.Defaults()}
	ctx := t.Context()
	for _, broken := range []string{"log", "document", "ledger", "reports:J1"} {
		topic := events.NewTopic("", strings.ReplaceAll(broken, ":", "-"), "summary")
		step := func(verb string, w store.Want, decide func(lifecycle.State) lifecycle.Change) error {
			read, err := s.Read(ctx, topic, w)
			if err != nil {
				return err
			}
			_, _, err = store.Apply(ctx, s, verb, topic, read, decide)
			return err
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("%s: %v", broken, err)
			}
		}
		must(step("submit", store.Want{}, func(state lifecycle.State) lifecycle.Change {
			c, _ := rules.Submit(state, lifecycle.Submission{Terms: lifecycle.Terms{JobID: "J1"}, Input: []byte("in")})
			return c
		}))
		must(step("claim", store.Want{}, func(state lifecycle.State) lifecycle.Change {
			c, _ := rules.Claim(state, lifecycle.Claiming{JobID: "J1", Run: 1, Token: "T", Worker: "w"})
			return c
		}))
		settle := func() error {
			return step("settle", store.Want{Job: "J1", Attempt: 1}, func(state lifecycle.State) lifecycle.Change {
				c, _, _, _ := rules.SettleReport(state, "J1", lifecycle.Report{Worker: "w", Attempt: 1, Token: "T"}, lifecycle.Attempt{Kind: lifecycle.Finished, Document: []byte("{}")})
				return c
			})
		}
		everything := func() string {
			var b strings.Builder
			for _, key := range []string{"job", "log", "input", "document", "ledger", "reports:J1"} {
				dump, _ := c.Dump(ctx, topic.Key(key)).Result()
				b.WriteString(key + dump)
			}
			return b.String()
		}
		key := topic.Key(broken)
		kept, _ := c.Dump(ctx, key).Result()
		must(c.Set(ctx, key, "somebody else's", 0).Err())
		before := everything()
		if err := settle(); err == nil || everything() != before {
			t.Errorf("with a broken %s: %v, changed %v", broken, err, everything() != before)
		}
		must(c.Del(ctx, key).Err())
		if kept != "" {
			must(c.Restore(ctx, key, 0, kept).Err())
		}
		must(settle())
		if read, err := s.Read(ctx, topic, store.Want{}); err != nil || read.Last.Status != events.Completed || read.Job.Claim != nil {
			t.Errorf("mended %s: %+v %v", broken, read.Last, err)
		}
	}
}

// The same commit twice, as after a lost answer, is one.
func TestACommitIsStoredOnce(t *testing.T) {
	c := eventstest.StartRedis(t).Client()
	s, topic := inRedis(c), events.NewTopic("", "s-1", "summary")
	twice := &repeating{}
	c.AddHook(twice)
	rules := lifecycle.Rules{Settings: retry.Defaults()}
	read, err := s.Read(t.Context(), topic, store.Want{})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = store.Apply(t.Context(), s, "submit", topic, read, func(state lifecycle.State) lifecycle.Change {
		c, _ := rules.Submit(state, lifecycle.Submission{Terms: lifecycle.Terms{JobID: "J1"}, Input: []byte("in")})
		return c
	})
	log, _ := s.Log(t.Context(), topic)
	if err != nil || twice.sent == 0 || len(log) != 1 {
		t.Errorf("sent again %d times, told %+v, %v", twice.sent, log, err)
	}
}

// repeating sends each commit again.
type repeating struct{ sent int }

func (r *repeating) DialHook(next redis.DialHook) redis.DialHook { return next }
func (r *repeating) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (r *repeating) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if args := cmd.Args(); err == nil && len(args) > 8 {
			r.sent++
			return next(ctx, cmd)
		}
		return err
	}
}
