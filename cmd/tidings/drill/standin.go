package drill

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// A step is what the stand-in does with one call.
type step string

// What the stand-in can do. Further ones are statuses, such as "503".
const (
	answers step = "ok"     // does the work and answers
	hangs   step = "hang"   // reads the request and says nothing until the caller is gone
	loses   step = "lost"   // does the work and breaks the connection before the answer
	cuts    step = "cut"    // does the work and breaks the connection in the middle of the answer
	full    step = "529"    // what is said beyond the capacity
	works   step = "silent" // does the work, and then says nothing until the caller is gone
)

// received is one call as the stand-in saw it.
type received struct {
	Op      string
	N       int       // of the operation, from 1
	Arrived time.Time // when the request was whole
	Left    time.Time // just before it was answered or broken off; zero: under way
	Step    step
	// Beside is how many calls were under way when it arrived, itself included.
	Beside int
	// Done tells that the work was done, whether the caller heard of it or not:
	// what a provider would charge for.
	Done bool
	// Bytes is how much of the answer was written.
	Bytes int
}

// What each piece of work counts as, and what it costs in the drill's price list.
const (
	tokensIn, tokensOut       = 1000, 200
	priceIn, priceOut         = 3.0, 15.0 // US dollars per million
	costOfOne                 = (tokensIn*priceIn + tokensOut*priceOut) / 1e6
	theDocument               = `{"title":"A drill","summary":"The stand-in has answered in full.","key_points":["It is a drill.","Nothing is lost."]}`
	standinModel              = "openai/drill"
	standinPath               = "/v1/chat/completions"
	mostRequest         int64 = 2 << 20
)

// standin is a provider on the loopback that counts what it receives.
type standin struct {
	url  string
	http *http.Server

	mu sync.Mutex
	// latency is how long a piece of work takes, refusal how long it takes to say
	// that there is no capacity.
	latency, refusal time.Duration
	scripts          map[string][]step
	mood             func(op string, n int) step // for operations without a script
	capacity         int                         // pieces of work at the same time; more get 529
	working          int
	under            int // calls under way, refused ones included
	calls            []*received
	count            map[string]int
	changed          chan struct{} // closed and replaced at each change
}

// newStandin opens one. It answers everything until it is told otherwise.
func newStandin() (*standin, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("the stand-in: %w", err)
	}
	s := &standin{url: "http://" + l.Addr().String() + "/v1", latency: 20 * time.Millisecond, capacity: 1 << 20,
		scripts: map[string][]step{}, count: map[string]int{}, changed: make(chan struct{})}
	s.mood = func(string, int) step { return answers }
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+standinPath, s.serve)
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.http.Serve(l) }() // ends with close
	return s, nil
}

// close ends it at once, with all calls that are under way.
func (s *standin) close() { _ = s.http.Close() }

// script plays these steps for an operation's calls; the last one repeats.
func (s *standin) script(op string, steps ...step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts[op] = steps
}

// feel sets what happens to operations without a script.
func (s *standin) feel(mood func(op string, n int) step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mood = mood
}

// pace sets how long work and refusals take.
func (s *standin) pace(latency, refusal time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latency, s.refusal = latency, refusal
}

// carry sets how many calls it works on at the same time.
func (s *standin) carry(calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.capacity = calls
}

// record is what has arrived so far, in that order.
func (s *standin) record() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]received, len(s.calls))
	for i, c := range s.calls {
		all[i] = *c
	}
	return all
}

// until waits for the record to have become so.
func (s *standin) until(ctx context.Context, what string, so func([]received) bool) error {
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if so(s.record()) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("the stand-in never saw %s: %w", what, context.Cause(ctx))
		}
	}
}

// tell wakes whoever waits for a change. The lock is held.
func (s *standin) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}

var opName = regexp.MustCompile(`drill-[a-z0-9]+-\d{4,}`)

// arrive writes a call down and decides what becomes of it.
func (s *standin) arrive(op string) (c *received, latency, refusal time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count[op]++
	s.under++
	c = &received{Op: op, N: s.count[op], Arrived: time.Now(), Beside: s.under, Step: full}
	if s.working < s.capacity {
		s.working++
		if steps := s.scripts[op]; len(steps) > 0 {
			c.Step = steps[min(c.N, len(steps))-1]
		} else {
			c.Step = s.mood(op, c.N)
		}
	}
	s.calls = append(s.calls, c)
	s.tell()
	return c, s.latency, s.refusal
}

// leave writes down that a call is over, before its caller can know: so what the
// record shows under way at the same time was so for the callers too.
func (s *standin) leave(c *received, done bool, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.under--
	if c.Step != full {
		s.working--
	}
	c.Left, c.Done, c.Bytes = time.Now(), done, bytes
	s.tell()
}

func (s *standin) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, mostRequest))
	if err != nil {
		return // not a whole request: nothing was received
	}
	c, latency, refusal := s.arrive(opName.FindString(string(body)))
	lasts := func(d time.Duration) bool {
		select {
		case <-time.After(d):
			return true
		case <-r.Context().Done():
			return false
		}
	}
	worked := func() bool { return lasts(latency) }
	answer := completion(c)
	switch c.Step {
	case hangs:
		<-r.Context().Done()
		s.leave(c, false, 0)
	case works:
		done := worked()
		s.mu.Lock()
		c.Done = done
		s.tell()
		s.mu.Unlock()
		<-r.Context().Done()
		s.leave(c, done, 0)
	case loses:
		s.leave(c, worked(), 0)
		sever(w)
	case cuts:
		half := answer[:len(answer)/2]
		s.leave(c, worked(), len(half))
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		_, _ = w.Write(half)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case answers:
		if !worked() {
			s.leave(c, false, 0)
			return
		}
		s.leave(c, true, len(answer))
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	default:
		status, err := strconv.Atoi(string(c.Step))
		if err != nil {
			status = http.StatusNotImplemented
		}
		if c.Step == full {
			lasts(refusal)
		}
		s.leave(c, false, 0)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"error":{"message":"played by the drill","type":"server_error"}}`)
	}
}

// sever ends the connection without an answer and without a goodbye.
func sever(w http.ResponseWriter) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

// completion is a whole answer as OpenAI gives it.
func completion(c *received) []byte {
	text, err := json.Marshal(map[string]any{
		"id": fmt.Sprintf("chatcmpl-%s-%d", c.Op, c.N), "object": "chat.completion", "created": c.Arrived.Unix(), "model": "drill",
		"choices": []any{map[string]any{"index": 0, "finish_reason": "stop",
			"message": map[string]any{"role": "assistant", "content": theDocument}}},
		"usage": map[string]any{"prompt_tokens": tokensIn, "completion_tokens": tokensOut, "total_tokens": tokensIn + tokensOut},
	})
	if err != nil { // texts and numbers always encode
		panic(err)
	}
	return text
}
