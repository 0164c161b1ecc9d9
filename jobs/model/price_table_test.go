package model

import "testing"

// A wrong row costs nobody an error message, so the rows are checked as such.
func TestPriceTable(t *testing.T) {
	rows := ListPrices().rows
	type key struct {
		dependency string
		above      int64
	}
	seen := map[key]bool{}
	for _, p := range rows {
		k := key{p.Dependency, p.Above}
		if seen[k] {
			t.Errorf("%s above %d is there twice", p.Dependency, p.Above)
		}
		seen[k] = true
		if p.Above != 0 && !seen[key{p.Dependency, 0}] {
			t.Errorf("%s has a step but no first row", p.Dependency)
		}
		if p.Dependency == "local" {
			continue
		}
		if !(0 < p.Cached && p.Cached < p.Input && p.Input < p.Output && p.Output <= 100) {
			t.Errorf("%s: %v cached, %v input, %v output look wrong", p.Dependency, p.Cached, p.Input, p.Output)
		}
	}
}
