//go:build slow

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tidings/tidings/events/eventstest"
)

// follower follows one session over the restarts as a client does: it resumes
// with its cursor on whichever replica answers.
type follower struct {
	session string
	bases   []string
	frames  []frame
	ends    []time.Time // clean ends without a terminal event
	hints   []int       // the retry: that each brought, in ms
	broken  []string    // whatever a client would call an error
}

// follow reads until a terminal event or the end of ctx.
func (w *follower) follow(ctx context.Context, connected func()) {
	cursor, turn, hint := "", 0, 0
	for ctx.Err() == nil {
		base := w.bases[turn%len(w.bases)]
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/api/v1/sessions/"+w.session+"/summary/status", nil)
		if err != nil {
			w.broken = append(w.broken, err.Error())
			return
		}
		r.Header.Set("Last-Event-ID", cursor)
		res, err := http.DefaultClient.Do(r)
		if err == nil && res.StatusCode == http.StatusServiceUnavailable {
			res.Body.Close() // draining: it is not ready any more
			err = errors.New("not ready")
		}
		if err != nil { // the balancer takes the next one
			turn++
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
			continue
		}
		if res.StatusCode != http.StatusOK {
			w.broken = append(w.broken, fmt.Sprintf("status %d", res.StatusCode))
			res.Body.Close()
			return
		}
		connected()
		s := &stream{frames: make(chan frame, 1000)}
		read := make(chan struct{})
		go func() {
			defer close(read)
			defer close(s.frames)
			s.err = s.read(bufio.NewReader(res.Body))
		}()
		for f := range s.frames {
			if f.event == "idle" {
				continue
			}
			cursor = f.id
			w.frames = append(w.frames, f)
		}
		<-read
		res.Body.Close()
		if n := len(w.frames); n > 0 && (w.frames[n-1].event == "completed" || w.frames[n-1].event == "error") {
			return
		}
		if ctx.Err() != nil {
			return
		}
		if s.err != nil {
			w.broken = append(w.broken, s.err.Error())
		}
		hint, _ = strconv.Atoi(s.retry)
		w.ends, w.hints = append(w.ends, time.Now()), append(w.hints, hint)
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(hint) * time.Millisecond):
		}
		turn++
	}
}

// TestARollingRestartIsNoError: two API replicas and two workers are
// restarted one after the other under 500 streams and 50 running jobs.
func TestARollingRestartIsNoError(t *testing.T) {
	const streams, running = 500, 50
	var calls atomic.Int64
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		select {
		case <-time.After(3 * time.Second):
		case <-r.Context().Done():
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"stop",
			"message":{"role":"assistant","content":"{\"title\":\"T\",\"summary\":\"S.\",\"key_points\":[]}"}}]}`)
	}))
	t.Cleanup(provider.Close)
	address := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return l.Addr().String()
	}
	env := map[string]string{"TIDINGS_REDIS_URL": eventstest.StartRedis(t).URL(), "TIDINGS_MODEL": "openai/m",
		"TIDINGS_MODEL_BASE_URL": provider.URL + "/v1", "OPENAI_API_KEY": "k", "TIDINGS_DRAIN": "4s", "TIDINGS_CONCURRENCY": "10"}
	replica := func(listen string) *process {
		e := map[string]string{"TIDINGS_LISTEN": listen}
		for k, v := range env {
			e[k] = v
		}
		return serve(t, e, "serve")
	}
	addresses := []string{address(), address()}
	bases := []string{"http://" + addresses[0], "http://" + addresses[1]}
	apis := []*process{replica(addresses[0]), replica(addresses[1])}
	workers := []*process{serve(t, env, "work"), serve(t, env, "work")}

	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var reading sync.WaitGroup
	connected := make(chan struct{}, 10*streams)
	ended := make(chan struct{}, streams)
	followers := make([]*follower, streams)
	for i := range followers {
		w := &follower{session: fmt.Sprintf("s-%d", i), bases: []string{bases[i%2], bases[(i+1)%2]}}
		followers[i] = w
		reading.Go(func() {
			w.follow(ctx, func() { connected <- struct{}{} })
			ended <- struct{}{}
		})
	}
	for range streams {
		<-connected
	}
	for i := range running {
		status, _, got := call(t, http.MethodPost, bases[i%2]+"/api/v1/sessions/"+followers[i].session+"/summary", `{"input":{"text":"`+someText+`"}}`)
		if status != http.StatusAccepted {
			t.Fatalf("submit: %d %v", status, got)
		}
	}
	var windows []time.Time
	for i := range apis {
		windows = append(windows, time.Now())
		apis[i].signal(syscall.SIGTERM)
		if code := apis[i].code(); code != 0 {
			t.Errorf("replica %d ended with %d", i, code)
		}
		apis[i] = replica(addresses[i])
	}
	for i := range workers {
		workers[i].signal(syscall.SIGTERM)
		if code := workers[i].code(); code != 0 {
			t.Errorf("worker %d ended with %d", i, code)
		}
		workers[i] = serve(t, env, "work")
	}
	for i := range running { // every job completes; then the idle streams may go
		for deadline := time.After(time.Minute); ; {
			_, _, got := call(t, http.MethodGet, bases[0]+"/api/v1/sessions/"+followers[i].session+"/summary/status?format=json", "")
			if got["event"] == "completed" {
				break
			}
			select {
			case <-deadline:
				t.Fatalf("job %d stays %v", i, got)
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	// The jobs' followers end by themselves, the others with ctx.
	for range running {
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Fatal("a stream does not bring its job's end")
		}
	}
	cancel()
	reading.Wait()

	for i, w := range followers {
		if len(w.broken) > 0 {
			t.Errorf("stream %d saw %q", i, w.broken)
		}
		if i >= running {
			if len(w.frames) != 0 {
				t.Errorf("stream %d of no job saw %s", i, texts(w.frames))
			}
			continue
		}
		lookAt(t, w.frames)
		completed := 0
		for _, f := range w.frames {
			if f.event == "completed" {
				completed++
			}
			if f.event == "error" || f.event == "retrying" || f.data["attempt"].(float64) > 1 {
				t.Errorf("stream %d saw %v of attempt %v", i, f, f.data["attempt"])
			}
		}
		if completed != 1 {
			t.Errorf("stream %d saw completed %d times: %s", i, completed, texts(w.frames))
		}
	}
	if n := calls.Load(); n != running {
		t.Errorf("the provider received %d calls for %d jobs", n, running)
	}
	spread(t, followers, windows[0], 4*time.Second)
}

// spread checks that the streams of the first replica ended over the drain
// window, and were told different times to come back.
func spread(t *testing.T, followers []*follower, from time.Time, window time.Duration) {
	t.Helper()
	slots, hints, n := map[int]int{}, map[int]bool{}, 0
	for _, w := range followers {
		if len(w.ends) == 0 {
			continue
		}
		if at := w.ends[0].Sub(from); at < window+2*time.Second {
			slots[int(at/(window/8))]++
			hints[w.hints[0]] = true
			n++
		}
	}
	if n < len(followers)/4 {
		t.Fatalf("only %d streams were closed by the first replica", n)
	}
	for slot, k := range slots {
		if k > n/2 {
			t.Errorf("%d of %d streams ended in the same eighth (%d) of the drain window", k, n, slot)
		}
	}
	if len(slots) < 4 || len(hints) < 20 {
		t.Errorf("ends in %d eighths, %d different retry times", len(slots), len(hints))
	}
}
