//go:build slow

package main

import "testing"

func TestTheWholeDrillPasses(t *testing.T) {
	p := drillCommandLine(t).start()
	allPass(t, p, "baseline", "S4-53", "S4-54", "S4-55", "S4-56", "S4-57", "S4-58")
}
