package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/model/local"
	"github.com/tidings/tidings/jobs/retry"
)

// check says what the settings add up to. That they do not contradict each
// other has been found out when they were read.
func check(ctx context.Context, c *checkCommand, out io.Writer) int {
	printWorst(out, &c.settings)
	printInventory(out, &c.settings)
	if len(c.Unknown) > 0 {
		fmt.Fprintf(out, "\nno settings, and so without effect: %s\n", strings.Join(c.Unknown, ", "))
	}
	if !c.DryRun {
		return 0
	}
	fmt.Fprintln(out)
	if err := selfChecks(ctx, out); err != nil {
		fmt.Fprintf(out, "FAILED  %v\n", err)
		return 1
	}
	fmt.Fprintln(out, "all OK")
	return 0
}

// worstInput is as many tokens as the cap of a job's cost counts at most in a body
// of MaxInputBytes: each character of a script that takes two bytes for one.
const worstInput = jobs.MaxInputBytes / 2

func printWorst(out io.Writer, s *settings) {
	r, w := s.retry, s.retry.Worst()
	fmt.Fprintln(out, "at worst, one job")
	fmt.Fprintf(out, "  makes       %d calls: %d attempts of %d, and an allowance of %d\n", w.Calls, r.Attempts, r.Calls, r.Allowance)
	fmt.Fprintf(out, "  waits       %g s between attempts (%s)\n", w.Waits.Seconds(), r.Plan)
	fmt.Fprintf(out, "  takes       %g s, and is given %g s\n", w.Seconds(false), r.Deadline.Seconds())
	fmt.Fprintf(out, "  if long     %g s, and is given %g s\n", w.Seconds(true), r.LongDeadline.Seconds())
	fmt.Fprintf(out, "  costs       %s\n", worstCost(s.price, s.Model, w.Calls))
	if r.Cost > 0 {
		fmt.Fprintf(out, "  may cost    %s\n", costCap(s))
	}
}

func worstCost(prices *model.Prices, dependency string, calls int) string {
	in, written := int64(worstInput), int64(0)
	if window := prices.Window(dependency); window > 0 { // it refuses what is longer, and charges nothing
		in = min(in, window)
	}
	for _, w := range jobs.Workloads() {
		written = max(written, int64(w.MaxOutputTokens))
	}
	each := prices.Cost(dependency, model.Usage{InputTokens: &in, OutputTokens: &written})
	if each == nil {
		return "an unknown amount: there is no price for " + dependency
	}
	return fmt.Sprintf("%.2f USD with %d tokens in and %d out per call (prices of %s%s)", *each*float64(calls), in, written, prices.Version(), age(prices.Version(), time.Now()))
}

// age is a remark on prices that were compared long ago. A version that is no day,
// as of a file of one's own, has none.
func age(version string, now time.Time) string {
	const fresh = 60 * 24 * time.Hour
	day, err := time.Parse(time.DateOnly, version)
	if old := now.Sub(day); err == nil && old > fresh {
		return fmt.Sprintf(", %d days ago: compare them with the provider's", int(old/(24*time.Hour)))
	}
	return ""
}

// costCap says what TIDINGS_JOB_COST comes to.
func costCap(s *settings) string {
	if !priced(s) {
		return fmt.Sprintf("anything: TIDINGS_JOB_COST does not hold, there is no price for %s; give one with TIDINGS_PRICES", s.Model)
	}
	text := fmt.Sprintf("%g USD", s.retry.Cost)
	for _, name := range tooDear(s) {
		text += "; " + name + " never gets a call: its longest answer alone may cost more"
	}
	return text
}

// tooDear names the workloads of which no job could make a single call, however
// short its input: they would all end without one.
func tooDear(s *settings) (names []string) {
	for _, w := range jobs.Workloads() {
		in, written := int64(0), int64(w.MaxOutputTokens)
		if each := s.price.Cost(s.Model, model.Usage{InputTokens: &in, OutputTokens: &written}); each != nil && s.retry.Cost > 0 && *each > s.retry.Cost {
			names = append(names, w.Name)
		}
	}
	return names
}

func priced(s *settings) bool {
	one := int64(1)
	return s.price.Cost(s.Model, model.Usage{InputTokens: &one, OutputTokens: &one}) != nil
}

