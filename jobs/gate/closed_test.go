package gate_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/jobs/gate"
)

// switchless is a Cluster of which the master that has the kill switch is away.
// The one that has the dependency's gate answers.
type switchless struct{ redis.Scripter }

var errAway = errors.New("CLUSTERDOWN")

func (s switchless) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	if slices.Contains(keys, "tidings:{gate}:off") {
		return redis.NewCmdResult(nil, errAway)
	}
	return s.Scripter.EvalSha(ctx, sha, keys, args...)
}

// TestGate_AnUnreadSwitchIsOff: who cannot know whether retries are off makes
// none, and takes nothing for it. First calls do not ask.
func TestGate_AnUnreadSwitchIsOff(t *testing.T) {
	each(t, func(w *world) {
		whole := w.gate(slow())
		before := w.inspect(whole)
		g := gate.New(switchless{w.client()}, slow())
		if got, err := g.Ticket(w.t.Context(), w.again()); !errors.Is(err, errAway) || got != (gate.Answer{}) {
			w.t.Errorf("a repeated call: got %+v, %v, want an error", got, err)
		}
		if after := w.inspect(whole); after.InUse != 0 || after.RetryTokens < before.RetryTokens {
			w.t.Errorf("it took something all the same: %+v, before %+v", after, before)
		}
		if got, err := g.Ticket(w.t.Context(), w.first()); err != nil || got.Verdict != gate.Go {
			w.t.Errorf("a first call: got %+v, %v", got, err)
		}
	})
}
