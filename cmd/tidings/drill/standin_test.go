package drill

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// ask is one call as the vendor's SDK would make it.
func ask(ctx context.Context, s *standin, op string) (status int, body string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/chat/completions", strings.NewReader(`{"messages":[{"content":"This is operation `+op+`."}]}`))
	if err != nil {
		return 0, "", err
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}

func opened(t *testing.T) *standin {
	t.Helper()
	s, err := newStandin()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	s.pace(0, 0)
	return s
}

// soon bounds a wait for what is under way already.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// The stand-in counts on its own: a caller that calls more often than it may is
// seen, whatever it says about itself.
func TestTheStandInSeesWhoCallsTooOften(t *testing.T) {
	s := opened(t)
	set := quick()
	set.calls, set.attempts, set.allowance, set.concurrency = 1, 2, 2, 1
	o := &op{ID: numbered("S4-53", 0)}
	for calls := 1; calls <= 3; calls++ {
		if status, _, err := ask(t.Context(), s, o.ID); status != 200 || err != nil {
			t.Fatal(status, err)
		}
		e := evidence{row: "S4-53", set: set, ops: []*op{o}, calls: s.record()}
		if got := e.callsPerOperation(); got.Pass != (calls <= 2) {
			t.Errorf("after %d calls: %+v", calls, got)
		}
		if got := e.atTheSameTime(); !got.Pass {
			t.Errorf("calls one after the other: %+v", got)
		}
	}

	// And two callers at the same time, where one is allowed.
	s.feel(func(string, int) step { return hangs })
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { _, _, _ = ask(ctx, s, o.ID) })
	}
	if err := s.until(soon(t), "both", func(all []received) bool { return len(all) == 5 }); err != nil {
		t.Fatal(err)
	}
	cancel()
	wg.Wait()
	e := evidence{row: "S4-54", set: set, ops: []*op{o}, calls: s.record()}
	if got := e.atTheSameTime(); got.Pass {
		t.Errorf("two at the same time: %+v", got)
	}
}

// Received is received, and work is work: what it has no room for counts as a call,
// and what its caller never heard of as an effect.
func TestTheStandInCountsWhatNobodyHeardOf(t *testing.T) {
	s := opened(t)
	op := numbered("S4-55", 0)
	s.script(op, works)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _, _, _ = ask(ctx, s, op) })
	if err := s.until(soon(t), "its work", func(all []received) bool { return len(all) == 1 && all[0].Done }); err != nil {
		t.Fatal(err)
	}
	cancel()
	wg.Wait()
	s.carry(0)
	if status, _, err := ask(t.Context(), s, op); status != 529 || err != nil {
		t.Fatal(status, err)
	}
	left := func(all []received) bool { return len(all) == 2 && !all[0].Left.IsZero() && !all[1].Left.IsZero() }
	if err := s.until(soon(t), "the end of both", left); err != nil {
		t.Fatalf("%v: %+v", err, s.record())
	}
	all := s.record()
	if all[0].N != 1 || !all[0].Done || all[1].N != 2 || all[1].Step != full || all[1].Done {
		t.Errorf("recorded %+v", all)
	}
}

func TestTheStandInPlaysItsSteps(t *testing.T) {
	s := opened(t)
	op := numbered("S4-58", 1)
	s.script(op, "503", loses, cuts, answers)
	if status, _, err := ask(t.Context(), s, op); status != 503 || err != nil {
		t.Errorf("503: %d %v", status, err)
	}
	if _, _, err := ask(t.Context(), s, op); err == nil {
		t.Error("a lost answer arrives")
	}
	if status, body, err := ask(t.Context(), s, op); status != 200 || !errors.Is(err, io.ErrUnexpectedEOF) || body == "" {
		t.Errorf("cut: %d %q %v", status, body, err)
	}
	for range 2 { // the last step repeats
		if status, body, err := ask(t.Context(), s, op); status != 200 || err != nil || !strings.Contains(body, "chat.completion") {
			t.Errorf("ok: %d %q %v", status, body, err)
		}
	}
	done := 0
	for _, c := range s.record() {
		if c.Op != op || c.Left.IsZero() {
			t.Errorf("recorded %+v", c)
		}
		if c.Done {
			done++
		}
	}
	if done != 4 {
		t.Errorf("%d pieces of work done, want 4: lost and broken answers are work", done)
	}
	s.carry(0)
	if status, _, _ := ask(t.Context(), s, op); status != 529 {
		t.Errorf("without capacity: %d", status)
	}
}
