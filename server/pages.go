package server

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/locales"
)

//go:embed pages
var pageFiles embed.FS

const (
	// pageWait bounds what a page asks the storage.
	pageWait = 5 * time.Second
	// lookedAt is how many open jobs' states are counted, shownJobs how many of
	// them are listed.
	lookedAt  = 1000
	shownJobs = 10
	// formBytes bounds an operator's form.
	formBytes = 16 << 10
)

// pagePolicy allows a page its style sheet and its own forms, and no script.
const pagePolicy = "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func parsePages() (*template.Template, error) { return template.ParseFS(pageFiles, "pages/*.html") }

// pageRoutes are the operators' own pages. They need no script; what they change
// is what /admin/ changes, checked by the same code.
func (s *Server) pageRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ops", func(w http.ResponseWriter, r *http.Request) { s.showOps(w, r, opsForm{}, nil) })
	mux.HandleFunc("GET /ops/job", s.showJob)
	mux.HandleFunc("POST /ops/retries", s.postRetries)
	mux.HandleFunc("POST /ops/dependencies", s.postDependency)
	mux.HandleFunc("GET /ops/style.css", func(w http.ResponseWriter, _ *http.Request) {
		b, err := pageFiles.ReadFile("pages/style.css")
		if err != nil { // it was compiled in, so only a build that no test has seen can lack it
			panic(err)
		}
		w.Header().Set("Content-Type", "text/css; charset=utf-8")
		_, _ = w.Write(b) // a reader that went away
	})
	return mux
}

// opsPage writes a page once it is whole.
func (s *Server) opsPage(w http.ResponseWriter, status int, name string, view any) {
	var b bytes.Buffer
	if err := s.pages.ExecuteTemplate(&b, name, view); err != nil {
		s.log.Error("a page could not be made", "page", name, "error", err)
		plain(w, http.StatusInternalServerError, "This page could not be made; the log says why.\n")
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", pagePolicy)
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // a reader that went away
}

// opsForm is what an operator has typed, to be shown again when it is refused.
type opsForm struct {
	RetriesFor, RetriesOwner, RetriesNote string
	PauseFor, PauseOwner, PauseNote       string
	scope                                 string
}

// formProblem says why an order was not carried out, and where; Unknown when it may
// have been all the same.
type formProblem struct {
	Field, Label, Text string
	Unknown            bool
}

type (
	opsView struct {
		Now      time.Time
		Problem  *formProblem
		Done     string
		Trouble  bool
		Open     int64
		Looked   int64
		States   []stateCount
		Oldest   string
		Jobs     []openRow
		Find     findForm
		Off      []orderRow
		Scopes   []scopeChoice
		Form     opsForm
		Gate     *gateView
		Audit    []orderRow
		Queues   []queueRow
		Windows  []string
		Measures []measureGroup
		Delivery string
	}
	stateCount struct {
		Name  events.Status
		Count int
	}
	openRow struct {
		JobID, Session, Workload, Reason string
		Status                           events.Status
		Attempt                          int
		Since, Next                      time.Time
	}
	orderRow struct {
		gate.Record
		What, Target, Value string
	}
	scopeChoice struct {
		Value, Target string
		Chosen        bool
	}
	gateView struct {
		gate.State
		Dependency, BreakerText, RetryText, ManualText string
		Concurrency, RetryBurst, ManualBurst, Limit    int
		RetryLow, ManualLow, Retry, Manual             float64
		Paused, Held, Narrowed, Outlasts               bool
		Deadline                                       string
		Form                                           opsForm
	}
	queueRow struct {
		jobs.Depth
		Oldest string
	}
	findForm struct {
		ID, Session, Workload, Owner string
		Workloads                    []string
	}
)

func done() map[string]string {
	return map[string]string{
		"off": "Retries are switched off. This takes effect with each job’s next call.", "on": "Retries are on again.",
		"pause": "Calls wait from now on; those in progress go on.", "resume": "Calls go on.", "probe": "The next calls test the model.",
	}
}

// showOps is the overview, after a refused order with what was typed.
func (s *Server) showOps(w http.ResponseWriter, r *http.Request, form opsForm, refused error) {
	ctx, cancel := context.WithTimeout(r.Context(), pageWait)
	defer cancel()
	setText(&form.RetriesFor, "1h")
	setText(&form.PauseFor, "5m")
	v := opsView{Now: s.o.Hub.Now(), Done: done()[r.URL.Query().Get("done")], Form: form, Find: newFind(), Delivery: s.deliveryText()}
	status := http.StatusOK
	if refused != nil {
		v.Problem, v.Done = s.explain(r, refused)
		status, _ = statusOf(problemOf(refused).code)
		v.Problem.Unknown = status >= http.StatusInternalServerError // its answer may have got lost
	}
	if err := s.lookAround(ctx, &v); err != nil {
		s.log.Warn("the operators' page has no storage", "error", err)
		v.Trouble, status = true, http.StatusServiceUnavailable
	}
	s.opsPage(w, status, "ops", v)
}

func setText(v *string, text string) {
	if *v == "" {
		*v = text
	}
}

// explain puts a refusal into the operator's words.
func (s *Server) explain(r *http.Request, err error) (*formProblem, string) {
	p := problemOf(err)
	text, _ := s.o.Texts.Text("en", "problem_"+p.code+"_detail", locales.Args{"Field": p.field, "Limit": "16 KiB", "Seconds": 1})
	if p.hint != "" {
		text = p.hint + "."
	}
	f := &formProblem{Text: text}
	prefix := "off"
	if r.URL.Path == "/ops/dependencies" {
		if prefix = "pause"; r.PostForm.Get("calls") != "" {
			prefix = r.PostForm.Get("calls")
		}
	}
	labels := map[string]string{"owner": "Your name", "note": "Why", "for": "How long"}
	if label := labels[p.field]; label != "" {
		f.Field, f.Label = prefix+"-"+p.field, label
	}
	return f, ""
}

// lookAround asks the storage for everything that the overview shows.
func (s *Server) lookAround(ctx context.Context, v *opsView) error {
	o := s.o.Operators
	if err := s.lookAtJobs(ctx, v); err != nil {
		return err
	}
	off, err := o.Switches(ctx)
	if err != nil {
		return err
	}
	state, err := o.Inspect(ctx, o.Dependency())
	if err != nil {
		return err
	}
	for _, r := range off.Off {
		v.Off = append(v.Off, rowOf(r))
	}
	for _, r := range append(off.Audit, state.Audit...) {
		v.Audit = append(v.Audit, rowOf(r))
	}
	slices.SortStableFunc(v.Audit, func(a, b orderRow) int { return b.At.Compare(a.At) })
	v.Audit = v.Audit[:min(len(v.Audit), 100)]
	v.Scopes = s.scopes(v.Form.scope)
	v.Gate = s.gateView(state, v.Form)
	depths, err := o.Depths(ctx)
	if err != nil {
		return err
	}
	oldest := time.Duration(0)
	for _, d := range depths {
		v.Queues = append(v.Queues, queueRow{Depth: d, Oldest: waited(d.Oldest)})
		oldest = max(oldest, d.Oldest)
	}
	v.Oldest = waited(oldest)
	var columns []jobs.Measured
	for _, name := range []string{"1h", "24h", "7d"} {
		m, err := o.Measured(ctx, windows()[name])
		if err != nil {
			return err
		}
		v.Windows, columns = append(v.Windows, name), append(columns, m.All)
	}
	v.Measures = measureGroups(columns)
	return nil
}

// lookAtJobs counts the open jobs by their state and lists the oldest.
func (s *Server) lookAtJobs(ctx context.Context, v *opsView) error {
	open, err := s.o.Operators.Open(ctx, lookedAt)
	if err != nil {
		return err
	}
	topics := make([]events.Topic, len(open.Jobs))
	for i, j := range open.Jobs {
		topics[i] = j.Topic
	}
	last, err := s.o.Hub.Last(ctx, topics)
	if err != nil {
		return err
	}
	counts := map[events.Status]int{}
	var rows []openRow
	for i, j := range open.Jobs {
		t := last[i]
		if t.JobID != j.JobID || t.Status.Terminal() { // its last step in the index is still to come
			continue
		}
		counts[t.Status]++
		next := t.NextRetryAt
		if t.Status == events.Queued {
			next = t.NotBefore
		}
		rows = append(rows, openRow{JobID: j.JobID, Session: j.Topic.Session, Workload: j.Topic.Workload, Reason: string(t.Reason),
			Status: t.Status, Attempt: t.Attempt, Since: j.Since, Next: next})
	}
	slices.SortFunc(rows, func(a, b openRow) int { return strings.Compare(a.JobID, b.JobID) })
	v.Open, v.Looked, v.Jobs = open.Count, int64(len(open.Jobs)), rows[:min(len(rows), shownJobs)]
	for _, name := range []events.Status{events.Queued, events.Processing, events.Retrying} {
		v.States = append(v.States, stateCount{name, counts[name]})
	}
	return nil
}

func rowOf(r gate.Record) orderRow {
	row := orderRow{Record: r, Target: "everything", Value: scopeValue(r.Scope)}
	switch scopeOf(r.Scope) {
	case "dependency":
		row.Target = "calls to " + r.Dependency
	case "workload":
		row.Target = "the workload " + r.Workload
	}
	row.What = map[string]string{"off": "retries off", "on": "retries on", "pause": "calls paused", "resume": "calls resumed", "probe": "probed"}[r.Action]
	return row
}

// scopeValue is a scope as a form sends it.
func scopeValue(s gate.Scope) string {
	if s == (gate.Scope{}) {
		return "all"
	}
	return scopeOf(s) + " " + s.Dependency + s.Workload
}

// parseScope reads it back. What is not understood is refused: it must not be
// taken for everything.
func parseScope(value string) (gate.Scope, error) {
	kind, name, _ := strings.Cut(value, " ")
	switch {
	case value == "all":
		return gate.Scope{}, nil
	case kind == "dependency" && name != "":
		return gate.Scope{Dependency: name}, nil
	case kind == "workload" && name != "":
		return gate.Scope{Workload: name}, nil
	}
	return gate.Scope{}, &problem{code: codeInvalidBody}
}

func (s *Server) scopes(chosen string) []scopeChoice {
	all := []gate.Scope{{}, {Dependency: s.o.Operators.Dependency()}}
	for _, w := range jobs.Workloads() {
		all = append(all, gate.Scope{Workload: w.Name})
	}
	choices := make([]scopeChoice, len(all))
	for i, scope := range all {
		row := rowOf(gate.Record{Scope: scope})
		choices[i] = scopeChoice{Value: row.Value, Target: row.Target, Chosen: row.Value == chosen}
	}
	return choices
}

func (s *Server) gateView(g gate.State, form opsForm) *gateView {
	b := s.o.Operators.Bounds()
	manual := b.ManualShare * float64(b.RetryBurst)
	limit := int(math.Floor(g.Limit))
	return &gateView{
		State: g, Dependency: s.o.Operators.Dependency(), BreakerText: strings.ReplaceAll(g.Breaker, "_", " "),
		Concurrency: b.Concurrency, RetryBurst: b.RetryBurst, ManualBurst: int(manual), Limit: limit, Narrowed: limit < b.Concurrency,
		RetryText: grouped(int64(g.RetryTokens)) + " of " + grouped(int64(b.RetryBurst)), ManualText: grouped(int64(g.ManualTokens)) + " of " + grouped(int64(manual)),
		Retry: g.RetryTokens, Manual: g.ManualTokens, RetryLow: float64(b.RetryBurst) / 4, ManualLow: manual / 4,
		Paused: !g.PausedUntil.IsZero(), Held: !g.HeldUntil.IsZero(), Form: form,
		Outlasts: s.outlasts(g), Deadline: length(s.o.Operators.Deadline()),
	}
}

// postRetries is the form's way to PUT /admin/retries.
func (s *Server) postRetries(w http.ResponseWriter, r *http.Request) {
	s.post(w, r, func(ctx context.Context, f formValues) (string, opsForm, error) {
		form := opsForm{RetriesFor: f("for"), RetriesOwner: f("owner"), RetriesNote: f("note"), scope: f("scope")}
		scope, err := parseScope(f("scope"))
		if err != nil {
			return "", form, err
		}
		return f("retries"), form, s.switchOrder(ctx, f("retries"), scope, gate.Order{Owner: f("owner"), Note: f("note")}, f("for"))
	})
}

// postDependency is the form's way to PUT /admin/dependencies/….
func (s *Server) postDependency(w http.ResponseWriter, r *http.Request) {
	s.post(w, r, func(ctx context.Context, f formValues) (string, opsForm, error) {
		form := opsForm{PauseFor: f("for"), PauseOwner: f("owner"), PauseNote: f("note")}
		if !callsVerb(f("calls")) || !validDependency(f("dependency")) {
			return "", form, &problem{code: codeInvalidBody}
		}
		return f("calls"), form, s.callsOrder(ctx, f("calls"), f("dependency"), gate.Order{Owner: f("owner"), Note: f("note")}, f("for"))
	})
}

type formValues func(name string) string

// post carries out a form's order, then leads back to the overview, so that
// loading it again repeats nothing.
func (s *Server) post(w http.ResponseWriter, r *http.Request, do func(context.Context, formValues) (string, opsForm, error)) {
	r.Body = http.MaxBytesReader(w, r.Body, formBytes)
	if err := r.ParseForm(); err != nil {
		plain(w, http.StatusBadRequest, "This is no form of ours.\n")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), pageWait)
	defer cancel()
	what, form, err := do(ctx, r.PostForm.Get)
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return
		}
		s.showOps(w, r, form, err)
		return
	}
	http.Redirect(w, r, "/ops?done="+what, http.StatusSeeOther)
}

func newFind() findForm {
	f := findForm{Workload: "summary"}
	for _, w := range jobs.Workloads() {
		f.Workloads = append(f.Workloads, w.Name)
	}
	return f
}

// waited is how long something waits; nothing does for 0.
func waited(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return length(d)
}

// length writes a time span for people: two parts at most.
func length(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d d %d h", int(d.Hours())/24, int(d.Hours())%24)
}
