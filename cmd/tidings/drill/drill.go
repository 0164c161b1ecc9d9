package drill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// Options say what to drill and with what.
type Options struct {
	// Program is the path of the program, which is started as the fleet.
	Program string
	// RedisServer is the path of a redis-server; without one Embedded is used.
	RedisServer string
	// Embedded starts the program's own Redis and returns its URL.
	Embedded func() (url string, stop func(), err error)
	// Replicas is how many workers crowds meet: 1 to 10. The short form has 3 at
	// most.
	Replicas int
	// Seed decides all that is left to chance here: who comes when, and which
	// calls fail.
	Seed uint64
	// Rows are the names of those to run; none are all of them.
	Rows []string
	// Short takes less of everything and leaves out what needs long waits.
	Short bool
	// Versions are those of the program, for the report.
	Versions map[string]string
	// Out gets the table, Progress a line for each row that begins.
	Out, Progress io.Writer
}

// row is one row of the drill.
type row struct {
	name, about string
	run         func(*runner, context.Context) ([]Line, error)
	// crowd: it takes the whole machine, so it runs alone. The others each have a
	// testbed of their own and wait most of the time, so they run beside each other.
	crowd bool
	// asked: it runs only when it is named.
	asked bool
}

// rows are in the order of S4-61: baseline, single faults, crowds.
func rows() []row {
	return []row{
		{name: "baseline", about: "one attempt, one call, no retries", run: (*runner).baseline, crowd: true},
		{name: "S4-53", about: "read timeouts in all layers", run: (*runner).timeouts},
		{name: "S4-55", about: "done, but the answer is lost", run: (*runner).lostAnswers},
		{name: "S4-56", about: "workers restarted during backoff", run: (*runner).restarts},
		{name: "S4-58", about: "answers that break off", run: (*runner).brokenOff},
		{name: "S4-54", about: "lasting overload", run: (*runner).overload, crowd: true},
		{name: "S4-57", about: "recovery with less capacity", run: (*runner).recovery, crowd: true},
		{name: "amplification", about: "extra calls at four rates of failure", run: (*runner).amplification, crowd: true, asked: true},
	}
}

// Names are the rows that there are.
func Names() []string {
	var names []string
	for _, r := range rows() {
		names = append(names, r.name)
	}
	return names
}

// rowLimit bounds one row, whatever happens in it.
const rowLimit = 4 * time.Minute

type runner struct {
	Options
	mu     sync.Mutex
	report *Report
}

// begun tells whoever waits that a fleet is ready for a row.
func (r *runner) begun(name string, workers int, redis string) {
	all := rows()
	about := all[slices.IndexFunc(all, func(r row) bool { return r.name == name })].about
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.Progress, "%s: %s; workers: %d, Redis: %s\n", name, about, workers, redis)
}

// note writes something into the report.
func (r *runner) note(write func(*Report)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	write(r.report)
}

// traffic notes what a row submits.
func (r *runner) traffic(row, format string, args ...any) {
	r.note(func(report *Report) { report.Traffic[row] = append(report.Traffic[row], fmt.Sprintf(format, args...)) })
}

// workers is how many workers a crowd meets.
func (r *runner) workers() int {
	if r.Short {
		return min(r.Replicas, 3)
	}
	return r.Replicas
}

// pick is one number for the short form and another one for the whole.
func pick[T any](r *runner, short, whole T) T {
	if r.Short {
		return short
	}
	return whole
}

// Run runs the rows, prints the table and returns the report. An error means that
// the drill could not go on; what a row finds, or that it could not be run, is in
// the report. When ctx ends, no process is left.
func Run(ctx context.Context, o Options) (*Report, error) {
	for _, name := range o.Rows {
		if !slices.Contains(Names(), name) {
			return nil, fmt.Errorf("there is no row %q: take %s", name, strings.Join(Names(), ", "))
		}
	}
	r := &runner{Options: o, report: newReport(o)}
	var first, alone, crowds []row
	for _, row := range rows() {
		switch {
		case len(o.Rows) == 0 && row.asked, len(o.Rows) > 0 && !slices.Contains(o.Rows, row.name):
		case row.name == "baseline":
			first = append(first, row)
		case row.crowd:
			crowds = append(crowds, row)
		default:
			alone = append(alone, row)
		}
	}
	table := tabwriter.NewWriter(o.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "row\tgate\tobserved\tpass")
	show := func(lines []Line) {
		r.note(func(report *Report) { report.Lines = append(report.Lines, lines...) })
		for _, l := range lines {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", l.Row, l.Gate, l.Observed, yesNo(l.Pass))
		}
	}
	for _, row := range first {
		show(r.try(ctx, row))
	}
	found := make([][]Line, len(alone))
	var wg sync.WaitGroup
	for i, row := range alone {
		wg.Go(func() { found[i] = r.try(ctx, row) })
	}
	wg.Wait()
	for _, lines := range found {
		show(lines)
	}
	for _, row := range crowds {
		show(r.try(ctx, row))
	}
	err := table.Flush()
	r.report.Took = time.Since(r.report.Started).Round(time.Second).String()
	if ctx.Err() != nil {
		return r.report, context.Cause(ctx)
	}
	return r.report, err
}

// try runs a row. One that could not be run has not passed.
func (r *runner) try(ctx context.Context, row row) []Line {
	if ctx.Err() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, rowLimit, errors.New("the row takes too long"))
	defer cancel()
	lines, err := row.run(r, ctx)
	if err != nil {
		lines = append(lines, Line{Row: row.name, Gate: "the row can be run", Observed: err.Error()})
	}
	return lines
}

func yesNo(ok bool) string {
	if ok {
		return "yes"
	}
	return "NO"
}
