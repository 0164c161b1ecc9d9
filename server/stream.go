package server

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tidings/tidings/events"
)

// ending is why a stream ends.
type ending struct {
	why string
	// retry is when the client should come back, where it is not its own
	// choice. Zero: not said.
	retry time.Duration
}

func (e *ending) Error() string { return "stream ended: " + e.why }

// line is the way of a stream's bytes to its reader. There are two: served, in the
// request's handler, for every protocol; and parked, without one.
type line interface {
	// Wake says that the stream's source may have something.
	events.Waker
	// end ends the stream; the first reason counts. It may be called from
	// anywhere, before the stream is open too, and does not wait.
	end(*ending)
	// open answers a request with the stream. It tells the stream when it has ended.
	open(gin.ResponseWriter, *http.Request, *stream)
}

// source is what a stream sends, frame by frame: a feed, or a probe. It is for
// one goroutine.
type source interface {
	// next returns the next frame if there is one; when there is another, the
	// line is woken. It fails when there will be none.
	next() (frame, bool, error)
	// took is told of each frame that the line has taken.
	took(frame)
	// follows tells whether it is about a topic.
	follows(events.Topic) bool
	close()
}

// frame is one event, ready to be written.
type frame struct {
	id    string // "" for none
	event string
	data  []byte // one line
	last  bool   // nothing comes after it
	live  bool
	at    time.Time
}

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
	finish            func(*stream, string) // writes the log line of one that was open

	mu      sync.Mutex
	open    map[*stream]struct{}
	byOwner map[string]int
	closed  bool
}

// stream is one entry: what an open stream holds until it leaves.
type stream struct {
	in    *streams
	line  line
	src   source
	call  *call
	owner string
	// until is when it ends at the latest, and over is why.
	until time.Time
	over  string

	// Kept by the line.
	written int64 // bytes
	events  int
}

func newStreams(limit, ownerLimit int, maxAge time.Duration, m *metrics, finish func(*stream, string)) *streams {
	return &streams{limit: limit, ownerLimit: ownerLimit, maxAge: maxAge, metrics: m, finish: finish,
		open: make(map[*stream]struct{}), byOwner: make(map[string]int)}
}

// admit makes an entry for a stream of who on a line, or says why there may not
// be one. leave gives it back.
func (r *streams) admit(who Identity, l line) (*stream, error) {
	st := &stream{in: r, line: l, owner: who.Owner, until: time.Now().Add(spread(r.maxAge)), over: endMaxAge}
	if !who.Expires.IsZero() && who.Expires.Before(st.until) {
		st.until, st.over = who.Expires, endExpired
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return nil, &problem{code: codeDraining}
	case len(r.open) >= r.limit, who.Owner != "" && r.byOwner[who.Owner] >= r.ownerLimit:
		return nil, &problem{code: codeTooManyStreams}
	}
	r.open[st] = struct{}{}
	r.byOwner[who.Owner]++
	r.metrics.open.Inc()
	return st, nil
}

// play says what the stream sends.
func (st *stream) play(src source) {
	st.in.mu.Lock()
	defer st.in.mu.Unlock()
	st.src = src
}

// leave gives back what the entry holds, and tells whether it still did.
func (st *stream) leave() bool {
	if !st.in.forget(st) {
		return false
	}
	if st.src != nil {
		st.src.close()
	}
	return true
}

func (r *streams) forget(st *stream) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.open[st]; !ok {
		return false
	}
	delete(r.open, st)
	if len(r.open) == 0 {
		r.open = make(map[*stream]struct{}) // a map that was large stays so
	}
	if r.byOwner[st.owner]--; r.byOwner[st.owner] == 0 {
		delete(r.byOwner, st.owner)
	}
	r.metrics.open.Dec()
	return true
}

// ended is the end of a stream that was open: counted and logged.
func (st *stream) ended(why string) {
	if st.leave() {
		st.in.metrics.ended.WithLabelValues(why).Inc()
		st.in.finish(st, why)
	}
}

// took is told by the line of each frame that it has taken.
func (st *stream) took(fr frame) {
	st.events++
	st.src.took(fr)
}

// cut ends the streams of a topic and returns how many there were.
func (r *streams) cut(topic events.Topic) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for st := range r.open {
		if st.src != nil && st.src.follows(topic) {
			st.line.end(&ending{why: endCut})
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
		st.line.end(goingDown())
	}
}

func spread(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 - ageSpread + 2*ageSpread*rand.Float64()))
}

// goingDown is the end of a stream at shutdown, with its own time to come back.
func goingDown() *ending {
	return &ending{why: endDrain, retry: retryFirst + rand.N(retryLast-retryFirst)}
}
