package server

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
)

// measureGroup is a part of the measures' table.
type measureGroup struct {
	Name    string
	Columns int
	Rows    []measureRow
}

type measureRow struct {
	Name   string
	Values []string
	Strong bool
}

// measureGroups lays measures out, one column for each window.
func measureGroups(columns []jobs.Measured) []measureGroup {
	row := func(name string, strong bool, value func(jobs.Measured) string) measureRow {
		r := measureRow{Name: name, Strong: strong}
		for _, c := range columns {
			r.Values = append(r.Values, value(c))
		}
		return r
	}
	count := func(name string, value func(jobs.Measured) int64) measureRow {
		return row(name, false, func(m jobs.Measured) string { return grouped(value(m)) })
	}
	part := func(format string, by float64, value func(jobs.Measured) *float64) func(jobs.Measured) string {
		return func(m jobs.Measured) string {
			v := value(m)
			if v == nil {
				return "n/a"
			}
			return fmt.Sprintf(format, *v*by)
		}
	}
	took := func(name string, value func(jobs.Measured) jobs.Spread) []measureRow {
		q := func(pick func(jobs.Spread) *float64) func(jobs.Measured) string {
			return func(m jobs.Measured) string {
				s := value(m)
				switch v := pick(s); {
				case s.Count == 0:
					return "n/a"
				case v == nil:
					return "> 1800 s"
				default:
					return "≤ " + strconv.FormatFloat(*v, 'f', -1, 64) + " s"
				}
			}
		}
		return []measureRow{
			row(name+", half of them", false, q(func(s jobs.Spread) *float64 { return s.P50 })),
			row(name+", 95 %", false, q(func(s jobs.Spread) *float64 { return s.P95 })),
		}
	}
	outcomes := []measureRow{}
	for _, o := range events.Outcomes() {
		outcomes = append(outcomes, count(strings.ReplaceAll(string(o), "_", " "), func(m jobs.Measured) int64 { return m.Outcomes[o] }))
	}
	groups := []measureGroup{
		{Name: "Jobs", Rows: []measureRow{
			count("Offered", func(m jobs.Measured) int64 { return m.Offered }),
			count("Refused, nothing stored", func(m jobs.Measured) int64 { return m.Refused }),
			count("Admitted", func(m jobs.Measured) int64 { return m.Admitted }),
			count("of these manual retries", func(m jobs.Measured) int64 { return m.Manual }),
			count("of these still open", func(m jobs.Measured) int64 { return m.Open }),
		}},
		{Name: "How they ended", Rows: append(outcomes,
			row("Usable completion: documents of jobs offered", true, part("%.1f %%", 100, func(m jobs.Measured) *float64 { return m.UsableCompletion })))},
		{Name: "Calls", Rows: []measureRow{
			count("First calls", func(m jobs.Measured) int64 { return m.FirstCalls }),
			count("Extra calls", func(m jobs.Measured) int64 { return m.ExtraCalls }),
			row("Amplification: calls for each first call", true, part("%.2f", 1, func(m jobs.Measured) *float64 { return m.Amplification })),
		}},
		{Name: "What it cost", Rows: []measureRow{
			count("Tokens in", func(m jobs.Measured) int64 { return m.InputTokens }),
			count("Tokens out", func(m jobs.Measured) int64 { return m.OutputTokens }),
			row("USD in all", false, func(m jobs.Measured) string { return fmt.Sprintf("%.2f", m.CostUSD) }),
			count("Calls of unknown cost", func(m jobs.Measured) int64 { return m.UnpricedCalls }),
			row("USD for each document", true, part("%.4f", 1, func(m jobs.Measured) *float64 { return m.CostPerAccepted })),
			row("Tokens for each document", false, part("%.0f", 1, func(m jobs.Measured) *float64 { return m.TokensPerAccepted })),
		}},
		{Name: "How long it took", Rows: append(took("Waiting for a worker", func(m jobs.Measured) jobs.Spread { return m.QueueAge }),
			took("From acceptance to the document", func(m jobs.Measured) jobs.Spread { return m.Completion })...)},
	}
	for i := range groups {
		groups[i].Columns = len(columns) + 1
	}
	return groups
}

// grouped writes a number with thin spaces between the thousands.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "\u2009" + text[i:]
	}
	return text
}

// deliveryText says how long live events took to their streams.
func (s *Server) deliveryText() string {
	families, err := s.delivery.Gather()
	if err != nil || len(families) == 0 || len(families[0].GetMetric()) == 0 {
		return "n/a"
	}
	h := families[0].GetMetric()[0].GetHistogram()
	n := h.GetSampleCount()
	if n == 0 {
		return "n/a, no live event so far"
	}
	bound := func(share float64) string {
		for _, b := range h.GetBucket() {
			if float64(b.GetCumulativeCount()) >= share*float64(n) {
				return "≤ " + strconv.FormatFloat(1000*b.GetUpperBound(), 'f', -1, 64) + " ms"
			}
		}
		return "> 30 s"
	}
	return fmt.Sprintf("half of %s events %s, 99 %% %s", grouped(int64(n)), bound(.5), bound(.99))
}
