package events_test

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/events/eventstest"
)

const week = 7 * 24 * time.Hour

func TestRedisLog(t *testing.T) {
	server := eventstest.StartRedis(t)
	client := server.Client()
	eventstest.Suite(t, func(t *testing.T) events.Log {
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		return events.NewRedisLog(client, week)
	})
}

func TestRedisLogOnMiniredis(t *testing.T) {
	t.Parallel()
	eventstest.Suite(t, func(t *testing.T) events.Log {
		client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr(), ContextTimeoutEnabled: true})
		t.Cleanup(func() { _ = client.Close() })
		return events.NewRedisLog(client, week)
	})
}

func TestRedisLogOnCluster(t *testing.T) {
	t.Parallel()
	server := eventstest.StartRedis(t, "--cluster-enabled", "yes")
	if err := server.Client().Do(t.Context(), "cluster", "addslotsrange", 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr}, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	eventually(t, "the cluster takes writes", func() bool { return client.Set(t.Context(), "x", 1, 0).Err() == nil })
	eventstest.Suite(t, func(t *testing.T) events.Log {
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		return events.NewRedisLog(client, week)
	})
}

// eventually waits for what happens outside this process.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("after 20 s still not: %s", what)
		}
	}
}
