//go:build slow

package jobs_test

import (
	"testing"

	"github.com/tidings/tidings/jobs/store"
)

// TestTopologyWithoutWaiting: the same load without WAIT, while the master dies
// that has the queue. What is lost is told, and everything ends.
func TestTopologyWithoutWaiting(t *testing.T) {
	onEachGround(t, func(t *testing.T, g topology) {
		underLoad(newDeployment(t, g, store.Sync{}), "asynq:{summary}:pending")
	})
}
