package server

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidings/tidings/events"
)

// ending is why a stream ends: the cause with which its context is cancelled.
type ending struct {
	why string
	// retry is when the client should come back, where it is not its own
	// choice. Zero: not said.
	retry time.Duration
}

func (e *ending) Error() string { return "stream ended: " + e.why }

// Why a stream can end. The names are a metric's label and, where the server
// closes a stream that works, a comment in its last bytes.
const (
	endTerminal = "terminal"      // completed or error has been sent
	endSlow     = "slow_reader"   // did not take what was written in time
	endGone     = "peer_gone"     // closed by the other side
	endExpired  = "token_expired" // the right to read has ended
	endMaxAge   = "max_age"       // old enough to move to another replica
	endDrain    = "draining"      // the process goes down
	endFault    = "fault"         // ours
	endCut      = "cut"           // by whoever tries it out, in dev: as if the line had broken
)

const (
	ageSpread  = 0.1 // of the maximum age, either way
	retryFirst = 500 * time.Millisecond
	retryLast  = 5 * time.Second
)

// streams is the registry of open streams.
type streams struct {
	limit, ownerLimit int
	maxAge            time.Duration
	metrics           *metrics

	mu      sync.Mutex
	open    map[*stream]struct{}
	byOwner map[string]int
	closed  bool
}

// stream is one entry: what an open stream holds until release.
type stream struct {
	ctx     context.Context // the stream's life; its cause is an *ending, or the peer's going
	end     context.CancelCauseFunc
	failure atomic.Pointer[ending] // of a write, see failed
	owner   string
	topics  []events.Topic
	in      *streams
	timers  []*time.Timer
	release func() // gives everything back; safe to call twice
}

func newStreams(limit, ownerLimit int, maxAge time.Duration, m *metrics) *streams {
	return &streams{limit: limit, ownerLimit: ownerLimit, maxAge: maxAge, metrics: m,
		open: make(map[*stream]struct{}), byOwner: make(map[string]int)}
}

// admit makes an entry for a stream of who, or says why there may not be one.
// The caller releases it.
func (r *streams) admit(ctx context.Context, who Identity, topics []events.Topic) (*stream, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return nil, &problem{code: codeDraining}
	case len(r.open) >= r.limit, who.Owner != "" && r.byOwner[who.Owner] >= r.ownerLimit:
		return nil, &problem{code: codeTooManyStreams}
	}
	st := &stream{owner: who.Owner, topics: topics, in: r}
	st.ctx, st.end = context.WithCancelCause(ctx)
	st.after(spread(r.maxAge), &ending{why: endMaxAge})
	if !who.Expires.IsZero() {
		st.after(time.Until(who.Expires), &ending{why: endExpired})
	}
	st.release = sync.OnceFunc(st.leave)
	r.open[st] = struct{}{}
	r.byOwner[who.Owner]++
	r.metrics.open.Inc()
	return st, nil
}

func (st *stream) after(d time.Duration, e *ending) {
	st.timers = append(st.timers, time.AfterFunc(d, func() { st.end(e) }))
}

func (st *stream) leave() {
	for _, t := range st.timers {
		t.Stop()
	}
	st.end(context.Canceled)
	r := st.in
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, st)
	if r.byOwner[st.owner]--; r.byOwner[st.owner] == 0 {
		delete(r.byOwner, st.owner)
	}
	r.metrics.open.Dec()
}

// failed ends the stream because a write has failed. net/http has cancelled the
// request by then, as if the peer had gone, so the reason is kept apart.
func (st *stream) failed(e *ending) {
	st.failure.CompareAndSwap(nil, e)
	st.end(e)
}

// why returns the reason the stream ended, once its context has.
func (st *stream) why() *ending {
	if e := st.failure.Load(); e != nil {
		return e
	}
	var e *ending
	if errors.As(context.Cause(st.ctx), &e) {
		return e
	}
	return &ending{why: endGone}
}

// cut ends the streams of a topic and returns how many there were.
func (r *streams) cut(topic events.Topic) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for st := range r.open {
		if slices.Contains(st.topics, topic) {
			st.end(&ending{why: endCut})
			n++
		}
	}
	return n
}

// draining tells whether shut has been called.
func (r *streams) draining() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// shut refuses further streams and returns those that are open.
func (r *streams) shut() []*stream {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	list := make([]*stream, 0, len(r.open))
	for st := range r.open {
		list = append(list, st)
	}
	return list
}

// drain ends the streams one by one, evenly over the window, so that their
// clients do not come back to the other replicas all at once.
func (r *streams) drain(ctx context.Context, list []*stream, window time.Duration) {
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	start := time.Now()
	for i, st := range list {
		at := start.Add(window * time.Duration(i) / time.Duration(len(list)))
		select {
		case <-time.After(time.Until(at)):
		case <-ctx.Done():
			window = 0
		}
		st.end(goingDown())
	}
}

func spread(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 - ageSpread + 2*ageSpread*rand.Float64()))
}

// goingDown is the end of a stream at shutdown, with its own time to come back.
func goingDown() *ending {
	return &ending{why: endDrain, retry: retryFirst + rand.N(retryLast-retryFirst)}
}
