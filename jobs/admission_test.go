package jobs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/lifecycle"
)

// ask takes a job of an owner into the index.
func (b *fixture) ask(owner, workload, job string, within time.Duration, l Limits) admission {
	b.Helper()
	got, err := b.store.admit(b.Context(), place{topic: events.NewTopic(owner, "s", workload), job: job, bytes: 1,
		within: within, hold: time.Minute}, l)
	if err != nil {
		b.Fatal(err)
	}
	return got
}

// gone takes it out again.
func (b *fixture) gone(owner, workload, job string, worked time.Duration) {
	b.Helper()
	if err := b.store.leave(b.Context(), events.NewTopic(owner, "s", workload), job, 0, worked); err != nil {
		b.Fatal(err)
	}
}

// TestAnOwnersJobsAreBounded: in one step with the admission, so 40 at once
// do not overshoot; repeats count once; others have their own.
func TestAnOwnersJobsAreBounded(t *testing.T) {
	three := Limits{OpenJobs: 100, InputBytes: 1 << 20, Owner: OwnerLimits{Jobs: 3}}
	onBoth(t, func(b *fixture) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		var in []string
		for i := range 40 {
			wg.Go(func() {
				job := fmt.Sprint("J", i)
				got := b.ask("ann", "summary", job, 0, three)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case got.refused == "":
					in = append(in, job)
				case got.refused != ownerFull || got.wait <= 0:
					b.Errorf("refused as %+v", got)
				}
			})
		}
		wg.Wait()
		if len(in) != 3 {
			b.Fatalf("%d admitted, want 3", len(in))
		}
		if got := b.ask("ann", "summary", in[0], 0, three); got.refused != "" {
			b.Errorf("a repeat was refused: %+v", got)
		}
		if got := b.ask("bob", "summary", "B", 0, three); got.refused != "" {
			b.Errorf("another owner was refused: %+v", got)
		}
		b.gone("ann", "summary", in[0], 0)
		b.gone("ann", "summary", in[0], 0) // the answer was lost
		if got := b.ask("ann", "guidance", "next", 0, three); got.refused != "" {
			b.Errorf("refused after one had ended: %+v", got)
		}
		if got := b.ask("ann", "guidance", "one more", 0, three); got.refused != ownerFull {
			b.Errorf("one too many was answered with %+v", got)
		}
		for _, job := range in[1:] {
			b.gone("ann", "summary", job, 0)
		}
		b.gone("ann", "guidance", "next", 0)
		b.gone("bob", "summary", "B", 0)
		if left := b.store.Client.HGetAll(b.Context(), indexKeys()[4]).Val(); len(left) > 0 {
			b.Errorf("nobody has a job, counted are %v", left)
		}
	})
}

// TestAJobFromBeforeJobsWereCounted leaves nobody else's place.
func TestAJobFromBeforeJobsWereCounted(t *testing.T) {
	onBoth(t, func(b *fixture) {
		l := Limits{OpenJobs: 100, InputBytes: 1 << 20, Owner: OwnerLimits{Jobs: 2}}
		b.ask("ann", "summary", "old", 0, l)
		b.store.Client.Del(b.Context(), indexKeys()[4])
		b.gone("ann", "summary", "old", 0)
		for _, job := range []string{"one", "two"} {
			if got := b.ask("ann", "summary", job, 0, l); got.refused != "" {
				b.Errorf("%s: %+v", job, got)
			}
		}
		if got := b.ask("ann", "summary", "three", 0, l); got.refused != ownerFull {
			b.Errorf("three: %+v", got)
		}
	})
}

