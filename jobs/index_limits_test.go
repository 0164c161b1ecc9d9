package jobs

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/events/eventstest"
	"github.com/tidings/tidings/jobs/lifecycle"
	"github.com/tidings/tidings/jobs/retry"
	"github.com/tidings/tidings/jobs/store"
)

// fixture is one topic on a Redis, and what can happen to its job.
type fixture struct {
	*testing.T
	store *Store
	log   *events.RedisLog
	topic events.Topic
}

// onBoth runs a test on a real Redis and on the embedded one: everything must
// do the same on both.
func onBoth(t *testing.T, body func(b *fixture)) {
	t.Helper()
	run := func(name string, client func(t *testing.T) redis.UniversalClient) {
		t.Run(name, func(t *testing.T) {
			c := client(t)
			kept := store.Kept{Record: time.Hour, Document: time.Hour, Key: time.Hour}
			body(&fixture{t, NewStore(c, kept, store.Sync{}, nil), events.NewRedisLog(c, time.Hour), events.NewTopic("", "s-1", "summary")})
		})
	}
	run("redis", func(t *testing.T) redis.UniversalClient { return eventstest.StartRedis(t).Client() })
	run("embedded", func(t *testing.T) redis.UniversalClient {
		m := miniredis.RunT(t)
		m.ClockTTL(true)
		c := redis.NewClient(&redis.Options{Addr: m.Addr()})
		t.Cleanup(func() { c.Close() })
		return c
	})
}

// do lets a verb happen.
func (b *fixture) do(verb string, w store.Want, decide func(lifecycle.Rules, lifecycle.State) lifecycle.Change) {
	b.Helper()
	rules := lifecycle.Rules{Settings: retry.Defaults()}
	if _, _, err := b.store.do(b.Context(), verb, b.topic, w, func(s lifecycle.State) lifecycle.Change { return decide(rules, s) }); err != nil {
		b.Fatalf("%s: %v", verb, err)
	}
}

// claim starts the job's next attempt, whenever that is due.
func (b *fixture) claim(job, token string) {
	b.Helper()
	b.do("claim", store.Want{}, func(r lifecycle.Rules, s lifecycle.State) lifecycle.Change {
		c, got := r.Claim(s, lifecycle.Claiming{JobID: job, Run: 1, Token: token, Worker: "w", ByHand: true})
		if got.Code != lifecycle.Claimable {
			b.Fatalf("claim: %+v", got)
		}
		return c
	})
}

func (b *fixture) settle(job, token string, a lifecycle.Attempt) {
	b.Helper()
	b.do("settle", store.Want{}, func(r lifecycle.Rules, s lifecycle.State) lifecycle.Change {
		c, code, _ := r.Settle(s, job, token, a)
		if code != lifecycle.OK {
			b.Fatalf("settle: %s", code)
		}
		return c
	})
}

func (b *fixture) last() events.Transition {
	b.Helper()
	l, err := b.log.Last(b.Context(), []events.Topic{b.topic})
	if err != nil {
		b.Fatal(err)
	}
	return l[0]
}

func TestTheIndexNeverOvershoots(t *testing.T) {
	few := Limits{OpenJobs: 7, InputBytes: 1000}
	onBoth(t, func(b *fixture) {
		ctx := b.Context()
		var wg sync.WaitGroup
		var mu sync.Mutex
		in := map[string]bool{}
		for i := range 40 {
			wg.Go(func() {
				job := string(rune('A'+i/26)) + string(rune('A'+i%26))
				got, err := b.store.admit(ctx, place{topic: b.topic, job: job, bytes: 10, hold: time.Minute}, few)
				if err != nil {
					b.Error(err)
				}
				if got.refused == "" {
					mu.Lock()
					in[job] = true
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if n, _, _ := Counted(ctx, b.store.Client); n != 7 || len(in) != 7 {
			b.Fatalf("%d open, %d admitted, want 7", n, len(in))
		}
		for job := range in {
			if got, _ := b.store.admit(ctx, place{topic: b.topic, job: job, bytes: 10, hold: time.Minute}, few); got.refused != "" {
				b.Error("a repeat was refused")
			}
			if err := b.store.leave(ctx, b.topic, job, 0, 0); err != nil {
				b.Fatal(err)
			}
		}
		if sums := b.store.Client.HGetAll(ctx, indexKeys()[3]).Val(); len(sums) > 0 {
			b.Errorf("bytes are still counted: %v", sums)
		}
		// The byte budget counts open jobs' inputs; a failed job's makes way, and is
		// counted until then or until its time is over.
		admit := func(job string, bytes int) admission {
			got, err := b.store.admit(ctx, place{topic: b.topic, job: job, bytes: bytes, hold: time.Minute}, few)
			if err != nil {
				b.Fatal(err)
			}
			return got
		}
		if got := admit("big", 900); got.refused != "" {
			b.Fatal("refused below the byte limit")
		}
		if got := admit("next", 200); got.refused != noInputRoom {
			b.Errorf("above the byte limit: %+v", got)
		}
		_ = b.store.leave(ctx, b.topic, "big", time.Minute, 0)
		if got := admit("next", 200); got.refused != "" || !slices.Equal(got.gone, []string{member(b.topic, "big")}) {
			b.Errorf("beside a failed job's input: %+v", got)
		}
		_ = b.store.leave(ctx, b.topic, "next", 30*time.Millisecond, 0)
		<-time.After(50 * time.Millisecond)
		if _, err := b.store.due(ctx, 10, "", 0); err != nil {
			b.Fatal(err)
		}
		if sums := b.store.Client.HGetAll(ctx, indexKeys()[3]).Val(); len(sums) > 0 {
			b.Errorf("counted after their time: %v", sums)
		}
	})
}
