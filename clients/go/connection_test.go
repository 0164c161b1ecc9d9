//go:build go1.25

package tidings_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tidings "github.com/tidings/tidings/clients/go"
)

func TestWatchdogDropsASilentStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := open(t)
		stream := f.next(t).stream(t)
		pass(44 * time.Second)
		stream.send(": heartbeat\n\n")
		pass(44 * time.Second)
		if got := s.Status().Connection; got != tidings.Open {
			t.Errorf("%s although a comment came 44 s ago", got)
		}
		pass(time.Second)
		if got := s.Status().Connection; got != tidings.Reconnecting {
			t.Errorf("%s although nothing came for 45 s", got)
		}
		f.next(t).reply(204, "")
	})
}

func TestStreamsAreAskedForUncompressed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, f := open(t)
		request := f.next(t)
		if got := request.Header.Get("Accept-Encoding"); got != "identity" {
			t.Errorf("Accept-Encoding %q: gzip holds events back", got)
		}
		request.reply(204, "")
	})
}

func TestAnAnswerHasToBeginWithinTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, f := open(t)
		start := time.Now()
		first := f.next(t) // never answered
		f.next(t).reply(204, "")
		if first.Context().Err() == nil {
			t.Error("the first request goes on")
		}
		if waited := time.Since(start); waited < 11*time.Second || waited > 11250*time.Millisecond {
			t.Errorf("next request after %v, want 10 s and a pause of 1 to 1.25 s", waited)
		}
	})
}

func TestWatchdogCoversTheWaitForAToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		asked := make(chan time.Duration, 2)
		open(t, tidings.WithTokenSource(func(ctx context.Context, _ bool) (string, error) {
			asked <- time.Since(start)
			<-ctx.Done()
			return "", ctx.Err()
		}))
		<-asked
		if second := <-asked; second < 46*time.Second || second > 46250*time.Millisecond {
			t.Errorf("asked again after %v, want 45 s and a pause of 1 to 1.25 s", second)
		}
	})
}

const retryingIn30s = `{"attempt":1,"retry_in_ms":30000}`

func TestACountdownWithoutNewsAsksOnANewConnection(t *testing.T) {
	events := map[string]string{
		"retrying": retryingIn30s,
		"queued":   `{"server_time":"2026-12-01T12:00:00.000Z","not_before":"2026-12-01T12:00:30.000Z"}`,
	}
	for event, data := range events {
		synctest.Test(t, func(t *testing.T) {
			s, f := open(t)
			stream := f.next(t).stream(t)
			stream.send("id: 7\nevent: " + event + "\ndata: " + data + "\n\n")
			if left, ok := s.Status().RetryIn(); !ok || left != 30*time.Second {
				t.Errorf("%s: counts down from %v, %v", event, left, ok)
			}
			f.quiet(t, 33*time.Second)
			start := time.Now()
			request := f.next(t)
			if waited := time.Since(start); waited > time.Second {
				t.Errorf("%s: asks %v late", event, waited)
			}
			if got := request.Header.Get("Last-Event-ID"); got != "7" {
				t.Errorf("%s: asks after %q", event, got)
			}
			if got := s.Status().MessageKey; got != tidings.KeyChecking {
				t.Errorf("%s: says %s meanwhile", event, got)
			}
			request.stream(t)
			synctest.Wait()
			if got := s.Status().MessageKey; got == tidings.KeyChecking {
				t.Errorf("%s: says %s although the stream is open", event, got)
			}
			f.quiet(t, 40*time.Second) // once for each countdown: the watchdog has the rest
		})
	}
}

func TestACountdownWithNewsAsksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := open(t)
		stream := f.next(t).stream(t)
		stream.event("retrying", retryingIn30s)
		pass(32 * time.Second)
		stream.event("processing", "{}")
		f.quiet(t, 40*time.Second)
		if left, ok := s.Status().RetryIn(); ok {
			t.Errorf("still counts down: %v", left)
		}
	})
}

// The server ends streams by itself, and says with an event of its own that a resume
// worked when there is no news: such ends are not failures.
func TestPlannedEndsDoNotGrowTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, f := open(t)
		for range 5 {
			stream := f.next(t).stream(t)
			stream.send("retry: 500\n")
			stream.event("resumed", "{}")
			stream.send(": max_age\n")
			stream.end()
			start := time.Now()
			f.next(t).reply(503, "")
			if waited := time.Since(start); waited > 625*time.Millisecond {
				t.Fatalf("waited %v, want 500 ms and at most a quarter more", waited)
			}
		}
	})
}

func TestBackoffDoublesAndIsStretchedAtRandom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, f := open(t)
		f.next(t).reply(503, "")
		stretched := false
		for _, delay := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
			delay *= time.Second
			start := time.Now()
			f.next(t).reply(503, "")
			waited := time.Since(start)
			if waited < delay || waited > delay*5/4 {
				t.Errorf("waited %v, want %v and at most a quarter more", waited, delay)
			}
			stretched = stretched || waited > delay
		}
		if !stretched {
			t.Error("no pause was stretched: clients would come back all at once")
		}
	})
}

