package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/tidings/tidings/events/eventstest"
)

// TestTheProgramGoesOnAfterAFailover: with nothing but the URL of Sentinels or of
// a Cluster it finds the new master, and it says when no replica has a job.
func TestTheProgramGoesOnAfterAFailover(t *testing.T) {
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		s := eventstest.StartSentinels(t)
		goesOn(t, s, s.URL)
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := eventstest.StartCluster(t)
		goesOn(t, c, c.URL)
	})
}

type topology interface {
	MasterOf(key string) *eventstest.Server
	FailedOver(old *eventstest.Server, key string)
	Detach(master *eventstest.Server)
	Attach()
}

func goesOn(t *testing.T, redis topology, url string) {
	const index = "tidings:{open}:index" // every submit needs it
	p := serve(t, short(map[string]string{"TIDINGS_REDIS_URL": url, "TIDINGS_WAIT_REPLICAS": "1"}), "all")
	// patiently asks again while Redis is away.
	patiently := func(method, session, body string, want int) http.Header {
		t.Helper()
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for end := time.Now().Add(wait); ; <-tick.C {
			code, header, got := call(t, method, p.session(session), body)
			if code == want {
				return header
			}
			if code != http.StatusServiceUnavailable && code != http.StatusNotFound || time.Now().After(end) {
				t.Fatalf("%s of %s: %d %v", method, session, code, got)
			}
		}
	}
	summary := func(session string) (replicated string) {
		t.Helper()
		header := patiently(http.MethodPost, session, `{"input":{"text":"`+someText+`"}}`, http.StatusAccepted)
		patiently(http.MethodGet, session, "", http.StatusOK)
		return header.Get("Tidings-Replicated")
	}

	if got := summary("before"); got != "" {
		t.Errorf("with replicas: Tidings-Replicated is %q", got)
	}
	master := redis.MasterOf(index)
	redis.Detach(master)
	if got := summary("alone"); got != "false" {
		t.Errorf("without replicas: Tidings-Replicated is %q", got)
	}
	redis.Attach()
	master.Kill()
	redis.FailedOver(master, index)
	elected := time.Now()
	summary("after")
	t.Logf("goes on %s after the election", time.Since(elected).Round(time.Millisecond))
	patiently(http.MethodGet, "before", "", http.StatusOK)
}
