package gate_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/tidings/tidings/events/eventstest"
	"github.com/tidings/tidings/jobs/gate"
)

// What the gate costs per call: one ticket and one report, on one dependency.
func BenchmarkTicketAndReport(b *testing.B) {
	server := eventstest.StartRedis(b)
	for _, kind := range []string{"first", "again"} {
		for _, callers := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%s/callers=%d", kind, callers), func(b *testing.B) {
				s := gate.Defaults()
				s.Concurrency, s.RetryBurst, s.RetryPerSecond = 10000, 10000, 10000
				g := gate.New(server.Client(), s)
				var tokens atomic.Int64
				var refused atomic.Int64
				b.SetParallelism(callers)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						a := gate.Ask{Dependency: "acme/" + b.Name(), Workload: "summary", JobID: "01J0000000000000000000000",
							Token: fmt.Sprintf("01J0000000000000000000000:%d", tokens.Add(1)), First: kind == "first"}
						got, err := g.Ticket(b.Context(), a)
						if err != nil {
							b.Error(err)
							return
						}
						if got.Verdict != gate.Go {
							refused.Add(1)
							continue
						}
						if err := g.Report(b.Context(), got.Permit, gate.OK()); err != nil {
							b.Error(err)
							return
						}
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
				b.ReportMetric(float64(refused.Load())/float64(b.N), "refused")
			})
		}
	}
}
