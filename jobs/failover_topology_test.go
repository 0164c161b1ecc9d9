package jobs_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/events/eventstest"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/retry"
	"github.com/tidings/tidings/jobs/store"
)

// index is a key on the master that has the open jobs.
const index = "tidings:{open}:index"

// TestTopology plays a day on each topology, one fail-over after the other,
// because to start one takes longer than any of this.
func TestTopology(t *testing.T) {
	onEachGround(t, func(t *testing.T, g topology) {
		for _, part := range []struct {
			name string
			sync store.Sync
			play func(*deployment)
		}{
			{"every verb", store.Sync{}, everyVerb},
			{"acknowledged when a replica has it", store.Sync{Replicas: 1, Timeout: 2 * time.Second}, waitsForReplicas},
			{"said when no replica has it", store.Sync{Replicas: 1, Timeout: 100 * time.Millisecond}, saysWhenNotMet},
			{"the tail is lost, and what was acknowledged is not", store.Sync{Replicas: 1, Timeout: 500 * time.Millisecond}, losesTheTail},
			{"a master dies under load", store.Sync{Replicas: 1, Timeout: 200 * time.Millisecond}, diesUnderLoad},
		} {
			t.Run(strings.ReplaceAll(part.name, " ", "_"), func(t *testing.T) {
				part.play(newDeployment(t, g, part.sync))
			})
		}
	})
}

// beside finds sessions whose keys are on the master that has the index: on
// Sentinels any are.
func (e *deployment) beside(names ...string) (master *eventstest.Server, topics []events.Topic) {
	e.Helper()
	master = e.MasterOf(index)
	for _, name := range names {
		for i := 0; ; i++ {
			topic := session(fmt.Sprintf("%s-%d", name, i))
			if e.MasterOf(topic.Key("log")) == master {
				topics = append(topics, topic)
				break
			}
		}
	}
	return master, topics
}

// waitsForReplicas: a submit is not answered before replicas have the job and
// its place in the index, nor is its repeat, which writes nothing.
func waitsForReplicas(e *deployment) {
	master, topics := e.beside("waits")
	topic, away := topics[0], topics[0] // one on another master than the index
	if _, ok := e.client.(*redis.ClusterClient); ok {
		for i := 0; e.MasterOf(away.Key("log")) == master; i++ {
			away = session(fmt.Sprint("away-", i))
		}
	}
	for _, step := range []struct {
		what  string
		topic events.Topic
		waits string // a key that the replicas must have
	}{
		{"a submit", topic, topic.Key("log")}, {"its repeat", topic, topic.Key("log")},
		{"a place in the index", away, index}, {"a repeat that writes nothing", away, away.Key("log")},
	} {
		master := e.MasterOf(step.waits)
		replicas := e.ReplicasOf(master)
		e.caughtUp(master, step.waits, len(replicas))
		for _, r := range replicas {
			r.Freeze()
		}
		var thawed atomic.Bool
		answered := make(chan jobs.Accepted, 1)
		go func() {
			a, ok := e.trySubmit(step.topic, "text")
			if !ok || !thawed.Load() {
				e.Errorf("%s was answered before a replica had it: %+v", step.what, a)
			}
			answered <- a
		}()
		e.until(step.what+" that waits", func() bool { return e.blocked(master) > 0 || len(answered) > 0 })
		thawed.Store(true)
		for _, r := range replicas {
			r.Thaw()
		}
		if a := <-answered; a.Unreplicated {
			e.Errorf("%s: the replicas did not confirm it", step.what)
		}
		e.follow(step.topic).comes(events.Completed)
	}
	e.one(topic)
	e.one(away)
	e.empty()
}

// caughtUp waits until replicas have confirmed all that the master has, so that
// no connection's earlier write is left to wait for. key is one that it serves.
func (e *deployment) caughtUp(master *eventstest.Server, key string, replicas int) {
	e.Helper()
	c := master.Client()
	defer c.Close()
	e.until("replicas that have it all", func() bool {
		pipe := c.Pipeline()
		wrote := pipe.Set(e.Context(), key+":caught-up", "", time.Second)
		waited := redis.NewIntCmd(e.Context(), "wait", replicas, 1000)
		_ = pipe.Process(e.Context(), waited)
		_, _ = pipe.Exec(e.Context())
		return waited.Val() == int64(replicas) && wrote.Err() == nil
	})
}

// blocked is how many connections wait for replicas.
func (e *deployment) blocked(master *eventstest.Server) int {
	c := master.Client()
	defer c.Close()
	n := 0
	clients, _ := c.ClientList(e.Context()).Result()
	for line := range strings.Lines(clients) {
		if strings.Contains(line, " cmd=wait ") && strings.Contains(line, " flags=b ") {
			n++
		}
	}
	return n
}

// saysWhenNotMet: without replicas nothing is refused, and the answers to a
// submit and to its repeat say so, until the replicas are back.
func saysWhenNotMet(e *deployment) {
	master, topics := e.beside("says")
	e.Detach(master)
	for _, what := range []string{"a submit", "its repeat"} {
		if a := e.submit(topics[0], "text"); !a.Unreplicated {
			e.Errorf("%s without replicas: %+v", what, a)
		}
	}
	e.follow(topics[0]).comes(events.Completed)
	e.Attach()
	e.until("a repeat that the replicas confirm", func() bool { return !e.submit(topics[0], "text").Unreplicated })
	e.one(topics[0])
	e.empty()
}

