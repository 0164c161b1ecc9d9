package model

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
)

//go:embed prices.json
var pricesJSON []byte

// price is a row of prices.json, in US dollars per million tokens.
type price struct {
	Dependency string `json:"dependency"`
	// Above is the number of input tokens beyond which the row applies.
	Above  int64   `json:"above"`
	Input  float64 `json:"input"`
	Cached float64 `json:"cached"`
	Output float64 `json:"output"`
	// Window is how many tokens of input the model takes; 0 is unknown.
	Window int64 `json:"window"`
}

// Prices is a table of what models cost and how much they take in.
type Prices struct {
	version string
	rows    []price
}

// ListPrices is the table that is compiled in.
func ListPrices() *Prices {
	p, err := parsePrices(pricesJSON)
	if err != nil {
		panic("model: prices.json, compiled in: " + err.Error())
	}
	return p
}

// With is the table with the rows of a file in the same form: a model that the
// file has is taken from there altogether.
func (p *Prices) With(file []byte) (*Prices, error) {
	own, err := parsePrices(file)
	if err != nil {
		return nil, err
	}
	rows := slices.DeleteFunc(slices.Clone(p.rows), func(r price) bool {
		return slices.ContainsFunc(own.rows, func(o price) bool { return o.Dependency == r.Dependency })
	})
	return &Prices{version: cmp.Or(own.version, p.version), rows: append(rows, own.rows...)}, nil
}

func parsePrices(file []byte) (*Prices, error) {
	var table struct {
		Version string  `json:"version"`
		Note    string  `json:"note"`
		Prices  []price `json:"prices"`
	}
	d := json.NewDecoder(bytes.NewReader(file))
	d.DisallowUnknownFields() // a misspelt "output" would cost nothing
	if err := d.Decode(&table); err != nil {
		return nil, fmt.Errorf("a price table that cannot be read: %w", err)
	}
	seen := map[string]bool{}
	for _, r := range table.Prices {
		step := fmt.Sprintf("%s above %d", r.Dependency, r.Above)
		switch {
		case r.Dependency == "":
			return nil, errors.New(`a price without its "dependency"`)
		case r.Above < 0 || r.Input < 0 || r.Cached < 0 || r.Output < 0 || r.Window < 0:
			return nil, fmt.Errorf("%s: a number below 0", r.Dependency)
		case seen[step]:
			return nil, fmt.Errorf("%s is there twice", step)
		case r.Above > 0 && !seen[r.Dependency+" above 0"]:
			return nil, fmt.Errorf("%s comes before its row without a step", step)
		}
		seen[step] = true
	}
	return &Prices{version: table.Version, rows: table.Prices}, nil
}

// Version is the day the table was last compared with anything, such as
// "2026-11-29", or what the file of With calls itself.
func (p *Prices) Version() string { return p.version }

// Cost is what a call to a dependency costs in US dollars: input, cached and
// output tokens at their own list prices (S3-27). It is nil if the model has no
// price or the number of input or output tokens is unknown; what costs nothing
// costs 0 anyway. Unknown cached tokens count as none, so the cost is then an
// upper bound. A dated name ("…-20250929", "…-2025-08-07") has the price of its
// model.
func (p *Prices) Cost(dependency string, u Usage) *float64 { return costAt(p.of(dependency), u) }

// Window is how many tokens of input a dependency takes, 0 if that is not known.
func (p *Prices) Window(dependency string) int64 { return windowOf(p.of(dependency)) }

// of is a dependency's rows, lowest Above first; none if it has no price.
func (p *Prices) of(dependency string) []price {
	named := func(name string) []price {
		return slices.DeleteFunc(slices.Clone(p.rows), func(r price) bool { return r.Dependency != name })
	}
	rows := named(dependency)
	if len(rows) == 0 {
		rows = named(regexp.MustCompile(`-(\d{8}|\d{4}-\d{2}-\d{2})$`).ReplaceAllString(dependency, ""))
	}
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

// windowOf is the window that the rows give, 0 if none does.
func windowOf(rows []price) (window int64) {
	for _, r := range rows {
		window = max(window, r.Window)
	}
	return window
}
