// Package storetest has the suite that every store of records passes.
package storetest

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/lifecycle"
	"github.com/tidings/tidings/jobs/retry"
	"github.com/tidings/tidings/jobs/store"
)

// Store is a store under test. Log is what it has told of a topic, oldest first.
type Store struct {
	store.Records
	Log func(ctx context.Context, t events.Topic) ([]events.Transition, error)
}

func rules() lifecycle.Rules {
	s := retry.Defaults()
	s.QueueJitter = 0
	return lifecycle.Rules{Settings: s}
}

// Suite checks a store. open makes an empty one.
func Suite(t *testing.T, open func(t *testing.T) Store) {
	topic := events.NewTopic("", "s-1", "summary")
	apply := func(t *testing.T, s Store, verb string, w store.Want, decide func(lifecycle.State) lifecycle.Change) store.Snapshot {
		t.Helper()
		read, err := s.Read(t.Context(), topic, w)
		if err != nil {
			t.Fatal(err)
		}
		after, _, err := store.Apply(t.Context(), s, verb, topic, read, decide)
		if err != nil {
			t.Fatal(err)
		}
		return after
	}
	submit := func(t *testing.T, s Store, job string) store.Snapshot {
		t.Helper()
		return apply(t, s, "submit", store.Want{Key: "key " + job}, func(state lifecycle.State) lifecycle.Change {
			c, _ := rules().Submit(state, lifecycle.Submission{Terms: lifecycle.Terms{JobID: job}, Fingerprint: job, Input: []byte("input of " + job), Keyed: true})
			return c
		})
	}
	claim := func(t *testing.T, s Store, job string) store.Snapshot {
		t.Helper()
		return apply(t, s, "claim", store.Want{Input: true}, func(state lifecycle.State) lifecycle.Change {
			c, _ := rules().Claim(state, lifecycle.Claiming{JobID: job, Run: 1, Token: "T " + job, Worker: "w"})
			return c
		})
	}
	finish := func(job string) func(lifecycle.State) lifecycle.Change {
		return func(state lifecycle.State) lifecycle.Change {
			c, _, _ := rules().Settle(state, job, "T "+job, lifecycle.Attempt{Kind: lifecycle.Finished, Document: []byte(`{"title":"` + job + `"}`)})
			return c
		}
	}

	t.Run("what is committed is read again", func(t *testing.T) {
		s := open(t)
		empty, err := s.Read(t.Context(), topic, store.Want{})
		if err != nil || empty.Job.ID != "" || empty.Last.Seq != 0 || empty.Now.IsZero() {
			t.Fatalf("an empty store: %+v %v", empty, err)
		}
		submitted := submit(t, s, "J1")
		read, err := s.Read(t.Context(), topic, store.Want{Input: true, Key: "key J1"})
		if err != nil || !reflect.DeepEqual(read.Job, submitted.Job) || read.Last != submitted.Last || string(read.Input) != "input of J1" || read.InputBytes != 11 || read.Key == "" {
			t.Errorf("read %+v %v, committed %+v", read, err, submitted)
		}
		if other, _ := s.Read(t.Context(), topic, store.Want{Key: "another"}); other.Key != "" {
			t.Errorf("another key's answer: %q", other.Key)
		}
		claim(t, s, "J1")
		after := apply(t, s, "settle", store.Want{Job: "J1", Attempt: 1}, func(state lifecycle.State) lifecycle.Change {
			c, _, _, _ := rules().SettleReport(state, "J1", lifecycle.Report{Worker: "w", Attempt: 1, Token: "T J1"}, lifecycle.Attempt{Kind: lifecycle.Finished, Document: []byte("{}")})
			return c
		})
		all, errs := s.ReadAll(t.Context(), []events.Topic{topic, events.NewTopic("", "unknown", "summary")}, after.Now)
		if errs[0] != nil || errs[1] != nil || all[0].Last != after.Last || all[0].Job.Attempts != 1 || all[0].DocumentJob != "J1" || all[1].Job.ID != "" {
			t.Errorf("many at a time: %+v %v", all, errs)
		}
		read, _ = s.Read(t.Context(), topic, store.Want{Job: "J1", Attempt: 1})
		if read.Report == "" || read.InputBytes != 0 || read.DocumentVersion != 1 || read.DocumentJob != "J1" {
			t.Errorf("after a report: %+v", read)
		}
		if d, err := s.Document(t.Context(), topic); err != nil || d.Version != 1 || string(d.Body) != "{}" || d.JobID != "J1" || !d.At.Equal(after.Last.At) {
			t.Errorf("document %+v %v", d, err)
		}
		if lines, err := s.Ledger(t.Context(), topic); err != nil || len(lines) != 1 {
			t.Errorf("ledger %q %v", lines, err)
		}
		log, err := s.Log(t.Context(), topic)
		if err != nil || len(log) != 3 || log[2] != after.Last || log[2].Prev != log[1].Seq {
			t.Errorf("told %+v %v", log, err)
		}
		submit(t, s, "J2")
		if lines, _ := s.Ledger(t.Context(), topic); len(lines) != 0 {
			t.Errorf("the next job begins with lines %q", lines)
		}
	})

	t.Run("who was not first decides again", func(t *testing.T) {
		s := open(t)
		first := submit(t, s, "J1")
		claim(t, s, "J1")
		decided := 0
		after, _, err := store.Apply(t.Context(), s, "cancel", topic, first, func(state lifecycle.State) lifecycle.Change {
			decided++
			c, _ := rules().Cancel(state)
			return c
		})
		if err != nil || decided != 2 || after.Last.Status != events.Failed || after.Last.Attempt != 1 {
			t.Errorf("decided %d times, %+v %v", decided, after.Last, err)
		}
	})

	t.Run("many at once lose nothing", func(t *testing.T) {
		s := open(t)
		submit(t, s, "J1")
		claim(t, s, "J1")
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				read, err := s.Read(t.Context(), topic, store.Want{})
				if err == nil {
					_, _, err = store.Apply(t.Context(), s, "account", topic, read, func(state lifecycle.State) lifecycle.Change {
						c, _ := rules().Account(state, "J1", []string{"{}"})
						return c
					})
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if lines, err := s.Ledger(t.Context(), topic); err != nil || len(lines) != 8 {
			t.Errorf("%d lines of 8, %v", len(lines), err)
		}
	})

	t.Run("an old decision is refused", func(t *testing.T) {
		s := open(t)
		read := submit(t, s, "J1")
		for _, off := range []time.Duration{-store.Good - time.Second, store.Good + time.Second} {
			old := read.At()
			old.Now = old.Now.Add(off)
			c, _ := rules().Claim(old, lifecycle.Claiming{JobID: "J1", Run: 1, Token: "T", Worker: "w", ByHand: true})
			c.Transitions[0].At = old.Now // what a clock that stepped would say
			next, got, err := s.Commit(t.Context(), "claim", topic, read, c)
			if err != nil || got.Stored || next.Last.Status != events.Queued {
				t.Errorf("decided at %s: %+v %+v %v", off, got, next.Last, err)
			}
		}
	})

	t.Run("the ledger is bounded", func(t *testing.T) {
		s := open(t)
		submit(t, s, "J1")
		apply(t, s, "account", store.Want{}, func(state lifecycle.State) lifecycle.Change {
			c, _ := rules().Account(state, "J1", append(slices.Repeat([]string{"old"}, 100), slices.Repeat([]string{"new"}, 200)...))
			return c
		})
		if lines, err := s.Ledger(t.Context(), topic); err != nil || len(lines) != 200 || slices.Contains(lines, "old") {
			t.Errorf("%d lines, %v", len(lines), err)
		}
	})

	t.Run("versions of documents go on", func(t *testing.T) {
		s := open(t)
		for i, job := range []string{"J1", "J2", "J3"} {
			submit(t, s, job)
			claim(t, s, job)
			if after := apply(t, s, "settle", store.Want{}, finish(job)); after.Last.Version != int64(i+1) {
				t.Errorf("%s told version %d", job, after.Last.Version)
			}
			if d, err := s.Document(t.Context(), topic); err != nil || d.Version != int64(i+1) || string(d.Body) != `{"title":"`+job+`"}` {
				t.Errorf("%s made %+v %v", job, d, err)
			}
		}
		submit(t, s, "J4")
		claim(t, s, "J4")
		failed := apply(t, s, "settle", store.Want{}, func(state lifecycle.State) lifecycle.Change {
			c, _, _ := rules().Settle(state, "J4", "T J4", lifecycle.Attempt{Outcome: events.OutcomeFailed, Reason: events.Internal, CanRetry: true})
			return c
		})
		if d, err := s.Document(t.Context(), topic); err != nil || d.Version != 3 || d.JobID != "J3" || failed.InputBytes == 0 {
			t.Errorf("a job that failed left %+v %v, and %d bytes of input", d, err, failed.InputBytes)
		}
	})
}
