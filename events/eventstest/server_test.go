package eventstest_test

import (
	"context"
	"testing"
	"time"

	"github.com/tidings/tidings/events/eventstest"
)

func TestServerKeepsItsDataOverCrashAndRestart(t *testing.T) {
	s := eventstest.StartRedis(t)
	ctx := t.Context()
	c := s.Client()
	for _, end := range []func(){s.Stop, s.Kill} {
		if err := c.Incr(ctx, "n").Err(); err != nil {
			t.Fatal(err)
		}
		end()
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		if err := c.Ping(short).Err(); err == nil {
			t.Error("a stopped server answers")
		}
		cancel()
		s.Start()
	}
	if n, err := c.Get(ctx, "n").Int(); err != nil || n != 2 {
		t.Errorf("after two restarts: got %d (%v), want 2", n, err)
	}
}

func TestServerFreezesAndThaws(t *testing.T) {
	s := eventstest.StartRedis(t)
	c := s.Client()
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	s.Freeze()
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := c.Ping(short).Err(); err == nil {
		t.Error("a frozen server answers")
	}
	s.Thaw()
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Errorf("after the thaw: %v", err)
	}
}