// losesTheTail: a master dies with what its replicas had not got. A job that
// they had confirmed goes on, one whose result is lost is done again, one that is
// lost altogether is told to be, and can be submitted again.
func losesTheTail(e *deployment) {
	master, topics := e.beside("kept", "undone", "lost")
	kept, undone, lost := topics[0], topics[1], topics[2]
	e.sessionModel.plays(kept, fails(retry.Overloaded)) // it waits in the queue meanwhile
	hold, release := heldBack()
	defer release()
	e.sessionModel.plays(undone, hold)
	readers := map[events.Topic]*reader{}
	for _, topic := range topics {
		readers[topic] = e.follow(topic)
	}
	// The replicas may still be on their way back from before.
	var jobID string
	for _, topic := range []events.Topic{kept, undone} {
		e.until("a submit that the replicas confirm", func() bool {
			a := e.submit(topic, "text")
			jobID = a.JobID
			return !a.Unreplicated
		})
	}
	readers[undone].comes(events.Processing)

	e.Detach(master)
	release()
	readers[undone].comes(events.Completed)
	if a := e.submit(lost, "text"); !a.Unreplicated {
		e.Errorf("a submit without replicas: %+v", a)
	}
	readers[lost].comes(events.Queued)
	died := time.Now()
	master.Kill()
	e.FailedOver(master, index)
	e.Attach()
	e.Logf("failed over after %s", time.Since(died).Round(time.Millisecond))

	readers[lost].sees("that it is lost", func(ev events.Event) bool { return ev.Idle && ev.Reset })
	readers[undone].sees("that its end is lost", func(ev events.Event) bool { return ev.Reset && ev.JobID == jobID })
	e.Logf("told of the loss after %s", time.Since(died).Round(time.Millisecond))
	if a := e.submit(lost, "text"); a.Replayed {
		e.Errorf("what was lost is known: %+v", a)
	}
	for topic, r := range readers {
		r.ends()
		e.one(topic)
		if n := e.sessionModel.count(topic); n > 2+map[bool]int{true: 1}[topic == kept] {
			e.Errorf("%s: %d calls", topic.Session, n)
		}
	}
	e.empty()
	e.Logf("all done after %s", time.Since(died).Round(time.Millisecond))
	e.Mend()
}

// diesUnderLoad: many submit and watch while the master of the index dies.
func diesUnderLoad(e *deployment) { underLoad(e, index) }

// underLoad lets the master of a key die when a third of the sessions have
// submitted and some of their jobs run. The others go on submitting.
func underLoad(e *deployment, key string) {
	master := e.MasterOf(key)
	readers := make([]*reader, 12+38*slow)
	for i := range readers {
		readers[i] = e.follow(session(fmt.Sprint("load-", i)))
		e.sessionModel.plays(readers[i].topic, grinds(time.Duration(1+i%10)*50*time.Millisecond))
	}
	accepted := make([]jobs.Accepted, len(readers))
	next, third, dead := make(chan int), make(chan struct{}), make(chan struct{})
	var submitters sync.WaitGroup
	for range 5 {
		submitters.Go(func() {
			for i := range next {
				if !e.comes(func() (ok bool) {
					accepted[i], ok = e.trySubmit(readers[i].topic, "text")
					return ok
				}) {
					e.Errorf("%s: not accepted within %s", readers[i].topic.Session, e.patience)
				}
			}
		})
	}
	go func() {
		defer close(next)
		for i := range readers {
			if i == len(readers)/3 {
				close(third)
				<-dead
			}
			next <- i
		}
	}()
	<-third
	readers[0].comes(events.Completed)
	died := time.Now()
	master.Kill()
	close(dead)
	submitters.Wait()
	e.Logf("all accepted %s after the master died", time.Since(died).Round(time.Millisecond))
	calls, unsafe, resets := 0, 0, 0
	for i, r := range readers {
		safe := e.store.Sync.Replicas > 0 && !accepted[i].Unreplicated
		if !safe {
			unsafe++
			// It may be lost. Then it is told so, and asked for again.
			r.sees("an end", func(ev events.Event) bool { return ev.Status == events.Completed || ev.Idle && ev.Reset })
			if r.last().Idle {
				e.submit(r.topic, "text")
			}
		}
		r.ends()
		if last := r.last(); safe && last.JobID != accepted[i].JobID {
			e.Errorf("%s: acknowledged %s, completed %s", r.topic.Session, accepted[i].JobID, last.JobID)
		}
		if r.seen(func(ev events.Event) bool { return ev.Reset }) {
			resets++
		}
		n := e.sessionModel.count(r.topic)
		if calls += n; n > 3 {
			e.Errorf("%s: %d calls", r.topic.Session, n)
		}
	}
	e.empty()
	e.Logf("all done %s after the master died; %d sessions, %d calls, %d not confirmed, %d told of a reset",
		time.Since(died).Round(time.Millisecond), len(readers), calls, unsafe, resets)
	for _, r := range readers {
		e.one(r.topic)
	}
	e.Mend()
}
