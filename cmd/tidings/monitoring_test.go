package main

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v4"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/events/eventstest"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/locales"
	"github.com/tidings/tidings/server"
)

// The dashboard and the alert rules are only of use while they name what is
// there: each metric, each label, each section of the runbook.

// registered is every metric of a process, with its labels.
func registered(t *testing.T) map[string][]string {
	t.Helper()
	r := prometheus.NewRegistry()
	jobs.NewMetrics(r)
	jobs.NewGauges(r, jobs.NewOperators(jobs.OperatorsOptions{}))
	if _, err := server.HubObserver(r); err != nil {
		t.Fatal(err)
	}
	texts, err := locales.Load()
	if err != nil {
		t.Fatal(err)
	}
	hub := events.NewHub(eventstest.NewMemory(eventstest.MemoryOptions{}), events.HubOptions{})
	if _, err := server.New(server.Options{Jobs: jobs.NewService(jobs.ServiceOptions{}), Hub: hub, Texts: texts, Metrics: r}); err != nil {
		t.Fatal(err)
	}
	descs := make(chan *prometheus.Desc, 1000)
	r.Describe(descs)
	close(descs)
	all := map[string][]string{}
	parts := regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)
	for d := range descs {
		m := parts.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("cannot read %s", d)
		}
		all[m[1]] = strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' || r == ' ' })
	}
	return all
}

// TestLabelsAreBounded: each label has a closed list or the names of what an
// operator has configured. Ids are in logs and ledgers alone.
func TestLabelsAreBounded(t *testing.T) {
	bounded := []string{"workload", "dependency", "outcome", "reason", "result", "first", "class", "direction", "verdict", "action",
		"step", "state", "status", "queue", "event", "method", "route", "cause", "why"}
	used := map[string]bool{}
	unbounded := func(labels []string) string {
		for _, l := range labels {
			if !slices.Contains(bounded, l) {
				return l
			}
		}
		return ""
	}
	for name, labels := range registered(t) {
		if l := unbounded(labels); l != "" {
			t.Errorf("%s has a label %q: what bounds it?", name, l)
		}
		for _, l := range labels {
			used[l] = true
		}
	}
	for _, l := range bounded {
		if !used[l] {
			t.Errorf("no metric has the label %q", l)
		}
	}
	if unbounded([]string{"workload", "session"}) != "session" {
		t.Error("a session's id would pass")
	}
}

// wrong says what a PromQL expression names that is not there, or how it is no
// expression.
func wrong(expr string, known map[string][]string) string {
	depth := 0
	for _, r := range expr {
		if r == '(' {
			depth++
		} else if r == ')' {
			depth--
		}
		if depth < 0 {
			break
		}
	}
	if depth != 0 || strings.Count(expr, `"`)%2 != 0 || strings.Count(expr, "{") != strings.Count(expr, "}") {
		return "brackets or quotes do not match"
	}
	labels := map[string]bool{}
	found := regexp.MustCompile(`(tidings_[a-z_]+)(\{[^}]*\})?`).FindAllStringSubmatch(expr, -1)
	if len(found) == 0 {
		return "names no metric of ours"
	}
	for _, m := range found {
		of, ok := known[m[1]]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base, cut := strings.CutSuffix(m[1], suffix); cut && !ok {
				of, ok = known[base]
				labels["le"] = true
			}
		}
		if !ok {
			return "there is no " + m[1]
		}
		for _, label := range of {
			labels[label] = true
		}
		for _, selector := range regexp.MustCompile(`([a-z_]+)(=~|!~|!=|=)"([^"]*)"`).FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(of, selector[1]) {
				return m[1] + " has no label " + selector[1]
			}
			if selector[1] == "outcome" && !slices.Contains(events.Outcomes(), events.Outcome(selector[3])) {
				return "there is no outcome " + selector[3]
			}
		}
	}
	for _, by := range regexp.MustCompile(`by \(([^)]*)\)`).FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(by[1], ",") {
			if !labels[strings.TrimSpace(label)] {
				return "nothing there has the label " + label
			}
		}
	}
	return ""
}

