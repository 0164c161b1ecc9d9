package modeltest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/retry"
)

// scenarioStep is what Scripted plays for a scenario.
func scenarioStep(s Scenario) Step {
	switch s {
	case Limited:
		return RateLimited(SuiteWait)
	case Overloaded:
		return Status(503)
	case BadRequest:
		return Status(400)
	case BadKey:
		return Status(401)
	case Broken:
		return Status(500)
	case Hangs:
		return Hang()
	case Cuts:
		return Cut()
	}
	return OK()
}

func TestScriptedPassesTheSuite(t *testing.T) {
	Suite(t, func(t *testing.T, s Scenario) Subject {
		p := NewScripted(scenarioStep(s))
		return Subject{Provider: p, Calls: p.Calls}
	})
}

// bad is a provider with one fault.
type bad struct {
	*Scripted
	fault func(ctx context.Context, p *Scripted) (model.Response, error)
}

func (b bad) Generate(ctx context.Context, _ model.Request) (model.Response, error) {
	return b.fault(ctx, b.Scripted)
}

// Each fault is found in the cases that are meant to find it.
func TestSuiteComplains(t *testing.T) {
	tests := []struct {
		name  string
		fault func(ctx context.Context, p *Scripted) (model.Response, error)
		in    string // names of the cases
		says  string
	}{
		{"retries by itself", func(ctx context.Context, p *Scripted) (model.Response, error) {
			if resp, err := p.Generate(ctx, model.Request{}); err == nil {
				return resp, err
			}
			return p.Generate(ctx, model.Request{})
		}, "503,400,429 with a wait hint,401,500,cut,hangs until its time limit", "2 requests arrived"},
		{"sends nothing", func(context.Context, *Scripted) (model.Response, error) {
			return model.Response{Content: []byte(`{}`)}, nil
		}, "answers,answers many at once", "0 requests arrived"},
		{"hides failures", func(ctx context.Context, p *Scripted) (model.Response, error) {
			p.Generate(ctx, model.Request{})
			return model.Response{Content: []byte(`{}`)}, nil
		}, "503,cut,hangs until it is cancelled,is cancelled before it starts", "succeeded, want a failure"},
		{"returns the vendor's error", func(ctx context.Context, p *Scripted) (model.Response, error) {
			p.Generate(ctx, model.Request{})
			return model.Response{}, errors.New("vendor")
		}, "503,401,cut,hangs until its time limit", "want a *model.Error"},
		{"leaks", func(ctx context.Context, p *Scripted) (model.Response, error) {
			_, err := p.Generate(ctx, model.Request{})
			return model.Response{}, fmt.Errorf("%s: %w", CanaryKey, err)
		}, "503,cut,hangs until it is cancelled", "contains " + CanaryKey},
		{"leaks by type", func(ctx context.Context, p *Scripted) (model.Response, error) {
			return model.Response{}, &model.Error{Kind: retry.InvalidInput, Status: 400, Type: CanaryPrompt}
		}, "400", "contains " + CanaryPrompt},
		{"serves partial output", func(ctx context.Context, p *Scripted) (model.Response, error) {
			_, err := p.Generate(ctx, model.Request{})
			return model.Response{Content: []byte(`{`)}, err
		}, "cut", "gave content"},
		{"gives broken JSON", func(ctx context.Context, p *Scripted) (model.Response, error) {
			_, err := p.Generate(ctx, model.Request{})
			return model.Response{Content: []byte(`{`)}, err
		}, "answers", "no JSON"},
		{"loses hints", func(ctx context.Context, p *Scripted) (model.Response, error) {
			p.Generate(ctx, model.Request{})
			return model.Response{}, &model.Error{Kind: retry.RateLimited, Status: 429}
		}, "429 with a wait hint", "wait hint is 0s"},
		{"takes everything for overload", func(ctx context.Context, p *Scripted) (model.Response, error) {
			p.Generate(ctx, model.Request{})
			return model.Response{}, &model.Error{Kind: retry.Overloaded, Status: 529}
		}, "400,401,500,cut,hangs until its time limit,hangs until it is cancelled,is cancelled before it starts", "kind is overloaded"},
		{"is deaf", func(ctx context.Context, p *Scripted) (model.Response, error) {
			<-ctx.Done()
			time.Sleep(limit + patience + time.Second)
			return model.Response{}, &model.Error{Kind: retry.Timeout}
		}, "hangs until its time limit", "after its context had ended"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, c := range cases() {
				if !strings.Contains(","+tt.in+",", ","+c.name+",") {
					continue
				}
				synctest.Test(t, func(t *testing.T) {
					p := NewScripted(scenarioStep(c.scenario))
					got := strings.Join(c.check(Subject{Provider: bad{p, tt.fault}, Calls: p.Calls}), "; ")
					if !strings.Contains(got, tt.says) {
						t.Errorf("%s: complaints are %q, want %q among them", c.name, got, tt.says)
					}
				})
			}
		})
	}
}

