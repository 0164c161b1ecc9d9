package main

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidings/tidings/events/eventstest"
)

// These tests are about the program's own life: how it starts or refuses to,
// how it ends, and the commands that are not a service.

func TestRefusesToStart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		env  map[string]string
		says string
	}{
		{[]string{"serve"}, nil, "serve needs TIDINGS_REDIS_URL"},
		{[]string{"work"}, nil, "work needs TIDINGS_REDIS_URL"},
		{[]string{"all"}, nil, "all needs TIDINGS_REDIS_URL"},
		{[]string{"all"}, map[string]string{"TIDINGS_REDIS_URL": "redis://127.0.0.1:1"}, "all needs TIDINGS_MODEL"},
		{[]string{"dev"}, map[string]string{"TIDINGS_CALLS": "6"}, "1 to 5"},
		{[]string{"dev"}, map[string]string{"TIDINGS_DEADLINE": "1m"}, "contradict"},
		{[]string{"check"}, map[string]string{"TIDINGS_RETENTION": "5m"}, "TIDINGS_RETENTION"},
		{[]string{"dev", "--nonsense"}, nil, "--nonsense"},
		{[]string{"watch"}, nil, "session"},
		{nil, nil, "expected one of"},
	} {
		p := command(t, c.env, c.args...).start()
		if code := p.code(); code != exitSettings || !strings.Contains(p.err.String(), c.says) {
			t.Errorf("%v %v: exit code %d, %q is missing in: %s", c.args, c.env, code, c.says, p.err)
		}
	}
}

func TestATakenPortIsSaid(t *testing.T) {
	t.Parallel()
	first := serve(t, nil, "dev")
	p := command(t, map[string]string{"TIDINGS_LISTEN": strings.TrimPrefix(first.api, "http://"), "TIDINGS_OPS_LISTEN": "127.0.0.1:0"}, "dev").start()
	if code := p.code(); code != exitFailed || !strings.Contains(p.err.String(), "TIDINGS_LISTEN") {
		t.Errorf("exit code %d: %s", code, p.err)
	}
}

func TestCheckAndDryRun(t *testing.T) {
	t.Parallel()
	p := command(t, nil, "check").start()
	if code := p.code(); code != 0 || !strings.Contains(p.out.String(), "12 calls") || strings.Contains(p.out.String(), "OK") {
		t.Errorf("check: exit code %d\n%s", code, p.out)
	}
	p = command(t, nil, "check", "--dry-run").start()
	if code := p.code(); code != 0 || !strings.HasSuffix(p.out.String(), "all OK\n") || strings.Count(p.out.String(), "\nOK ") != 3 {
		t.Errorf("check --dry-run: exit code %d\n%s", code, p.out)
	}
}