func TestWhatWrongSees(t *testing.T) {
	known := map[string][]string{"tidings_a_total": {"x"}, "tidings_b_seconds": {"outcome"}}
	for expr, want := range map[string]string{
		`sum by (x) (rate(tidings_a_total{x="1"}[5m]))`:                  "",
		`histogram_quantile(.9, sum by (le) (tidings_b_seconds_bucket))`: "",
		`sum(tidings_a_total`:                     "brackets",
		`sum(tidings_c_total)`:                    "there is no tidings_c_total",
		`tidings_a_total{y="1"}`:                  "has no label y",
		`sum by (y) (tidings_a_total)`:            "the label y",
		`tidings_b_seconds_count{outcome="fine"}`: "no outcome fine",
		`up`: "no metric",
	} {
		if got := wrong(expr, known); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
}

func TestAlertsNameWhatIsThere(t *testing.T) {
	known, runbook := registered(t), document(t, "docs/operations/runbook.md")
	anchors := map[string]bool{}
	for _, h := range regexp.MustCompile(`(?m)^## (.+)$`).FindAllStringSubmatch(runbook, -1) {
		anchors[strings.ReplaceAll(strings.ToLower(h[1]), " ", "-")] = false
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(document(t, "docs/operations/alerts.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	n, tests := 0, document(t, "docs/operations/alerts_test.yaml")
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			n++
			if !strings.Contains(tests, `alertname="`+r.Alert+`"`) {
				t.Errorf("%s: alerts_test.yaml does not say when it rings", r.Alert)
			}
			if problem := wrong(r.Expr, known); problem != "" {
				t.Errorf("%s: %s", r.Alert, problem)
			}
			_, anchor, _ := strings.Cut(r.Annotations["runbook_url"], "docs/operations/runbook.md#")
			if _, there := anchors[anchor]; !there {
				t.Errorf("%s: the runbook has no section %q", r.Alert, anchor)
			}
			anchors[anchor] = true
			if s := r.Labels["severity"]; s != "page" && s != "ticket" || r.For == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s lacks its severity, its for, its summary or its description", r.Alert)
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d rules were read", n)
	}
	series := regexp.MustCompile(`series: '?(tidings_[a-z_]+(?:\{[^}]*\})?)`).FindAllStringSubmatch(tests, -1)
	if len(series) < 2*n {
		t.Errorf("alerts_test.yaml has only %d series for %d rules", len(series), n)
	}
	others := regexp.MustCompile(`(instance|le)="[^"]*"(, )?`) // that every metric has, and every bucket
	for _, one := range series {
		if problem := wrong(others.ReplaceAllString(one[1], ""), known); problem != "" {
			t.Errorf("alerts_test.yaml: %s", problem)
		}
	}
	for _, anchor := range slices.Sorted(maps.Keys(anchors)) {
		if !anchors[anchor] {
			t.Errorf("no alert leads to the runbook's section %q", anchor)
		}
	}
}

// increase() does not see the event that a counter begins with, so what an alert
// waits for is there at 0 from the start.
func TestAlertsSeeTheFirstEvent(t *testing.T) {
	r := prometheus.NewRegistry()
	jobs.NewMetrics(r).Expect("openai/gpt-x", true)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counters := map[string][]map[string]string{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if m.GetCounter().GetValue() != 0 {
				t.Errorf("%s%v begins at %g", f.GetName(), labels, m.GetCounter().GetValue())
			}
			counters[f.GetName()] = append(counters[f.GetName()], labels)
		}
	}
	for _, why := range []string{"internal", "storage"} {
		if !slices.ContainsFunc(counters["tidings_jobs_ended_total"], func(l map[string]string) bool { return l["outcome"] == "outcome_unknown" && l["reason"] == why }) {
			t.Errorf("an unknown outcome for %s would not be seen", why)
		}
	}
	// What the dashboard divides: documents and calls by jobs and first calls, cost by documents.
	for name, has := range map[string][]string{"tidings_jobs_admitted_total": {""}, "tidings_cost_usd_total": {""},
		"tidings_calls_total": {"yes", "no"}} {
		for _, first := range has {
			n := 0
			for _, l := range counters[name] {
				if l["first"] == first && (first == "" || l["class"] == "ok") {
					n++
				}
			}
			if n != len(jobs.Workloads()) {
				t.Errorf("%s %s is there for %d workloads", name, first, n)
			}
		}
	}
	waits := regexp.MustCompile(`increase\((tidings_[a-z_]+)\{([a-z]+)=~?"([^"]+)"\}`).FindAllStringSubmatch(document(t, "docs/operations/alerts.yaml"), -1)
	if len(waits) < 2 {
		t.Fatalf("only %d alerts wait for an event", len(waits))
	}
	for _, w := range waits {
		for value := range strings.SplitSeq(w[3], "|") {
			there := map[string]bool{}
			for _, labels := range counters[w[1]] {
				if labels[w[2]] == value {
					there[labels["workload"]] = true
				}
			}
			if len(there) != len(jobs.Workloads()) {
				t.Errorf("%s with %s=%q is there for %v", w[1], w[2], value, there)
			}
		}
	}
}

// A cost that nobody knows is no 0.
func TestACostThatIsUnknownIsNotThere(t *testing.T) {
	r := prometheus.NewRegistry()
	jobs.NewMetrics(r).Expect("openai/own", false)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if strings.Contains(f.GetName(), "cost") {
			t.Errorf("%s is there for a model without a price", f.GetName())
		}
	}
}

func TestTheDashboardNamesWhatIsThere(t *testing.T) {
	known := registered(t)
	type panel struct {
		ID          int
		Type, Title string
		Description string
		GridPos     struct{ X, Y, W, H int }
		Targets     []struct{ Expr string }
	}
	var board struct {
		Title  string
		Panels []panel
	}
	if err := json.Unmarshal([]byte(document(t, "docs/operations/dashboard.json")), &board); err != nil {
		t.Fatal(err)
	}
	ids := map[int]bool{}
	for i, p := range board.Panels {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("panel %d %q: its id or its title", p.ID, p.Title)
		}
		ids[p.ID] = true
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) == 0 || p.Description == "" {
			t.Errorf("%s shows or says nothing", p.Title)
		}
		for _, target := range p.Targets {
			if problem := wrong(target.Expr, known); problem != "" {
				t.Errorf("%s: %s in %s", p.Title, problem, target.Expr)
			}
		}
		for _, other := range board.Panels[:i] {
			a, b := p.GridPos, other.GridPos
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H || a.X+a.W > 24 {
				t.Errorf("%s lies over %s or outside", p.Title, other.Title)
			}
		}
	}
	if len(ids) < 15 {
		t.Errorf("only %d panels were read", len(ids))
	}
}
