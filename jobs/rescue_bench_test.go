package jobs_test

import (
	"context"
	"testing"
	"time"

	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/model/modeltest"
)

// BenchmarkRescue10000 is one look at 10,000 open jobs, which the replicas share
// every ten seconds; its time is the part of a core that all of them together
// need, in ten seconds.
func BenchmarkRescue10000(b *testing.B) {
	l := newLine(b, modeltest.NewScripted(good()))
	fill(l, 10_000)
	busy := l.process(nil)
	busy.workAs(func(context.Context, jobs.Task) jobs.Verdict {
		<-busy.life.over
		return jobs.Done()
	})
	p := l.process(nil)
	p.rescuer.Patience = time.Hour
	p.store.CheckEvery = time.Hour
	rounds, before := 0, p.life.commands()
	var spent time.Duration
	for b.Loop() {
		start := time.Now()
		rounds += l.look(p)
		spent += time.Since(start)
	}
	b.ReportMetric(float64(spent.Milliseconds())/float64(b.N), "ms/look")
	b.ReportMetric(float64(spent.Microseconds())/float64(b.N)/10_000, "us/job")
	b.ReportMetric(float64(p.life.commands()-before)/float64(rounds), "trips/round")
}