// TestWhatCannotBeDoneInTimeIsRefused: by open jobs x mean / slots + mean,
// and never when one of the three is not known.
func TestWhatCannotBeDoneInTimeIsRefused(t *testing.T) {
	l := Limits{OpenJobs: 1000, InputBytes: 1 << 20}
	const within = time.Minute
	onBoth(t, func(b *fixture) {
		b.store.CheckEvery = 20 * time.Second
		open := 0
		fill := func(workload string, n int) {
			for range n {
				open++
				if got := b.ask("ann", workload, fmt.Sprint("J", open), 0, l); got.refused != "" {
					b.Fatal(got)
				}
			}
		}
		seen := func(workload string, n int, each time.Duration) {
			for i := range n {
				job := fmt.Sprint(workload, i)
				b.ask("old", workload, job, 0, l)
				b.gone("old", workload, job, each)
			}
		}
		expect := func(what, workload string, l Limits, refused string, wait time.Duration) {
			b.Helper()
			got := b.ask("eve", workload, "asks", within, l)
			if got.refused != refused || got.wait != wait {
				b.Errorf("%s: %+v, want %q %s", what, got, refused, wait)
			}
			if got.refused == "" {
				b.gone("eve", workload, "asks", 0)
			}
		}
		offer := func(process string, slots int) {
			if _, err := b.store.due(b.Context(), 1, process, slots); err != nil {
				b.Fatal(err)
			}
		}
		fill("summary", 11)
		offer("p1", 1)
		expect("nothing was seen", "summary", l, "", 0)
		seen("summary", lookBack-1, 10*time.Second)
		expect("too little was seen", "summary", l, "", 0)
		seen("summary", 1, 10*time.Second)
		expect("11 x 10 s / 1 + 10 s", "summary", l, tooLate, time.Minute)
		expect("another workload, of which nothing is known", "guidance", l, "", 0)
		offer("p2", 1)
		expect("11 x 10 s / 2 + 10 s", "summary", l, tooLate, 5*time.Second)
		offer("p2", 1) // says so again
		expect("the same process twice", "summary", l, tooLate, 5*time.Second)
		offer("p3", 1)
		expect("11 x 10 s / 3 + 10 s", "summary", l, "", 0)
		narrow := l
		narrow.Slots = 1
		expect("three slots and one call at a time", "summary", narrow, tooLate, time.Minute)
		fill("guidance", 2)
		expect("two more of unknown length", "summary", l, "", 0)
		seen("guidance", lookBack, 30*time.Second)
		expect("(11 x 10 s + 2 x 30 s) / 3 + 10 s", "summary", l, tooLate, 6667*time.Millisecond)
		if got := b.ask("eve", "summary", "whenever", 0, l); got.refused != "" {
			b.Errorf("stored already, and refused: %+v", got)
		}
		b.gone("eve", "summary", "whenever", 0)
		b.store.Client.Del(b.Context(), indexKeys()[6])
		expect("nobody works", "summary", l, "", 0)
		if ttl := b.store.Client.PTTL(b.Context(), indexKeys()[5]).Val(); ttl <= 0 || ttl > paceKeep {
			b.Errorf("means are kept for %s", ttl)
		}
	})
}

// TestAProcessThatSaysNothingOffersNothing after a while, and is forgotten.
func TestAProcessThatSaysNothingOffersNothing(t *testing.T) {
	onBoth(t, func(b *fixture) {
		b.store.CheckEvery = 5 * time.Millisecond
		for _, p := range []string{"p1", "p2"} {
			if _, err := b.store.due(b.Context(), 1, p, 3); err != nil {
				b.Fatal(err)
			}
		}
		<-time.After(presence*b.store.CheckEvery + 5*time.Millisecond)
		if _, err := b.store.due(b.Context(), 1, "p3", 4); err != nil {
			b.Fatal(err)
		}
		if got := b.store.Client.ZRange(b.Context(), indexKeys()[6], 0, -1).Val(); !slices.Equal(got, []string{"p3:4"}) {
			b.Errorf("slots %v", got)
		}
	})
}

