package eventstest_test

import (
	"testing"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/events/eventstest"
)

func TestMemory(t *testing.T) {
	eventstest.Suite(t, func(*testing.T) events.Log {
		return eventstest.NewMemory(eventstest.MemoryOptions{})
	})
}
