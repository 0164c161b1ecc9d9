package model_test

import (
	"math"
	"regexp"
	"testing"

	"github.com/tidings/tidings/jobs/model"
)

func usage(input, cached, output int64) model.Usage {
	return model.Usage{InputTokens: &input, CachedTokens: &cached, OutputTokens: &output}
}

func TestCost(t *testing.T) {
	noCache := usage(1_000_000, 0, 0)
	noCache.CachedTokens = nil
	tests := []struct {
		name, dependency string
		usage            model.Usage
		want             float64 // below 0: unknown
	}{
		{"input", "openai/gpt-4.1", usage(1_000_000, 0, 0), 2},
		{"output apart from input", "openai/gpt-4.1", usage(0, 0, 1_000_000), 8},
		{"cached is part of input", "openai/gpt-4.1", usage(1_000_000, 400_000, 0), 1.2 + 0.2},
		{"all", "anthropic/claude-haiku-4-5", usage(2000, 500, 300), 0.0015 + 0.00005 + 0.0015},
		{"nothing used", "openai/gpt-4.1", usage(0, 0, 0), 0},
		{"more cached than input", "openai/gpt-4.1", usage(1_000_000, 9_000_000, 0), 0.5},
		{"negative cached", "openai/gpt-4.1", usage(1_000_000, -5, 0), 2},
		{"cached unknown", "openai/gpt-4.1", withOutput(noCache, 0), 2},
		{"at the step", "gemini/gemini-2.5-pro", usage(200_000, 0, 0), 0.25},
		{"above the step", "gemini/gemini-2.5-pro", usage(200_001, 0, 1_000_000), 0.5000025 + 15},
		{"dated", "anthropic/claude-haiku-4-5-20251001", usage(1_000_000, 0, 0), 1},
		{"dated with dashes", "openai/gpt-4.1-2025-04-14", usage(1_000_000, 0, 0), 2},
		{"local", "local", usage(5000, 0, 900), 0},
		{"local, tokens unknown", "local", model.Usage{}, 0},

		{"unknown model", "openai/gpt-4.1-pro", usage(1, 1, 1), -1},
		{"unknown dependency", "scripted", usage(1, 1, 1), -1},
		{"no dependency", "", usage(1, 1, 1), -1},
		{"tokens unknown", "openai/gpt-4.1", model.Usage{}, -1},
		{"output unknown", "openai/gpt-4.1", model.Usage{InputTokens: noCache.InputTokens}, -1},
		{"input unknown", "openai/gpt-4.1", model.Usage{OutputTokens: noCache.InputTokens}, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := model.ListPrices().Cost(tt.dependency, tt.usage)
			switch {
			case tt.want < 0:
				if got != nil {
					t.Errorf("got %v, want unknown", *got)
				}
			case got == nil:
				t.Errorf("unknown, want %v", tt.want)
			case math.Abs(*got-tt.want) > 1e-9:
				t.Errorf("got %v, want %v", *got, tt.want)
			}
		})
	}
}

func withOutput(u model.Usage, n int64) model.Usage {
	u.OutputTokens = &n
	return u
}

func TestPricesVersion(t *testing.T) {
	if v := model.ListPrices().Version(); !regexp.MustCompile(`^20\d\d-\d\d-\d\d$`).MatchString(v) {
		t.Errorf("version is %q, want a day", v)
	}
}
