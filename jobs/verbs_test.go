package jobs

import (
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/events/eventstest"
)

// bench is one topic on a Redis, and the verbs on it.
type bench struct {
	*testing.T
	store *Store
	log   *events.RedisLog
	topic events.Topic
}

// onBoth runs a test on a real Redis and on the embedded one: every verb must
// do the same on both.
func onBoth(t *testing.T, body func(b *bench)) {
	t.Helper()
	run := func(name string, client func(t *testing.T) redis.UniversalClient) {
		t.Run(name, func(t *testing.T) {
			c := client(t)
			s, err := NewStore(c, Keep{Job: time.Hour, Input: time.Hour, Document: time.Hour, Key: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			body(&bench{t, s, events.NewRedisLog(c, time.Hour), events.NewTopic("", "s-1", "summary")})
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

func (b *bench) do(verb string, a args, blob ...byte) answer {
	b.Helper()
	got, _, err := b.store.run(b.Context(), verb, b.topic, a, blob)
	if err != nil {
		b.Fatalf("%s: %v", verb, err)
	}
	return got
}

// twice does a verb again, as after a lost answer: the same answer, and nothing
// has happened in between.
func (b *bench) twice(verb string, a args, blob ...byte) answer {
	b.Helper()
	first := b.do(verb, a, blob...)
	before := b.state()
	second := b.do(verb, a, blob...)
	first.Now, second.Now, first.Lease, second.Lease = 0, 0, 0, 0
	if first != second {
		b.Errorf("%s repeated answers %+v, the first time %+v", verb, second, first)
	}
	if after := b.state(); !reflect.DeepEqual(before, after) {
		b.Errorf("%s repeated changed something:\n%v\n%v", verb, before, after)
	}
	return first
}

// state is everything a verb may change, but for the lease's end.
func (b *bench) state() []any {
	b.Helper()
	ctx := b.Context()
	record, _, err := b.store.look(ctx, b.topic)
	if err != nil {
		b.Fatal(err)
	}
	delete(record, "lease")
	c := b.store.client
	log := c.XRange(ctx, b.topic.Key("log"), "-", "+").Val()
	return []any{record, log, c.Exists(ctx, b.topic.Key("input")).Val(), c.HGetAll(ctx, b.topic.Key("document")).Val(),
		c.LRange(ctx, b.topic.Key("ledger"), 0, -1).Val()}
}

func (b *bench) last() events.Transition {
	b.Helper()
	l, err := b.log.Last(b.Context(), []events.Topic{b.topic})
	if err != nil {
		b.Fatal(err)
	}
	return l[0]
}

func submitArgs(job string) args {
	return args{"job": job, "fingerprint": "f-" + job, "language": "nb", "deadline_ms": 600_000, "input_ms": 600_000, "max_attempts": 2,
		"max_calls": 3, "allowance": 4, "dependency": "local", "idem_ms": 60_000, "cancels": cancels}
}

func claimArgs(job, token string) args {
	return args{"job": job, "run": 1, "token": token, "worker": "w", "lease_ms": 15_000, "save_ms": 5_000, "input_ms": 60_000}
}

func settleArgs(job, token, kind string) args {
	return args{"job": job, "token": token, "kind": kind, "save_ms": 5_000, "input_ms": 60_000, "document_ms": 60_000,
		"lines": []string{`{"a":{}}`}}
}

// TestEveryVerbMayBeRepeated walks a job through its life and loses every
// answer once (faults.md: commit done, answer lost).
func TestEveryVerbMayBeRepeated(t *testing.T) {
	onBoth(t, func(b *bench) {
		if got := b.twice("submit", submitArgs("J1"), []byte("in")...); got.Code != "created" {
			b.Fatalf("submit: %+v", got)
		}
		if got := b.twice("claim", claimArgs("J1", "T1")); got.Code != "claimed" || got.Attempt != 1 || got.Language != "nb" {
			b.Fatalf("claim: %+v", got)
		}
		if got := b.twice("reserve", args{"job": "J1", "token": "T1", "call": 1}); got.Code != "ok" || got.Calls != 1 {
			b.Fatalf("reserve: %+v", got)
		}
		if got := b.do("pause", args{"job": "J1", "token": "T1", "call": 1, "pause_ms": 10, "reason": "overloaded"}); got.Code != "ok" {
			b.Fatalf("pause: %+v", got)
		}
		if got := b.twice("reserve", args{"job": "J1", "token": "T1", "call": 2}); got.Code != "ok" || got.Calls != 2 {
			b.Fatalf("reserve: %+v", got)
		}
		again := settleArgs("J1", "T1", "retrying")
		again["delay_ms"], again["reason"] = 100, "overloaded"
		if got := b.twice("settle", again); got.Status != "retrying" {
			b.Fatalf("settle: %+v", got)
		}
		if l := b.last(); l.NextRetryAt.Sub(l.At) != 100*time.Millisecond {
			b.Errorf("waits %s, the plan says 100ms", l.NextRetryAt.Sub(l.At))
		}
		for {
			got := b.do("claim", claimArgs("J1", "T2"))
			if got.Code == "claimed" {
				break
			}
			if got.Code != "wait" {
				b.Fatalf("claim: %+v", got)
			}
			<-time.After(time.Duration(got.At-got.Now) * time.Millisecond)
		}
		if got := b.twice("settle", settleArgs("J1", "T2", "completed"), []byte(`{"content":{}}`)...); got.Version != 1 {
			b.Fatalf("settle: %+v", got)
		}
		if got := b.twice("cancel", args{"cancels": cancels}); got.Code != "ended" || got.Status != "completed" {
			b.Fatalf("cancel: %+v", got)
		}
		// A second job that fails, retried by hand and cancelled.
		b.do("submit", submitArgs("J2"), []byte("in")...)
		b.do("claim", claimArgs("J2", "T3"))
		bad := settleArgs("J2", "T3", "error")
		bad["outcome"], bad["reason"], bad["can_retry"] = "failed", "auth", true
		if got := b.twice("settle", bad); got.Outcome != "failed" || got.Reason != "auth" {
			b.Fatalf("settle: %+v", got)
		}
		if got := b.twice("retry", submitArgs("J3")); got.Code != "created" {
			b.Fatalf("retry: %+v", got)
		}
		if got := b.do("cancel", args{"cancels": cancels}); got.Code != "cancelled" {
			b.Fatalf("cancel: %+v", got)
		}
		if got := b.twice("cancel", args{"cancels": cancels}); got.Code != "ended" || got.Status != "error" {
			b.Fatalf("cancel: %+v", got)
		}
		if l := b.last(); l.Reason != events.Cancelled || l.CanRetry || l.JobID != "J3" {
			b.Errorf("ended as %+v", l)
		}
	})
}

// TestI48_AReplacedClaimChangesNothing: only the current claim's token may
// speak, whatever it wants to say.
func TestI48_AReplacedClaimChangesNothing(t *testing.T) {
	onBoth(t, func(b *bench) {
		b.do("submit", submitArgs("J1"), []byte("in")...)
		short := claimArgs("J1", "old")
		short["lease_ms"] = 1
		b.do("claim", short)
		<-time.After(5 * time.Millisecond)
		if got := b.do("claim", claimArgs("J1", "new")); got.Code != "claimed" || got.Attempt != 2 {
			b.Fatalf("claim after a lost one: %+v", got)
		}
		before := b.state()
		retrying := settleArgs("J1", "old", "retrying")
		retrying["delay_ms"], retrying["reason"] = 1000, "overloaded"
		failed := settleArgs("J1", "old", "error")
		failed["outcome"], failed["reason"] = "failed", "auth"
		for _, c := range []struct {
			verb string
			a    args
		}{
			{"reserve", args{"job": "J1", "token": "old", "call": 1}},
			{"pause", args{"job": "J1", "token": "old", "call": 1, "pause_ms": 1, "reason": "overloaded"}},
			{"renew", args{"job": "J1", "token": "old", "lease_ms": 1000}},
			{"settle", settleArgs("J1", "old", "completed")},
			{"settle", retrying},
			{"settle", failed},
			{"settle", settleArgs("J1", "old", "queued")},
		} {
			if got := b.do(c.verb, c.a); got.Code != "lost" {
				b.Errorf("%s of the replaced claim: %+v", c.verb, got)
			}
		}
		if after := b.state(); !reflect.DeepEqual(before, after) {
			b.Errorf("a replaced claim changed something:\n%v\n%v", before, after)
		}
		if got := b.do("claim", claimArgs("J1", "third")); got.Code != "busy" || got.At <= got.Now {
			b.Errorf("claim against a live one: %+v", got)
		}
	})
}

func TestS2_24_AClaimKeepsTheTime(t *testing.T) {
	onBoth(t, func(b *bench) {
		wait := func(ms, hint int) {
			b.do("submit", submitArgs("J1"), []byte("in")...)
			b.do("claim", claimArgs("J1", "T1"))
			a := settleArgs("J1", "T1", "retrying")
			a["delay_ms"], a["hint_ms"], a["reason"] = ms, hint, "overloaded"
			b.do("settle", a)
		}
		wait(30_000, 0)
		if got := b.do("claim", claimArgs("J1", "T2")); got.Code != "claimed" || got.Attempt != 2 {
			b.Errorf("an operator's run: %+v", got)
		}
		all, _, _, _ := b.log.After(b.Context(), b.topic, 0)
		if n := len(all); n != 5 || all[3].Status != events.Queued || all[3].Reason != events.RunByOperator {
			b.Errorf("history %+v", all)
		}
		if got := b.do("claim", claimArgs("J1", "T3")); got.Code != "busy" {
			b.Errorf("second run: %+v", got)
		}

		b.topic = events.NewTopic("", "s-2", "summary")
		wait(30_000, 60_000)
		if got := b.do("claim", claimArgs("J1", "T2")); got.Code != "early" || got.At-got.Now < 59_000 {
			b.Errorf("a provider's wait was shortened: %+v", got)
		}
		if got := b.do("retry", submitArgs("J2")); got.Code != "wait" {
			b.Errorf("a provider's wait was shortened by a tap: %+v", got)
		}

		b.topic = events.NewTopic("", "s-3", "summary")
		wait(1_000, 0)
		if got := b.do("claim", claimArgs("J1", "T2")); got.Code != "wait" {
			b.Errorf("a little early: %+v", got)
		}
	})
}

func TestS4_13_TheAllowanceHoldsOverClaims(t *testing.T) {
	onBoth(t, func(b *bench) {
		a := submitArgs("J1") // allowance 4
		a["max_attempts"] = 3
		b.do("submit", a, []byte("in")...)
		b.do("claim", claimArgs("J1", "T1"))
		for n := 1; n <= 3; n++ {
			if got := b.do("reserve", args{"job": "J1", "token": "T1", "call": n}); got.Calls != n {
				b.Fatalf("call %d: %+v", n, got)
			}
			if n < 3 {
				b.do("pause", args{"job": "J1", "token": "T1", "call": n, "pause_ms": 1, "reason": "overloaded"})
			}
		}
		a = settleArgs("J1", "T1", "retrying")
		a["delay_ms"], a["reason"] = 30_000, "overloaded"
		b.do("settle", a)
		if got := b.do("claim", claimArgs("J1", "T2")); got.Calls != 3 || got.Allowance != 4 {
			b.Fatalf("claim: %+v", got)
		}
		if got := b.do("reserve", args{"job": "J1", "token": "T2", "call": 1}); got.Calls != 4 {
			b.Fatalf("reserve: %+v", got)
		}
		b.do("pause", args{"job": "J1", "token": "T2", "call": 1, "pause_ms": 1, "reason": "overloaded"})
		if got := b.do("reserve", args{"job": "J1", "token": "T2", "call": 2}); got.Code != "exhausted" {
			b.Errorf("fifth call: %+v", got)
		}
		if got := b.do("settle", settleArgs("J1", "T2", "retrying")); got.Outcome != "retries_exhausted" || got.Reason != "call_allowance" {
			b.Errorf("settle: %+v", got)
		}
	})
}

func TestS2_18_ADocumentStaysWhileANewerJobFails(t *testing.T) {
	onBoth(t, func(b *bench) {
		b.do("submit", submitArgs("J1"), []byte("in")...)
		b.do("claim", claimArgs("J1", "T1"))
		b.do("settle", settleArgs("J1", "T1", "completed"), []byte(`{"model":"m","content":{"title":"one"}}`)...)
		b.do("submit", submitArgs("J2"), []byte("in")...)
		check := func(when string, version int64, title string) {
			b.Helper()
			d, ok, err := b.store.document(b.Context(), b.topic)
			if err != nil || !ok || d.Version != version || string(d.Content) != `{"title":"`+title+`"}` {
				b.Errorf("%s: %+v %v %v", when, d, ok, err)
			}
		}
		check("while the next one waits", 1, "one")
		b.do("claim", claimArgs("J2", "T2"))
		check("while it runs", 1, "one")
		bad := settleArgs("J2", "T2", "error")
		bad["outcome"], bad["reason"], bad["can_retry"] = "failed", "auth", true
		b.do("settle", bad)
		check("after it failed", 1, "one")
		b.do("retry", submitArgs("J3"))
		b.do("claim", claimArgs("J3", "T3"))
		b.do("settle", settleArgs("J3", "T3", "completed"), []byte(`{"content":{"title":"two"}}`)...)
		check("after the next good one", 2, "two")
		if l := b.last(); l.Version != 2 {
			b.Errorf("told version %d", l.Version)
		}
	})
}

func TestTheInputLivesAsLongAsItIsNeeded(t *testing.T) {
	onBoth(t, func(b *bench) {
		has := func() bool { return b.store.client.Exists(b.Context(), b.topic.Key("input")).Val() == 1 }
		b.do("submit", submitArgs("J1"), []byte("in")...)
		b.do("claim", claimArgs("J1", "T1"))
		b.do("settle", settleArgs("J1", "T1", "completed"), []byte(`{}`)...)
		if has() {
			b.Error("kept after completed")
		}
		b.do("submit", submitArgs("J2"), []byte("in")...)
		b.do("claim", claimArgs("J2", "T2"))
		bad := settleArgs("J2", "T2", "error")
		bad["outcome"], bad["reason"], bad["can_retry"] = "failed", "auth", true
		b.do("settle", bad)
		if ttl := b.store.client.PTTL(b.Context(), b.topic.Key("input")).Val(); ttl <= 0 || ttl > time.Minute {
			b.Errorf("kept for %s after a failure, want a minute at most", ttl)
		}
		b.store.client.Del(b.Context(), b.topic.Key("input"))
		if got := b.do("retry", submitArgs("J3")); got.Code != "gone" {
			b.Errorf("retry without an input: %+v", got)
		}
		b.do("submit", submitArgs("J4"), []byte("in")...)
		b.do("cancel", args{"cancels": cancels})
		if has() {
			b.Error("kept after cancel")
		}
	})
}

func TestS4_44_S4_45_AKeyIsBoundToWhatItAskedFor(t *testing.T) {
	onBoth(t, func(b *bench) {
		key := idempotencyKey(b.topic, "k")
		submit := func(job, print string) answer {
			a := submitArgs(job)
			a["fingerprint"] = print
			got, _, err := b.store.run(b.Context(), "submit", b.topic, a, []byte("in"), key)
			if err != nil {
				b.Fatal(err)
			}
			return got
		}
		if got := submit("J1", "f"); got.Code != "created" {
			b.Fatalf("first: %+v", got)
		}
		if got := submit("J2", "f"); got.Code != "replay" || got.JobID != "J1" || got.Status != "queued" {
			b.Errorf("same again: %+v", got)
		}
		if got := submit("J3", "other"); got.Code != "key_reused" {
			b.Errorf("other input: %+v", got)
		}
		b.do("claim", claimArgs("J1", "T1"))
		b.do("settle", settleArgs("J1", "T1", "completed"), []byte(`{}`)...)
		if got := submit("J4", "f"); got.Code != "replay" || got.JobID != "J1" || got.Status != "queued" {
			b.Errorf("same after the end: %+v", got)
		}
		// S4-45: a refused start is not remembered.
		key = idempotencyKey(b.topic, "k2")
		b.do("submit", submitArgs("J5"), []byte("in")...)
		if got := submit("J6", "f"); got.Code != "job_running" || got.JobID != "J5" {
			b.Errorf("while another runs: %+v", got)
		}
		b.do("cancel", args{"cancels": cancels})
		if got := submit("J7", "f"); got.Code != "created" {
			b.Errorf("after the other ended: %+v", got)
		}
	})
}

func TestTheIndexNeverOvershoots(t *testing.T) {
	few := Limits{OpenJobs: 7, InputBytes: 1000}
	onBoth(t, func(b *bench) {
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
		if n, _ := b.store.Open(ctx); n != 7 || len(in) != 7 {
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
		if sums := b.store.client.HGetAll(ctx, indexKeys()[3]).Val(); len(sums) > 0 {
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
		if sums := b.store.client.HGetAll(ctx, indexKeys()[3]).Val(); len(sums) > 0 {
			b.Errorf("counted after their time: %v", sums)
		}
	})
}

// A reservation and a renewal ask the claim alone, so none may outlive its job or
// its attempt, however that ended.
func TestS2_12_NoClaimOutlivesItsAttempt(t *testing.T) {
	onBoth(t, func(b *bench) {
		ends := map[string]func(job string){
			"cancelled": func(string) { b.do("cancel", args{"cancels": cancels}) },
			"replaced": func(string) {
				a := submitArgs("next")
				a["replace"] = true
				b.do("submit", a, []byte("input")...)
			},
		}
		for _, kind := range []string{"completed", "retrying", "queued", "error"} {
			ends[kind] = func(job string) {
				a := settleArgs(job, "t-"+job, kind)
				a["reason"], a["outcome"], a["delay_ms"] = "timeout", "failed", 30_000
				b.do("settle", a)
			}
		}
		for how, end := range ends {
			b.topic = events.NewTopic("", how, "summary")
			b.do("submit", submitArgs(how), []byte("input")...)
			b.do("claim", claimArgs(how, "t-"+how))
			end(how)
			for _, verb := range []string{"reserve", "renew"} {
				if got := b.do(verb, args{"job": how, "token": "t-" + how, "call": 1, "lease_ms": 15_000}); got.Code != "lost" {
					b.Errorf("%s after the attempt was %s: %s", verb, how, got.Code)
				}
			}
		}
	})
}
