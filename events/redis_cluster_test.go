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
		quiet(t, client)
		return events.NewRedisLog(client, week)
	})
}

func flush(ctx context.Context, c *redis.Client) error { return c.FlushAll(ctx).Err() }

// quiet waits until every node has heard all that was published at another one:
// copies may come after whatever was asked since.
func quiet(t *testing.T, client *redis.ClusterClient) {
	t.Helper()
	publish := func(ctx context.Context, c *redis.Client) error {
		return c.Publish(ctx, "quiet", c.Options().Addr).Err()
	}
	err := client.ForEachShard(t.Context(), func(ctx context.Context, node *redis.Client) error {
		sub := node.Subscribe(ctx, "quiet")
		defer sub.Close()
		if _, err := sub.Receive(ctx); err != nil {
			return err
		}
		if err := client.ForEachMaster(ctx, publish); err != nil {
			return err
		}
		for heard := map[string]bool{}; len(heard) < 3; {
			m, err := sub.ReceiveMessage(ctx)
			if err != nil {
				return err
			}
			heard[m.Payload] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
