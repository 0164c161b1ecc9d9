package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// desk is where callers line up: a script of a dependency, or of the whole fleet
// ("").
type desk struct{ dependency, verb string }

func (d desk) keys() []string {
	if d.dependency == "" {
		return offKeys()[:1]
	}
	return keys(d.dependency)
}

// turn is what one caller asks there.
type turn struct {
	args   []any
	answer chan answer // holds one, so whoever serves never waits for a caller that has gone
}

// answer is a verb's own answer, or that the script did not run.
type answer struct {
	word    string
	at, now time.Time
	reason  string
	err     error
}

// public is the verdict, without a permit.
func (a answer) public() Answer {
	if Verdict(a.word) == Go {
		return Answer{Verdict: Go}
	}
	return Answer{Verdict: Verdict(a.word), Reason: Reason(a.reason), Until: a.at, In: a.at.Sub(a.now)}
}

// atOnce is how many turns a script serves at most. Redis does nothing else
// meanwhile, and Lua's unpack has an end just below 8,000 values.
const atOnce = 64

// behind is how long those who wait stay behind a script that runs, before they
// get one of their own beside it: one dying connection holds up those who share
// it and nobody else. A script takes a few milliseconds.
const behind = 250 * time.Millisecond

// scriptTime bounds a script's run with all of the client's own repeats.
const scriptTime = 10 * time.Second

// ask waits for its turn. The first who comes is served at once; who comes while
// this process's script for the desk runs goes with the next, together with all
// others that wait. So the more is asked, the less each costs Redis, and nobody
// waits for company.
//
// Who leaves while it waits has asked nothing. Who is cancelled while the script
// runs still gets the answer: what it took is its own to give back.
func (g *Gate) ask(ctx context.Context, at desk, args ...any) (answer, error) {
	t := &turn{args: args, answer: make(chan answer, 1)}
	g.mu.Lock()
	waiting, served := g.waiting[at]
	g.waiting[at] = append(waiting, t)
	g.mu.Unlock()
	if !served {
		go g.serve(context.WithoutCancel(ctx), at) // ends when nobody waits any more
	}
	select {
	case got := <-t.answer:
		return got, got.err
	case <-ctx.Done():
	}
	if !g.leave(at, t) && errors.Is(ctx.Err(), context.Canceled) {
		got := <-t.answer // within scriptTime
		return got, got.err
	}
	select {
	case got := <-t.answer:
		return got, got.err
	default:
		return answer{}, ctx.Err()
	}
}

// leave takes a turn out of the line; false when its script runs already.
func (g *Gate) leave(at desk, t *turn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting[at], t)
	if i >= 0 {
		g.waiting[at] = slices.Delete(g.waiting[at], i, i+1)
	}
	return i >= 0
}

// serve runs one script after the other until nobody waits. A script is nobody's
// own, so no caller's end is its end.
func (g *Gate) serve(ctx context.Context, at desk) {
	for {
		g.mu.Lock()
		n := min(atOnce, len(g.waiting[at]))
		if n == 0 {
			delete(g.waiting, at)
			g.mu.Unlock()
			return
		}
		turns := slices.Clone(g.waiting[at][:n])
		g.waiting[at] = slices.Delete(g.waiting[at], 0, n)
		g.mu.Unlock()

		done := make(chan struct{})
		go func() { // ends within scriptTime
			defer close(done)
			g.run(ctx, at, turns)
		}()
		late := time.NewTimer(behind)
		select {
		case <-done:
		case <-late.C:
		}
		late.Stop()
	}
}

// run serves some turns with one script.
func (g *Gate) run(ctx context.Context, at desk, turns []*turn) {
	ctx, cancel := context.WithTimeout(ctx, scriptTime)
	defer cancel()
	var args []any
	for _, t := range turns {
		args = append(args, t.args...)
	}
	replies, err := g.verbs[at.verb].Run(ctx, g.client, at.keys(), args...).Slice()
	if err == nil && len(replies) != len(turns) {
		err = fmt.Errorf("%d answers for %d turns", len(replies), len(turns))
	}
	for i, t := range turns {
		if err != nil {
			t.answer <- answer{err: err}
			continue
		}
		t.answer <- read(replies[i])
	}
}

// read takes an answer as the script writes it: {word, at, now, reason}.
func read(reply any) answer {
	list, _ := reply.([]any)
	if len(list) != 4 {
		return answer{err: fmt.Errorf("the script answered %v", reply)}
	}
	word, _ := list[0].(string)
	at, _ := list[1].(int64)
	now, _ := list[2].(int64)
	reason, _ := list[3].(string)
	return answer{word: word, at: time.UnixMilli(at).UTC(), now: time.UnixMilli(now).UTC(), reason: reason}
}
