package gate_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidings/tidings/events/eventstest"
	"github.com/tidings/tidings/jobs/gate"
)

// What the gate costs per call: one ticket and one report, on one dependency. On a
// busy machine look at redis-cpu-us/call: Redis runs one script at a time, so a
// dependency's gate can do a second's worth of that per second.
func BenchmarkTicketAndReport(b *testing.B) {
	server := eventstest.StartRedis(b)
	for _, kind := range []string{"first", "again"} {
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/%d", kind, callers), func(b *testing.B) {
				s := gate.Defaults()
				s.Concurrency, s.RetryBurst = 10000, 1_000_000_000 // more than may be set, so that none is refused
				g := gate.New(server.Client(), s)
				var tokens atomic.Int64
				var refused atomic.Int64
				cpu := redisCPU(b, server)
				b.SetParallelism(callers) // for each CPU
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
				b.ReportMetric((redisCPU(b, server)-cpu)*1e6/float64(b.N), "redis-cpu-us/call")
				b.ReportMetric(float64(refused.Load())/float64(b.N), "refused")
			})
		}
	}
}

// redisCPU is the time that the server has used so far, in seconds.
func redisCPU(b *testing.B, server *eventstest.Server) (seconds float64) {
	info, err := server.Client().Info(b.Context(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys_main_thread" || name == "used_cpu_user_main_thread" {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			seconds += v
		}
	}
	return seconds
}
