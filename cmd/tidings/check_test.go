package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/jobs/model"
)

// In a bubble the pauses between the calls pass on a virtual clock (S3-32).
func TestSelfChecksPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		line, _, err := read(t, nil, "check", "--dry-run")
		if err != nil {
			t.Fatal(err)
		}
		if code := check(t.Context(), &line.Check, &out); code != 0 {
			t.Errorf("exit code %d", code)
		}
		for _, want := range []string{"OK  retry", "OK  cost lines", "OK  summary", "all OK"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q is missing in:\n%s", want, out.String())
			}
		}
	})
}

func TestCheckPrintsTheWorstCase(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want []string
	}{
		{nil, []string{"12 calls: 4 attempts of 3", "210 s", "395 s, and is given 600 s", "575 s, and is given 900 s", "0.00 USD"}},
		// The sequence of the original: 4 calls, 30 s, 4 calls, 60 s, 4 calls.
		{map[string]string{"TIDINGS_CALLS": "4", "TIDINGS_QUEUE_ATTEMPTS": "3"}, []string{"12 calls: 3 attempts of 4", "90 s"}},
		// The allowance holds whatever the other settings say.
		{map[string]string{"TIDINGS_CALLS": "5"}, []string{"12 calls: 4 attempts of 5"}},
		{map[string]string{"TIDINGS_JOB_COST": "0.25"}, []string{"may cost    0.25 USD"}},
		{map[string]string{"TIDINGS_JOB_COST": "0.25", "TIDINGS_MODEL": "openai/mine", "OPENAI_API_KEY": "k"},
			[]string{"TIDINGS_JOB_COST does not hold", "TIDINGS_PRICES"}},
		// 8,192 tokens out cost 0.12288 USD, a summary's 6,144 no more than 0.09216.
		{map[string]string{"TIDINGS_JOB_COST": "0.1", "TIDINGS_MODEL": "anthropic/claude-sonnet-4-5", "ANTHROPIC_API_KEY": "k"},
			[]string{"may cost    0.1 USD; guidance never gets a call: its longest answer alone may cost more\n"}},
	} {
		line, _, err := read(t, c.env, "check")
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if code := check(t.Context(), &line.Check, &out); code != 0 {
			t.Errorf("exit code %d", code)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%v: %q is missing in:\n%s", c.env, want, out.String())
			}
		}
	}
}

func TestWorstCostIsUnknownWithoutAPrice(t *testing.T) {
	if got := worstCost(model.ListPrices(), "anthropic/never-heard-of", 12); !strings.Contains(got, "unknown") {
		t.Errorf("got %q", got)
	}
}

// TestTheWorstCostIsNoGuessBelowIt: neither a text in a script of short tokens
// nor a price that rises with the input's length costs more.
func TestTheWorstCostIsNoGuessBelowIt(t *testing.T) {
	prices, err := model.ListPrices().With([]byte(`{"version":"mine","prices":[{"dependency":"openai/mine","input":1,"output":0},
		{"dependency":"openai/mine","above":272000,"input":2,"output":0},{"dependency":"openai/small","input":1,"output":0,"window":200000}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for dependency, want := range map[string]string{
		"openai/mine":  "2.10 USD with 524288 tokens in and 8192 out per call (prices of mine)",
		"openai/small": "0.40 USD with 200000 tokens in and 8192 out per call (prices of mine)",
	} {
		if got := worstCost(prices, dependency, 2); got != want {
			t.Errorf("%s: %q, want %q", dependency, got, want)
		}
	}
}

func TestTheAgeOfPricesIsSaid(t *testing.T) {
	now := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	for version, want := range map[string]string{
		"2027-02-01": "", "2026-11-29": ", 92 days ago: compare them with the provider's", "ours-2026-12": "", "": "",
	} {
		if got := age(version, now); got != want {
			t.Errorf("%q: %q, want %q", version, got, want)
		}
	}
}
