package model

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/jobs/retry"
)

func TestLeastTokens(t *testing.T) {
	tests := []struct {
		text string
		want int64
	}{
		{"", 0},
		{" \n\t ", 0},
		{"one", 1},
		{"one two\nthree", 3},
		{"Donaudampfschifffahrtsgesellschaft", 3},
		{strings.Repeat("字", 100), 19},
	}
	for _, tt := range tests {
		if got := LeastTokens(tt.text); got != tt.want {
			t.Errorf("%q: at least %d tokens, want %d", tt.text, got, tt.want)
		}
	}
}

// untouched is a provider that must not be asked.
type untouched struct{ t *testing.T }

func (untouched) Dependency() string { return "openai/small" }

func (u untouched) Generate(context.Context, Request) (Response, error) {
	u.t.Error("the provider was asked")
	return Response{}, nil
}

// An input that cannot fit is refused before anything is spent on it: no ticket,
// no reservation, no call.
func TestInputOverTheWindow(t *testing.T) {
	prices, err := ListPrices().With([]byte(`{"prices":[{"dependency":"openai/small","input":1,"output":2,"window":100}]}`))
	if err != nil {
		t.Fatal(err)
	}
	r := NewRetrying(untouched{t}, retry.Defaults(), func() float64 { return 0 }).Priced(prices)
	hooks := Hooks{Before: func(context.Context, int) error { t.Error("a ticket was asked for"); return nil }}
	_, err = r.Generate(t.Context(), Request{System: "Sum up.", Prompt: strings.Repeat("word ", 99)}, time.Time{}, hooks)
	var e *Error
	if !errors.As(err, &e) || e.Kind != retry.InvalidInput || e.Kind.Queued() {
		t.Fatalf("got %v, want invalid input", err)
	}
	if got, want := e.Error(), "model: invalid_input (input_too_long): the input has at least 101 tokens, the model takes 100"; got != want {
		t.Errorf("says %q, want %q", got, want)
	}
	if tooLong(100, Request{System: "Sum up.", Prompt: strings.Repeat("word ", 98)}) != nil {
		t.Error("what just fits is refused")
	}
	if tooLong(0, Request{Prompt: strings.Repeat("word ", 1_000_000)}) != nil {
		t.Error("refused without a known window")
	}
}

func TestOwnPrices(t *testing.T) {
	list := ListPrices()
	own, err := list.With([]byte(`{"version":"ours-1","prices":[
		{"dependency":"openai/gpt-4.1","input":1,"cached":0.5,"output":4},
		{"dependency":"openai/mine","input":10,"output":20},
		{"dependency":"openai/mine","above":1000,"input":20,"output":40}]}`))
	if err != nil {
		t.Fatal(err)
	}
	n := int64(1_000_000)
	u := Usage{InputTokens: &n, OutputTokens: &n}
	for dependency, want := range map[string]float64{
		"openai/gpt-4.1": 5, "openai/mine": 60, "openai/gpt-4.1-mini": 2, "local": 0,
	} {
		if got := own.Cost(dependency, u); got == nil || *got != want {
			t.Errorf("%s costs %v, want %v", dependency, got, want)
		}
	}
	if own.Version() != "ours-1" || list.Version() == "ours-1" {
		t.Errorf("versions are %q and %q", own.Version(), list.Version())
	}
	if got := list.Cost("openai/gpt-4.1", u); *got != 10 {
		t.Errorf("the list itself changed: %v", *got)
	}
	if windowOf(list.of("openai/gpt-4o")) != 128_000 || windowOf(own.of("openai/gpt-4.1")) != 0 {
		t.Error("a window is not where it was put")
	}
	for name, file := range map[string]string{
		"no JSON":       `prices`,
		"misspelt":      `{"prices":[{"dependency":"a/b","input":1,"ouput":2}]}`,
		"nameless":      `{"prices":[{"input":1}]}`,
		"negative":      `{"prices":[{"dependency":"a/b","input":-1}]}`,
		"twice":         `{"prices":[{"dependency":"a/b","input":1},{"dependency":"a/b","input":2}]}`,
		"step at first": `{"prices":[{"dependency":"a/b","above":5,"input":1}]}`,
	} {
		if _, err := list.With([]byte(file)); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// The table does not claim more than it knows.
func TestPriceNote(t *testing.T) {
	for _, word := range []string{"as known on that day", "TIDINGS_PRICES"} {
		if !strings.Contains(string(pricesJSON), word) {
			t.Errorf("the note does not say %q", word)
		}
	}
}
