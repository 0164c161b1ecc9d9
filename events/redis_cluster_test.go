package events_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/events/eventstest"
)

// The log on a Cluster: its topics are on three masters, and what one of them
// publishes is heard at each.
func TestRedisLogOnACluster(t *testing.T) {
	t.Parallel()
	client := eventstest.StartCluster(t).Client().(*redis.ClusterClient)
	eventstest.Suite(t, func(t *testing.T) events.Log {
		if err := client.ForEachMaster(t.Context(), flush); err != nil {
			t.Fatal(err)
		}
		return events.NewRedisLog(client, week)
	})
}

func flush(ctx context.Context, c *redis.Client) error { return c.FlushAll(ctx).Err() }