func TestHelpNamesEverySetting(t *testing.T) {
	t.Parallel()
	p := command(t, nil, "dev", "--help").start()
	if code := p.code(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, name := range append([]string{"TIDINGS_CALLS", "AI_MODEL_TIMEOUT_SECONDS", "TIDINGS_DOCUMENT_RETENTION"}, secretNames()...) {
		if !strings.Contains(p.out.String(), name) {
			t.Errorf("%s is missing in\n%s", name, p.out)
		}
	}
}

func TestSigtermClosesStreamsCleanlyAndFinishesTheCall(t *testing.T) {
	t.Parallel()
	env := map[string]string{"TIDINGS_REDIS_URL": eventstest.StartRedis(t).URL(), "TIDINGS_DRAIN": "1s"}
	p := serve(t, env, "dev")
	var streams []*stream
	for i := range 5 {
		s := openStream(t, p.session("idle-"+strconv.Itoa(i))+"/status", "")
		s.until("idle")
		streams = append(streams, s)
	}
	working := openStream(t, p.session("abc-123")+"/status", "")
	p.submit("abc-123", "ok:2s")
	cursor := last(working.until("processing")).id

	p.signal(syscall.SIGTERM)
	for i, s := range append(streams, working) {
		s.rest()
		if s.err != nil {
			t.Errorf("stream %d was broken off: %v", i, s.err)
		}
		if ms, err := strconv.Atoi(s.retry); err != nil || ms < 500 || ms > 5000 {
			t.Errorf("stream %d ends with retry: %q, want 500 to 5000", i, s.retry)
		}
	}
	if code := p.code(); code != 0 {
		t.Errorf("exit code %d", code)
	}

	// Whoever comes back finds what the last process finished on its way out.
	again := openStream(t, serve(t, env, "dev").session("abc-123")+"/status", cursor)
	if got := texts(again.rest()); got != "completed completed" {
		t.Errorf("after the restart %s", got)
	}
}

func TestReadinessGoesOffFirst(t *testing.T) {
	t.Parallel()
	p := serve(t, map[string]string{"TIDINGS_DRAIN": "15s"}, "dev")
	for _, id := range []string{"a", "b"} { // one is closed at once, the other in the middle of the window
		openStream(t, p.session(id)+"/status", "").until("idle")
	}
	p.signal(syscall.SIGTERM)
	for deadline := time.Now().Add(wait); ; {
		res, err := http.Get(p.ops + "/readyz")
		if err != nil {
			t.Fatalf("the operators' port went before readiness was off: %v", err)
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode == http.StatusServiceUnavailable && strings.Contains(string(body), "draining") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("still %d %s", res.StatusCode, body)
		}
	}
	p.signal(syscall.SIGTERM) // the second one does not wait
	if code := p.code(); code != -1 {
		t.Errorf("exit code %d, want death by the signal", code)
	}
}

func TestAKilledWorkersJobGoesOn(t *testing.T) {
	t.Parallel()
	env := short(map[string]string{"TIDINGS_REDIS_URL": eventstest.StartRedis(t).URL(), "TIDINGS_LEASE": "1s"})
	watching := serve(t, env, "serve")
	s := openStream(t, watching.session("abc-123")+"/status", "")
	s.until("idle")
	dying := serve(t, env, "dev")
	dying.submit("abc-123", "hang")
	s.until("processing")
	dying.signal(syscall.SIGKILL)
	dying.code()
	serve(t, env, "work")
	if got := texts(s.rest()); got != "retrying queue worker_lost, processing, completed completed" {
		t.Errorf("after the worker's death %s", got)
	}
}

func TestWatchThroughRetriesAndARestart(t *testing.T) {
	t.Parallel()
	env := short(map[string]string{"TIDINGS_REDIS_URL": eventstest.StartRedis(t).URL(), "TIDINGS_DRAIN": "0s"})
	p := serve(t, env, "dev")
	w := command(t, nil, "watch", "abc-123", "--lang=nb", "--url="+p.api).start()
	w.says("idle")
	p.submit("abc-123", "timeout", "ok:3s")
	w.says("Prøver igjen")
	w.says("attempt 2/4")

	// The server goes away in the middle and comes back on the same port.
	p.signal(syscall.SIGTERM)
	p.code()
	env["TIDINGS_LISTEN"] = strings.TrimPrefix(p.api, "http://")
	serve(t, env, "dev")
	if code := w.code(); code != watchedCompleted {
		t.Errorf("exit code %d", code)
	}
	if n := strings.Count(w.out.String(), "completed"); n != 1 {
		t.Errorf("completed is shown %d times:\n%s", n, w.out)
	}
}

func TestWatchEndsWithOneAtAnError(t *testing.T) {
	t.Parallel()
	p := serve(t, nil, "dev")
	w := command(t, nil, "watch", "abc-123", "--url="+p.api).start()
	w.says("idle")
	p.submit("abc-123", "401")
	if code := w.code(); code != watchedError || !strings.Contains(w.out.String(), "(auth)") {
		t.Errorf("exit code %d\n%s", code, w.out)
	}
	w = command(t, nil, "watch", "not an id", "--url="+p.api).start()
	if code := w.code(); code != watchFailed {
		t.Errorf("a bad id: exit code %d\n%s", code, w.out)
	}
}

func last(frames []frame) frame { return frames[len(frames)-1] }
