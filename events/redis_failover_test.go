package events_test

import (
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/events/eventstest"
)

// The master's last moments are lost in a fail-over to a replica that had not
// got them: who has seen them is told so, and everybody goes on.
func TestFailoverLosesTheTail(t *testing.T) {
	t.Parallel()
	master := eventstest.StartRedis(t)
	link := eventstest.StartProxy(t, master.Addr)
	host, port, err := net.SplitHostPort(link.Addr)
	if err != nil {
		t.Fatal(err)
	}
	replica := eventstest.StartRedis(t, "--replicaof", host, port)
	atMaster, atReplica := events.NewRedisLog(master.Client(), week), replica.Client()
	behind, ahead := topicOf("behind"), topicOf("ahead")
	topics := []events.Topic{behind, ahead}
	kept := map[events.Topic]events.Transition{}
	for _, topic := range topics {
		kept[topic] = eventstest.Append(t, atMaster, topic, "j1", events.Queued)[0]
	}
	eventually(t, "the replica has it all", func() bool {
		last, err := events.NewRedisLog(atReplica, week).Last(t.Context(), topics)
		return err == nil && last[0] == kept[behind] && last[1] == kept[ahead]
	})

	// The replica hears no more; the master tells one more thing, and dies. A
	// sentinel would mend the link in 8 s, so it comes late.
	link.Swallow()
	sentinel := eventstest.StartSentinel(t, master)
	asked := redis.NewSentinelClient(&redis.Options{Addr: sentinel.Addr})
	defer asked.Close()
	eventually(t, "the sentinel knows the replica", func() bool {
		n, err := asked.Replicas(t.Context(), "tidings").Result()
		return err == nil && len(n) == 1
	})
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: "tidings", SentinelAddrs: []string{sentinel.Addr}, ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { _ = client.Close() })
	log := events.NewRedisLog(client, week)
	hub := run(t, log, events.HubOptions{HeadsEvery: 500 * time.Millisecond})
	readers := map[events.Topic]reader{}
	for _, topic := range topics {
		readers[topic] = subscribe(t, hub, topic, 0, false)
		readers[topic].next(t)
	}
	lost := eventstest.Append(t, log, ahead, "j1", events.Processing)[0]
	if e := readers[ahead].next(t); e.Transition != lost {
		t.Fatalf("got %+v, want %+v", e, lost)
	}
	master.Kill()
	eventually(t, "the replica is the master", func() bool {
		return atReplica.Set(t.Context(), "x", 1, 0).Err() == nil
	})
	if e := readers[ahead].next(t); e.Transition != kept[ahead] || !e.Reset {
		t.Errorf("got %+v, want %+v marked reset", e, kept[ahead])
	}
	for topic, s := range readers {
		want := appendSoon(t, log, topic)
		if e := s.next(t); e.Transition != want || e.Reset {
			t.Errorf("got %+v, want %+v", e, want)
		}
	}
}

// appendSoon appends the next step as soon as the new master takes it.
func appendSoon(t *testing.T, log events.Log, topic events.Topic) (stored events.Transition) {
	t.Helper()
	eventually(t, "the log takes a step", func() bool {
		var err error
		stored, err = log.Append(t.Context(), topic, eventstest.Step("j1", events.Processing))
		return err == nil
	})
	return stored
}
