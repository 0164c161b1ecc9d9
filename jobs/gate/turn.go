package gate

import (
	"context"
	"fmt"
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
	ctx    context.Context
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
// meanwhile, and Lua's unpack has an end at some thousand values.
const atOnce = 64

// ask waits for its turn. The first who comes is served at once; who comes while
// this process's script for the desk runs goes with the next, together with all
// others that wait. So the more is asked, the less each costs Redis, and nobody
// waits for company.
func (g *Gate) ask(ctx context.Context, at desk, args ...any) (answer, error) {
	t := &turn{ctx: ctx, args: args, answer: make(chan answer, 1)}
	g.mu.Lock()
	waiting, served := g.waiting[at]
	g.waiting[at] = append(waiting, t)
	g.mu.Unlock()
	if !served {
		go g.serve(at) // ends when nobody waits any more
	}
	select {
	case got := <-t.answer:
		return got, got.err
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
}

// serve runs the script until nobody waits. Each run is bounded by the client's
// own timeouts and not by a caller's, who shares it with others.
func (g *Gate) serve(at desk) {
	for {
		g.mu.Lock()
		turns := g.waiting[at]
		if len(turns) == 0 {
			delete(g.waiting, at)
			g.mu.Unlock()
			return
		}
		rest := min(atOnce, len(turns))
		g.waiting[at] = turns[rest:]
		g.mu.Unlock()
		g.run(at, turns[:rest])
	}
}

// run serves some turns with one script, but for those whose callers have gone.
func (g *Gate) run(at desk, turns []*turn) {
	var present []*turn
	var args []any
	for _, t := range turns {
		if t.ctx.Err() == nil {
			present = append(present, t)
			args = append(args, t.args...)
		}
	}
	if len(present) == 0 {
		return
	}
	ctx := context.WithoutCancel(present[0].ctx)
	replies, err := g.verbs[at.verb].Run(ctx, g.client, at.keys(), args...).Slice()
	if err == nil && len(replies) != len(present) {
		err = fmt.Errorf("%d answers for %d turns", len(replies), len(present))
	}
	for i, t := range present {
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
