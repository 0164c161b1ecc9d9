package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/model/modeltest"
)

// crowd is many people who tap "try again" through several processes.
type crowd struct {
	*testbed
	members []*member
	topics  []events.Topic

	mu      sync.Mutex
	answers map[string]int
}

func newCrowd(t *testing.T, h *testbed, processes, sessions int, s gate.Settings) *crowd {
	c := &crowd{testbed: h, answers: map[string]int{}}
	for i := range processes {
		m := h.member(fmt.Sprint("p", i))
		m.worker.Gate = gate.New(m.client, s)
		c.members = append(c.members, m)
	}
	for i := range sessions {
		c.topics = append(c.topics, events.NewTopic("", fmt.Sprint("session-", i), "summary"))
	}
	if err := h.queue.Start(c.spread()); err != nil {
		t.Fatal(err)
	}
	return c
}

// spread gives each task to one of the processes.
func (c *crowd) spread() jobs.Handler {
	workers := c.members
	return func(ctx context.Context, t jobs.Task) jobs.Verdict {
		h := fnv.New32a()
		_, _ = h.Write([]byte(t.ID()))
		return workers[int(h.Sum32())%len(workers)].worker.Attempt(ctx, t)
	}
}

// tap asks once more through a process, and notes the answer.
func (c *crowd) tap(m *member, topic events.Topic) {
	a, err := m.service.Retry(c.t.Context(), topic)
	var no *jobs.Refusal
	answer := "taken"
	switch {
	case err == nil && a.JobID == "":
		answer = "a job without an id"
	case errors.As(err, &no) && no.RetryAfter > 0:
		answer = string(no.Code)
	case err != nil:
		answer = err.Error()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[answer]++
}

// TestTapsInAnOutage: over many sessions and processes, against a
// provider that always says 529. Each tap is answered, and the provider hears
// nothing beyond what the budget allows. 1,000 taps, and 10,000 in the slow run.
func TestTapsInAnOutage(t *testing.T) {
	t.Parallel()
	const processes, sessions = 4, 100
	const each, burst = 8 + 72*slow, 2 + 18*slow // and burst taps of each at the same moment
	const outage = 10 * time.Minute
	for _, tt := range []struct {
		name  string
		gate  func(s *gate.Settings)
		least int // calls, or the budget was not what held them back
	}{
		{"the budget alone", func(s *gate.Settings) { s.WindowCalls = 1_000_000 }, 400},
		{"with the breaker", func(*gate.Settings) {}, 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := gate.Defaults()
			tt.gate(&s)
			m := modeltest.NewScripted(modeltest.Status(529).After(200 * time.Millisecond))
			inTestbed(t, m, nil, func(t *testing.T, h *testbed) {
				c := newCrowd(t, h, processes, sessions, s)
				for _, m := range c.members {
					defer m.close()
				}
				defer c.members[0].rescue()()
				began := time.Now()
				var people sync.WaitGroup
				for i, topic := range c.topics {
					random := rand.New(rand.NewPCG(uint64(i), 7))
					people.Go(func() {
						first := c.members[i%processes]
						if _, err := first.service.Submit(t.Context(), jobs.Submit{Topic: topic, Input: jobs.Input{Text: "some text"}}); err != nil {
							t.Error(err)
							return
						}
						at := random.IntN(each)
						for n := range each {
							time.Sleep(time.Duration(random.Int64N(int64(2 * outage / each))))
							if n == at { // a thumb on a button, over whichever process
								var thumb sync.WaitGroup
								for j := range burst {
									thumb.Go(func() { c.tap(c.members[j%processes], topic) })
								}
								thumb.Wait()
							}
							c.tap(c.members[random.IntN(processes)], topic)
						}
					})
				}
				people.Wait()
				synctest.Wait()
				lasted := time.Since(began).Seconds()

				total := 0
				for answer, n := range c.answers {
					total += n
					switch jobs.Code(answer) {
					case "taken", jobs.CodeTooOften, jobs.CodeWaitRequired:
					default:
						t.Errorf("%d taps were answered with %q", n, answer)
					}
				}
				if total != sessions*(each+burst) || c.answers["taken"] == 0 {
					t.Errorf("%d answers: %v", total, c.answers)
				}
				most := sessions + 1.25*(float64(s.RetryBurst)+s.RetryPerFirst*sessions+s.RetryPerSecond*lasted)
				calls := m.Calls()
				t.Logf("%d taps in %.0f s: %v; %d calls, at most %.0f", total, lasted, c.answers, calls, most)
				if float64(calls) > most || calls < tt.least {
					t.Errorf("%d calls, want at most %.0f and at least %d", calls, most, tt.least)
				}
				for _, topic := range c.topics {
					h.topic = topic
					c.orderly(h.history())
				}
			})
		})
	}
}

// orderly checks a session's history: one job at a time, none before its wait was
// over, and no attempt before its time, unless a tap started it.
func (c *crowd) orderly(all []events.Transition) {
	c.t.Helper()
	for i, n := range all[1:] {
		before := all[i]
		switch {
		case n.JobID != before.JobID && !before.Status.Terminal():
			c.t.Errorf("%s began while %s lived", n.JobID, before.JobID)
		case n.JobID != before.JobID && n.At.Before(before.RetryAvailableAt):
			c.t.Errorf("retried at %s, before %s", n.At, before.RetryAvailableAt)
		case n.JobID != before.JobID && (n.Status != events.Queued || n.Reason != events.RunByUser):
			c.t.Errorf("a new job began as %s %s", n.Status, n.Reason)
		case n.Status == events.Processing && before.Layer == events.QueueLayer && n.At.Before(before.NextRetryAt):
			c.t.Errorf("an attempt began at %s, before %s", n.At, before.NextRetryAt)
		}
	}
}