// selfChecks plays what matters most on the built-in model: no key, no network,
// no Redis, no cost.
func selfChecks(ctx context.Context, out io.Writer) error {
	for _, c := range []struct {
		name string
		play func(context.Context) (string, error)
	}{
		{"retry", checkRetry}, {"cost lines", checkCostLines}, {"summary", checkSummary},
	} {
		what, err := c.play(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		fmt.Fprintf(out, "OK  %-10s  %s\n", c.name, what)
	}
	return nil
}

const sample = "The night shift reported that pump two lost pressure at three in the morning. " +
	"The pressure fell from six bar to two within a minute. " +
	"The cause was a worn seal, which had been due for replacement since June. " +
	"Nobody had noticed, because the reminder went to a mailbox that is no longer read. " +
	"The seal was replaced before six, and the pump has held its pressure since. " +
	"Pump one carried the load in the meantime, so no customer was affected. " +
	"The maintenance plan will be checked for other parts that are overdue. " +
	"Reminders will go to the whole shift from Monday on."

// dryRun makes one attempt against the local model, which plays these steps.
type dryRun struct {
	local *local.Model
	calls []model.Call
	waits int
}

func (d *dryRun) attempt(ctx context.Context, workload string, steps ...string) (model.Response, error) {
	parsed, err := local.ParseSteps(steps)
	if err != nil {
		return model.Response{}, err
	}
	w, ok := jobs.WorkloadNamed(workload)
	if !ok {
		return model.Response{}, fmt.Errorf("there is no workload %q", workload)
	}
	d.local = local.New()
	d.local.Play(workload, parsed)
	r := retry.Defaults()
	r.FirstPause, r.Cap = time.Millisecond, time.Millisecond // nobody needs to be spared
	return model.NewRetrying(d.local, r, rand.Float64).Generate(ctx, model.Request{
		Workload: w.Name, Schema: w.Schema, MaxOutputTokens: w.MaxOutputTokens, Topic: workload,
		Material: []model.Message{{Content: sample}},
	}, time.Time{}, model.Hooks{
		After:   func(_ context.Context, c model.Call) { d.calls = append(d.calls, c) },
		Waiting: func(context.Context, int, time.Duration, *model.Error) error { d.waits++; return nil },
	})
}

// checkRetry sees a 429 followed by a second call, an overload given up after
// the last call, and a wrong key not repeated.
func checkRetry(ctx context.Context) (string, error) {
	var limited dryRun
	if _, err := limited.attempt(ctx, "summary", "429", "ok"); err != nil {
		return "", fmt.Errorf("after a 429: %w", err)
	}
	if n := limited.local.Calls("summary"); n != 2 || limited.waits != 1 {
		return "", fmt.Errorf("after a 429: %d calls and %d waits, want 2 and 1", n, limited.waits)
	}
	most := retry.Defaults().Calls
	var busy dryRun
	var exhausted *model.Exhausted
	if _, err := busy.attempt(ctx, "summary", "529"); !errors.As(err, &exhausted) {
		return "", fmt.Errorf("529 again and again: got %v, want exhausted", err)
	}
	if n := busy.local.Calls("summary"); n != most {
		return "", fmt.Errorf("529 again and again: %d calls, want %d", n, most)
	}
	var locked dryRun
	if _, err := locked.attempt(ctx, "summary", "401"); err == nil || locked.local.Calls("summary") != 1 {
		return "", fmt.Errorf("a 401 was repeated: %d calls, error %v", locked.local.Calls("summary"), err)
	}
	return fmt.Sprintf("429 then an answer: 2 calls; 529 only: %d calls; 401: 1 call", most), nil
}

// checkCostLines sees one line per call, with tokens and cost, and nothing of
// the material in it.
func checkCostLines(ctx context.Context) (string, error) {
	var d dryRun
	if _, err := d.attempt(ctx, "summary", "503", "ok"); err != nil {
		return "", err
	}
	var lines strings.Builder
	log := slog.New(slog.NewJSONHandler(&lines, nil))
	for _, c := range d.calls {
		log.LogAttrs(ctx, slog.LevelInfo, "model call", slog.Int("call", c.N), slog.String("decision", c.Decision),
			slog.Any("input_tokens", c.Usage.InputTokens), slog.Any("output_tokens", c.Usage.OutputTokens), slog.Any("cost_usd", c.Cost))
	}
	all := strings.Split(strings.TrimSpace(lines.String()), "\n")
	if len(all) != 2 {
		return "", fmt.Errorf("%d lines for 2 calls", len(all))
	}
	for _, part := range []string{`"input_tokens":`, `"output_tokens":`, `"cost_usd":0`} {
		if !strings.Contains(all[1], part) {
			return "", fmt.Errorf("no %s in %s", part, all[1])
		}
	}
	if strings.Contains(lines.String(), "pump") {
		return "", errors.New("the material is in the log")
	}
	u := d.calls[1].Usage
	return fmt.Sprintf("2 calls, 2 lines; the second: %d tokens in, %d out, %.2f USD", *u.InputTokens, *u.OutputTokens, *d.calls[1].Cost), nil
}

// checkSummary sees a summary with its parts, or an error for output that is
// none.
func checkSummary(ctx context.Context) (string, error) {
	var d dryRun
	got, err := d.attempt(ctx, "summary", "ok")
	if err != nil {
		return "", err
	}
	var s struct {
		Title, Summary string
		KeyPoints      []string `json:"key_points"`
	}
	if err := json.Unmarshal(got.Content, &s); err != nil {
		return "", err
	}
	if s.Title == "" || s.Summary == "" || len(s.KeyPoints) == 0 {
		return "", fmt.Errorf("a part is missing in %s", got.Content)
	}
	return fmt.Sprintf("%q, %d key points", s.Title, len(s.KeyPoints)), nil
}