func TestScriptedPlaysItsStepsAndRepeatsTheLast(t *testing.T) {
	p := NewScripted(Status(503), Answer(`1`), Status(400))
	var got []int
	for range 5 {
		_, err := p.Generate(t.Context(), model.Request{})
		var e *model.Error
		if errors.As(err, &e); e != nil {
			got = append(got, e.Status)
		} else {
			got = append(got, 200)
		}
	}
	if fmt.Sprint(got) != "[503 200 400 400 400]" {
		t.Errorf("played %v", got)
	}
	p.Play(OK())
	if _, err := p.Generate(t.Context(), model.Request{}); err != nil || p.Calls() != 6 {
		t.Errorf("after Play: %v, %d calls", err, p.Calls())
	}
}

func TestScriptedRecordsWhatArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewScripted(OK().After(5*time.Second).Using(7, 2), Hang())
		ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		start := time.Now()
		resp, err := p.Generate(ctx, model.Request{Topic: "a"})
		if err != nil || time.Since(start) != 5*time.Second || *resp.Usage.OutputTokens != 2 {
			t.Errorf("got %+v, %v after %s", resp, err, time.Since(start))
		}
		if _, err = p.Generate(ctx, model.Request{Topic: "b"}); err == nil || time.Since(start) != 9*time.Second {
			t.Errorf("a hanging call ended after %s with %v", time.Since(start), err)
		}
		got := p.Received()
		if len(got) != 2 || got[0].Timeout != 9*time.Second || got[1].Timeout != 4*time.Second || got[1].Request.Topic != "b" ||
			got[1].At.Sub(start) != 5*time.Second {
			t.Errorf("received %+v", got)
		}
	})
}

func TestScriptedErrorsAreNotShared(t *testing.T) {
	p := NewScripted(Status(503))
	_, first := p.Generate(t.Context(), model.Request{})
	var e *model.Error
	errors.As(first, &e)
	e.RetryAfter = time.Hour
	_, second := p.Generate(t.Context(), model.Request{})
	if errors.As(second, &e); e.RetryAfter != 0 {
		t.Error("one call's error changed the next one's")
	}
}

func TestRandomIsSeededAndSafeForConcurrentUse(t *testing.T) {
	const calls = 3000
	failures := func(seed uint64) (n int) {
		p := NewRandom(seed, 1.0/3, Status(503))
		var wg sync.WaitGroup
		var mu sync.Mutex
		for range 10 {
			wg.Go(func() {
				for range calls / 10 {
					if _, err := p.Generate(t.Context(), model.Request{}); err != nil {
						mu.Lock()
						n++
						mu.Unlock()
					}
				}
			})
		}
		wg.Wait()
		if p.Calls() != calls {
			t.Errorf("counted %d calls of %d", p.Calls(), calls)
		}
		return n
	}
	a, again, b := failures(1), failures(1), failures(2)
	if a != again || a == b {
		t.Errorf("seeds 1, 1, 2 gave %d, %d, %d failures", a, again, b)
	}
	if a < calls/3*9/10 || a > calls/3*11/10 {
		t.Errorf("%d of %d calls failed, want about a third", a, calls)
	}
}