// TestARefusedSubmitLeavesNothing: each refusal has its code, its time and
// its label, changes no key, and a job that is known is answered all the same.
func TestARefusedSubmitLeavesNothing(t *testing.T) {
	onBoth(t, func(b *fixture) {
		counts := prometheus.NewRegistry()
		s := b.service()
		s.Metrics = NewMetrics(counts)
		known := Submit{Topic: b.topic, Input: Input{Text: "known"}}
		first, err := s.Submit(b.Context(), known)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := b.store.due(b.Context(), 1, "p", 1); err != nil {
			b.Fatal(err)
		}
		for i := range lookBack { // one slot, and a job holds it for as long as it may live
			b.ask("old", "summary", fmt.Sprint(i), 0, Limits{OpenJobs: 100, InputBytes: 1 << 20})
			b.gone("old", "summary", fmt.Sprint(i), s.Settings.Deadline)
		}
		wide := s.Limits
		wide.OpenJobs, wide.InputBytes = 1000, 1<<20
		long := strings.Repeat("word ", 140_000)
		for _, tt := range []struct {
			name   string
			narrow func(l *Limits)
			text   string
			code   Code
			label  string
			wait   time.Duration
		}{
			{"jobs", func(l *Limits) { l.OpenJobs = 1 }, "more", CodeQueueFull, "queue_full", s.Settings.Deadline},
			{"bytes", func(l *Limits) { l.InputBytes = 20 }, "more", CodeQueueFull, "input_bytes", s.Settings.Deadline},
			{"owner", func(l *Limits) { l.Owner.Jobs = 1 }, "more", CodeTooManyLiveJobs, "owner_jobs", s.Settings.Deadline},
			{"deadline", func(*Limits) {}, "more", CodeAdmissionDenied, "deadline", s.Settings.Deadline + s.Settings.Saving},
			{"tokens", func(*Limits) {}, long, CodeInputTooLong, "input_too_long", 0},
			{"window", func(l *Limits) { l.Window = 100 }, strings.Repeat("word ", 101), CodeInputTooLong, "input_too_long", 0},
		} {
			s.Limits = wide
			tt.narrow(&s.Limits)
			before := b.store.Client.DBSize(b.Context()).Val()
			told := counted(b.T, counts, tt.label)
			_, err := s.Submit(b.Context(), Submit{Topic: events.NewTopic("", "another", "summary"), Input: Input{Text: tt.text}, IdempotencyKey: "k"})
			var no *Refusal
			if !errors.As(err, &no) || no.Code != tt.code || no.RetryAfter != tt.wait {
				b.Errorf("%s: %v, want %s after %s", tt.name, err, tt.code, tt.wait)
				continue
			}
			if strings.Contains(no.Error(), "word") {
				b.Errorf("%s: the input is in %q", tt.name, no)
			}
			if now := b.store.Client.DBSize(b.Context()).Val(); now != before {
				b.Errorf("%s: %d keys, %d before", tt.name, now, before)
			}
			if n, _, _ := Counted(b.Context(), b.store.Client); n != 1 {
				b.Errorf("%s: %d open jobs", tt.name, n)
			}
			if now := counted(b.T, counts, tt.label); now != told+1 {
				b.Errorf("%s: counted %v, before %v", tt.name, now, told)
			}
			if tt.code == CodeInputTooLong {
				continue
			}
			if got, err := s.Submit(b.Context(), known); err != nil || got.JobID != first.JobID || !got.Live {
				b.Errorf("%s: the job that lives is answered as %+v %v", tt.name, got, err)
			}
			if now := counted(b.T, counts, tt.label); now != told+1 {
				b.Errorf("%s: what was answered is counted as refused", tt.name)
			}
		}
	})
}

// TestATapNeedsNoRoomForWhatIsKeptAlready: when the inputs of failed jobs have
// filled their room, as in an outage, each of them may still be tried again.
func TestATapNeedsNoRoomForWhatIsKeptAlready(t *testing.T) {
	onBoth(t, func(b *fixture) {
		s := b.service()
		first, err := s.Submit(b.Context(), Submit{Topic: b.topic, Input: Input{Text: "some text"}})
		if err != nil {
			b.Fatal(err)
		}
		b.claim(first.JobID, "token")
		b.settle(first.JobID, "token", lifecycle.Attempt{Outcome: events.OutcomeFailed, Reason: events.Overloaded, CanRetry: true})
		if err := b.store.leave(b.Context(), b.topic, first.JobID, time.Hour, 0); err != nil {
			b.Fatal(err)
		}
		s.Limits.InputBytes = int64(len(`{"text":"some text"}`))
		again, err := s.Retry(b.Context(), b.topic)
		if err != nil || again.JobID == first.JobID {
			b.Fatalf("a tap: %+v %v", again, err)
		}
		if n := b.store.Client.HGet(b.Context(), indexKeys()[3], "*").Val(); n != fmt.Sprint(s.Limits.InputBytes) {
			b.Errorf("%s bytes are counted, %d are kept", n, s.Limits.InputBytes)
		}
	})
}

// counted is how often submits of summaries were refused for this reason.
func counted(t *testing.T, r *prometheus.Registry, reason string) (n float64) {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "tidings_jobs_refused_total" && m.GetLabel()[0].GetValue() == reason && m.GetLabel()[1].GetValue() == "summary" {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}
