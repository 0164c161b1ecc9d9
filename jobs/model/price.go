package model

import (
	_ "embed"
	"encoding/json"
	"regexp"
)

//go:embed prices.json
var pricesJSON string

// price is a row of prices.json, in US dollars per million tokens.
type price struct {
	Dependency string `json:"dependency"`
	// Above is the number of input tokens beyond which the row applies.
	Above  int64   `json:"above"`
	Input  float64 `json:"input"`
	Cached float64 `json:"cached"`
	Output float64 `json:"output"`
}

func prices() (version string, rows []price) {
	var table struct {
		Version string  `json:"version"`
		Prices  []price `json:"prices"`
	}
	if err := json.Unmarshal([]byte(pricesJSON), &table); err != nil {
		panic("model: prices.json, compiled in: " + err.Error())
	}
	return table.Version, table.Prices
}

// PricesVersion is the day the price table was last compared with the
// providers' lists, such as "2026-11-29".
func PricesVersion() string {
	version, _ := prices()
	return version
}

// Cost is what a call to a dependency costs in US dollars: input, cached and
// output tokens at their own list prices (S3-27). It is nil if the model has no
// price or the number of input or output tokens is unknown; what costs nothing
// costs 0 anyway. Unknown cached tokens count as none, so the cost is then an
// upper bound. A dated name ("…-20250929", "…-2025-08-07") has the price of its
// model. The table is parsed at each call, some microseconds beside a request
// of seconds.
func Cost(dependency string, u Usage) *float64 {
	p, ok := priceOf(dependency, u.InputTokens)
	if !ok {
		return nil
	}
	var usd float64
	if p.Input == 0 && p.Cached == 0 && p.Output == 0 {
		return &usd
	}
	if u.InputTokens == nil || u.OutputTokens == nil {
		return nil
	}
	var cached int64
	if u.CachedTokens != nil {
		cached = min(max(*u.CachedTokens, 0), *u.InputTokens)
	}
	const million = 1e6
	usd = (float64(*u.InputTokens-cached)*p.Input + float64(cached)*p.Cached + float64(*u.OutputTokens)*p.Output) / million
	return &usd
}

// priceOf finds the row with the highest Above that the input passes. Only
// unknown input leaves the lowest, which is enough to tell what is free.
func priceOf(dependency string, input *int64) (found price, ok bool) {
	dependency = regexp.MustCompile(`-(\d{8}|\d{4}-\d{2}-\d{2})$`).ReplaceAllString(dependency, "")
	_, rows := prices()
	for _, p := range rows {
		passes := p.Above == 0 || input != nil && *input > p.Above
		if p.Dependency == dependency && passes && (!ok || p.Above > found.Above) {
			found, ok = p, true
		}
	}
	return found, ok
}
