package drill

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
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

// The stand-in counts on its own: a caller that calls more often than it may is
// seen, whatever it says about itself.
func TestS4_62_TheStandInSeesWhoCallsTooOften(t *testing.T) {
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
	}

	// And two callers at the same time, where one is allowed.
	s.feel(func(string, int) step { return hangs })
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { _, _, _ = ask(ctx, s, o.ID) })
	}
	if err := s.until(t.Context(), "both", func(all []received) bool { return len(all) == 5 }); err != nil {
		t.Fatal(err)
	}
	cancel()
	wg.Wait()
	e := evidence{row: "S4-54", set: set, ops: []*op{o}, calls: s.record()}
	if got := e.atTheSameTime(); got.Pass {
		t.Errorf("two at the same time: %+v", got)
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
