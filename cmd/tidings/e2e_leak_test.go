//go:build linux

package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tidings/tidings/events/eventstest"
)

// holds is what a process has open.
type holds struct{ descriptors, goroutines, channels int }

func (h holds) within(start holds) bool {
	// A handful of connections to Redis may have joined the pool, with their goroutines.
	return h.descriptors <= start.descriptors+12 && h.goroutines <= start.goroutines+24 && h.channels <= start.channels
}

// TestAThousandStreamsLeaveNothingOpen: descriptors, goroutines and Redis
// channels are back at the start after 1,000 opens and closes.
func TestAThousandStreamsLeaveNothingOpen(t *testing.T) {
	redis := eventstest.StartRedis(t)
	client := redis.Client()
	p := serve(t, short(map[string]string{"TIDINGS_REDIS_URL": redis.URL()}), "dev")
	count := regexp.MustCompile(`(?m)^go_goroutines (\d+)`)
	look := func() holds {
		t.Helper()
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		found := count.FindStringSubmatch(metricsOf(t, p))
		if found == nil {
			t.Fatal("no go_goroutines among the metrics")
		}
		n, _ := strconv.Atoi(found[1])
		channels, err := client.PubSubChannels(t.Context(), "tidings:{*").Result()
		if err != nil {
			t.Fatal(err)
		}
		return holds{len(fds), n, len(channels)}
	}
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	open := func(session string, hold chan struct{}) error {
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.session(session)+"/status", nil)
		if err != nil {
			return err
		}
		res, err := web.Do(r)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if _, err := res.Body.Read(make([]byte, 512)); err != nil {
			return err
		}
		<-hold
		return nil
	}
	batch := func(n int) (during holds) {
		hold := make(chan struct{})
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				if err := open(fmt.Sprintf("s-%d", i), hold); err != nil {
					t.Error(err)
				}
			})
		}
		watching := regexp.MustCompile(`(?m)^tidings_streams_open(?:\{[^}]*\})? (\d+)`)
		for deadline := time.After(wait); ; {
			if m := watching.FindStringSubmatch(metricsOf(t, p)); m != nil && m[1] == strconv.Itoa(n) {
				break
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-deadline:
				t.Fatalf("not all of %d streams are open", n)
			}
		}
		during = look()
		close(hold)
		all.Wait()
		return during
	}
	batch(20) // what is made once is there now
	start := look()
	for range 10 {
		if during := batch(100); during.within(start) {
			t.Fatalf("100 streams are open and cannot be seen: %+v, at the start %+v", during, start)
		}
	}
	for deadline := time.After(wait); ; {
		now := look()
		if now.within(start) {
			return
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-deadline:
			t.Fatalf("left open: %+v, at the start %+v", now, start)
		}
	}
}
