package jobs_test

import (
	"errors"
	"testing"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
)

// A Redis that is full, or a replica since a fail-over, takes no writes: a submit
// is refused as a storage that is away is, nothing of it is stored, and the next
// one goes through.
func TestRedisThatTakesNoWritesStoresNothingHalf(t *testing.T) {
	for name, c := range map[string][2][]any{
		"full":    {{"CONFIG", "SET", "maxmemory", "1"}, {"CONFIG", "SET", "maxmemory", "0"}},
		"replica": {{"REPLICAOF", "127.0.0.1", "1"}, {"REPLICAOF", "NO", "ONE"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newOutsideLine(t, nil)
			ctx := t.Context()
			before := a.client.Keys(ctx, "tidings:*").Val()
			if err := a.client.Do(ctx, c[0]...).Err(); err != nil {
				t.Fatal(err)
			}
			_, err := a.service.Submit(ctx, jobs.Submit{Topic: a.topic, Input: jobs.Input{Text: "material"}})
			if !errors.Is(err, events.ErrUnavailable) {
				t.Errorf("refused with %v", err)
			}
			if after := a.client.Keys(ctx, "tidings:*").Val(); len(after) != len(before) {
				t.Errorf("stored %q", after)
			}
			if l := a.last(); l.Seq != 0 {
				t.Errorf("told %+v", l)
			}
			if err := a.client.Do(ctx, c[1]...).Err(); err != nil {
				t.Fatal(err)
			}
			if job := a.submit(); a.last().JobID != job {
				t.Errorf("afterwards told %+v", a.last())
			}
		})
	}
}
