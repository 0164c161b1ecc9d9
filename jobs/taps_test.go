package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/lifecycle"
	"github.com/tidings/tidings/jobs/retry"
)

// service is one without a queue that works, for what needs none.
func (b *fixture) service() *Service {
	return NewService(ServiceOptions{Store: b.store, Queue: lostQueue{}, Settings: retry.Defaults(),
		Limits: Limits{OpenJobs: 100, InputBytes: 1 << 20}, Dependency: "local", Log: slog.New(slog.DiscardHandler)})
}

// lostQueue loses every task, as when Redis fails after the job was stored.
type lostQueue struct{ Queue }

func (lostQueue) Enqueue(context.Context, Task, time.Time) error { return events.ErrUnavailable }
func (lostQueue) RunNow(context.Context, Task) error             { return events.ErrUnavailable }
func (lostQueue) Delete(context.Context, Task) error             { return events.ErrUnavailable }

// TestParallelTapsMakeOneJob: 20 taps at once, by submit with and without a
// key, and by retry.
func TestParallelTapsMakeOneJob(t *testing.T) {
	onBoth(t, func(b *fixture) {
		s := b.service()
		taps := func(tap func() (Accepted, error)) map[string]int {
			var wg sync.WaitGroup
			var mu sync.Mutex
			ids := map[string]int{}
			for range 20 {
				wg.Go(func() {
					a, err := tap()
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						b.Error(err)
					}
					ids[a.JobID]++
				})
			}
			wg.Wait()
			return ids
		}
		for _, key := range []string{"", "a-key"} {
			ids := taps(func() (Accepted, error) {
				return s.Submit(b.Context(), Submit{Topic: b.topic, Input: Input{Text: "the same"}, IdempotencyKey: key})
			})
			if len(ids) != 1 {
				b.Errorf("key %q: %d jobs: %v", key, len(ids), ids)
			}
		}
		job := b.last().JobID
		b.claim(job, "T")
		b.settle(job, "T", lifecycle.Attempt{Outcome: events.OutcomeFailed, Reason: events.Internal, CanRetry: true})
		_ = b.store.leave(b.Context(), b.topic, job, time.Minute, 0)
		ids := taps(func() (Accepted, error) { return s.Retry(b.Context(), b.topic) })
		if len(ids) != 1 || ids[job] > 0 {
			b.Errorf("retry: %v", ids)
		}
		queued := 0
		all, _, _, _ := b.log.After(b.Context(), b.topic, 0)
		for _, n := range all {
			if n.Status == events.Queued {
				queued++
			}
		}
		if queued != 2 {
			b.Errorf("told queued %d times, want twice", queued)
		}
		if n, _, _ := Counted(b.Context(), b.store.Client); n != 1 {
			b.Errorf("%d jobs in the index, want 1", n)
		}
	})
}

func TestReplaceCancelsTheOldJob(t *testing.T) {
	onBoth(t, func(b *fixture) {
		s := b.service()
		first, err := s.Submit(b.Context(), Submit{Topic: b.topic, Input: Input{Text: "one"}})
		if err != nil {
			b.Fatal(err)
		}
		var no *Refusal
		_, err = s.Submit(b.Context(), Submit{Topic: b.topic, Input: Input{Text: "two"}})
		if !errors.As(err, &no) || no.Code != CodeJobRunning || no.JobID != first.JobID {
			b.Errorf("other input while a job lives: %v", err)
		}
		same, err := s.Submit(b.Context(), Submit{Topic: b.topic, Input: Input{Text: "one"}})
		if err != nil || !same.Live || same.JobID != first.JobID {
			b.Errorf("same input while a job lives: %+v %v", same, err)
		}
		second, err := s.Submit(b.Context(), Submit{Topic: b.topic, Input: Input{Text: "two"}, Replace: true})
		if err != nil || second.JobID == first.JobID {
			b.Fatalf("replace: %+v %v", second, err)
		}
		all, _, _, _ := b.log.After(b.Context(), b.topic, 0)
		if len(all) != 3 || all[1].Reason != events.Cancelled || all[1].ReplacedBy != second.JobID || all[2].JobID != second.JobID {
			b.Errorf("history %+v", all)
		}
		if n, _, _ := Counted(b.Context(), b.store.Client); n != 1 {
			b.Errorf("%d jobs in the index, want 1", n)
		}
		if in := b.store.Client.Get(b.Context(), b.topic.Key("input")).Val(); !json.Valid([]byte(in)) || in != `{"text":"two"}` {
			b.Errorf("input %q", in)
		}
	})
}
