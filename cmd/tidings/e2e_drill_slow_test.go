//go:build slow

package main

import "testing"

func TestS4_53_to_S4_62_TheWholeDrillPasses(t *testing.T) {
	p := drillCommandLine(t).start()
	allPass(t, p, "baseline", "S4-53", "S4-54", "S4-55", "S4-56", "S4-57", "S4-58")
}
