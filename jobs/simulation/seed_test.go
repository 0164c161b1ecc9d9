package simulation

import (
	"flag"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
)

var (
	onlySeed  = flag.Uint64("seed", 0, "play this seed alone, and tell its story")
	seedCount = flag.Int("seeds", 300, "how many seeds to play")
)

// steps is how long a world is in disorder.
const steps = 120

// TestSeeds plays one world after the other.
func TestSeeds(t *testing.T) {
	if *onlySeed != 0 {
		if story, err := play(t, *onlySeed); err != nil {
			t.Errorf("%v\n%s", err, story)
		} else {
			t.Log(story)
		}
		return
	}
	shards := runtime.GOMAXPROCS(0)
	for shard := range shards {
		t.Run(fmt.Sprint("shard ", shard), func(t *testing.T) {
			t.Parallel()
			for seed := 1 + shard; seed <= *seedCount; seed += shards {
				if story, err := play(t, uint64(seed)); err != nil {
					t.Fatalf("seed %d: %v\n%s", seed, err, story)
				}
			}
		})
	}
}

// play runs one world to its end.
func play(t *testing.T, seed uint64) (story string, failed error) {
	synctest.Test(t, func(t *testing.T) {
		w, stop := newWorld(t, seed)
		defer stop()
		failed = w.run(t)
		for _, p := range w.alive() {
			w.die(p)
		}
		pass(5 * time.Minute) // whoever still waits finds out
		var b strings.Builder
		for _, line := range w.story {
			fmt.Fprintln(&b, line)
		}
		for _, n := range w.records.Log(w.topic) {
			fmt.Fprintf(&b, "  %s %s %d/%d %s %s\n", n.JobID[20:], n.Status, n.Attempt, n.MaxAttempts, n.Reason, n.Outcome)
		}
		story = b.String()
	})
	return story, failed
}

func (w *world) run(t *testing.T) error {
	w.request(w.processes[0], "submit", "text 0")
	for range steps {
		w.step(t)
		if err := w.check(); err != nil {
			return err
		}
	}
	return w.rest(t)
}

// step does one thing, as the seed has it.
func (w *world) step(t *testing.T) {
	alive := w.alive()
	if len(alive) == 0 {
		w.note("%s starts", w.start(t).name)
		return
	}
	p := pick(w.rng, alive)
	waiting := w.waiting()
	switch n := w.rng.IntN(100); {
	case n < 60 && len(waiting) > 0:
		q := pick(w.rng, waiting)
		f := answered
		switch w.rng.IntN(12) {
		case 0:
			f = refused
		case 1:
			f = unheard
		}
		w.note("%s: %s %s", q.who, q.what, [...]string{"", "is refused", "has no answer"}[f])
		w.let(q, f)
	case n < 73:
		if due := w.queue.due(); len(due) > 0 {
			w.queue.hand(pick(w.rng, due), p)
		}
	case n < 78:
		w.note("%s: looks after jobs", p.name)
		go func() { _, _ = p.rescuer.Round(p.ctx) }()
		synctest.Wait()
	case n < 87:
		d := pick(w.rng, []time.Duration{time.Millisecond, 100 * time.Millisecond, time.Second, 5 * time.Second, 16 * time.Second, 31 * time.Second})
		w.note("%s pass", d)
		pass(d)
	case n < 93:
		w.request(p, pick(w.rng, []string{"submit", "replace", "retry", "retry", "cancel"}), fmt.Sprint("text ", w.rng.IntN(2)))
	case n < 94:
		w.note("%s dies", p.name)
		w.die(p)
		synctest.Wait()
	case n < 95:
		w.note("%s starts", w.start(t).name)
	case n < 96:
		w.note("the queue brings back the tasks of the dead")
		w.queue.recover()
	case n < 97:
		w.operator(p)
	case n < 98:
		if active := w.queue.sorted(func(k *task) bool { return k.state == jobs.TaskActive }); len(active) > 0 {
			w.note("a task is doubled")
			w.queue.hand(pick(w.rng, active), p)
		}
	case n < 99:
		w.skew += pick(w.rng, []time.Duration{-3 * time.Second, -time.Second, time.Second, 3 * time.Second})
		w.note("the storage's clock is off by %s", w.skew)
	default:
		if w.records.TakeBack(w.topic) {
			w.note("the last commit is lost in a fail-over")
			w.seen.taken++
			w.seen.forget(w.records.Log(w.topic))
		}
	}
}

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// operator does something in the queue's own tools.
func (w *world) operator(p *process) {
	tasks := w.queue.sorted(func(k *task) bool { return k.state == jobs.TaskScheduled || k.state == jobs.TaskPending })
	if len(tasks) == 0 {
		return
	}
	k := pick(w.rng, tasks)
	if w.rng.IntN(2) == 0 {
		w.note("an operator deletes task %d", k.Run)
		delete(w.queue.tasks, k.ID())
		return
	}
	w.note("an operator runs task %d", k.Run)
	k.ran, k.state = true, jobs.TaskPending
	w.seen.runs++
}

// rest lets everything come to its end, without further faults.
func (w *world) rest(t *testing.T) error {
	w.note("from here on nothing fails")
	w.mu.Lock()
	w.calm = true
	w.mu.Unlock()
	if len(w.alive()) == 0 {
		w.start(t)
	}
	p := w.alive()[0]
	settle := func() error {
		for waiting := w.waiting(); len(waiting) > 0; waiting = w.waiting() {
			w.let(waiting[0], answered)
			if err := w.check(); err != nil {
				return err
			}
		}
		return nil
	}
	for range 240 { // 20 minutes, longer than a deadline
		w.queue.recover()
		for due := w.queue.due(); len(due) > 0; due = w.queue.due() {
			w.queue.hand(due[0], p)
			if err := settle(); err != nil {
				return err
			}
		}
		go func() {
			_, _ = p.rescuer.Round(p.ctx)
			if last := w.seen.last; last.Seq != 0 && !last.Status.Terminal() { // somebody watches
				p.rescuer.Overdue(p.ctx, []events.Topic{w.topic}, []events.Transition{last})
			}
		}()
		if err := settle(); err != nil {
			return err
		}
		open, err := w.client.ZCard(t.Context(), "tidings:{open}:index").Result()
		if err != nil {
			return err
		}
		if open == 0 && (w.seen.last.Seq == 0 || w.seen.last.Status.Terminal()) {
			break
		}
		pass(5 * time.Second)
	}
	open, err := w.client.ZCard(t.Context(), "tidings:{open}:index").Result()
	if err != nil {
		return err
	}
	return w.atTheEnd(open)
}