func TestBackoffBeginsWithWhatTheServerAsksFor(t *testing.T) {
	for after, seconds := range map[string][2]time.Duration{"10": {10, 20}, "1": {1, 2}, "0": {1, 2}, "99999999999": {30, 30}} {
		for _, status := range []int{429, 503} {
			synctest.Test(t, func(t *testing.T) {
				_, f := open(t)
				f.next(t).reply(status, "", "Retry-After", after)
				for _, want := range seconds {
					want *= time.Second
					start := time.Now()
					f.next(t).reply(503, "")
					if waited := time.Since(start); waited < want || waited > want*5/4 {
						t.Errorf("%d with Retry-After %s: waited %v, want %v and at most a quarter more", status, after, waited, want)
					}
				}
			})
		}
	}
}

func TestBackoffStartsOverAfterAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, f := open(t)
		f.next(t).reply(503, "")
		f.next(t).reply(503, "")
		stream := f.next(t).stream(t)
		stream.event("processing", "{}")
		stream.breakOff()
		start := time.Now()
		f.next(t).reply(204, "")
		if waited := time.Since(start); waited > 1250*time.Millisecond {
			t.Errorf("waited %v after a stream that worked", waited)
		}
	})
}

func TestIdleAsksAgainAfterExactlyTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, f := open(t)
		stream := f.next(t).stream(t)
		stream.event("idle", "{}")
		stream.end()
		start := time.Now()
		f.next(t).reply(204, "")
		if waited := time.Since(start); waited != 2*time.Second {
			t.Errorf("waited %v", waited)
		}
	})
}

func TestNothingIsAskedAfterTheEnd(t *testing.T) {
	for _, event := range []string{"completed", "error"} {
		t.Run(event, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, f := open(t)
				request := f.next(t)
				request.stream(t).event(event, "{}")
				if request.Context().Err() == nil {
					t.Error("the stream is still open")
				}
				s.Foreground()
				f.quiet(t, time.Hour)
			})
		})
	}
}

// A body may hold bytes that have arrived before the stream was dropped.
func TestAnOlderStreamIsNoLongerHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := open(t)
		old, body := f.next(t).deafStream(t)
		defer body.Close()
		old.send("id: 1\nevent: processing\ndata: {}\n\n")
		s.Foreground()
		request := f.next(t)
		if got := request.Header.Get("Last-Event-ID"); got != "1" {
			t.Errorf("resumes after %q", got)
		}
		request.stream(t).send("id: 5\nevent: retrying\ndata: {}\n\n")
		old.send("id: 2\nevent: completed\ndata: {}\n\n")
		if got := s.Status(); got.Phase != tidings.Retrying || got.LastEventID != "5" {
			t.Errorf("phase %s after %q: the old stream was heard", got.Phase, got.LastEventID)
		}
	})
}

// What was read together with an error is still told, every time.
func TestACompletedRightBehindAnErrorCounts(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			s, f := open(t)
			f.next(t).stream(t).send("event: error\ndata: {}\n\nevent: completed\ndata: {}\n\n")
			if got := s.Status().Phase; got != tidings.Done {
				t.Errorf("phase %s", got)
			}
		})
	}
}

func TestForegroundLeavesOneStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := open(t)
		var requests []*fakeRequest
		for range 50 {
			request := f.next(t)
			request.stream(t)
			requests = append(requests, request)
			synctest.Wait()
			s.Foreground()
		}
		last := f.next(t)
		for i, request := range requests {
			if request.Context().Err() == nil {
				t.Errorf("stream %d is still open", i)
			}
		}
		last.stream(t)
	})
}

func TestALineWithoutEndEndsTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := open(t)
		stream := f.next(t).stream(t)
		stream.send("data: " + strings.Repeat("x", tidings.DefaultLimit-100))
		if got := s.Status().Connection; got != tidings.Open {
			t.Fatalf("%s below the limit", got)
		}
		stream.send(strings.Repeat("x", 100))
		if got := s.Status().Connection; got != tidings.Reconnecting {
			t.Errorf("%s beyond the limit", got)
		}
	})
}

func TestWithoutATokenItTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := []string{"", "good"}
		_, f := open(t, tidings.WithTokenSource(func(context.Context, bool) (string, error) {
			token := tokens[0]
			if token == "" {
				tokens = tokens[1:]
				return "", errors.New("no network")
			}
			return token, nil
		}))
		if got := f.next(t).Header.Get("Authorization"); got != "Bearer good" {
			t.Errorf("Authorization %q", got)
		}
	})
}

func TestTheEndOfTheContextClosesASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, f := newClient(t)
		ctx, cancel := context.WithCancel(t.Context())
		s := client.Open(ctx, "abc-123")
		request := f.next(t)
		request.stream(t)
		cancel()
		for range s.Updates() { // ends
		}
		if request.Context().Err() == nil {
			t.Error("the stream is still open")
		}
		if err := s.Retry(t.Context()); !errors.Is(err, tidings.ErrClosed) {
			t.Errorf("Retry after the end: %v", err)
		}
	})
}
