package model

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"regexp"
	"slices"
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
// model.
func Cost(dependency string, u Usage) *float64 { return costAt(pricesOf(dependency), u) }

// pricesOf is a dependency's rows, lowest Above first; none if it has no price.
// It parses the whole table, so Retrying keeps its result.
func pricesOf(dependency string) []price {
	dependency = regexp.MustCompile(`-(\d{8}|\d{4}-\d{2}-\d{2})$`).ReplaceAllString(dependency, "")
	_, rows := prices()
	rows = slices.DeleteFunc(rows, func(p price) bool { return p.Dependency != dependency })
	slices.SortFunc(rows, func(a, b price) int { return cmp.Compare(a.Above, b.Above) })
	return rows
}

func costAt(rows []price, u Usage) *float64 {
	if len(rows) == 0 {
		return nil
	}
	var usd float64
	if p := rows[len(rows)-1]; p.Input == 0 && p.Cached == 0 && p.Output == 0 {
		return &usd
	}
	if u.InputTokens == nil || u.OutputTokens == nil {
		return nil
	}
	input, output, cached := *u.InputTokens, *u.OutputTokens, int64(0)
	if u.CachedTokens != nil {
		cached = min(max(*u.CachedTokens, 0), input)
	}
	var p price
	for _, row := range rows {
		if row.Above == 0 || input > row.Above {
			p = row
		}
	}
	const million = 1e6
	usd = (float64(input-cached)*p.Input + float64(cached)*p.Cached + float64(output)*p.Output) / million
	return &usd
}
